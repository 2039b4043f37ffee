"""Around the handling of deliveries: each is noted while it is in hand, and one that killed this process twice is set
aside instead of being handled (`store.inhand` has the rules).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from fleettrio.broker.port import RawDelivery
from fleettrio.core.events import DuplicateArrived, RefusedArrival
from fleettrio.core.topology import QueueOwner
from fleettrio.observe import get_logger
from fleettrio.store.inhand import Hand, name_of
from fleettrio.tasks.realm import Realm
from fleettrio.wire.signing import Parsed, Refusal, parse_delivery

__all__ = ("CRASH_SUSPECT", "Noted")

CRASH_SUSPECT = "crash-suspect"
_DETAIL = "the daemon ended twice while it had this one in hand; it lies unread at the dead letters"

log = get_logger("suspects")

IsKnown = Callable[[RawDelivery, QueueOwner, Parsed], Awaitable[bool]]


class Noted:
    """What one consumer has in hand."""

    def __init__(self, hand: Hand, realm: Realm, body_limit: int) -> None:
        self._in_hand = realm.store.in_hand
        self._hand = hand
        self._realm = realm
        self._body_limit = body_limit

    async def take(
        self,
        batch: list[RawDelivery],
        owner_of: Callable[[str], QueueOwner | None],
        handle: Callable[[list[RawDelivery]], Awaitable[None]],
        is_known: IsKnown,
    ) -> None:
        """Let `handle` have the batch, whole, or one by one where one of it was in hand at a death before.

        Cancelled, nothing stays noted. An exception leaves the note: it ends the daemon.
        """
        names = [name_of(raw.headers.fleet) for raw in batch]
        if not self._in_hand.has_suspects or not any(map(self._in_hand.times_found, names)):
            await self._take(names, partial(handle, batch))
            return
        for raw, name in zip(batch, names, strict=True):
            times = self._in_hand.times_found(name)
            if times < 2:
                await self._take([name], partial(handle, [raw]))
                self._in_hand.cleared(name)
            elif (owner := owner_of(raw.queue)) is not None:
                await self._take([name], partial(self._set_aside, raw, owner, times, is_known))

    async def _take(self, names: list[bytes], handle: Callable[[], Awaitable[None]]) -> None:
        self._hand.take(names)
        try:
            await handle()
        except trio.Cancelled:
            self._hand.done()
            raise
        self._hand.done()

    async def _set_aside(self, raw: RawDelivery, owner: QueueOwner, times: int, is_known: IsKnown) -> None:
        """To the dead letters; its sender is told, unless reading so much of it was what killed the process again."""
        refusal = Refusal(CRASH_SUSPECT, _DETAIL, None, None, False, "", "")
        if times == 2:
            parsed = parse_delivery(raw.headers, raw.body, body_limit=self._body_limit)
            if isinstance(parsed, Parsed):
                if await is_known(raw, owner, parsed):  # it got as far as the store: whatever killed us came later
                    await self._realm.handle(DuplicateArrived(raw.tag))
                    return
                envelope = parsed.envelope
                refusal = Refusal(
                    CRASH_SUSPECT, _DETAIL, envelope, parsed.leaf, False, envelope.host, envelope.trace_id
                )
        log.error("set aside", reason=CRASH_SUSPECT, queue=raw.queue, times=times, msg_id=_msg_id(refusal))
        await self._realm.handle(RefusedArrival(raw.tag, owner, refusal))


def _msg_id(refusal: Refusal) -> str:
    return refusal.envelope.msg_id if refusal.envelope else ""
