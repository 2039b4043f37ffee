"""What local clients ask to be sent: from the call to the verdict that ends it.

The routing fork: a recipient on this host gets the message through the bus, and the broker is not touched; any other
one by a publish with its gid. A call ends when every recipient has a verdict; the rows say which.

A request may carry an idempotency key (`keys`). Key and rows are recorded together.
"""

from __future__ import annotations

import dataclasses

from fleettrio._accel import leaf_of
from fleettrio.core.actions import Action, Fail, Publish, RecordKey, RecordSent, Resolve
from fleettrio.core.calls import NO_VERDICT_YET, Accepted, Key, SendCall, Waits
from fleettrio.core.compose import Identity, message
from fleettrio.core.events import CancelAsked, ReplyAsked, RetryAsked, SendAsked
from fleettrio.core.inbox import Inbox
from fleettrio.core.keys import Keys, conflict
from fleettrio.core.link import ForSent, Link
from fleettrio.core.outbox import REFUSED, Outbox
from fleettrio.core.questions import Questions
from fleettrio.core.roster import Roster, Target, UnknownRecipient
from fleettrio.core.rows import Entity, SentRow, SentState
from fleettrio.ids import Gid, Leaf, MsgId, Now
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
_UNDER_WAY = NO_VERDICT_YET | {SentState.CONFIRMED, SentState.HELD, SentState.INJECTED}


