"""The broker queue of each entity: declared, bound and consumed, each on its own.

Several are opened at a time (`Opening`): the broker's answers are what takes long. All that concerns one inbox goes in
the order in which it was asked for. A fault of one inbox never ends the session: it has its own small state machine.

    opening ──► open
       │  ▲
       ▼  │ again, with back-off
    waiting-for-lock ──► owned-elsewhere   (still locked after 3 heartbeats + 10 s: a person decides)
"""

from __future__ import annotations

import random

import msgspec
import trio

from fleettrio.broker.port import BrokerSession, ConsumerLocked, QueueMismatch, RawDelivery
from fleettrio.core.actions import CloseInbox, OpenInbox, PauseInbox
from fleettrio.core.events import InboxBound, InboxTrouble
from fleettrio.core.topology import InboxQueue, LeadQueue, inbox_queue, left_bindings
from fleettrio.ids import Gid, HostId
from fleettrio.observe import get_logger
from fleettrio.tasks.realm import Realm

__all__ = ("AT_ONCE", "Inboxes", "Opening", "run_inboxes")

AT_ONCE = 8
"""Inboxes that are opened at a time."""
_CAPACITY = 1024

FIRST_RETRY_S, MOST_RETRY_S = 0.5, 5.0
DRAIN_LIMIT_S = 10.0
POLL_S = 0.05
MOST_PREFETCH, SHARED_PREFETCH, LEAST_PREFETCH = 256, 4096, 4

Request = OpenInbox | PauseInbox | CloseInbox

log = get_logger("inbox")


class Opening:
    """Where requests go: those about one inbox always to the same `run_inboxes`."""

    def __init__(self) -> None:
        ways = [trio.open_memory_channel[Request](_CAPACITY) for _ in range(AT_ONCE)]
        self._ways = [way for way, _ in ways]
        self.requests = [requests for _, requests in ways]

    def send_nowait(self, request: Request) -> None:
        gid = request.gid if isinstance(request, PauseInbox) else request.owner.gid
        self._ways[hash(gid) % AT_ONCE].send_nowait(request)


class _Locked(msgspec.Struct):
    owner: InboxQueue
    since: float
    retry_at: float
    wait_s: float = FIRST_RETRY_S


class Inboxes:
    """Which queue belongs to whom in this session."""

    def __init__(self, host: HostId) -> None:
        self._host = host
        self._owners: dict[str, InboxQueue] = {}
        self._mailboxes: dict[Gid, str] = {}
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
        """The queue of an entity of this host; in the coordinator's realm, the mailbox that it has."""
        return self._mailboxes.get(gid) or inbox_queue(self._host, InboxQueue(gid))[0].name

    def put(self, owner: InboxQueue) -> None:
        name = inbox_queue(self._host, owner)[0].name
        if isinstance(owner, LeadQueue):
            self._mailboxes[owner.gid] = name
        self._owners[name] = owner

    def drop(self, gid: Gid) -> None:
        self._owners.pop(self.name_of(gid), None)

    def prefetch(self) -> int:
        return max(LEAST_PREFETCH, min(MOST_PREFETCH, SHARED_PREFETCH // max(1, len(self._owners))))


async def run_inboxes(
    requests: trio.MemoryReceiveChannel[Request],
    inboxes: Inboxes,
    broker: BrokerSession,
    realm: Realm,
    deliveries: trio.MemorySendChannel[list[RawDelivery]],
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
            await broker.unbind(left_bindings(host, owner))
            if not inboxes.is_consumed(queue.name):
                await broker.consume(queue.name, prefetch=inboxes.prefetch(), deliveries=deliveries)
                inboxes.began(queue.name)
        except ConsumerLocked as error:
            now = trio.current_time()
            first = since if since is not None else now
            if now - first > give_up_s:
                locked.pop(owner.gid, None)
                log.error("inbox owned elsewhere", queue=queue.name, detail=str(error))
                await realm.handle(InboxTrouble(owner.gid, "owned-elsewhere", str(error)))
                return
            entry = locked.setdefault(owner.gid, _Locked(owner, first, now))
            entry.retry_at = now + entry.wait_s * random.uniform(0.8, 1.2)  # noqa: S311 - not for secrets
            entry.wait_s = min(entry.wait_s * 2, MOST_RETRY_S)
            await realm.handle(InboxTrouble(owner.gid, "waiting-for-lock", str(error)))
        except QueueMismatch as error:
            locked.pop(owner.gid, None)
            log.error("inbox cannot be used", queue=queue.name, detail=str(error))
            await realm.handle(InboxTrouble(owner.gid, "mismatch", str(error)))
        else:
            locked.pop(owner.gid, None)
            await realm.handle(InboxBound(owner.gid, owner.left))

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
            await _reap(request.owner, inboxes, broker, host, deliveries)
        else:
            for entry in [e for e in locked.values() if e.retry_at <= trio.current_time()]:
                await open_one(entry.owner, entry.since)


async def _reap(
    owner: InboxQueue,
    inboxes: Inboxes,
    broker: BrokerSession,
    host: HostId,
    deliveries: trio.MemorySendChannel[list[RawDelivery]],
) -> None:
    """Take the queue away and lose nothing that is in it.

    Unbind; let the consumer take what is left, which the core refuses (`recipient-gone`: told and rejected to the dead
    letters); cancel it when nothing is ready, wait until nothing is in hand, delete if empty. What another gateway has,
    or what does not get empty in time, is left for `prune`, and said.
    """
    queue, bindings = inbox_queue(host, owner)
    inboxes.put(owner)  # of an agent that an earlier session knew, it is nobody's here
    await broker.unbind(bindings)
    try:
        with trio.move_on_after(DRAIN_LIMIT_S):
            while await broker.message_count(queue.name) is not None:
                await _drain(queue.name, inboxes, broker, deliveries)
                if await broker.delete_queue(queue.name, if_empty=True):
                    inboxes.drop(owner.gid)
                    return
    except ConsumerLocked as error:
        log.warning("inbox held elsewhere, left for prune", queue=queue.name, detail=str(error))
    else:
        if await broker.message_count(queue.name) is not None:
            log.warning("inbox not empty, left for prune", queue=queue.name)
    inboxes.ended(queue.name)
    await broker.stop_consuming(queue.name)
    inboxes.drop(owner.gid)


async def _drain(
    queue: str, inboxes: Inboxes, broker: BrokerSession, deliveries: trio.MemorySendChannel[list[RawDelivery]]
) -> None:
    """Return when nothing is ready, nothing in hand, and nobody consumes. Raises `ConsumerLocked`."""
    if not inboxes.is_consumed(queue):  # its agent's lane was full, or it is locked
        await broker.consume(queue, prefetch=inboxes.prefetch(), deliveries=deliveries)
        inboxes.began(queue)
    while await broker.message_count(queue):  # noqa: ASYNC110 - the broker tells nobody
        await trio.sleep(POLL_S)
    inboxes.ended(queue)
    await broker.stop_consuming(queue)
    while broker.in_hand(queue):  # noqa: ASYNC110 - settled by the core, which knows of no reaping
        await trio.sleep(POLL_S)
