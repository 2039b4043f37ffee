"""What local clients ask to be sent: from the call to the verdict that ends it.

The routing fork: a recipient on this host gets the message through the bus, and the broker is not touched; any other
one by a publish with its gid. A call ends when every recipient has a verdict; the rows say which.
"""

from __future__ import annotations

import dataclasses

from fleettrio._accel import leaf_of
from fleettrio.core.actions import Action, Fail, Publish, RecordKey, RecordSent, Resolve
from fleettrio.core.calls import Accepted, Key
from fleettrio.core.compose import Identity, message
from fleettrio.core.events import CancelAsked, ReplyAsked, RetryAsked, SendAsked
from fleettrio.core.inbox import Inbox
from fleettrio.core.link import ForSent, Link
from fleettrio.core.outbox import Outbox
from fleettrio.core.questions import Questions
from fleettrio.core.roster import Roster, Target, UnknownRecipient
from fleettrio.core.rows import Entity, SentRow, SentState
from fleettrio.ids import Gid, Leaf, Now
from fleettrio.wire.envelope import (
    Envelope,
    Kind,
    default_lifetime_ms,
    encode_envelope,
    longest_lifetime_ms,
)
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("Sends",)

_NO_BROKER, _FAILED, _USAGE = 8, 3, 2
_UNSETTLED = frozenset({SentState.ACCEPTED, SentState.WRITTEN})


@dataclasses.dataclass(slots=True)
class _Call:
    keys: tuple[Key, ...]


