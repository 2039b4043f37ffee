"""What the core wants to know from the store, and whether the store takes writes again."""

from __future__ import annotations

import trio

from fleettrio.core.actions import Load, LoadTrace
from fleettrio.core.events import Loaded, LoadFailed, StoreRecovered, TraceRead
from fleettrio.errors import StoreError
from fleettrio.observe import get_logger
from fleettrio.perform import Performer
from fleettrio.ports import StoreRequest

__all__ = ("read", "run_reads")

MOST_STEPS = 1_000

log = get_logger("store")


async def run_reads(
    requests: trio.MemoryReceiveChannel[StoreRequest],
    performer: Performer,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Read until cancelled; a question that was not read is asked again by whoever asked it.

    While the store cannot be read, nothing is acknowledged: the broker brings it again.
    """
    task_status.started()
    async for request in requests:
        await read(request, performer)


async def read(request: StoreRequest, performer: Performer) -> None:
    """Answer one request. Cancelled, it is not answered."""
    if isinstance(request, Load):
        await _load(request, performer)
        return
    if isinstance(request, LoadTrace):
        await _load_trace(request, performer)
        return
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


async def _load_trace(request: LoadTrace, performer: Performer) -> None:
    store = performer.store
    try:
        inbox, sent = await store.by_trace(request.trace_id)
        steps = await store.journal(trace_id=request.trace_id, limit=MOST_STEPS)
    except StoreError as error:
        log.error("trace not read", reason=str(error))
        await performer.handle(TraceRead(request.ask))
    else:
        await performer.handle(TraceRead(request.ask, tuple(inbox), tuple(sent), tuple(steps)))
