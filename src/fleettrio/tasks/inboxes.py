"""The broker queue of each entity: declared, bound and consumed, each on its own.

A fault of one inbox never ends the session: it has its own small state machine.

    opening ──► open
       │  ▲
       ▼  │ again, with back-off
    waiting-for-lock ──► owned-elsewhere   (still locked after 3 heartbeats + 10 s: a person decides)
"""

from __future__ import annotations

import dataclasses
import random

import trio

from fleettrio.broker.port import BrokerSession, ConsumerLocked, QueueMismatch, RawDelivery
from fleettrio.core.actions import CloseInbox, OpenInbox, PauseInbox
from fleettrio.core.events import InboxBound, InboxTrouble
from fleettrio.core.topology import InboxQueue, inbox_queue
from fleettrio.ids import Gid, HostId
from fleettrio.observe import get_logger
from fleettrio.perform import Performer

__all__ = ("Inboxes", "run_inboxes")

FIRST_RETRY_S, MOST_RETRY_S = 0.5, 5.0
DRAIN_LIMIT_S = 10.0
MOST_PREFETCH, SHARED_PREFETCH, LEAST_PREFETCH = 256, 4096, 4

log = get_logger("inbox")


@dataclasses.dataclass(slots=True)
class _Locked:
    owner: InboxQueue
    since: float
    retry_at: float
    wait_s: float = FIRST_RETRY_S


class Inboxes:
    """Which queue belongs to whom in this session."""

    def __init__(self, host: HostId) -> None:
        self._host = host
        self._owners: dict[str, InboxQueue] = {}
        self._consumed: set[str] = set()

    def owner_of(self, queue: str) -> InboxQueue | None:
        return self._owners.get(queue)

    def is_consumed(self, queue: str) -> bool:
        return queue in self._consumed

    def began(self, queue: str) -> None:
        self._consumed.add(queue)

    def ended(self, queue: str) -> None:
        """Its consumer is no more: we ended it, or the broker did."""
        self._consumed.discard(queue)

    def name_of(self, gid: Gid) -> str:
        return inbox_queue(self._host, InboxQueue(gid))[0].name

    def put(self, owner: InboxQueue) -> None:
        self._owners[self.name_of(owner.gid)] = owner

    def drop(self, gid: Gid) -> None:
        self._owners.pop(self.name_of(gid), None)

    def prefetch(self) -> int:
        return max(LEAST_PREFETCH, min(MOST_PREFETCH, SHARED_PREFETCH // max(1, len(self._owners))))


async def run_inboxes(
    requests: trio.MemoryReceiveChannel[OpenInbox | PauseInbox | CloseInbox],
    inboxes: Inboxes,
    broker: BrokerSession,
    performer: Performer,
    deliveries: trio.MemorySendChannel[RawDelivery],
    host: HostId,
    heartbeat_s: int,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve requests and retry locked inboxes until cancelled. `SessionLost` leaves through here."""
    task_status.started()
    locked: dict[Gid, _Locked] = {}
    give_up_s = 3 * heartbeat_s + 10

    async def open_one(owner: InboxQueue, since: float | None) -> None:
        queue, bindings = inbox_queue(host, owner)
        inboxes.put(owner)
        try:
            await broker.declare((), (queue,), bindings)
            if not inboxes.is_consumed(queue.name):
                await broker.consume(queue.name, prefetch=inboxes.prefetch(), deliveries=deliveries)
                inboxes.began(queue.name)
        except ConsumerLocked as error:
            now = trio.current_time()
            first = since if since is not None else now
            if now - first > give_up_s:
                locked.pop(owner.gid, None)
                log.error("inbox owned elsewhere", queue=queue.name, detail=str(error))
                await performer.handle(InboxTrouble(owner.gid, "owned-elsewhere", str(error)))
                return
            entry = locked.setdefault(owner.gid, _Locked(owner, first, now))
            entry.retry_at = now + entry.wait_s * random.uniform(0.8, 1.2)  # noqa: S311 - not for secrets
            entry.wait_s = min(entry.wait_s * 2, MOST_RETRY_S)
            await performer.handle(InboxTrouble(owner.gid, "waiting-for-lock", str(error)))
        except QueueMismatch as error:
            locked.pop(owner.gid, None)
            log.error("inbox cannot be used", queue=queue.name, detail=str(error))
            await performer.handle(InboxTrouble(owner.gid, "mismatch", str(error)))
        else:
            locked.pop(owner.gid, None)
            await performer.handle(InboxBound(owner.gid))

    while True:
        next_retry = min((entry.retry_at for entry in locked.values()), default=float("inf"))
        request = None
        with trio.CancelScope(deadline=next_retry):
            request = await requests.receive()
        if isinstance(request, OpenInbox):
            locked.pop(request.owner.gid, None)
            await open_one(request.owner, None)
        elif isinstance(request, PauseInbox):
            inboxes.ended(inboxes.name_of(request.gid))
            await broker.stop_consuming(inboxes.name_of(request.gid))
        elif isinstance(request, CloseInbox):
            locked.pop(request.owner.gid, None)
            await _reap(request.owner, inboxes, broker, host)
        else:
            for entry in [e for e in locked.values() if e.retry_at <= trio.current_time()]:
                await open_one(entry.owner, entry.since)


async def _reap(owner: InboxQueue, inboxes: Inboxes, broker: BrokerSession, host: HostId) -> None:
    """Unbind; the consumer goes on and the core refuses what is left (`recipient-gone`); delete when it is empty."""
    queue, bindings = inbox_queue(host, owner)
    await broker.unbind(bindings)
    with trio.move_on_after(DRAIN_LIMIT_S):
        while await broker.message_count(queue.name):  # noqa: ASYNC110 - the broker tells nobody
            await trio.sleep(0.05)
    inboxes.ended(queue.name)
    await broker.stop_consuming(queue.name)
    if not await broker.delete_queue(queue.name, if_empty=True):
        log.warning("inbox not empty, left for prune", queue=queue.name)
    inboxes.drop(owner.gid)
