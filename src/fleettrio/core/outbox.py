"""The sender's side: one row per message and recipient, from `accepted` to the recipient's last word.

Rules:
1. A sender's clock never says more than `unknown`, except of a question: that its turn is over, nobody knows better
   (`turns`). Only the recipient's host says what became of a message (`said` has what counts when).
2. A REPLY counts as `injected`.
3. What is not known is asked for (QUERY), what must not happen any more is called back (RECALL): at `expiresAt` + 30 s,
   on cancel, and whenever the host is heard again.
4. Open rows are here; a row that has its word is in the store alone (and, for a moment, among the recent ones).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from fleettrio.core.actions import Action, Note
from fleettrio.core.calls import NO_VERDICT_YET
from fleettrio.core.openrows import GRACE_MS, LOOK, LOOK_S, OpenRows, bound_of
from fleettrio.core.roster import Roster
from fleettrio.core.rows import AUTO, Key, SentRow, SentState
from fleettrio.core.said import (
    READ,
    TURN,
    VIEW_WORDS,
    WAITING_STATES,
    Word,
    contradiction,
    is_open,
    is_refusal,
    made_of,
)
from fleettrio.core.timers import Timers, at_wall
from fleettrio.core.waits import Waits
from fleettrio.ids import HostId, MsgId, Now, Seconds, WallMs
from fleettrio.wire.envelope import Kind

__all__ = ("CALLED_BACK", "PARTLY", "Outbox")

LOOK_AGAIN_S = 1.0
FORGET_MS = 31 * 24 * 60 * 60 * 1000
PARTLY_S = 2.0
PARTLY = "partly"
"""Why it is not known who has a broadcast: the inbox of one member was full at the broker."""
_UNDECIDED = NO_VERDICT_YET | {SentState.OUTCOME_UNKNOWN}
_NOTHING_SAID = {"reason": "", "detail": "", "said_by": ""}
_MAY_FAIL = NO_VERDICT_YET | {SentState.OUTCOME_UNKNOWN, SentState.UNKNOWN}
CALLED_BACK = frozenset({Kind.SEND, Kind.REPLY, Kind.ASK, Kind.ANSWER, Kind.BROADCAST})
_ASKED_FOR = CALLED_BACK | {Kind.SPAWN, Kind.STOP, Kind.PAUSE}
"""What was asked of a host has a word there, too; it is not called back: another request undoes it."""
_TOLD = _ASKED_FOR | {Kind.COORD}
"""Kinds whose recipient's host owes a word. Of coordination it is waited for only: nothing asks or calls back there."""


