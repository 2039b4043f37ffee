"""The consumers: take what the broker delivered, in batches, let `wire` check it and the core decide.

A batch is what is there, up to 256: it is read from the store in one query, verified in one call, committed in one
transaction. Nothing waits for a batch to fill. What the store cannot tell about a batch is not guessed: the session
ends, and the broker brings the deliveries again. So it is after a standstill of this process: whoever has the queue by
then gets them.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from fleettrio.broker.port import RawDelivery
from fleettrio.core.arrivals import known_leaf
from fleettrio.core.events import Arrived, DuplicateArrived, Event, RefusedArrival, StoreFailed
from fleettrio.core.rows import InboxRow
from fleettrio.core.topology import ControlQueue, InboxQueue, QueueOwner
from fleettrio.errors import StoreError
from fleettrio.ids import Gid, MsgId
from fleettrio.observe import COUNTERS, FAILS, failpoint, get_logger
from fleettrio.perform import INTERNAL_ERROR
from fleettrio.store import inhand
from fleettrio.store.inhand import Hand
from fleettrio.tasks.realm import Realm
from fleettrio.tasks.suspects import Noted
from fleettrio.wire.envelope import NOTICE_KINDS, Envelope
from fleettrio.wire.signing import Duplicate, Parsed, Refusal, Verifier, parse_delivery, parse_many

__all__ = ("MOST_IN_BATCH", "Consumer")

MOST_IN_BATCH = inhand.MOST

_Read = tuple[RawDelivery, QueueOwner, Parsed]

log = get_logger("consume")


class Consumer:
    """Of the queues that `owner_of` knows, in one session of `realm`."""

    def __init__(
        self, realm: Realm, owner_of: Callable[[str], QueueOwner | None], verifier: Verifier, body_limit: int
    ) -> None:
        self._realm = realm
        self._owner_of = owner_of
        self._verifier = verifier
        self._body_limit = body_limit

    async def run(
        self,
        deliveries: trio.MemoryReceiveChannel[list[RawDelivery]],
        hand: Hand,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Take deliveries until cancelled. Cancelled between two batches: the broker redelivers what is in hand."""
        noted = Noted(hand, self._realm, self._body_limit)
        task_status.started()
        async for there in deliveries:
            waiting = list(there)
            while len(waiting) < MOST_IN_BATCH:
                try:
                    waiting += deliveries.receive_nowait()
                except trio.WouldBlock:
                    break
            for begin in range(0, len(waiting), MOST_IN_BATCH):
                await noted.take(waiting[begin : begin + MOST_IN_BATCH], self._owner_of, self.take, self._is_known)

    async def take(self, batch: list[RawDelivery]) -> None:
        """The boundary of reading: a batch that breaks is read one by one; what breaks again costs itself alone.

        What breaks the core costs itself alone, too (`perform`, rule 6): there, the ones before it are decided about
        already, and nothing may be begun anew.
        """
        try:
            events = await self._read(batch)
        except StoreError:
            raise  # the disk's, not a delivery's: a commit that never ended ends the daemon (`perform`, rule 5)
        except Exception as error:
            if len(batch) > 1:
                for raw in batch:
                    await self.take([raw])
                return
            raw, owner = batch[0], self._owner_of(batch[0].queue)
            log.exception(INTERNAL_ERROR, queue=raw.queue, delivery=raw.tag.delivery)
            if owner is not None:
                parsed = parse_delivery(raw.headers, raw.body, body_limit=self._body_limit)
                await self._realm.handle(RefusedArrival(raw.tag, owner, _internal_error(parsed, error)))
        else:
            inboxes = [e.owner.gid for e in events if isinstance(e, Arrived) and isinstance(e.owner, InboxQueue)]
            await self._realm.handle(*self._realm.glances(inboxes), *events)

    async def _read(self, batch: list[RawDelivery]) -> list[Event]:
        """What the core is told about the batch; nothing when it is not to be taken now."""
        owned = [(raw, owner) for raw in batch if (owner := self._owner_of(raw.queue)) is not None]
        read = parse_many([(raw.headers, raw.body) for raw, _ in owned], body_limit=self._body_limit)
        parsed = [
            (raw, owner, item) for (raw, owner), item in zip(owned, read, strict=True) if isinstance(item, Parsed)
        ]
        try:
            known = await self._known(parsed)
        except StoreError as error:
            log.error("not taken", reason=str(error), deliveries=len(parsed))
            return [StoreFailed(str(error))]
        events: list[Event] = [
            RefusedArrival(raw.tag, owner, item)
            for (raw, owner), item in zip(owned, read, strict=True)
            if isinstance(item, Refusal)
        ]
        if not self._realm.may_take:
            log.warning("not taken", reason="this process stood still", deliveries=len(batch))
            COUNTERS.count("not-taken", batch[0].queue)
            return []
        events += self._judge(parsed, known)
        for event in events:
            if isinstance(event, RefusedArrival):
                _log_refusal(event)
        return events

    def _judge(self, parsed: list[_Read], known: list[InboxRow | None]) -> list[Event]:
        """By signature and trust, all in one call."""
        now = self._realm.clock.now()
        judged = self._verifier.judge(
            [item for _, _, item in parsed],
            [owner for _, owner, _ in parsed],
            [
                None if row is None else known_leaf(row, item.envelope.host)
                for row, (_, _, item) in zip(known, parsed, strict=True)
            ],
            now.wall,
        )
        events: list[Event] = []
        for (raw, owner, item), row, judgement in zip(parsed, known, judged, strict=True):
            match judgement:
                case Duplicate():
                    key = self._ledger_key(owner, item)
                    request = None if isinstance(owner, InboxQueue) else key
                    events.append(DuplicateArrived(raw.tag, request))
                case Refusal():
                    events.append(RefusedArrival(raw.tag, owner, judgement))
                case _:
                    if FAILS:
                        _failpoints(owner, item.envelope)
                    events.append(Arrived(raw.tag, owner, judgement, row))
        return events

    async def _known(self, parsed: list[_Read]) -> list[InboxRow | None]:
        """What the store has of each, in one query."""
        keys = [self._ledger_key(owner, item) for _, owner, item in parsed]
        asked = [key for key in keys if key is not None]
        rows = iter(await self._realm.store.known(asked) if asked else [])
        return [None if key is None else next(rows) for key in keys]

    async def _is_known(self, raw: RawDelivery, owner: QueueOwner, item: Parsed) -> bool:
        (row,) = await self._known([(raw, owner, item)])
        return row is not None and row.leaf == item.leaf

    def _ledger_key(self, owner: QueueOwner, item: Parsed) -> tuple[MsgId, Gid] | None:
        """Under which the ledger knows a delivery: a message by its inbox, a request that acts by this gateway."""
        if isinstance(owner, InboxQueue):
            return item.envelope.msg_id, owner.gid
        if isinstance(owner, ControlQueue) and self._realm.acts_on(item.envelope.kind):
            return item.envelope.msg_id, self._realm.gateway.settings.me.gid
        return None


def _internal_error(parsed: Parsed | Refusal, error: Exception) -> Refusal:
    """A delivery that we could not handle, told as a refusal; the words of the exception stay in our log."""
    if isinstance(parsed, Refusal):
        return parsed
    envelope = parsed.envelope
    detail = f"{type(error).__name__} while handling it; see the log of the host that refused it"
    return Refusal(INTERNAL_ERROR, detail, envelope, parsed.leaf, False, envelope.host, envelope.trace_id)


def _log_refusal(event: RefusedArrival) -> None:
    refusal = event.refusal
    COUNTERS.count("refused", refusal.reason)
    log.warning(
        "refused",
        reason=refusal.reason,
        detail=refusal.detail,
        claimed_host=refusal.host,
        trace_id=refusal.trace_id,
        msg_id=refusal.envelope.msg_id if refusal.envelope else "",
        kind=refusal.envelope.kind if refusal.envelope else "",
    )


def _failpoints(owner: QueueOwner, envelope: Envelope) -> None:
    failpoint("handling", about=envelope.msg_id)
    if isinstance(owner, InboxQueue):
        failpoint("R1-delivered")
    elif envelope.kind in NOTICE_KINDS:
        failpoint("S3-notice")
