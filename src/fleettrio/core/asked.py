"""Questions asked of the entities here: the recipient's side of ask and answer.

    (nothing) ──ASK, somebody listens──► waiting ──a call takes it──► offered ──answer──► drained
        │                                   ▲                            │
        │                                   └──its client died───────────┘   (marked: may be a repeat)
        ├──ASK, nobody listens──► failed(no-waiter)
        └──ABANDONED overtook it──► tombstone ──ASK──► recalled(abandoned)
    waiting, offered ──expiresAt──► expired · ──ABANDONED──► recalled · ──this process ended──► failed(no-waiter)

Rules:
1. Only a call takes a question: one that waits now, or the next one of a client whose last call ended with "call again"
   less than 90 s ago. It is never put into an agent, and not kept for anybody who may come later.
2. A question that its client has stays `offered` until its answer. Only the one who was asked answers.
3. Which answer is the first, and whether its turn still waits, is decided where the question came from. So a second one
   goes out, too: the first may be lost.
4. Whoever asked is told at once that nobody listens (NO_WAITER); what ends in another way it knows by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fleettrio.core.actions import Ack, Action, Commit, Fail, Note, Record, Reject
from fleettrio.core.bodies import unfit
from fleettrio.core.calls import PullCall, WaitCall
from fleettrio.core.compose import Identity, message
from fleettrio.core.gate import Hold
from fleettrio.core.guard import LOOP
from fleettrio.core.inbox import Inbox
from fleettrio.core.live import Live
from fleettrio.core.lookups import LookUps
from fleettrio.core.notices import BACKLOG, NO_WAITER, TOO_LATE, Notices
from fleettrio.core.requests import AnswerAsked, CallAgain
from fleettrio.core.roster import Roster
from fleettrio.core.rows import CALL, InboxRow, InboxState, SentRow
from fleettrio.core.timers import Timers, at_wall
from fleettrio.core.tombstones import of_abandoned
from fleettrio.core.turns import ABANDONED, Turns
from fleettrio.core.waits import Waits
from fleettrio.errors import EXPIRED, FAILED, USAGE
from fleettrio.ids import Gid, MsgId, Now, Seconds, Tag, TurnId
from fleettrio.wire.bodies import TurnNotice
from fleettrio.wire.envelope import Kind, default_lifetime_ms
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("Asked",)

AGAIN_S = 90.0
"""So long a client that was told to call again may take."""
MOST_OPEN = 100
"""Questions to one entity at a time."""

PAUSED = "paused"
"""Why a question is not put to an agent that listens."""


class Asked:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        live: Live,
        inbox: Inbox,
        notices: Notices,
        lookups: LookUps,
        waits: Waits,
        timers: Timers,
        turns: Turns,
        body_limit: int,
    ) -> None:
        self._me = me
        self._roster = roster
        self._live = live
        self._inbox = inbox
        self._ledger = inbox.ledger
        self._notices = notices
        self._lookups = lookups
        self._waits = waits
        self._timers = timers
        self._turns = turns
        self._body_limit = body_limit
        self._again: dict[str, tuple[Gid, Seconds]] = {}
        """Sessions that were told to call again: who, and when."""

    def start(self, rows: Iterable[InboxRow], now: Now) -> list[Action]:
        """Questions and answers that the last process left: their calls are gone."""
        actions: list[Action] = []
        for row in rows:
            if row.state.is_open and row.kind == Kind.ASK:
                actions += self._no_waiter(row, "restarted", now)
            elif row.state is InboxState.WAITING:
                actions += self._ledger.finish_undelivered(row, now, InboxState.FAILED, TOO_LATE)
            elif row.state.is_open:
                reason = "offered" if row.state is InboxState.OFFERED else "crashed"
                actions += self._ledger.finish(row, now, InboxState.UNCONFIRMED, reason=reason)
            elif not row.notified:
                actions += self._notices.owe(row, now)
        return actions

    # --- a question comes

    def arrive(self, message: VerifiedEnvelope, gid: Gid, now: Now) -> list[Action]:
        """Show it to somebody who listens, or tell its host that nobody does."""
        row = msgspec.structs.replace(
            self._inbox.intake.control_row(message, gid, now),
            when=CALL,
            notified=not self._notices.is_owed(message.envelope.host),
        )
        commit = Commit(row, message.header, message.body, message.sig, message.proof)
        if self._ledger.is_full(gid) or sum(1 for _ in self.open_of(gid)) >= MOST_OPEN:
            return [commit, *self._no_waiter(row, BACKLOG, now)]
        if said := self._inbox.guard.too_deep(row):
            return [commit, *said, *self._no_waiter(row, LOOP, now)]
        if not self._listens(gid, row.sender, now):
            return [commit, *self._no_waiter(row, "", now)]
        match self._inbox.gate.judge(row, now):
            case Hold(until=None):  # a question does not wait: its asker is told why it cannot be put
                return [commit, *self._no_waiter(row, PAUSED, now)]
        self._ledger.wait(row, now)
        shown = self._show(row, now)
        current = self._ledger.rows.get((row.msg_id, gid), row)
        self._arm(current, now)
        return [commit, *shown, *self._notices.owe(current, now)]

    def open_of(self, gid: Gid) -> Iterable[InboxRow]:
        """The questions to `gid` that have no answer yet."""
        return (row for row in self._ledger.rows.values() if row.gid == gid and row.kind == Kind.ASK)

    def _listens(self, gid: Gid, sender: Gid, now: Now) -> bool:
        if self._waits.listener(gid, sender) or self._waits.pull_for(gid, sender):
            return True
        return self._last_again(gid) + AGAIN_S > now.mono

    def _last_again(self, gid: Gid) -> float:
        return max((at for who, at in self._again.values() if who == gid), default=float("-inf"))

    def _show(self, row: InboxRow, now: Now) -> list[Action]:
        if wait := self._waits.listener(row.gid, row.sender):
            return self._show_to(wait, now)
        pull = self._waits.pull_for(row.gid, row.sender)
        return self._inbox.offers.pull(pull, now) if pull else []

    def _show_to(self, wait: WaitCall, now: Now) -> list[Action]:
        actions = self._inbox.offers.ask(wait, now)
        if not self._waits.is_waiting(wait.call):  # it has the question and is about to call again
            self._again[wait.session] = (wait.gid, now.mono)
            self._turns.poll_over(wait, now)
        return actions

    # --- the calls of whoever may be asked

    def call_began(self, call: WaitCall | PullCall, now: Now) -> list[Action]:
        """A call waits: it is shown what was asked while its client was on its way back."""
        self._again.pop(call.session, None)
        is_pending = any(row.state is InboxState.WAITING for row in self.open_of(call.gid))
        return self._show_to(call, now) if is_pending and isinstance(call, WaitCall) else []

    def call_again(self, event: CallAgain, now: Now) -> None:
        self._again = {name: (gid, at) for name, (gid, at) in self._again.items() if at + AGAIN_S > now.mono}
        self._again[event.session] = (event.gid, now.mono)

    # --- answering

    def answer(self, event: AnswerAsked, now: Now) -> list[Action]:
        key = event.question.key
        asked = self._ledger.get(key) or event.question
        if refused := self._why_not(event, asked, now):
            return [refused]
        if asked.from_host != self._me.host:
            return self._answer(event, asked, None, now)

        def then(_: Sequence[InboxRow | None], sent: Sequence[SentRow | None], now: Now) -> list[Action]:
            return self._answer(event, asked, sent[0], now)

        return self._lookups.look_up((), (key,), then, now)

    def _answer(self, event: AnswerAsked, asked: InboxRow, sent: SentRow | None, now: Now) -> list[Action]:
        envelope = message(
            self._me,
            Kind.ANSWER,
            self._roster.entities[event.sender],
            asked.sender,
            msg_id=event.msg_id,
            trace_id=asked.trace_id,
            expires_in_ms=default_lifetime_ms(Kind.ANSWER),
            now=now,
            re=asked.msg_id,
            turn_id=TurnId(asked.turn_id),
            depth=asked.depth + 1,
        )
        given = self._live.give(
            event.call,
            envelope,
            event.body,
            asked.sender,
            asked.from_host,
            lambda answer, now: self._turns.take(answer, asked.sender, sent, now),
            now,
        )
        return [*self._end(asked, InboxState.DRAINED, "", now, via="answer"), *given]

    def _why_not(self, event: AnswerAsked, asked: InboxRow, now: Now) -> Fail | None:
        call = event.call
        if asked.kind != Kind.ASK:
            return Fail(call, USAGE, "not-a-question", "that is not a question", "fleettrio reply ID 'TEXT'")
        if asked.gid != event.sender or event.sender not in self._roster.entities:
            name = self._roster.address(asked.gid, self._me.host)
            return Fail(call, FAILED, "not-yours", f"it was asked of {name}, and only {name} can answer it")
        if asked.state.is_final and asked.state is not InboxState.DRAINED:
            why = asked.reason or str(asked.state)
            text = f"too late: whoever asked does not wait any more ({why})"
            return Fail(call, EXPIRED if asked.state is InboxState.EXPIRED else FAILED, TOO_LATE, text)
        if failed := unfit(call, event.body, self._body_limit, "answer"):
            return failed
        if asked.from_host == self._me.host and asked.sender not in self._roster.entities:
            return Fail(call, FAILED, "recipient-gone", "the one who asked is not on this host any more")
        return self._live.refuse(call, Kind.ANSWER, asked.from_host, now)

    # --- ends

    def abandoned(self, tag: Tag, message: VerifiedEnvelope, now: Now) -> list[Action]:
        """The host that asked says that its turn is over. It counts for what that host asked, and nothing else."""
        envelope = message.envelope
        told = TurnNotice.from_bytes(message.body)
        key = (envelope.re or MsgId(""), Gid(told.gid))

        def then(rows: Sequence[InboxRow | None], _: Sequence[SentRow | None], now: Now) -> list[Action]:
            row = self._ledger.get(key) or rows[0]
            if row is None and key[1] in self._roster.entities:
                grave = of_abandoned(key, envelope, ABANDONED, now)
                self._ledger.recent.put(key, grave)
                return [Record(grave), Ack(tag)]
            if row is None or row.from_host != envelope.host or row.turn_id != envelope.turn_id:
                note = Note("not-party", key[0], key[1], envelope.trace_id, envelope.host, ABANDONED)
                return [note, Reject(tag)]
            return [*self._end(row, InboxState.RECALLED, ABANDONED, now), Ack(tag)]

        return self._lookups.look_up((key,), (), then, now)

    def abandoned_here(self, asked: SentRow, now: Now) -> list[Action]:
        """A neighbour's turn is over."""
        row = self._ledger.rows.get(asked.key)
        return self._end(row, InboxState.RECALLED, ABANDONED, now) if row else []

    def due(self, name: tuple[str, ...], now: Now) -> list[Action]:
        """The timer of a question went off."""
        row = self._ledger.rows.get((MsgId(name[0]), Gid(name[1])))
        if row is None:
            return []
        if row.expires_at <= now.wall:
            return self._end(row, InboxState.EXPIRED, "", now)
        if row.state is InboxState.WAITING and not self._listens(row.gid, row.sender, now):
            return self._no_waiter(row, "", now)
        self._arm(row, now)
        return []

    def _arm(self, row: InboxRow, now: Now) -> None:
        again = self._last_again(row.gid) + AGAIN_S
        look = again if row.state is InboxState.WAITING and again > now.mono else now.mono + AGAIN_S
        self._timers.set(("question", row.msg_id, row.gid), min(at_wall(row.expires_at, now), Seconds(look)))

    def _no_waiter(self, row: InboxRow, why: str, now: Now) -> list[Action]:
        return self._end(row, InboxState.FAILED, NO_WAITER, now, detail=why, tell=True)

    def _end(
        self,
        row: InboxRow,
        state: InboxState,
        reason: str,
        now: Now,
        *,
        detail: str = "",
        via: str = "",
        tell: bool = False,
    ) -> list[Action]:
        if not row.state.is_open:
            return []
        self._inbox.offers.forget(row)
        self._timers.cancel(("question", row.msg_id, row.gid))
        ended = self._ledger.finish(row, now, state, reason=reason, detail=detail, via=via, tell=tell)
        return [*ended, *self._ledger.check_full(row.gid, now)]
