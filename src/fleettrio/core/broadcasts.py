"""Broadcasts: one publish to `broadcast.all` or `broadcast.<group>`, and a row for everybody who is known to be in it.

    head row:    accepted ──► written ──► done | outcome-unknown | failed
    member rows: as any message's

Rules:
1. Who is in the group is what this host knows when it sends. Nobody is legal: the message goes out all the same, for
   there may be members that were never heard of. One that reports later gets a row then (`late`); the roster must know
   it to live on the host that signs.
2. The head row is the message itself: it is there without any member, and ends with the publish (`done`).
3. Members on this host get it through the bus, also with the broker down; the broker's copies for them end at the
   ledger's row. The inbox of one that is full gets a row that says so, and its copy ends there as well. The sender
   gets no copy of its own.
4. One publish, one verdict, for all rows of other hosts. A refusal by the broker (nack) is partial: some inbox was
   full, the others have the message. So nothing failed: their hosts are asked, and only the same bytes are sent again.
5. A worker may not broadcast. Whether a host may is for its receivers to say (grant `broadcast`).
"""

from __future__ import annotations

import msgspec

from fleettrio._accel import leaf_of
from fleettrio.core.actions import Action, Fail, RecordSent
from fleettrio.core.calls import NO_VERDICT_YET, SendCall
from fleettrio.core.compose import Identity, begins, message
from fleettrio.core.entity import Entity
from fleettrio.core.inbox import Inbox
from fleettrio.core.link import Link, LinkState
from fleettrio.core.outbox import PARTLY, Outbox
from fleettrio.core.requests import BroadcastAgainAsked, BroadcastAsked
from fleettrio.core.roster import Roster, Target
from fleettrio.core.rows import Key, SentRow, SentState
from fleettrio.core.rules import Rules
from fleettrio.core.sends import Sends
from fleettrio.core.topology import EVERYBODY, broadcast_key
from fleettrio.core.waits import Waits
from fleettrio.errors import EXPIRED, FAILED, USAGE
from fleettrio.ids import HostId, Leaf, Now
from fleettrio.wire.envelope import (
    Envelope,
    Kind,
    decode_envelope,
    default_lifetime_ms,
    encode_envelope,
    longest_lifetime_ms,
)
from fleettrio.wire.gids import is_name
from fleettrio.wire.kinds import span_text
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("Broadcasts",)

_WORKER = "worker"
_SENT_AGAIN = NO_VERDICT_YET | {SentState.OUTCOME_UNKNOWN, SentState.UNKNOWN}


