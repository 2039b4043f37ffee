"""The sender's side: one row per message and recipient, from `accepted` to the recipient's last word.

Rules:
1. A sender's clock never says more than `unknown`. Only the recipient's host says what became of a message; a
   reporter's or our own `failed`, and a refusal, yield to that word.
2. The first final word of the recipient stands. The only steps between its words are `held` → anything,
   `unconfirmed` → `injected`. Another one is a contradiction: noted, alarmed, ignored. A REPLY counts as `injected`.
3. What is not known is asked for (QUERY), what must not happen any more is called back (RECALL): at `expiresAt` + 30 s,
   on cancel, and whenever the host is heard again.
4. Open rows are here; a row that has its word is in the store alone (and, for a moment, among the recent ones).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from fleettrio.core.actions import Action, Note, RecordSent
from fleettrio.core.calls import NO_VERDICT_YET, Key, Waits
from fleettrio.core.recent import Recent
from fleettrio.core.roster import Roster
from fleettrio.core.rows import SentRow, SentState
from fleettrio.core.timers import EPOCH, Timers, at_wall
from fleettrio.ids import HostId, MsgId, Now, Seconds, WallMs
from fleettrio.wire.envelope import Kind

__all__ = ("FINAL_WORDS", "PEER_STEPS", "REFUSED", "VIEW_WORDS", "Outbox", "is_open")

GRACE_MS = 30_000
FORGET_MS = 31 * 24 * 60 * 60 * 1000
SILENCE_S = 60.0
UNDO_RETRY_S = 5.0
REFUSED = "refused: "
"""How the reason of a refusal begins: the host did not take the message in, and may do so yet."""

WAITING_STATES = frozenset({SentState.OUTCOME_UNKNOWN, SentState.CONFIRMED, SentState.UNKNOWN})
FINAL_WORDS = frozenset(
    {
        SentState.INJECTED,
        SentState.DRAINED,
        SentState.EXPIRED,
        SentState.RECALLED,
        SentState.SUPERSEDED,
        SentState.FAILED,
    }
)
WORDS = FINAL_WORDS | {SentState.HELD, SentState.UNCONFIRMED}
"""All that another host can say about a message; and what only changes the view:"""
VIEW_WORDS = frozenset({"absent", "waiting", "injecting", "offered"})
PEER_STEPS: dict[SentState, frozenset[SentState]] = {
    SentState.HELD: FINAL_WORDS | {SentState.UNCONFIRMED},
    SentState.UNCONFIRMED: frozenset({SentState.INJECTED}),
}
"""Words of the recipient's host that may follow an earlier word of the same host."""
READ = frozenset({SentState.HELD, SentState.UNCONFIRMED, SentState.INJECTED, SentState.DRAINED})
"""Words that agree with an answer that has come."""
_MAY_FAIL = NO_VERDICT_YET | {SentState.OUTCOME_UNKNOWN, SentState.UNKNOWN}
_ASKED_FOR = frozenset({Kind.SEND, Kind.REPLY, Kind.BROADCAST, Kind.COORD})


def is_open(row: SentRow) -> bool:
    """True while the fate of the message is not known."""
    return row.state in WAITING_STATES or row.state in NO_VERDICT_YET or row.state is SentState.HELD