class Sends:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        link: Link,
        inbox: Inbox,
        outbox: Outbox,
        questions: Questions,
        body_limit: int,
    ) -> None:
        self._me = me
        self._roster = roster
        self._link = link
        self._inbox = inbox
        self._outbox = outbox
        self._questions = questions
        self._body_limit = body_limit
        self._calls: dict[int, _Call] = {}
        self._depth: dict[Gid, int] = {}
        """Highest depth put into an agent of this host lately; its own sends are one deeper."""

    def put_into(self, gid: Gid, depth: int) -> None:
        self._depth[gid] = depth

    # --- what clients ask

    def send(self, event: SendAsked, now: Now) -> list[Action]:
        targets: list[Target] = []
        for address in event.to:
            target = self._roster.resolve(address)
            if isinstance(target, UnknownRecipient):
                return [_fail(event.call, _FAILED, "no-such-recipient", target.message, target.hint)]
            targets.append(target)
        if too_long := self._check(event, targets):
            return [too_long]
        if event.live and (silent := next((t for t in targets if self._roster.is_silent(t.host, now.wall)), None)):
            text = f"{silent.host} is not heard, and this send is live only"
            return [_fail(event.call, _NO_BROKER, "host-silent", text, "without --live it waits for the host")]
        sender = self._roster.entities[event.sender]
        keyed = RecordKey(event.key, event.sender, event.msg_ids) if event.key else None
        envelopes = [
            message(
                self._me,
                event.kind,
                sender,
                target.gid,
                msg_id=msg_id,
                trace_id=event.trace_id,
                expires_in_ms=event.expires_in_ms or default_lifetime_ms(event.kind, event.when, target.takes),
                now=now,
                depth=self._next_depth(sender),
                when=event.when,
                intent=event.intent,
                priority=event.priority,
                wants_reply=event.wants_reply,
                supersedes=event.supersedes,
            )
            for target, msg_id in zip(targets, event.msg_ids, strict=True)
        ]
        return self._go_out(event.call, list(zip(targets, envelopes, strict=True)), event.body, keyed, now)

    def reply(self, event: ReplyAsked, now: Now) -> list[Action]:
        original = event.original
        sender = self._roster.entities[event.sender]
        target = Target(original.sender, original.from_host, "", "pull")
        if original.from_host == self._me.host and original.sender not in self._roster.entities:
            text = "the one who sent it is not on this host any more"
            return [_fail(event.call, _FAILED, "recipient-gone", text, "`fleettrio list` shows who is there")]
        if len(event.body) > self._body_limit:
            return [self._oversize(event.call, len(event.body))]
        envelope = message(
            self._me,
            Kind.REPLY,
            sender,
            original.sender,
            msg_id=event.msg_id,
            trace_id=original.trace_id,
            expires_in_ms=default_lifetime_ms(Kind.REPLY),
            now=now,
            re=original.msg_id,
            depth=original.depth + 1,
        )
        keyed = RecordKey(event.key, event.sender, (event.msg_id,)) if event.key else None
        seen = self._inbox.forward.seen_answered(original, now)
        return [*seen, *self._go_out(event.call, [(target, envelope)], event.body, keyed, now)]

    def retry(self, event: RetryAsked, envelope: Envelope, now: Now) -> list[Action]:
        """The same header and body once more, before it expires; the leaf was checked by the shell."""
        row = event.row
        if row.expires_at <= now.wall:
            return [_fail(event.call, 4, "expired", "it expired; a new send is a new message", "send it again")]
        is_settled = row.said_by == "peer" and not row.reason.startswith("refused")
        if is_settled or row.state in _UNSETTLED | {SentState.CONFIRMED, SentState.HELD, SentState.INJECTED}:
            text = f"it is {row.state}: a retry is for what failed or is unknown"
            return [_fail(event.call, _USAGE, "not-retryable", text, "`fleettrio show` tells where it is")]
        if why := self._link.why_not():
            return [_fail(event.call, _NO_BROKER, why[0], why[1], "`fleettrio status` shows the broker")]
        again = dataclasses.replace(row, state=SentState.ACCEPTED, reason="", detail="", said_by="", at=now.wall)
        self._outbox.accept(again, now)
        key = (row.msg_id, row.gid)
        self._calls[event.call] = _Call((key,))
        return [self._link.publish(ForSent(*key), envelope, event.body, sent=again)]

    def cancel(self, event: CancelAsked, now: Now) -> list[Action]:
        """Call a message back. On this host that is decided at once; elsewhere by its host, when it is heard."""
        row = event.row
        key = (row.msg_id, row.gid)
        if row.to_host == self._me.host:
            here = self._inbox.rows.get(key)
            if here is None:
                return [Resolve(event.call, Accepted((row,)))]
            recalled, actions = self._inbox.recall(here, now)
            state = str(recalled.state)
            if not recalled.state.is_open:
                current = self._outbox.rows.get(key, row)
                actions += self._outbox.word(current, state, recalled.reason, "", "", now.wall, "peer", now)
            return [*actions, Resolve(event.call, Accepted((self._outbox.rows.get(key, row),)))]
        if row.said_by == "peer" and row.state not in (SentState.HELD, SentState.UNCONFIRMED):
            return [Resolve(event.call, Accepted((row,)))]
        actions = self._outbox.recall(row, now)
        return [*actions, *self._questions.recall(row.to_host, now), Resolve(event.call, Accepted((row,)))]

    # --- what came of it

    def settled(self, key: Key) -> list[Action]:
        """The row of `key` has a verdict: calls all of whose rows have one are over."""
        actions: list[Action] = []
        for call in [c for c, waiting in self._calls.items() if key in waiting.keys]:
            rows = [self._outbox.rows[k] for k in self._calls[call].keys if k in self._outbox.rows]
            if all(row.state not in _UNSETTLED for row in rows):
                del self._calls[call]
                actions.append(Resolve(call, Accepted(tuple(rows))))
        return actions

    def end_call(self, call: int) -> None:
        self._calls.pop(call, None)

    # --- inside

    def _go_out(
        self, call: int, out: list[tuple[Target, Envelope]], body: bytes, keyed: RecordKey | None, now: Now
    ) -> list[Action]:
        actions: list[Action] = [keyed] if keyed else []
        rows: list[SentRow] = []
        for target, envelope in out:
            header = encode_envelope(envelope)
            row = self._row(target, envelope, header, body)
            if target.host == self._me.host:
                row, more = self._to_neighbour(row, envelope, header, body, now)
            else:
                row, more = self._to_broker(row, envelope, body, now)
            rows.append(row)
            actions += more
        if any(row.state in _UNSETTLED for row in rows):
            self._calls[call] = _Call(tuple((row.msg_id, row.gid) for row in rows))
            return actions
        latest = tuple(self._outbox.rows.get((row.msg_id, row.gid), row) for row in rows)
        return [*actions, Resolve(call, Accepted(latest))]

    def _row(self, target: Target, envelope: Envelope, header: bytes, body: bytes) -> SentRow:
        return SentRow(
            msg_id=envelope.msg_id,
            gid=target.gid,
            to_host=target.host,
            sender=envelope.sender,
            kind=envelope.kind,
            leaf=Leaf(leaf_of(header, body)),
            header=header,
            trace_id=envelope.trace_id,
            ts=envelope.ts,
            expires_at=envelope.expires_at,
            state=SentState.ACCEPTED,
            at=envelope.ts,
            re=envelope.re,
        )

    def _to_neighbour(
        self, row: SentRow, envelope: Envelope, header: bytes, body: bytes, now: Now
    ) -> tuple[SentRow, list[Action]]:
        if self._inbox.ledger.is_full(row.gid):
            failed = dataclasses.replace(row, state=SentState.FAILED, reason="inbox-full", said_by="peer")
            return failed, [RecordSent(failed)]
        confirmed = dataclasses.replace(row, state=SentState.CONFIRMED)
        self._outbox.accept(confirmed, now)
        arrived = self._inbox.arrive(VerifiedEnvelope.of_neighbour(envelope, header, body), row.gid, now)
        answered: list[Action] = []
        if envelope.kind == Kind.REPLY and envelope.re is not None:
            answered = self._questions.answered(envelope.re, envelope.sender, envelope.msg_id, now)
        return confirmed, [RecordSent(confirmed), *arrived, *answered]

    def _to_broker(self, row: SentRow, envelope: Envelope, body: bytes, now: Now) -> tuple[SentRow, list[Action]]:
        if why := self._link.why_not():
            failed = dataclasses.replace(
                row, state=SentState.FAILED, reason=why[0], detail=why[1], said_by="own", at=now.wall
            )
            return failed, [RecordSent(failed)]
        self._outbox.accept(row, now)
        publish: Publish = self._link.publish(ForSent(row.msg_id, row.gid), envelope, body, sent=row)
        return row, [publish]

    def _check(self, event: SendAsked, targets: list[Target]) -> Fail | None:
        if len(event.body) > self._body_limit:
            return self._oversize(event.call, len(event.body))
        for target in targets:
            most = longest_lifetime_ms(event.kind, event.when)
            if event.expires_in_ms is not None and not 0 < event.expires_in_ms <= most:
                text = f"a {event.kind} with when={event.when} to {target.name} may live at most {most // 1000} s"
                return _fail(event.call, _USAGE, "lifetime", text, "give a shorter --expires")
        return None

    def _oversize(self, call: int, size: int) -> Fail:
        text = f"the body has {size} bytes; this host sends at most {self._body_limit}"
        return _fail(call, _USAGE, "oversize", text, "put it into a file or a commit and send where it is")

    def _next_depth(self, sender: Entity) -> int:
        return 0 if sender.gid == self._me.human else 1 + self._depth.get(sender.gid, 0)


def _fail(call: int, code: int, reason: str, message: str, hint: str = "") -> Fail:
    return Fail(call=call, code=code, reason=reason, message=message, hint=hint)
