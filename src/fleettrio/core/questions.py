"""Asking other hosts, and answering them: fates (QUERY, RECALL), rosters, pings.

A question about a row that the core does not hold open is looked up in the store first (`Load`), and goes on when the
store has spoken (`Loaded`). Whatever happens in between changes nothing: the rows are judged when they are there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from fleettrio.core.actions import Action, Load, Resolve
from fleettrio.core.calls import Key, PongHeard
from fleettrio.core.compose import Identity, control
from fleettrio.core.events import Loaded
from fleettrio.core.inbox import LEDGER_LOST, Inbox
from fleettrio.core.link import ForControl, Link
from fleettrio.core.notices import MOST_IN_ONE, fate_of
from fleettrio.core.outbox import Outbox
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, InboxState, SentRow
from fleettrio.ids import Gid, HostId, Leaf, MsgId, Now, Seconds, TraceId, WallMs
from fleettrio.wire.bodies import Fate, Outcome, PingBody, PongBody, Question, QuestionItem
from fleettrio.wire.envelope import Kind
from fleettrio.wire.gids import msg_id_wall_ms
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("Questions",)

Then = Callable[[Sequence[InboxRow | None], Sequence[SentRow | None], Now], list[Action]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Ask:
    """What is looked up, and what goes on with it."""

    inbox: tuple[Key, ...]
    sent: tuple[Key, ...]
    then: Then


@dataclasses.dataclass(frozen=True, slots=True)
class _Ping:
    call: int
    host: HostId
    sent_at: Seconds


class Questions:
    def __init__(self, me: Identity, link: Link, roster: Roster, inbox: Inbox, outbox: Outbox, *, version: str) -> None:
        self._me = me
        self._link = link
        self._roster = roster
        self._inbox = inbox
        self._outbox = outbox
        self._version = version
        self._asks: dict[int, _Ask] = {}
        self._next_ask = 1
        self._pings: dict[int, _Ping] = {}
        self.trust_rev = 0

    # --- rows that the store may know

    def look_up(self, inbox: Sequence[Key], sent: Sequence[Key], then: Then, now: Now) -> list[Action]:
        """Go on with `then(inbox rows, sent rows)`: at once when the core holds them all, else after a `Load`."""
        inbox_rows = [self._inbox.ledger.get(key) for key in inbox]
        sent_rows = [self._outbox.get(key) for key in sent]
        missing_inbox = tuple(key for key, row in zip(inbox, inbox_rows, strict=True) if row is None)
        missing_sent = tuple(key for key, row in zip(sent, sent_rows, strict=True) if row is None)
        if not missing_inbox and not missing_sent:
            return then(inbox_rows, sent_rows, now)
        ask = self._next_ask
        self._next_ask += 1
        self._asks[ask] = _Ask(tuple(inbox), tuple(sent), then)
        return [Load(ask, missing_inbox, missing_sent)]

    def loaded(self, event: Loaded, now: Now) -> list[Action]:
        """The store has spoken. What came in while it was read is newer than what it read."""
        ask = self._asks.pop(event.ask, None)
        if ask is None:
            return []
        from_store = {(row.msg_id, row.gid): row for row in event.inbox if row is not None}
        sent_from_store = {(row.msg_id, row.gid): row for row in event.sent if row is not None}
        inbox = [self._inbox.ledger.get(key) or from_store.get(key) for key in ask.inbox]
        sent = [self._outbox.get(key) or sent_from_store.get(key) for key in ask.sent]
        return ask.then(inbox, sent, now)

    def not_loaded(self, ask: int) -> None:
        """The store could not be read: what was asked for is asked again by whoever asked."""
        self._asks.pop(ask, None)

    # --- answers to our sends

    def answered(self, re: MsgId, by: Gid, to: Gid, reply: MsgId, now: Now) -> list[Action]:
        """A REPLY by the entity `by` came to `to`: the send of `to` that it answers is answered."""

        def then(_: Sequence[InboxRow | None], sent: Sequence[SentRow | None], now: Now) -> list[Action]:
            row = sent[0]
            if row is None or row.answered_by or row.sender != to:
                return []
            return self._outbox.answered(row, reply, now)

        return self.look_up((), ((re, by),), then, now)

    # --- asking

    def ask(self, host: HostId, now: Now) -> list[Action]:
        """QUERY: what became of our open messages to `host`?"""
        return self._question(Kind.QUERY, host, self._outbox.to_ask(host), now)

    def recall(self, host: HostId, now: Now) -> list[Action]:
        """RECALL: what we want back from `host`."""
        return self._question(Kind.RECALL, host, self._outbox.to_recall(host), now)

    def ask_one(self, row: SentRow, now: Now) -> list[Action]:
        return self._question(Kind.QUERY, row.to_host, [row], now)

    def _question(self, kind: Kind, host: HostId, rows: list[SentRow], now: Now) -> list[Action]:
        if host == self._me.host or not self._link.is_open:
            return []
        actions: list[Action] = []
        for start in range(0, len(rows), MOST_IN_ONE):
            some = rows[start : start + MOST_IN_ONE]
            asked = tuple(QuestionItem(msg_id=r.msg_id, gid=r.gid, leaf=r.leaf, expires_at=r.expires_at) for r in some)
            envelope = control(self._me, kind, host, trace_id=some[0].trace_id, now=now)
            actions.append(self._link.publish(ForControl(), envelope, Question(items=asked).to_bytes()))
        return actions

    # --- being asked

    def on_query(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        asked = Question.from_bytes(message.body).items
        host, trace_id = message.envelope.host, message.envelope.trace_id

        def then(rows: Sequence[InboxRow | None], _: Sequence[SentRow | None], now: Now) -> list[Action]:
            fates = [self._fate(a, self._theirs(a, row, host), host, now) for a, row in zip(asked, rows, strict=True)]
            return self._answer(host, trace_id, fates, now)

        return self.look_up([(MsgId(a.msg_id), Gid(a.gid)) for a in asked], (), then, now)

    def on_recall(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        asked = Question.from_bytes(message.body).items
        host, trace_id = message.envelope.host, message.envelope.trace_id

        def then(rows: Sequence[InboxRow | None], _: Sequence[SentRow | None], now: Now) -> list[Action]:
            actions: list[Action] = []
            fates = []
            for a, loaded in zip(asked, rows, strict=True):
                found = self._inbox.ledger.get((MsgId(a.msg_id), Gid(a.gid))) or loaded  # named twice in one list
                row = self._theirs(a, found, host)
                is_free = found is None or (row is None and found.state is InboxState.RECALLED)
                if is_free and not self._is_before_birth(a, host):
                    row, more = self._inbox.tombstone(
                        MsgId(a.msg_id), Gid(a.gid), Leaf(a.leaf), host, WallMs(a.expires_at), trace_id, now
                    )
                    actions += more
                elif row is not None:
                    row, more = self._inbox.recall(row, now)
                    actions += more
                fates.append(self._fate(a, row, host, now))
            return [*actions, *self._answer(host, trace_id, fates, now)]

        return self.look_up([(MsgId(a.msg_id), Gid(a.gid)) for a in asked], (), then, now)

    def _theirs(self, asked: QuestionItem, row: InboxRow | None, host: HostId) -> InboxRow | None:
        """Only the host that signed a message, naming its very leaf, has a say in it."""
        return row if row is not None and row.from_host == host and row.leaf == asked.leaf else None

    def _is_before_birth(self, asked: QuestionItem, host: HostId) -> bool:
        return self._inbox.is_before_birth(msg_id_wall_ms(MsgId(asked.msg_id)), host)

    def _fate(self, asked: QuestionItem, row: InboxRow | None, host: HostId, now: Now) -> Fate:
        if row is not None:
            entity = self._roster.entities.get(row.gid)
            return fate_of(row, takes=entity.takes if entity else "push")
        lost = self._is_before_birth(asked, host)
        return Fate(
            msg_id=asked.msg_id,
            gid=asked.gid,
            leaf=asked.leaf,
            state=str(InboxState.UNCONFIRMED) if lost else "absent",
            reason=LEDGER_LOST if lost else "",
            detail="",
            via="",
            at=now.wall,
        )

    def _answer(self, host: HostId, trace_id: TraceId, fates: list[Fate], now: Now) -> list[Action]:
        if not fates:
            return []
        envelope = control(self._me, Kind.OUTCOME, host, trace_id=trace_id, now=now, re=MsgId(fates[0].msg_id))
        return [self._link.publish(ForControl(), envelope, Outcome(fates=tuple(fates)).to_bytes())]

    # --- pings

    def ping(self, call: int, host: HostId, trace_id: TraceId, now: Now) -> list[Action]:
        at = max([now.wall - 1, *self._pings]) + 1
        self._pings[at] = _Ping(call, host, now.mono)
        envelope = control(self._me, Kind.PING, host, trace_id=trace_id, now=now)
        return [self._link.publish(ForControl(), envelope, PingBody(at=WallMs(at)).to_bytes())]

    def on_ping(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        envelope = message.envelope
        body = PongBody(
            at=PingBody.from_bytes(message.body).at,
            version=self._version,
            offset=now.wall - envelope.ts,
            key_gen=self._me.key_gen,
            trust_rev=self.trust_rev,
        )
        answer = control(self._me, Kind.PONG, envelope.host, trace_id=envelope.trace_id, now=now)
        return [self._link.publish(ForControl(), answer, body.to_bytes())]

    def on_pong(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        body = PongBody.from_bytes(message.body)
        ping = self._pings.get(body.at)
        if ping is None or ping.host != message.envelope.host:
            return []
        del self._pings[body.at]
        rtt_ms = (now.mono - ping.sent_at) * 1000
        offset_ms = message.envelope.ts - now.wall + round(rtt_ms / 2)
        return [Resolve(ping.call, PongHeard(ping.host, rtt_ms, body.version, offset_ms))]

    def ping_refused(self, host: HostId, reason: str, now: Now) -> list[Action]:
        """A refusal by a host that we ping is as good as its answer."""
        actions: list[Action] = []
        for at in [at for at, ping in self._pings.items() if ping.host == host]:
            ping = self._pings.pop(at)
            rtt_ms = (now.mono - ping.sent_at) * 1000
            actions.append(Resolve(ping.call, PongHeard(host, rtt_ms, "", 0, refused=reason)))
        return actions

    def end_ping(self, call: int) -> None:
        self._pings = {at: ping for at, ping in self._pings.items() if ping.call != call}
