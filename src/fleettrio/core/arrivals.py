"""What comes from the broker, past the checks of `wire.signing`: each kind to the part that knows it.

An inbox takes messages, the control queue control kinds and notices, the roster queue presence (`to` is bound to the
kind by `wire.envelope`, and to the queue by its owner). A body that is not what its kind must have is refused as
`malformed`; a kind this version does not speak, as `unknown-kind`.
"""

from __future__ import annotations

from fleettrio.core.actions import Ack, Action
from fleettrio.core.events import Arrived
from fleettrio.core.inbox import Inbox
from fleettrio.core.presence import SPOKEN_KINDS, Presence
from fleettrio.core.questions import Questions
from fleettrio.core.refusals import Refusals
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, InboxState
from fleettrio.core.topology import InboxQueue
from fleettrio.core.words import Words
from fleettrio.errors import MalformedEnvelope
from fleettrio.ids import HostId, Now
from fleettrio.wire.envelope import NOTICE_KINDS, Kind
from fleettrio.wire.signing import Refusal, VerifiedEnvelope

__all__ = ("Arrivals", "is_replaceable")


def is_replaceable(row: InboxRow, host: HostId) -> bool:
    """True for the trace of a RECALL by another host than `host`: it had no say, and stands in nobody's way."""
    return row.state is InboxState.RECALLED and row.from_host != host


class _Refused(Exception):
    """A verified delivery that this gateway does not take."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


class Arrivals:
    def __init__(
        self,
        roster: Roster,
        inbox: Inbox,
        questions: Questions,
        presence: Presence,
        words: Words,
        refusals: Refusals,
    ) -> None:
        self._roster = roster
        self._inbox = inbox
        self._questions = questions
        self._presence = presence
        self._words = words
        self._refusals = refusals

    def take(self, event: Arrived, now: Now) -> list[Action]:
        try:
            return self._take(event, now)
        except MalformedEnvelope as error:
            return self._refuse(event, "malformed", str(error), now)
        except _Refused as refused:
            return self._refuse(event, refused.reason, refused.detail, now)

    def _take(self, event: Arrived, now: Now) -> list[Action]:
        message, kind, tag = event.message, event.message.envelope.kind, event.tag
        if kind not in SPOKEN_KINDS:
            raise _Refused("unknown-kind", f"{kind} is not spoken by this version")
        if isinstance(event.owner, InboxQueue):
            return [*self._message(event.owner, message, now), Ack(tag)]
        if kind == Kind.PRESENCE:
            return self._presence.arrive(tag, message, now)
        if kind in NOTICE_KINDS:
            return self._words.arrive(tag, message, now)
        return [*self._control(message, now), Ack(tag)]

    def _message(self, owner: InboxQueue, message: VerifiedEnvelope, now: Now) -> list[Action]:
        envelope = message.envelope
        if owner.gid not in self._roster.entities:
            raise _Refused("recipient-gone", "nobody has this inbox any more")
        known = self._inbox.ledger.get((envelope.msg_id, owner.gid))
        if known is not None and known.leaf == message.leaf:  # twice in one batch, or called back while it was read
            return []
        if known is not None and not is_replaceable(known, envelope.host):
            raise _Refused("conflict", f"{envelope.msg_id} is known with another content")
        # First the reply is offered to the call that waits for it; marking the send answered would end that call.
        actions = self._inbox.arrive(message, owner.gid, now)
        if envelope.kind == Kind.REPLY and envelope.re is not None:
            actions += self._questions.answered(envelope.re, envelope.sender, owner.gid, envelope.msg_id, now)
        return actions

    def _control(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        match message.envelope.kind:
            case Kind.QUERY:
                return self._questions.on_query(message, now)
            case Kind.RECALL:
                return self._questions.on_recall(message, now)
            case Kind.PING:
                return self._questions.on_ping(message, now)
            case Kind.PONG:
                return self._questions.on_pong(message, now)
            case Kind.ROSTER_ASK:
                return self._presence.on_roster_ask(message, now)
            case _:
                return self._presence.on_roster(message, now)

    def _refuse(self, event: Arrived, reason: str, detail: str, now: Now) -> list[Action]:
        envelope = event.message.envelope
        refusal = Refusal(reason, detail, envelope, event.message.leaf, True, envelope.host, envelope.trace_id)
        return self._refusals.refuse(event.tag, event.owner, refusal, now)
