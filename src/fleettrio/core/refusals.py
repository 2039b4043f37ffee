"""Refusals are told: whoever refuses a delivery says so to the host that signed it, and counts it.

Rules:
1. A good signature: FAILED(`refused: <reason> at <host>`) goes to the signing host. An unknown or untrusted key: it
   goes to the claimed host too, at most one a second per host; that host believes it only for a message in its own
   outbox.
2. A notice, a presence and what is only asked again or answers a question are never told about, or two hosts would
   refuse each other's refusals for ever. A kind that we do not know is told about. So is a presence with a number lower
   than the known one: its host is told which we know, at most once a second, and goes on above it.
3. A question for our roster by a host that we do not trust is not answered. What everybody may hear is said once more
   instead: it must know names to send to, or nobody there ever learns that the trust goes one way only.
4. Then the delivery is rejected to the dead letters. A refusal leaves no row: the same bytes go through once the trust
   is mended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from fleettrio.core.actions import Ack, Action, Note, RecordPeer, Reject
from fleettrio.core.compose import Identity, control
from fleettrio.core.events import RefusedArrival
from fleettrio.core.link import ForControl, Link
from fleettrio.core.roster import Roster
from fleettrio.core.said import REFUSED
from fleettrio.core.topology import InboxQueue, QueueOwner, RosterQueue
from fleettrio.core.words import TRUST_REASONS
from fleettrio.ids import Gid, HostId, Leaf, Now, Seconds, Tag, TraceId
from fleettrio.wire.bodies import Failed
from fleettrio.wire.envelope import NOTICE_KINDS, Envelope, Kind
from fleettrio.wire.signing import Refusal

__all__ = ("STALE_EPOCH", "Refusals", "Refused")

_NEVER_TOLD = NOTICE_KINDS | {Kind.PRESENCE, Kind.PONG, Kind.TRACED, Kind.ROSTER, Kind.ROSTER_ASK}
STALE_EPOCH = "stale-epoch"
UNTRUSTED_EVERY_S = 1.0
STRANGERS_REMEMBERED = 64
"""Hosts of which nothing is known but that they were refused. Anybody with a login can make up names."""


class Refused(Exception):
    """A verified delivery that this gateway does not take. Never leaves the core: it becomes a refusal."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail or reason)
        self.reason = reason
        self.detail = detail


class Refusals:
    def __init__(
        self, me: Identity, link: Link, roster: Roster | None, stranger_asked: Callable[[Now], None] | None
    ) -> None:
        """`stranger_asked`: called for each question for our roster that was refused for want of trust. Without a
        roster nothing is remembered of the hosts that are refused."""
        self._stranger_asked = stranger_asked
        self._me = me
        self._link = link
        self._roster = roster
        self._last_told: dict[str, Seconds] = {}
        self.by_reason: Counter[str] = Counter()

    def refused(self, event: RefusedArrival, now: Now) -> list[Action]:
        return self.refuse(event.tag, event.owner, event.refusal, now)

    def refuse(self, tag: Tag, owner: QueueOwner, refusal: Refusal, now: Now) -> list[Action]:
        self.by_reason[refusal.reason] += 1
        envelope = refusal.envelope
        note = Note(
            "refused",
            envelope.msg_id if envelope else None,
            owner.gid if isinstance(owner, InboxQueue) else None,
            TraceId(refusal.trace_id) if refusal.trace_id else None,
            refusal.host,
            refusal.reason,
            refusal.detail,
            alarm=True,
        )
        actions: list[Action] = [note, *self._remember(refusal, now)]
        is_stranger = envelope is not None and envelope.kind == Kind.ROSTER_ASK and refusal.reason in TRUST_REASONS
        if is_stranger and self._stranger_asked:
            self._stranger_asked(now)
        if envelope is not None and refusal.leaf is not None and self._is_told(refusal, envelope, now):
            # About the inbox that it lay in: a copy put into another one says nothing of the message itself.
            gid = owner.gid if isinstance(owner, InboxQueue) else self._me.gid
            if refusal.reason == STALE_EPOCH:
                gid = envelope.sender
            actions.append(self._tell(envelope, gid, refusal.leaf, refusal.reason, refusal.detail, now))
        return [*actions, Ack(tag) if isinstance(owner, RosterQueue) else Reject(tag)]

    def _remember(self, refusal: Refusal, now: Now) -> list[Action]:
        """What it says about the peer itself: trust that is missing, a clock that is off."""
        envelope = refusal.envelope
        if self._roster is None or envelope is None or envelope.host == self._me.host:
            return []
        if refusal.reason in TRUST_REASONS:
            known = self._roster.peers.get(envelope.host)
            if known and known.we_refuse == refusal.reason:
                return []
            if known is None and len(self._roster.strangers()) >= STRANGERS_REMEMBERED:
                return []
            return [RecordPeer(self._roster.note_refusal(envelope.host, by_us=refusal.reason))]
        if refusal.signature_good and refusal.reason in ("expired", "future") and envelope.kind == Kind.PRESENCE:
            return [RecordPeer(self._roster.note_offset(envelope.host, envelope.ts - now.wall))]
        return []

    def _is_told(self, refusal: Refusal, envelope: Envelope, now: Now) -> bool:
        is_stale = refusal.reason == STALE_EPOCH
        if envelope.host == self._me.host or not self._link.is_open:
            return False
        if envelope.kind in _NEVER_TOLD and not is_stale:
            return False
        if refusal.signature_good and not is_stale:
            return True
        last = self._last_told.get(envelope.host)
        if last is not None and now.mono - last < UNTRUSTED_EVERY_S:
            return False
        if len(self._last_told) > 1_000:
            self._last_told.clear()
        self._last_told[envelope.host] = now.mono
        return True

    def _tell(self, envelope: Envelope, gid: Gid, leaf: Leaf, reason: str, detail: str, now: Now) -> Action:
        body = Failed(
            gid=gid,
            leaf=leaf,
            reason=f"{REFUSED}{reason} at {self._me.host}"[:64],
            detail=detail[:1024],
            at=now.wall,
        )
        notice = control(
            self._me, Kind.FAILED, HostId(envelope.host), trace_id=envelope.trace_id, now=now, re=envelope.msg_id
        )
        return self._link.publish(ForControl(), notice, body.to_bytes())