class Sends:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        link: Link,
        inbox: Inbox,
        outbox: Outbox,
        questions: Questions,
        waits: Waits,
        body_limit: int,
    ) -> None:
        self._me = me
        self._waits = waits
        self._roster = roster
        self._link = link
        self._inbox = inbox
        self._outbox = outbox
        self._questions = questions
        self._body_limit = body_limit
        self._keys = Keys()
        self._depth: dict[Gid, int] = {}
        """Highest depth put into an agent of this host lately; its own sends are one deeper."""

    def put_into(self, gid: Gid, depth: int) -> None:
        self._depth[gid] = depth

    # --- what clients ask

    def send(self, event: SendAsked, now: Now) -> list[Action]:
        if (again := self._again(event, event.to, None)) is not None:
            return again
        sender = self._roster.entities.get(event.sender)
        if sender is None:
            return [_nobody(event.call)]
        targets: list[Target] = []
        for address in event.to:
            target = self._roster.resolve(address)
            if isinstance(target, UnknownRecipient):
                return [_fail(event.call, _FAILED, "no-such-recipient", target.message, target.hint)]
            targets.append(target)
        if too_long := self._check(event, targets):
            return [too_long]
        if event.live and (silent := self._silent(targets, now)):
            text = f"{silent.host} is not heard, and this send is live only"
            return [_fail(event.call, _NO_BROKER, "host-silent", text, "without --live it waits for the host")]
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
        if (again := self._again(event, (original.sender,), original.msg_id)) is not None:
            return again
        sender = self._roster.entities.get(event.sender)
        if sender is None:
            return [_nobody(event.call)]
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
        key = (event.row.msg_id, event.row.gid)
        row = self._outbox.get(key) or event.row
        if row.expires_at <= now.wall:
            return [_fail(event.call, 4, "expired", "it expired; a new send is a new message", "send it again")]
        is_settled = row.said_by == "peer" and not row.reason.startswith(REFUSED)
        if is_settled or row.state in _UNDER_WAY:
            text = f"it is {row.state}: a retry is for what failed or is unknown"
            return [_fail(event.call, _USAGE, "not-retryable", text, "`fleettrio show` tells where it is")]
        again = dataclasses.replace(row, state=SentState.ACCEPTED, reason="", detail="", said_by="", at=now.wall)
        if row.to_host == self._me.host:
            if row.gid not in self._roster.entities:
                return [_fail(event.call, _FAILED, "recipient-gone", "its recipient is gone", "`fleettrio list`")]
            latest, actions = self._to_neighbour(again, envelope, row.header, event.body, now)
            return [*actions, Resolve(event.call, Accepted((self._outbox.get(key) or latest,)))]
        if why := self._link.why_not():
            return [_fail(event.call, _NO_BROKER, why[0], why[1], "`fleettrio status` shows the broker")]
        self._outbox.accept(again, now)
        publish = self._link.publish(ForSent(*key), envelope, event.body, sent=again)
        return [publish, *self._waits.add_send(SendCall(event.call, {key: again}))]

    def cancel(self, event: CancelAsked, now: Now) -> list[Action]:
        """Call a message back. On this host that is decided at once; elsewhere by its host, when it is heard."""
        key = (event.row.msg_id, event.row.gid)
        row = self._outbox.get(key) or event.row
        if not self._outbox.wants_recall(row):
            return [Resolve(event.call, Accepted((row,)))]
        if row.to_host == self._me.host:
            here = self._inbox.rows.get(key)
            if here is None:
                return [Resolve(event.call, Accepted((row,)))]
            recalled, actions = self._inbox.recall(here, now)
            if not recalled.state.is_open:
                state = str(recalled.state)
                actions += self._outbox.word(row, state, recalled.reason, "", "", now.wall, "peer", now)
            return [*actions, Resolve(event.call, Accepted((self._outbox.get(key) or row,)))]
        actions = self._outbox.recall(row, now)
        latest = self._outbox.get(key) or row
        return [*actions, *self._questions.recall(row.to_host, now), Resolve(event.call, Accepted((latest,)))]

    def not_recorded(self, key: Key, reason: str) -> list[Action]:
        """The publisher could not record it, so not a byte of it left: there is no such message."""
        self._outbox.forget(key)
        self._keys.forget(key)
        text = f"this host cannot record messages: {reason}"
        hint = "free some disk space; `fleettrio doctor`"
        return [_fail(call, _FAILED, "store", text, hint) for call in self._waits.end_sends_of(key)]

    def forget_keys(self) -> None:
        """A list of actions could not be recorded: what the last keys stand for is in the store, or nowhere."""
        self._keys.clear()

    # --- inside

    def _again(self, event: SendAsked | ReplyAsked, to: tuple[str, ...], re: MsgId | None) -> list[Action] | None:
        """The answer when its key stands for messages already; None when it is new (or none was given)."""
        rows = self._keys.rows(event.sender, event.key, event.known)
        if not rows:
            return None
        if differs := conflict(event.call, event.key, rows.values(), event.body, to, self._roster, re):
            return [differs]
        latest = {name: self._outbox.get(name) or row for name, row in rows.items()}
        return self._waits.add_send(SendCall(event.call, latest))

    def _silent(self, targets: list[Target], now: Now) -> Target | None:
        """The first target whose host is known to be silent; nothing is known while a session settles."""
        if self._link.is_settling(now):
            return None
        return next((t for t in targets if self._roster.is_silent(t.host, now.wall)), None)

    def _go_out(
        self, call: int, out: list[tuple[Target, Envelope]], body: bytes, keyed: RecordKey | None, now: Now
    ) -> list[Action]:
        actions: list[Action] = []
        rows: dict[Key, SentRow] = {}
        alone = len(out) == 1
        for target, envelope in out:
            header = encode_envelope(envelope)
            row = self._row(target, envelope, header, body)
            if target.host == self._me.host:
                row, more = self._to_neighbour(row, envelope, header, body, now)
            else:
                row, more = self._to_broker(row, envelope, body, keyed if alone else None, now)
                if keyed and not alone and row.state is SentState.ACCEPTED:
                    more = [RecordSent(row), *more]  # the key and all that it stands for in one transaction
            rows[(row.msg_id, row.gid)] = row
            actions += more
        if keyed:
            self._keys.remember(keyed, rows)
            if not any(isinstance(action, Publish) and action.keyed for action in actions):
                actions.insert(0, keyed)
        latest = {key: self._outbox.get(key) or row for key, row in rows.items()}
        return [*actions, *self._waits.add_send(SendCall(call, latest))]

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
            failed = dataclasses.replace(row, state=SentState.FAILED, reason="inbox-full", said_by="own", at=now.wall)
            return failed, [RecordSent(failed)]
        confirmed = dataclasses.replace(row, state=SentState.CONFIRMED)
        self._outbox.accept(confirmed, now)
        arrived = self._inbox.arrive(VerifiedEnvelope.of_neighbour(envelope, header, body), row.gid, now)
        answered: list[Action] = []
        if envelope.kind == Kind.REPLY and envelope.re is not None:
            answered = self._questions.answered(envelope.re, envelope.sender, row.gid, envelope.msg_id, now)
        return confirmed, [RecordSent(confirmed), *arrived, *answered]

    def _to_broker(
        self, row: SentRow, envelope: Envelope, body: bytes, keyed: RecordKey | None, now: Now
    ) -> tuple[SentRow, list[Action]]:
        if why := self._link.why_not():
            failed = dataclasses.replace(
                row, state=SentState.FAILED, reason=why[0], detail=why[1], said_by="own", at=now.wall
            )
            return failed, [RecordSent(failed)]
        self._outbox.accept(row, now)
        publish = self._link.publish(ForSent(row.msg_id, row.gid), envelope, body, sent=row, keyed=keyed)
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


def _nobody(call: int) -> Fail:
    return _fail(call, _FAILED, "no-identity", "you are not attached any more", "fleettrio attach")


def _fail(call: int, code: int, reason: str, message: str, hint: str = "") -> Fail:
    return Fail(call=call, code=code, reason=reason, message=message, hint=hint)
