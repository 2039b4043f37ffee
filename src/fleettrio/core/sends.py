"""What local clients ask to be sent: from the call to the verdict that ends it.

Which way a message goes is said by `fork`. A call ends when every recipient has a verdict; the rows say which.

A request may carry an idempotency key (`keys`). Key and rows are recorded together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from fleettrio.core.actions import Action, Fail, RecordKey, Resolve
from fleettrio.core.calls import NO_VERDICT_YET, NOBODY, Accepted, SendCall
from fleettrio.core.compose import Identity, message, sent_row
from fleettrio.core.depth import Depths, Step
from fleettrio.core.drift import Belief
from fleettrio.core.entity import Entity
from fleettrio.core.fates import Fates
from fleettrio.core.fork import Fork
from fleettrio.core.guard import Guard
from fleettrio.core.inbox import Inbox
from fleettrio.core.keys import Keys
from fleettrio.core.link import Link
from fleettrio.core.outbox import Outbox
from fleettrio.core.recipients import Recipients, nobody
from fleettrio.core.requests import CancelAsked, ReplyAsked, RetryAsked, SendAsked
from fleettrio.core.roster import Roster, Target
from fleettrio.core.rows import PROMISED, InboxRow, Key, SentRow, SentState
from fleettrio.core.said import REFUSED, Word
from fleettrio.core.waits import Waits
from fleettrio.errors import EXPIRED, FAILED, NO_BROKER, USAGE
from fleettrio.ids import Gid, MsgId, Now, TraceId, WallMs
from fleettrio.wire.envelope import Envelope, Kind, decode_envelope, default_lifetime_ms, encode_envelope

__all__ = ("Sends",)

_UNDER_WAY = NO_VERDICT_YET | {SentState.CONFIRMED, SentState.HELD, SentState.INJECTED}


class Sends:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        link: Link,
        inbox: Inbox,
        outbox: Outbox,
        fates: Fates,
        waits: Waits,
        depths: Depths,
        guard: Guard,
        body_limit: int,
    ) -> None:
        self._me = me
        self._waits = waits
        self._roster = roster
        self._link = link
        self._inbox = inbox
        self._outbox = outbox
        self._fates = fates
        self._depths = depths
        self.recipients = Recipients(roster, link, body_limit)
        self.replied: Callable[[InboxRow, Now], list[Action]] = lambda _row, _now: []
        """An agent answers what was put into it (`briefs`)."""
        self.keys = Keys(roster, outbox, waits)
        self.fork = Fork(me, roster, link, inbox, outbox, waits, guard, self.keys)

    # --- what clients ask

    def send(self, event: SendAsked, now: Now) -> list[Action]:
        if (event.key or event.known) and (again := self.keys.again(event, event.to)) is not None:
            return again
        targets = self.recipients.of(event)
        if isinstance(targets, Fail):
            return [targets]
        sender = self._roster.entities[event.sender]
        if event.live and (silent := self.recipients.silent(event.call, targets, now)):
            return [silent]
        keyed = RecordKey(event.key, event.sender, event.msg_ids) if event.key else None
        step = event.step or self.step(sender)
        out = [
            (target, self._envelope(event, msg_id, sender, target, step, now))
            for target, msg_id in zip(targets, event.msg_ids, strict=True)
        ]
        return self.fork.go_out(event.call, out, event.body, keyed, now)

    def _envelope(
        self, event: SendAsked, msg_id: MsgId, sender: Entity, target: Target, step: Step, now: Now
    ) -> Envelope:
        lifetime_ms = event.expires_in_ms or default_lifetime_ms(event.kind, event.when, target.takes)
        envelope = Envelope(
            kind=event.kind,
            msg_id=msg_id,
            trace_id=step.trace_id or event.trace_id,
            sender=sender.gid,
            sender_salt=sender.salt,
            to=target.gid,
            host=self._me.host,
            key_gen=self._me.key_gen,
            ts=now.wall,
            expires_at=WallMs(now.wall + lifetime_ms),
            depth=step.depth,
            when=event.when,
            intent=event.intent,
            priority=event.priority,
            wants_reply=event.wants_reply,
            supersedes=event.supersedes,
            claim=event.claim or None,
        )
        return self._believing(envelope, event.belief, event) if event.belief else envelope

    def _believing(self, envelope: Envelope, belief: Belief, event: SendAsked) -> Envelope:
        """What the message says of its recipient's work tree: the commit that tree was last announced to be at."""
        to = Gid(envelope.to)
        causal = belief.about(*self._roster.place(to), is_shared=to in event.shared)
        if causal is None:
            return envelope
        return msgspec.structs.replace(envelope, causal=causal.to_bytes(), on_stale=event.on_stale)

    def reply(self, event: ReplyAsked, now: Now) -> list[Action]:
        original = event.original
        if (again := self.keys.again(event, (original.sender,), original.msg_id)) is not None:
            return again
        sender = self._roster.entities.get(event.sender)
        if sender is None:
            return [nobody(event.call)]
        target = Target(original.sender, original.from_host, "", "pull")
        if original.from_host == self._me.host and original.sender not in self._roster.entities:
            text = "the one who sent it is not on this host any more"
            return [Fail(event.call, FAILED, "recipient-gone", text, "`fleettrio list` shows who is there")]
        if failed := self.recipients.unfit(event.call, event.body):
            return [failed]
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
            depth=self._depths.answering(sender.gid, original),
        )
        keyed = RecordKey(event.key, event.sender, (event.msg_id,)) if event.key else None
        out = self.fork.go_out(event.call, [(target, envelope)], event.body, keyed, now)
        is_out = self._outbox.get((event.msg_id, original.sender)) is not None
        answered = self.replied(original, now) if is_out else []
        return [*answered, *self._inbox.seen_answered(original, now), *out]

    def retry(self, event: RetryAsked, now: Now) -> list[Action]:
        """The same header and body once more, before it expires; the leaf was checked by the shell."""
        envelope = decode_envelope(event.row.header)
        key = event.row.key
        row = self._outbox.get(key) or event.row
        if row.expires_at <= now.wall:
            return [Fail(event.call, EXPIRED, "expired", "it expired; a new send is a new message", "send it again")]
        if row.kind in (Kind.ASK, Kind.ANSWER):
            return [Fail(event.call, USAGE, "not-retryable", "what is live is not retried", "ask, or answer, anew")]
        is_settled = row.said_by == "peer" and not row.reason.startswith(REFUSED)
        if is_settled or row.state in _UNDER_WAY:
            text = f"it is {row.state}: a retry is for what failed or is unknown"
            return [Fail(event.call, USAGE, "not-retryable", text, "`fleettrio show` tells where it is")]
        again = msgspec.structs.replace(row, state=SentState.ACCEPTED, reason="", detail="", said_by="", at=now.wall)
        if row.to_host == self._me.host:
            if row.gid not in self._roster.entities:
                return [Fail(event.call, FAILED, "recipient-gone", "its recipient is gone", "`fleettrio list`")]
            latest, actions = self.fork.to_neighbour(again, envelope, row.header, event.body, now)
            self._waits.add_send(SendCall(event.call, {key: self._outbox.get(key) or latest}))
            return actions
        link = self.fork.link_of(row.kind)
        if why := link.why_not():
            return [Fail(event.call, NO_BROKER, why[0], why[1], "`fleettrio status` shows the broker")]
        self._outbox.accept(again, now)
        publish = link.publish_sent((again,), envelope, event.body)
        self._waits.add_send(SendCall(event.call, {key: again}))
        return [publish]

    def cancel(self, event: CancelAsked, now: Now) -> list[Action]:
        """Call a message back. On this host that is decided at once; elsewhere by its host, when it is heard."""
        key = event.row.key
        row = self._outbox.get(key) or event.row
        if not self._outbox.wants_recall(row):
            return [Resolve(event.call, Accepted((row,)))]
        if row.is_promised:
            word = Word(*key, row.leaf, SentState.RECALLED, "", "", "", now.wall)
            actions = self._outbox.word(row, word, "own", now)
            return [*actions, Resolve(event.call, Accepted((self._outbox.get(key) or row,)))]
        if row.to_host == self._me.host:
            here = self._inbox.rows.get(key)
            if here is None:
                return [Resolve(event.call, Accepted((row,)))]
            recalled, actions = self._inbox.recall(here, now)
            if not recalled.state.is_open:
                word = Word(*key, row.leaf, str(recalled.state), recalled.reason, "", "", now.wall)
                actions += self._outbox.word(row, word, "peer", now)
            return [*actions, Resolve(event.call, Accepted((self._outbox.get(key) or row,)))]
        actions = self._outbox.recall(row, now)
        latest = self._outbox.get(key) or row
        return [*actions, *self._fates.recall(row.to_host, now), Resolve(event.call, Accepted((latest,)))]

    def not_recorded(self, keys: Iterable[Key], reason: str) -> list[Action]:
        """The publisher could not record it, so not a byte of it left: there is no such message."""
        calls: set[int] = set()
        for key in keys:
            self._outbox.forget(key)
            self.keys.forget(key)
            calls.update(self._waits.end_sends_of(key))
        text = f"this host cannot record messages: {reason}"
        hint = "free some disk space; `fleettrio doctor`"
        return [Fail(call, FAILED, "store", text, hint) for call in sorted(calls)]

    def step(self, sender: Entity) -> Step:
        """How deep what `sender` says now is, and the trace that it goes on in."""
        return self._depths.of(sender.gid)

    def promise(
        self, target: Target, sender: Entity, body: bytes, msg_id: MsgId, trace_id: TraceId, now: Now
    ) -> SentRow:
        """A message to an agent that is known by its gid alone as yet; it goes out later (`keep_promise`), or fails."""
        envelope = message(
            self._me,
            Kind.SEND,
            sender,
            target.gid,
            msg_id=msg_id,
            trace_id=trace_id,
            expires_in_ms=default_lifetime_ms(Kind.SEND),
            now=now,
            depth=self.step(sender).depth,
        )
        row = sent_row(envelope, encode_envelope(envelope), body, target.gid, target.host)
        row = msgspec.structs.replace(row, reason=PROMISED)
        self._outbox.accept(row, now)
        return row

    def keep_promise(self, target: Target, row: SentRow, body: bytes, now: Now) -> list[Action]:
        """Its recipient is there. What was called back meanwhile, or is over, does not go out."""
        key = row.key
        row = self._outbox.get(key) or row
        if not row.is_promised:
            return []
        if target.host != self._me.host and (why := self._link.why_not()):
            return self._outbox.fail(key, why[0], why[1], now)
        return self.fork.go_out(NOBODY, [(target, decode_envelope(row.header))], body, None, now)
