"""Turns of this host that wait for an answer: the asker's side of ask and answer, once a question (`questions`) is out.

    (nothing) ──ask──► waits ──ANSWER──► answered
                         ├──nobody listens there──► failed(no-waiter)
                         ├──expiresAt──► expired
                         ├──its link was lost, and the host asked has never seen it──► failed(lost-with-broker)
                         └──its client gone, 90 s without a call, its agent's turn over, this process ended──► abandoned

Rules:
1. A question is live: nothing of it outlives its turn. Who turns away first tells the host that was asked (ABANDONED),
   which takes the question from its list; that notice is owed until it is confirmed.
2. The first ANSWER wins. It is the result of the call that waits, now or at its next poll. Only an asker that has no
   call to wait in gets it put in, while its turn waits.
3. An ANSWER to a turn that does not wait, or has its answer, is dropped and told (TOO_LATE). One to something that was
   never asked of its sender is refused `not-party`.
4. An open call is the best sign that a turn waits: whoever has one is not judged by what its screen says.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fleettrio.core.actions import Action, Commit, Resolve
from fleettrio.core.calls import Accepted, WaitCall
from fleettrio.core.compose import Identity
from fleettrio.core.entity import Entity
from fleettrio.core.events import AgentSeen
from fleettrio.core.gate import End, Verdict
from fleettrio.core.inbox import Inbox
from fleettrio.core.notices import TOO_LATE
from fleettrio.core.outbox import Outbox
from fleettrio.core.owed import Owed
from fleettrio.core.refusals import Refused
from fleettrio.core.requests import AskAsked, CallAgain, CallEnded, CancelAsked
from fleettrio.core.roster import Roster
from fleettrio.core.rows import ANSWERED, CALL, InboxRow, InboxState, Key, SentRow, SentState
from fleettrio.core.said import is_open
from fleettrio.core.timers import Timers, at_wall
from fleettrio.core.waits import Waits
from fleettrio.ids import Gid, MsgId, Now, Seconds, WallMs
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("ABANDONED", "LOST", "Turns")

ABANDONED = "abandoned"
LOST = "lost-with-broker"
POLL_S = 90.0
"""A turn whose client does not call again for so long does not wait any more."""


class _Turn(msgspec.Struct):
    key: Key
    """The question, and who was asked."""
    gid: Gid
    """Who asked."""
    expires_at: WallMs
    has_call: bool
    call: int | None = None
    """The call that waits now."""
    session: str = ""
    """Whose call that is, or was, unless it ended with "call again"."""
    until: Seconds = Seconds(0.0)
    """Without a call until then it is over."""
    answer: Key | None = None


class Turns:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        outbox: Outbox,
        inbox: Inbox,
        waits: Waits,
        timers: Timers,
        owed: Owed,
    ) -> None:
        self._me = me
        self._roster = roster
        self._outbox = outbox
        self._inbox = inbox
        self._ledger = inbox.ledger
        self._waits = waits
        self._timers = timers
        self._owed = owed
        self._turns: dict[Key, _Turn] = {}
        self._lost: set[Key] = set()
        """Questions and answers that went out in an earlier session: the broker may have lost them."""

    # --- the calls of whoever asked

    def begin(self, key: Key, event: AskAsked, expires_at: WallMs, now: Now) -> None:
        """A question goes out: from now on its turn waits."""
        turn = _Turn(key, event.sender, expires_at, event.has_call)
        turn.session = event.session if event.has_call else ""
        turn.until = Seconds(now.mono + POLL_S)
        self._turns[key] = turn
        self._arm(turn, now)

    def polled(self, wait: WaitCall, now: Now) -> None:
        """A call begins to wait for the answers to these."""
        for turn in self._among(wait.rows):
            turn.call, turn.session = wait.call, wait.session
            self._arm(turn, now)

    def poll_over(self, wait: WaitCall, now: Now) -> None:
        """That call has a result; its client may call again."""
        for turn in self._among(wait.rows):
            turn.call, turn.until = None, Seconds(now.mono + POLL_S)
            self._arm(turn, now)

    def call_ended(self, event: CallEnded, now: Now) -> list[Action]:
        """A call was given up; with its client gone, so are the turns that waited in it."""
        actions: list[Action] = []
        for turn in list(self._turns.values()):
            if event.call is not None and turn.call == event.call:
                turn.call, turn.until = None, Seconds(now.mono + POLL_S)
                self._arm(turn, now)
            if event.gone and turn.session == event.session:
                actions += self._end(turn, ABANDONED, "the command that asked was ended", now)
        return actions

    def call_again(self, event: CallAgain) -> None:
        """Its client may take a new connection for the next call."""
        for turn in self._turns.values():
            if turn.session == event.session:
                turn.session = ""

    def _among(self, rows: Iterable[Key]) -> list[_Turn]:
        return [turn for key in rows if (turn := self._turns.get(key)) is not None]

    # --- what comes

    def take(self, message: VerifiedEnvelope, gid: Gid, asked: SentRow | None, now: Now) -> list[Action]:
        """An ANSWER to the question `asked` (None: there is none such). Raises `Refused`."""
        envelope = message.envelope
        if (
            asked is None
            or asked.kind != Kind.ASK
            or asked.sender != gid
            or not envelope.turn_id
            or asked.turn_id != envelope.turn_id
        ):
            raise Refused("not-party", "nothing was asked of the one who answers")
        turn = self._turns.get(asked.key)
        row = self._inbox.intake.control_row(message, gid, now)
        commit = Commit(row, message.header, message.body, message.sig, message.proof)
        if turn is None or turn.answer or not is_open(asked):
            detail = ANSWERED if asked.answered_by or (turn and turn.answer) else ""
            return [commit, *self._ledger.finish(row, now, InboxState.FAILED, reason=TOO_LATE, detail=detail)]
        row = msgspec.structs.replace(row, when=CALL if turn.has_call else "now")
        turn.answer = (row.msg_id, gid)
        self._ledger.wait(row, now)
        return [
            msgspec.structs.replace(commit, row=row),
            *self._land(turn, row, now),
            *self._outbox.answered(asked, row.msg_id, now),
        ]

    def _land(self, turn: _Turn, row: InboxRow, now: Now) -> list[Action]:
        """First the answer is offered to its call; marking the question answered would end that call."""
        if turn.has_call:
            wait = self._waits.answer_wait(row.gid, row.re, row.sender)
            if wait is None:
                return []
            self.poll_over(wait, now)
            return self._inbox.offers.answer(wait, [row], now)
        entity = self._roster.entities[row.gid]
        if entity.takes == "push":
            return self._inbox.forward.pump(row.gid, now)
        pull = self._waits.pull_for(row.gid, row.sender)
        return self._inbox.offers.pull(pull, now) if pull else []

    def judge(self, row: InboxRow, now: Now) -> Verdict | None:
        """A judge of `gate`: an answer lands only while its turn waits."""
        if row.kind != Kind.ANSWER or (row.re or MsgId(""), row.sender) in self._turns:
            return None
        return End(InboxState.FAILED, TOO_LATE)

    def absent(self, row: SentRow, now: Now) -> list[Action]:
        """The host asked has never seen it: after a lost session it is lost; else it may still be on its way."""
        key = row.key
        if key not in self._lost:
            return []
        self._lost.discard(key)
        if not is_open(row):
            return []
        if turn := self._turns.get(key):
            return self._end(turn, LOST, f"the link was lost, and {row.to_host} has never seen it", now)
        return self._outbox.lost(row, LOST, f"{row.to_host} has never seen it", now)

    # --- ends

    def start(self, rows: Iterable[SentRow], now: Now) -> list[Action]:
        """The last process asked these: its turns are over."""
        actions: list[Action] = []
        for row in rows:
            if row.owes == ABANDONED:
                actions += self._owed.owe(row, now)
            elif row.kind == Kind.ANSWER and is_open(row):
                self._lost.add(row.key)
            elif row.kind == Kind.ASK and is_open(row):
                actions += self._close(self._outbox.get(row.key) or row, ABANDONED, "restarted", now)
        return actions

    def session_closed(self) -> None:
        """What is open was handed to a broker that may have lost it."""
        live = (Kind.ASK, Kind.ANSWER)
        self._lost = {row.key for row in self._outbox.open_rows() if row.kind in live and row.to_host != self._me.host}

    def seen(self, before: Entity, event: AgentSeen, now: Now) -> list[Action]:
        """An agent was seen: idle after work, or gone, its turn is over. Who has a call to wait in has better proof."""
        was_at_work = before.shown and before.status == "working"  # and not only thought to be
        is_idle = was_at_work and event.status == "idle"
        is_over = is_idle or event.status in ("away", "stopping", "gone")
        turns = [turn for turn in self._turns.values() if is_over and turn.gid == before.gid and not turn.has_call]
        return [action for turn in turns for action in self._end(turn, ABANDONED, "its turn is over", now)]

    def cancel(self, event: CancelAsked, now: Now) -> list[Action]:
        """Whoever asked wants no answer any more."""
        key = event.row.key
        turn = self._turns.get(key)
        ended = self._end(turn, ABANDONED, "", now) if turn else []
        return [*ended, Resolve(event.call, Accepted((self._outbox.get(key) or event.row,)))]

    def due(self, name: tuple[str, ...], now: Now) -> list[Action]:
        """The timer of a turn went off."""
        turn = self._turns.get((MsgId(name[0]), Gid(name[1])))
        if turn is None:
            return []
        if turn.expires_at <= now.wall:
            return self._end(turn, "", "", now)
        if turn.has_call and turn.call is None and turn.until <= now.mono:
            return self._end(turn, ABANDONED, f"its client did not call again for {POLL_S:.0f} s", now)
        self._arm(turn, now)
        return []

    def _arm(self, turn: _Turn, now: Now) -> None:
        moment = at_wall(turn.expires_at, now)
        if turn.has_call and turn.call is None:
            moment = min(moment, turn.until)
        self._timers.set(("turn", *turn.key), moment)

    def _end(self, turn: _Turn, reason: str, detail: str, now: Now) -> list[Action]:
        """It waits no longer; without a `reason` its time is over."""
        del self._turns[turn.key]
        self._timers.cancel(("turn", *turn.key))
        if turn.answer is not None:
            row = self._ledger.rows.get(turn.answer)
            if row is None or row.state is not InboxState.WAITING:
                return []
            return self._ledger.finish_undelivered(row, now, InboxState.FAILED, TOO_LATE)
        asked = self._outbox.get(turn.key)
        return self._close(asked, reason, detail, now) if asked is not None and is_open(asked) else []

    def _close(self, asked: SentRow, reason: str, detail: str, now: Now) -> list[Action]:
        if not reason:
            return self._outbox.turn_over(asked, SentState.EXPIRED, "", "", now)
        closed = self._outbox.turn_over(asked, SentState.FAILED, reason, detail, now, owes=ABANDONED)
        return [*closed, *self._owed.owe(self._outbox.get(asked.key) or asked, now)]
