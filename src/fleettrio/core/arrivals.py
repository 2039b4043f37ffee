"""What comes from the broker, past the checks of `wire.signing`: each kind to the part that knows it.

An inbox takes messages, the control queue control kinds and notices, the roster queue presence (`to` is bound to the
kind by `wire.envelope`, and to the queue by its owner). A body that is not what its kind must have is refused as
`malformed`; a kind this version does not speak, as `unknown-kind`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleettrio.core.actions import Ack, Action
from fleettrio.core.controls import Controls
from fleettrio.core.events import Arrived, DuplicateArrived
from fleettrio.core.fates import Fates
from fleettrio.core.hearing import Hearing
from fleettrio.core.inbox import Inbox
from fleettrio.core.lookups import LookUps
from fleettrio.core.pings import Pings
from fleettrio.core.presence import Presence
from fleettrio.core.recalled import leaf_for
from fleettrio.core.refusals import Refusals, Refused
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.core.tombstones import is_tombstone
from fleettrio.core.topology import InboxQueue
from fleettrio.core.words import Words
from fleettrio.errors import MalformedEnvelope
from fleettrio.ids import Gid, HostId, Leaf, MsgId, Now, Tag
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import Refusal, VerifiedEnvelope

__all__ = ("Arrivals", "known_leaf")

TakeMessage = Callable[[VerifiedEnvelope, Gid, Now], list[Action]]
"""A message for the entity with this gid, which lives here and does not have it yet. Acknowledged afterwards."""
TakeControl = Callable[[VerifiedEnvelope, Now], list[Action]]
"""A question or an answer between gateways. Acknowledged afterwards."""
TakeLooked = Callable[[VerifiedEnvelope, Gid, SentRow | None, Now], list[Action]]
"""A message about an earlier one of ours (its `re`), which was looked up. Acknowledged afterwards."""
TakeTagged = Callable[[Tag, VerifiedEnvelope, Now], list[Action]]
"""What acknowledges or rejects by itself: presence and notices."""


def known_leaf(row: InboxRow, host: HostId) -> Leaf | None:
    """The leaf under which a message of `host` is known. None for what stands in nobody's way: another host's RECALL,
    and the tombstone of a message that ended before it came, which is judged when it is here."""
    return None if is_tombstone(row) else leaf_for(row, host)


class Arrivals:
    """What each kind is taken by. The tables have further kinds once all parts are made (`parts`)."""

    def __init__(
        self,
        roster: Roster,
        inbox: Inbox,
        fates: Fates,
        lookups: LookUps,
        pings: Pings,
        presence: Presence,
        hearing: Hearing,
        words: Words,
        controls: Controls,
        refusals: Refusals,
    ) -> None:
        self._roster = roster
        self._inbox = inbox
        self._lookups = lookups
        self._controls = controls
        self._refusals = refusals
        self.messages: dict[str, TakeMessage] = {
            Kind.SEND: self.into_inbox,
            Kind.REPLY: self.into_inbox,
            Kind.BROADCAST: self._broadcast,
        }
        self.about_ours: dict[str, TakeLooked] = {}
        self.control: dict[str, TakeControl] = {
            Kind.QUERY: fates.on_query,
            Kind.RECALL: fates.on_recall,
            Kind.PING: pings.on_ping,
            Kind.PONG: pings.on_pong,
            Kind.ROSTER_ASK: presence.on_roster_ask,
            Kind.ROSTER: hearing.on_roster,
        }
        self.tagged: dict[str, TakeTagged] = {
            Kind.PRESENCE: hearing.arrive,
            Kind.INJECTED: words.arrive,
            Kind.FAILED: words.arrive,
            Kind.OUTCOME: words.arrive,
            Kind.NO_WAITER: words.arrive,
            Kind.TOO_LATE: words.arrive,
        }

    def spoken(self) -> tuple[str, ...]:
        """The kinds that this version acts on; a sender does not use other kinds towards it."""
        return tuple(str(kind) for kind in Kind if self._is_spoken(kind))

    def _is_spoken(self, kind: str) -> bool:
        if kind in self.messages or kind in self.about_ours or kind in self.control or kind in self.tagged:
            return True
        return self._controls.knows(kind)

    def take(self, event: Arrived, now: Now) -> list[Action]:
        try:
            return self._take(event, now)
        except MalformedEnvelope as error:
            return self._refuse(event, "malformed", str(error), now)
        except Refused as refused:
            return self._refuse(event, refused.reason, refused.detail, now)

    def again(self, event: DuplicateArrived, now: Now) -> list[Action]:
        """The same bytes once more: nothing happens; who asked for something here is told once more what came of it."""
        return [*(self._controls.again(event.request, now) if event.request else []), Ack(event.tag)]

    def _take(self, event: Arrived, now: Now) -> list[Action]:
        message, kind, tag = event.message, event.message.envelope.kind, event.tag
        if not self._is_spoken(kind):
            raise Refused("unknown-kind", f"{kind} is not spoken by this version")
        if isinstance(event.owner, InboxQueue) and kind in self.about_ours:
            return self._about_ours(event, event.owner, now)
        if isinstance(event.owner, InboxQueue):
            return [*self._message(event.owner, message, event.known, now), Ack(tag)]
        if kind in self.tagged:
            return self.tagged[kind](tag, message, now)
        if kind in self.control:
            return [*self.control[kind](message, now), Ack(tag)]
        return [*self._controls.take(message, now), Ack(tag)]

    def _about_ours(self, event: Arrived, owner: InboxQueue, now: Now) -> list[Action]:
        message, envelope = event.message, event.message.envelope

        def then(_: Sequence[InboxRow | None], sent: Sequence[SentRow | None], now: Now) -> list[Action]:
            try:
                known = self._known(owner, message)
                if known is not None and not is_tombstone(known):
                    return [Ack(event.tag)]
                return [*self.about_ours[envelope.kind](message, owner.gid, sent[0], now), Ack(event.tag)]
            except Refused as refused:
                return self._refuse(event, refused.reason, refused.detail, now)

        return self._lookups.look_up((), ((envelope.re or MsgId(""), envelope.sender),), then, now)

    def _known(self, owner: InboxQueue, message: VerifiedEnvelope) -> InboxRow | None:
        """What the core holds of it: itself, twice in one batch or called back while it was read, or nobody's trace."""
        entity = self._roster.entities.get(owner.gid)
        if entity is None or entity.status == "stopping":
            raise Refused("recipient-gone", "nobody has this inbox any more")
        envelope = message.envelope
        known = self._inbox.ledger.get((envelope.msg_id, owner.gid))
        if known is None or is_tombstone(known):
            return known
        leaf = leaf_for(known, envelope.host)
        if leaf is None:
            return None
        if leaf != message.leaf:
            raise Refused("conflict", f"{envelope.msg_id} is known with another content")
        return known

    def _message(self, owner: InboxQueue, message: VerifiedEnvelope, stored: InboxRow | None, now: Now) -> list[Action]:
        envelope, known = message.envelope, self._known(owner, message)
        if known is not None and not is_tombstone(known):
            return []
        grave = known or stored
        if grave is not None and is_tombstone(grave):
            ended = self._inbox.intake.replaced(message, owner.gid, grave, now)
            if ended is not None:
                return ended
        return self.messages[envelope.kind](message, owner.gid, now)

    def into_inbox(self, message: VerifiedEnvelope, gid: Gid, now: Now) -> list[Action]:
        return self._inbox.intake.arrive(message, gid, now)

    def _broadcast(self, message: VerifiedEnvelope, gid: Gid, now: Now) -> list[Action]:
        """Whoever sent it is in the group, perhaps, and gets no copy."""
        return [] if gid == message.envelope.sender else self._inbox.intake.arrive(message, gid, now)

    def _refuse(self, event: Arrived, reason: str, detail: str, now: Now) -> list[Action]:
        envelope = event.message.envelope
        refusal = Refusal(reason, detail, envelope, event.message.leaf, True, envelope.host, envelope.trace_id)
        return self._refusals.refuse(event.tag, event.owner, refusal, now)