class Broadcasts:
    def __init__(
        self, me: Identity, roster: Roster, link: Link, inbox: Inbox, outbox: Outbox, sends: Sends, waits: Waits
    ) -> None:
        self._me = me
        self._roster = roster
        self._link = link
        self._inbox = inbox
        self._outbox = outbox
        self._sends = sends
        self._waits = waits
        self.rules: Rules = {BroadcastAsked: self.send, BroadcastAgainAsked: self.retry}

    def send(self, event: BroadcastAsked, now: Now) -> list[Action]:
        to = broadcast_key(event.group)
        sender = self._roster.entities.get(event.sender)
        if refused := self._why_not(event, sender):
            return [refused]
        assert sender is not None
        if (again := self._sends.keys.again_to(event, to)) is not None:
            return again
        step = self._sends.step(sender)
        envelope = message(
            self._me,
            Kind.BROADCAST,
            sender,
            to,
            msg_id=event.msg_id,
            trace_id=step.trace_id or event.trace_id,
            expires_in_ms=event.expires_in_ms or default_lifetime_ms(Kind.BROADCAST),
            now=now,
            depth=step.depth,
            when=event.when,
            intent=event.intent,
            priority=event.priority,
            wants_reply=event.wants_reply,
        )
        header = encode_envelope(envelope)
        head = self._head(envelope, header, event.body)
        members = [target for target in self._roster.members(to) if target.gid != sender.gid]
        here = [self._row(head, target) for target in members if target.host == self._me.host]
        there = [head, *(self._row(head, target) for target in members if target.host != self._me.host)]
        actions = [action for row in here for action in self._to_neighbour(row, envelope, header, event.body, now)]
        actions += self._to_broker(tuple(there), envelope, event.body, now)
        rows: dict[Key, SentRow] = {}
        for row in [*there, *here]:
            key = row.key
            rows[key] = self._outbox.get(key) or row
        if keyed := self._sends.keys.keyed(event.key, event.sender, rows):
            actions.insert(0, keyed)
        self._waits.add_send(SendCall(event.call, rows))
        return actions

    def retry(self, event: BroadcastAgainAsked, now: Now) -> list[Action]:
        """The same bytes to the same key: whoever has it already takes no notice."""
        rows = {r.key: self._outbox.get(r.key) or r for r in event.rows}
        head = next(row for row in rows.values() if row.is_head)
        if head.expires_at <= now.wall:
            return [Fail(event.call, EXPIRED, "expired", "it expired; a new one is a new message", "send it again")]
        lacking = [row for row in rows.values() if not row.is_head and _lacks_it(row)]
        if head.state is SentState.DONE and not lacking:
            text = "everybody who is known to be in it has it, or will not get it"
            return [Fail(event.call, USAGE, "not-retryable", text, "`fleettrio show` tells what became of each")]
        again = [
            msgspec.structs.replace(row, state=SentState.ACCEPTED, reason="", detail="", said_by="", at=now.wall)
            for row in (head, *lacking)
        ]
        here = [row for row in again if row.to_host == self._me.host]
        there = [row for row in again if row.to_host != self._me.host]
        envelope, actions = decode_envelope(head.header), list[Action]()
        for row in here:
            actions += self._to_neighbour(row, envelope, head.header, event.body, now)
        actions += self._to_broker(tuple(there), envelope, event.body, now)
        latest = {key: self._outbox.get(key) or row for key, row in rows.items()}
        self._waits.add_send(SendCall(event.call, latest))
        return actions

    # --- inside

    def _why_not(self, event: BroadcastAsked, sender: Entity | None) -> Fail | None:
        if sender is None:
            return Fail(event.call, FAILED, "no-identity", "you are not attached any more", "fleettrio attach")
        if event.group != EVERYBODY and not is_name(event.group):
            text = f"{event.group!r} is not a name for a group: a-z, 0-9 and -, at most 32"
            return Fail(event.call, USAGE, "bad-group", text, "`fleettrio list` shows the groups")
        if sender.role == _WORKER:
            text = f"{sender.name} is a worker, and a worker may not broadcast"
            return Fail(event.call, FAILED, "not-authorised", text, "send to the agents that need it, by name")
        most = longest_lifetime_ms(Kind.BROADCAST)
        if event.expires_in_ms is not None and not 0 < event.expires_in_ms <= most:
            text = f"a broadcast may live at most {span_text(most)}"
            return Fail(event.call, USAGE, "lifetime", text, "give a shorter --expires")
        return self._sends.recipients.unfit(event.call, event.body)

    def _head(self, envelope: Envelope, header: bytes, body: bytes) -> SentRow:
        return SentRow(
            msg_id=envelope.msg_id,
            gid=self._me.gid,
            to_host=HostId(""),
            sender=envelope.sender,
            kind=envelope.kind,
            leaf=Leaf(leaf_of(header, body)),
            header=header,
            trace_id=envelope.trace_id,
            ts=envelope.ts,
            expires_at=envelope.expires_at,
            state=SentState.ACCEPTED,
            at=envelope.ts,
            to=envelope.to,
            wants_reply=envelope.expects_reply,
            about=begins(body),
        )

    def _row(self, head: SentRow, target: Target) -> SentRow:
        return msgspec.structs.replace(head, gid=target.gid, to_host=target.host)

    def _to_neighbour(self, row: SentRow, envelope: Envelope, header: bytes, body: bytes, now: Now) -> list[Action]:
        verified = VerifiedEnvelope.of_neighbour(envelope, header, body)
        if row.gid not in self._roster.entities:
            return self._failed(row, "recipient-gone", now)
        if self._inbox.ledger.is_full(row.gid):
            return [
                *self._failed(row, "inbox-full", now),
                *self._inbox.intake.not_taken(verified, row.gid, "inbox-full", now),
            ]
        confirmed = msgspec.structs.replace(row, state=SentState.CONFIRMED)
        self._outbox.accept(confirmed, now)
        return [RecordSent(confirmed), *self._inbox.intake.arrive(verified, row.gid, now)]

    def _to_broker(self, rows: tuple[SentRow, ...], envelope: Envelope, body: bytes, now: Now) -> list[Action]:
        """The head and the rows of other hosts, recorded together with those of this host, before the first byte."""
        if why := self._link.why_not():
            is_alone = self._link.state is LinkState.STANDALONE and len(rows) == 1
            if is_alone:  # there is no broker, and nobody is missed
                done = msgspec.structs.replace(rows[0], state=SentState.DONE, said_by="own", at=now.wall)
                return [self._settled(done, now)]
            return [action for row in rows for action in self._failed(row, why[0], now, why[1])]
        for row in rows:
            self._outbox.accept(row, now)
        return [*(RecordSent(row) for row in rows), self._link.publish_sent(rows, envelope, body)]

    def _failed(self, row: SentRow, reason: str, now: Now, detail: str = "") -> list[Action]:
        failed = msgspec.structs.replace(
            row, state=SentState.FAILED, reason=reason, detail=detail, said_by="own", at=now.wall
        )
        return [self._settled(failed, now)]

    def _settled(self, row: SentRow, now: Now) -> RecordSent:
        self._outbox.accept(row, now)
        return RecordSent(row)


def _lacks_it(row: SentRow) -> bool:
    """True when its host may not have it, as far as is known here."""
    return row.state in _SENT_AGAIN or row.reason == PARTLY or (row.state is SentState.FAILED and row.said_by == "own")
