"""What the core wants to know from the store, and whether the store takes writes again."""

from __future__ import annotations

import trio

from fleettrio.core.actions import Load, ProbeStore
from fleettrio.core.events import Loaded, LoadFailed, StoreRecovered
from fleettrio.errors import StoreError
from fleettrio.observe import get_logger
from fleettrio.perform import Performer

__all__ = ("run_reads",)

log = get_logger("store")


async def run_reads(
    requests: trio.MemoryReceiveChannel[Load | ProbeStore],
    performer: Performer,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Read until cancelled; a question that was not read is asked again by whoever asked it.

    While the store cannot be read, nothing is acknowledged: the broker brings it again.
    """
    task_status.started()
    async for request in requests:
        if isinstance(request, Load):
            await _load(request, performer)
            continue
        try:
            await performer.store.probe()
        except StoreError as error:
            log.error("the store still takes no writes", reason=str(error))
        else:
            log.warning("the store takes writes again")
            await performer.handle(StoreRecovered())


async def _load(request: Load, performer: Performer) -> None:
    try:
        inbox = await performer.store.known(request.inbox) if request.inbox else []
        sent = await performer.store.sent_known(request.sent) if request.sent else []
    except StoreError as error:
        log.error("not read", reason=str(error))
        await performer.handle(LoadFailed(request.ask, str(error)))
    else:
        await performer.handle(Loaded(request.ask, tuple(inbox), tuple(sent)))
