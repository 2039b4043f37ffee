"""The consumers: take what the broker delivered, in batches, let `wire` check it and the core decide.

A batch is what is there, up to 64: it is read from the store in one query, verified in one call, committed in one
transaction. Nothing waits for a batch to fill. What the store cannot tell about a batch is not guessed: the session
ends, and the broker brings the deliveries again.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from fleettrio.broker.port import RawDelivery
from fleettrio.core.arrivals import is_replaceable
from fleettrio.core.events import Arrived, DuplicateArrived, Event, RefusedArrival, StoreFailed
from fleettrio.core.rows import InboxRow
from fleettrio.core.topology import InboxQueue, QueueOwner
from fleettrio.errors import StoreError
from fleettrio.ids import Gid, MsgId
from fleettrio.observe import COUNTERS, failpoint, get_logger
from fleettrio.perform import INTERNAL_ERROR, Performer
from fleettrio.wire.envelope import NOTICE_KINDS
from fleettrio.wire.signing import Duplicate, Parsed, Refusal, Verifier, parse_delivery

__all__ = ("MOST_IN_BATCH", "run_consume")

MOST_IN_BATCH = 64

log = get_logger("consume")


async def run_consume(
    deliveries: trio.MemoryReceiveChannel[RawDelivery],
    owner_of: Callable[[str], QueueOwner | None],
    performer: Performer,
    verifier: Verifier,
    body_limit: int,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Take deliveries until cancelled. Cancelled between two batches: what is in hand is redelivered by the broker."""
    task_status.started()
    async for first in deliveries:
        batch = [first]
        while len(batch) < MOST_IN_BATCH:
            try:
                batch.append(deliveries.receive_nowait())
            except trio.WouldBlock:
                break
        await _take_each(batch, owner_of, performer, verifier, body_limit)


async def _take_each(
    batch: list[RawDelivery],
    owner_of: Callable[[str], QueueOwner | None],
    performer: Performer,
    verifier: Verifier,
    body_limit: int,
) -> None:
    """The boundary: a batch that breaks is taken one by one; the one that breaks again costs itself alone."""
    try:
        await _take(batch, owner_of, performer, verifier, body_limit)
    except StoreError:
        raise  # the disk's, not a delivery's: a commit that never ended ends the daemon (`perform`, rule 5)
    except Exception as error:
        if len(batch) > 1:
            for raw in batch:
                await _take_each([raw], owner_of, performer, verifier, body_limit)
            return
        raw, owner = batch[0], owner_of(batch[0].queue)
        log.exception(INTERNAL_ERROR, queue=raw.queue, delivery=raw.tag.delivery)
        if owner is not None:
            parsed = parse_delivery(raw.headers, raw.body, body_limit=body_limit)
            await performer.handle(RefusedArrival(raw.tag, owner, _internal_error(parsed, error)))


def _internal_error(parsed: Parsed | Refusal, error: Exception) -> Refusal:
    """A delivery that we could not handle, told as a refusal; the words of the exception stay in our log."""
    if isinstance(parsed, Refusal):
        return parsed
    envelope = parsed.envelope
    detail = f"{type(error).__name__} while handling it; see the log of the host that refused it"
    return Refusal(INTERNAL_ERROR, detail, envelope, parsed.leaf, False, envelope.host, envelope.trace_id)


async def _take(
    batch: list[RawDelivery],
    owner_of: Callable[[str], QueueOwner | None],
    performer: Performer,
    verifier: Verifier,
    body_limit: int,
) -> None:
    owned = [(raw, owner) for raw in batch if (owner := owner_of(raw.queue)) is not None]
    read = [(raw, owner, parse_delivery(raw.headers, raw.body, body_limit=body_limit)) for raw, owner in owned]
    parsed = [(raw, owner, item) for raw, owner, item in read if isinstance(item, Parsed)]
    try:
        known = await _known(parsed, performer)
    except StoreError as error:
        log.error("not taken", reason=str(error), deliveries=len(parsed))
        await performer.handle(StoreFailed((), (), str(error)))
        return
    events: list[Event] = [
        RefusedArrival(raw.tag, owner, item) for raw, owner, item in read if isinstance(item, Refusal)
    ]
    now = performer.clock.now()
    judged = verifier.judge(
        [item for _, _, item in parsed],
        [owner for _, owner, _ in parsed],
        [row.leaf if row else None for row in known],
        now.wall,
    )
    for (raw, owner, item), row, judgement in zip(parsed, known, judged, strict=True):
        match judgement:
            case Duplicate():
                events.append(DuplicateArrived(raw.tag))
            case Refusal():
                events.append(RefusedArrival(raw.tag, owner, judgement))
            case _:
                _failpoints(owner, item.envelope.kind)
                events.append(Arrived(raw.tag, owner, judgement, row))
    for event in events:
        if isinstance(event, RefusedArrival):
            _log_refusal(event)
    await performer.handle(*events)


async def _known(parsed: list[tuple[RawDelivery, QueueOwner, Parsed]], performer: Performer) -> list[InboxRow | None]:
    """What the store has of each message of an inbox, in one query; control kinds are answered from their own rows."""
    keys: list[tuple[MsgId, Gid]] = [
        (item.envelope.msg_id, owner.gid) for _, owner, item in parsed if isinstance(owner, InboxQueue)
    ]
    rows = iter(await performer.store.known(keys) if keys else [])
    found = [next(rows) if isinstance(owner, InboxQueue) else None for _, owner, _ in parsed]
    return [
        None if row is None or is_replaceable(row, item.envelope.host) else row
        for row, (_, _, item) in zip(found, parsed, strict=True)
    ]


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


def _failpoints(owner: QueueOwner, kind: str) -> None:
    if isinstance(owner, InboxQueue):
        failpoint("R1-delivered")
    elif kind in NOTICE_KINDS:
        failpoint("S3-notice")