class Outbox:
    def __init__(self, rows: Iterable[SentRow], roster: Roster, waits: Waits, timers: Timers) -> None:
        self.rows: dict[Key, SentRow] = {(r.msg_id, r.gid): r for r in rows if is_open(r)}
        self._recent: Recent[SentRow] = Recent()
        self._roster = roster
        self._waits = waits
        self._timers = timers
        self._local_views: dict[Key, str] = {}
        """What a QUERY was answered with that changes only the view."""

    def start(self, now: Now) -> list[Action]:
        """After a restart: what was handed over or about to be may have gone out."""
        actions: list[Action] = []
        for row in list(self.rows.values()):
            self._arm(row, now)
            if row.state in NO_VERDICT_YET:
                actions += self._change(row, now, state=SentState.OUTCOME_UNKNOWN, reason="gateway-restarted")
        return actions

    def get(self, key: Key) -> SentRow | None:
        """The row as it is now, where the store may be a moment behind."""
        return self.rows.get(key) or self._recent.get(key)

    def accept(self, row: SentRow, now: Now) -> None:
        """A new message, or a retried one; its row is recorded together with its publish."""
        self._keep(row)
        self._arm(row, now)

    def forget(self, key: Key) -> None:
        """As if it had never been: it could not be recorded, and not a byte of it left."""
        self.rows.pop(key, None)
        self._recent.drop(key)
        self._drop_open(key)

    def undo(self, row: SentRow, before: SentRow | None, now: Now) -> None:
        """The store could not record `row`: it is what it was."""
        key = (row.msg_id, row.gid)
        self.forget(key)
        if before is not None:
            self._keep(before)
            self._arm(before, now, not_before=Seconds(now.mono + UNDO_RETRY_S))

    def view_note(self, key: Key) -> str:
        return self._local_views.get(key, "")

    # --- the publish

    def written(self, key: Key) -> None:
        """Handed to the socket. In memory only: a row found `accepted` at start-up is treated as written."""
        row = self.rows.get(key)
        if row and row.state is SentState.ACCEPTED:
            self.rows[key] = dataclasses.replace(row, state=SentState.WRITTEN)

    def verdict(self, key: Key, verdict: str, detail: str, now: Now) -> list[Action]:
        row = self.get(key)
        if row is None or row.said_by == "peer":
            return []
        match verdict:
            case "confirmed" if row.state in NO_VERDICT_YET | {SentState.OUTCOME_UNKNOWN} or row.said_by == "own":
                # After a failure of our own it is another attempt's: the broker has the message all the same.
                confirmed = self._change(row, now, state=SentState.CONFIRMED, reason="", detail="", said_by="")
                self._arm(self.rows[key], now)
                self._timers.set(("silence", *key), Seconds(now.mono + SILENCE_S))
                return confirmed
            case "unroutable" | "nacked":
                return self.fail(key, verdict, detail, now)
            case "outcome-unknown" if row.state in NO_VERDICT_YET:
                reason = detail or "no confirm from broker"
                return self._change(row, now, state=SentState.OUTCOME_UNKNOWN, reason=reason)
        return []

    def fail(self, key: Key, reason: str, detail: str, now: Now) -> list[Action]:
        """Our own gateway says that it did not go out, or that nobody took it."""
        row = self.rows.get(key)
        if row is None or row.said_by == "peer" or row.state not in _MAY_FAIL:
            return []
        return self._change(row, now, state=SentState.FAILED, reason=reason, detail=detail, said_by="own")

    # --- words about it

    def word(
        self, row: SentRow, state: str, reason: str, detail: str, via: str, at: WallMs, said_by: str, now: Now
    ) -> list[Action]:
        """The recipient's host (`peer`) or the dead-letter reporter (`report`) says what became of `row`."""
        if state in VIEW_WORDS:
            return self._view_word(row, state, now)
        if state not in WORDS:
            return [_note("unknown-word", row, state)]
        new = SentState(state)
        if row.said_by == "peer" and not _is_refusal(row):
            if new is row.state or said_by != "peer" or new is SentState.HELD:
                return []
            if row.reason.startswith(REFUSED) and new is SentState.RECALLED:
                return []  # refused as expired, and called back when it was over: it was not delivered, say both
            if row.answered_by and new in READ:
                return self._change(row, now, state=new, via=via, at=at) if new is SentState.DRAINED else []
            if new not in PEER_STEPS.get(row.state, frozenset()):
                return [_note("contradiction", row, f"{row.state} then {new}")]
        elif (said_by == "report" and row.said_by in ("report", "peer")) or (
            _is_refusal(row) and reason.startswith(REFUSED)
        ):
            return []
        return self._change(
            row,
            now,
            state=new,
            reason=reason,
            detail=detail,
            via=via,
            said_by=said_by,
            at=at,
            recalling=row.recalling and new is SentState.HELD,
        )

    def answered(self, row: SentRow, by: MsgId, now: Now) -> list[Action]:
        """A REPLY came: whatever else was said, the agent has read it."""
        if row.said_by == "peer" and row.state not in READ and not _is_refusal(row):
            note = _note("contradiction", row, f"{row.state} then answered")
            return [note, *self._change(row, now, answered_by=by)]
        state = SentState.DRAINED if row.state is SentState.DRAINED else SentState.INJECTED
        return self._change(
            row, now, state=state, reason="", detail="", said_by="peer", answered_by=by, recalling=False
        )

    # --- asking and calling back

    def wants_recall(self, row: SentRow) -> bool:
        """True while calling it back can still change what becomes of it."""
        return row.kind in _ASKED_FOR and is_open(row)

    def recall(self, row: SentRow, now: Now) -> list[Action]:
        """From now on RECALL is due whenever the host is heard."""
        return self._change(row, now, recalling=True)

    def to_ask(self, host: HostId) -> list[SentRow]:
        """Rows whose fate `host` is asked for once it is heard in a new session."""
        return [r for r in self.rows.values() if r.to_host == host and not r.recalling and self._wants_word(r)]

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
            self.rows.pop(key)
            self._drop_open(key)
            return None, []
        self._timers.set(("bound", *key), at_wall(WallMs(row.expires_at + FORGET_MS), now))
        if not self._wants_word(row):
            return None, []
        if row.state is SentState.HELD:  # the recipient's word is not taken back by a clock
            changed = self._change(row, now, recalling=True)
        else:
            changed = self._change(row, now, state=SentState.UNKNOWN, reason=_no_word(row), recalling=True)
        return self.rows[key], changed

    def silence_passed(self, key: Key, now: Now) -> tuple[SentRow | None, list[Action]]:
        """60 s without a word though the recipient could have taken it: ask."""
        row = self.rows.get(key)
        if row is None or row.state is not SentState.CONFIRMED or key in self._local_views:
            return None, []
        other = self._roster.others.get(row.gid)
        if self._roster.is_silent(row.to_host, now.wall) or (other and other.status != "idle"):
            self._timers.set(("silence", *key), Seconds(now.mono + SILENCE_S))
            return None, []
        return row, self._change(row, now, state=SentState.UNKNOWN, reason=_no_word(row))

    def open_rows(self) -> Iterator[SentRow]:
        return (r for r in self.rows.values() if is_open(r))

    # --- inside

    def _view_word(self, row: SentRow, state: str, now: Now) -> list[Action]:
        key = (row.msg_id, row.gid)
        if key not in self.rows:
            return []
        self._local_views[key] = state
        if row.state in (SentState.OUTCOME_UNKNOWN, SentState.UNKNOWN) and state != "absent":
            return self._change(row, now, state=SentState.CONFIRMED, reason="", detail="")
        return []

    def _wants_word(self, row: SentRow) -> bool:
        return row.kind in _ASKED_FOR and (row.state in WAITING_STATES or row.state is SentState.HELD)

    def _change(self, row: SentRow, now: Now, **changes: object) -> list[Action]:
        changes.setdefault("at", now.wall)
        changed = dataclasses.replace(row, **changes)  # type: ignore[arg-type]
        self._keep(changed)
        return [RecordSent(changed, row), *self._waits.on_sent_changed(changed)]

    def _keep(self, row: SentRow) -> None:
        key = (row.msg_id, row.gid)
        if is_open(row):
            self.rows[key] = row
            self._recent.drop(key)
            return
        self.rows.pop(key, None)
        self._recent.put(key, row)
        self._drop_open(key)

    def _drop_open(self, key: Key) -> None:
        self._local_views.pop(key, None)
        self._timers.cancel(("bound", *key))
        self._timers.cancel(("silence", *key))

    def _arm(self, row: SentRow, now: Now, not_before: Seconds = EPOCH) -> None:
        if is_open(row):
            moment = at_wall(WallMs(row.expires_at + GRACE_MS), now)
            self._timers.set(("bound", row.msg_id, row.gid), max(moment, not_before))


def _is_refusal(row: SentRow) -> bool:
    """True when the host did not take it in, and may do so yet. What it refused as expired has its end."""
    return row.state is SentState.FAILED and row.reason.startswith(REFUSED)


def _no_word(row: SentRow) -> str:
    return f"no word from {row.to_host}"


def _note(what: str, row: SentRow, reason: str) -> Note:
    return Note(what, row.msg_id, row.gid, row.trace_id, row.to_host, reason[:64], alarm=True)