class Outbox(OpenRows):
    def __init__(self, rows: Iterable[SentRow], roster: Roster, waits: Waits, timers: Timers) -> None:
        super().__init__(rows, waits, timers)
        self._roster = roster

    def start(self, now: Now) -> list[Action]:
        """After a restart: what was handed over or about to be may have gone out."""
        actions: list[Action] = []
        for row in list(self.rows.values()):
            self._arm(row, now)
            if row.state in NO_VERDICT_YET and not row.is_promised:
                actions += self._change(row, now, state=SentState.OUTCOME_UNKNOWN, reason="gateway-restarted")
        return actions

    # --- the publish

    def written(self, keys: Iterable[Key]) -> None:
        """Handed to the socket. In memory only: a row found `accepted` at start-up is treated as written."""
        for key in keys:
            row = self.rows.get(key)
            if row and row.state is SentState.ACCEPTED:
                self.rows[key] = msgspec.structs.replace(row, state=SentState.WRITTEN)

    def verdict(self, key: Key, verdict: str, detail: str, now: Now) -> list[Action]:
        row = self.get(key)
        if row is None or row.said_by in ("peer", TURN):
            return []
        match verdict:
            case "confirmed" if row.state in _UNDECIDED or row.said_by == "own":
                # After a failure of our own it is another attempt's: the broker has the message all the same.
                if row.is_head:
                    return self._change(row, now, state=SentState.DONE, reason="", detail="", said_by="own")
                # Lost with this process, it reads as written, and its host is asked: it needs no commit of its own.
                can_wait = row.state in NO_VERDICT_YET
                confirmed = self._change(row, now, can_wait, state=SentState.CONFIRMED, **_NOTHING_SAID)
                if row.kind in _ASKED_FOR:
                    self._timers.set_if_unset(LOOK, Seconds(now.mono + LOOK_S))
                return confirmed
            case "nacked" if row.kind == Kind.BROADCAST:
                return self._partly(row, detail, now)
            case "unroutable" | "nacked":
                return self.fail(key, verdict, detail, now)
            case "outcome-unknown" if row.state in NO_VERDICT_YET:
                reason = detail or "no confirm from broker"
                return self._change(row, now, state=SentState.OUTCOME_UNKNOWN, reason=reason)
        return []

    def _partly(self, row: SentRow, detail: str, now: Now) -> list[Action]:
        """An inbox took no more, and nobody says whose: the others have it. Their hosts are asked in a moment."""
        if row.state not in _UNDECIDED:
            return []
        if not row.is_head:
            self._timers.set(("partly", row.msg_id, row.gid), Seconds(now.mono + PARTLY_S))
        return self._change(row, now, state=SentState.OUTCOME_UNKNOWN, reason=PARTLY, detail=detail)

    def fail(self, key: Key, reason: str, detail: str, now: Now) -> list[Action]:
        """Our own gateway says that it did not go out, or that nobody took it."""
        row = self.rows.get(key)
        if row is None or row.said_by == "peer" or row.state not in _MAY_FAIL:
            return []
        return self._change(row, now, state=SentState.FAILED, reason=reason, detail=detail, said_by="own")

    def lost(self, row: SentRow, reason: str, detail: str, now: Now) -> list[Action]:
        """The broker had it, and lost it: what the recipient's host says of it yet still counts."""
        return self._change(row, now, state=SentState.FAILED, reason=reason, detail=detail, said_by="own")

    def turn_over(
        self, row: SentRow, state: SentState, reason: str, detail: str, now: Now, *, owes: str = ""
    ) -> list[Action]:
        """The turn that asked `row` waits no longer. `owes`: the notice about it that its host is to get."""
        return self._change(row, now, state=state, reason=reason, detail=detail, said_by=TURN, owes=owes)

    def paid(self, row: SentRow, now: Now) -> list[Action]:
        """Its host has the notice that it was owed."""
        return self._change(row, now, owes="", at=row.at)

    # --- words about it

    def word(self, row: SentRow, word: Word, said_by: str, now: Now) -> list[Action]:
        """The recipient's host (`peer`), the dead-letter reporter (`report`) or we (`own`) say what became of `row`."""
        if row.said_by == TURN:
            return []
        if word.state in VIEW_WORDS:
            return self._view_word(row, word.state, word.reason or word.state, now)
        if row.kind == Kind.ASK and word.state == SentState.DRAINED:  # its answer is what counts
            return self._view_word(row, "offered", word.reason or "offered", now)
        made = made_of(row, word, said_by)
        if isinstance(made, Note):
            return [made]
        return self._change(row, now, **made) if made else []

    def answered(self, row: SentRow, by: MsgId, now: Now, *, auto: bool = False) -> list[Action]:
        """A REPLY came: whatever else was said, the agent has read it."""
        if row.said_by == "peer" and row.state not in READ and not is_refusal(row):
            return [contradiction(row, "answered"), *self._change(row, now, answered_by=by)]
        state = SentState.DRAINED if row.state is SentState.DRAINED else SentState.INJECTED
        return self._change(
            row,
            now,
            state=state,
            reason="",
            detail="",
            said_by="peer",
            answered_by=by,
            answer=AUTO if auto else "",
            recalling=False,
        )

    # --- asking and calling back

    def wants_recall(self, row: SentRow) -> bool:
        """True while calling it back can still change what becomes of it."""
        return row.kind in CALLED_BACK and is_open(row) and not row.is_head

    def recall(self, row: SentRow, now: Now) -> list[Action]:
        """From now on RECALL is due whenever the host is heard."""
        return self._change(row, now, recalling=True)

    def to_ask(self, host: HostId) -> list[SentRow]:
        """Rows whose fate `host` is asked for once it is heard in a new session."""
        theirs = [r for r in self.rows.values() if r.to_host == host and r.kind in _ASKED_FOR]
        return [r for r in theirs if not r.recalling and self._wants_word(r)]

    def to_recall(self, host: HostId) -> list[SentRow]:
        return [r for r in self.rows.values() if r.to_host == host and r.recalling and self.wants_recall(r)]

    def bound_passed(self, key: Key, now: Now) -> tuple[SentRow | None, list[Action]]:
        """`expiresAt` + 30 s: without a final word it reads `unknown`, and is called back.

        31 days later it leaves memory; the store forgets it then, too.
        """
        row = self.rows.get(key)
        if row is None:
            return None, []
        if now.wall < row.expires_at + GRACE_MS:
            self._arm(row, now)
            return None, []
        if now.wall >= row.expires_at + FORGET_MS:
            self.forget(key)
            return None, []
        if row.is_head:  # its members have been asked for; of the publish itself nothing more is heard
            return None, self._change(row, now, state=SentState.DONE, said_by="own")
        self._timers.set(("bound", *key), at_wall(WallMs(row.expires_at + FORGET_MS), now))
        if not self._wants_word(row):
            return None, []
        wants_recall = self.wants_recall(row)
        if row.state is SentState.HELD and wants_recall:  # the recipient's word is not taken back by a clock
            changed = self._change(row, now, recalling=True)
        else:  # coordination that was held has come to some end by now, and nobody can be asked which
            unknown = {"state": SentState.UNKNOWN, "reason": _no_word(row), "said_by": "", "recalling": wants_recall}
            changed = self._change(row, now, **unknown)
        return self.rows[key], changed

    def look(self, now: Now) -> tuple[list[SentRow], list[Action]]:
        """Look at all open rows. Those are to be asked for: 60 s without a word though the recipient could take it.

        Not what lies on this host itself: its word comes with its end, and nobody else knows more.
        """
        silent: list[SentRow] = []
        again_s = math.inf
        for key, row in self.rows.items():
            self._timers.set_if_unset(("bound", *key), bound_of(row, now))
            if row.state is SentState.CONFIRMED and row.kind in _ASKED_FOR and key not in self._local_views:
                since_ms = now.wall - row.at
                left_s = LOOK_S - since_ms / 1000 if since_ms >= 0 else 0.0  # the clock was turned back: at once
                if left_s > 0:
                    again_s = min(again_s, max(left_s, LOOK_AGAIN_S))
                elif self._could_take(row, now):
                    silent.append(row)
                else:
                    again_s = min(again_s, LOOK_S)
        if again_s < math.inf:
            self._timers.set(LOOK, Seconds(now.mono + again_s))
        unknown = [self._change(row, now, state=SentState.UNKNOWN, reason=_no_word(row)) for row in silent]
        return silent, [action for actions in unknown for action in actions]

    def _could_take(self, row: SentRow, now: Now) -> bool:
        if self._roster.is_own(row.to_host):
            return False
        other = self._roster.others.get(row.gid)
        return not self._roster.is_silent(row.to_host, now.wall) and (other is None or other.status == "idle")

    # --- inside

    def _view_word(self, row: SentRow, state: str, note: str, now: Now) -> list[Action]:
        key = row.key
        if key not in self.rows:
            return []
        self._local_views[key] = note
        if row.state in (SentState.OUTCOME_UNKNOWN, SentState.UNKNOWN) and state != "absent":
            return self._change(row, now, state=SentState.CONFIRMED, reason="", detail="")
        return []

    def _wants_word(self, row: SentRow) -> bool:
        if row.is_head or row.kind not in _TOLD:
            return False
        return row.state in WAITING_STATES or row.state is SentState.HELD


def _no_word(row: SentRow) -> str:
    return f"no word from {row.to_host}"
