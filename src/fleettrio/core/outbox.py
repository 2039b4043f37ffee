"""The sender's side: one row per message and recipient, from `accepted` to the recipient's last word.

Rules:
1. A sender's clock never says more than `unknown`. Only the recipient's host says what became of a message; a
   reporter's or our own `failed` yields to that word.
2. The first final word of the recipient stands. The only steps between its words are `held` → anything,
   `unconfirmed` → `injected`. Another one is a contradiction: noted, alarmed, ignored.
3. What is not known is asked for (QUERY), what must not happen any more is called back (RECALL): at `expiresAt` + 30 s,
   on cancel, and whenever the host is heard again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from fleettrio.core.actions import Action, Note, RecordSent
from fleettrio.core.calls import Key, Waits
from fleettrio.core.roster import Roster
from fleettrio.core.rows import SentRow, SentState
from fleettrio.core.timers import Timers, at_wall
from fleettrio.ids import HostId, MsgId, Now, Seconds, WallMs
from fleettrio.wire.envelope import Kind

__all__ = ("FINAL_WORDS", "PEER_STEPS", "Outbox", "is_open")

GRACE_MS = 30_000
SILENCE_S = 60.0

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
PEER_STEPS: dict[SentState, frozenset[SentState]] = {
    SentState.HELD: FINAL_WORDS | {SentState.UNCONFIRMED},
    SentState.UNCONFIRMED: frozenset({SentState.INJECTED, SentState.DRAINED}),
}
"""Words of the recipient's host that may follow an earlier word of the same host."""


def is_open(row: SentRow) -> bool:
    """True while the fate of the message is not known."""
    return row.state in WAITING_STATES or row.state in (SentState.ACCEPTED, SentState.WRITTEN, SentState.HELD)


class Outbox:
    def __init__(self, rows: Iterable[SentRow], roster: Roster, waits: Waits, timers: Timers) -> None:
        self.rows: dict[Key, SentRow] = {(r.msg_id, r.gid): r for r in rows}
        self._roster = roster
        self._waits = waits
        self._timers = timers
        self._local_views: dict[Key, str] = {}
        """What a QUERY was answered with that changes only the view: `waiting`, `injecting`, `absent`."""

    def start(self, now: Now) -> list[Action]:
        """After a restart: what was handed over or about to be may have gone out."""
        actions: list[Action] = []
        for row in list(self.rows.values()):
            if row.state in (SentState.ACCEPTED, SentState.WRITTEN):
                actions += self._change(row, now, state=SentState.OUTCOME_UNKNOWN, reason="gateway-restarted")
            self._arm(row, now)
        return actions

    def accept(self, row: SentRow, now: Now) -> None:
        """A new message, or a retried one; its row is recorded together with its publish."""
        self.rows[(row.msg_id, row.gid)] = row
        self._arm(row, now)

    def forget(self, key: Key) -> None:
        self.rows.pop(key, None)

    def view_note(self, key: Key) -> str:
        return self._local_views.get(key, "")

    # --- the publish

    def written(self, key: Key) -> None:
        """Handed to the socket. In memory only: a row found `accepted` at start-up is treated as written."""
        row = self.rows.get(key)
        if row and row.state is SentState.ACCEPTED:
            self.rows[key] = dataclasses.replace(row, state=SentState.WRITTEN)

    def verdict(self, key: Key, verdict: str, detail: str, now: Now) -> list[Action]:
        row = self.rows.get(key)
        if row is None or row.said_by == "peer":
            return []
        match verdict:
            case "confirmed" if row.state in (SentState.ACCEPTED, SentState.WRITTEN, SentState.OUTCOME_UNKNOWN):
                self._timers.set(("silence", *key), Seconds(now.mono + SILENCE_S))
                return self._change(row, now, state=SentState.CONFIRMED, reason="", detail="")
            case "unroutable" | "nacked":
                return self.fail(key, verdict, detail, now)
            case "outcome-unknown" if row.state in (SentState.ACCEPTED, SentState.WRITTEN):
                return self._change(
                    row, now, state=SentState.OUTCOME_UNKNOWN, reason=detail or "no confirm from broker"
                )
        return []

    def fail(self, key: Key, reason: str, detail: str, now: Now) -> list[Action]:
        """Our own gateway says that it did not go out, or that nobody took it."""
        row = self.rows.get(key)
        if row is None or row.said_by == "peer":
            return []
        return self._change(row, now, state=SentState.FAILED, reason=reason, detail=detail, said_by="own")

    # --- words about it

    def word(
        self, row: SentRow, state: str, reason: str, detail: str, via: str, at: WallMs, said_by: str, now: Now
    ) -> list[Action]:
        """The recipient's host (`peer`) or the dead-letter reporter (`report`) says what became of `row`."""
        key = (row.msg_id, row.gid)
        if state in ("absent", "waiting", "injecting", "offered"):
            self._local_views[key] = state
            if row.state in (SentState.OUTCOME_UNKNOWN, SentState.UNKNOWN) and state != "absent":
                self.rows[key] = row
                return self._change(row, now, state=SentState.CONFIRMED, reason="", detail="")
            return []
        new = SentState(state)
        if row.said_by == "peer":
            if new is row.state:
                return []
            if said_by != "peer":
                return []
            if new not in PEER_STEPS.get(row.state, frozenset()):
                return [
                    Note(
                        "contradiction",
                        row.msg_id,
                        row.gid,
                        row.trace_id,
                        row.to_host,
                        f"{row.state} then {new}",
                        alarm=True,
                    )
                ]
        elif said_by == "report" and row.said_by == "report":
            return []
        self.rows[key] = row
        self._local_views.pop(key, None)
        actions = self._change(
            row, now, state=new, reason=reason, detail=detail, via=via, said_by=said_by, at=at, recalling=False
        )
        if new in FINAL_WORDS:
            self._disarm(key)
            if new is not SentState.INJECTED:
                self.rows.pop(key, None)
        return actions

    def answered(self, row: SentRow, by: MsgId, now: Now) -> list[Action]:
        """A REPLY came: whatever else was said, the agent has read it."""
        key = (row.msg_id, row.gid)
        self._disarm(key)
        self.rows[key] = row
        state = row.state if row.state is SentState.DRAINED else SentState.INJECTED
        actions = self._change(row, now, state=state, reason="", said_by="peer", answered_by=by, recalling=False)
        self.rows.pop(key, None)
        return actions

    # --- asking and calling back

    def recall(self, row: SentRow, now: Now) -> list[Action]:
        """From now on RECALL is due whenever the host is heard."""
        self.rows[(row.msg_id, row.gid)] = row
        return self._change(row, now, recalling=True)

    def to_ask(self, host: HostId) -> list[SentRow]:
        """Rows whose fate `host` is asked for once it is heard in a new session."""
        return [r for r in self.rows.values() if r.to_host == host and not r.recalling and self._wants_word(r)]

    def to_recall(self, host: HostId) -> list[SentRow]:
        return [r for r in self.rows.values() if r.to_host == host and r.recalling and self._wants_word(r)]

    def bound_passed(self, key: Key, now: Now) -> tuple[SentRow | None, list[Action]]:
        """`expiresAt` + 30 s: without a final word it reads `unknown`, and is called back."""
        row = self.rows.get(key)
        if row is None or not self._wants_word(row):
            return None, []
        if now.wall < row.expires_at + GRACE_MS:
            self._arm(row, now)
            return None, []
        since = self._silence(row)
        changed = self._change(row, now, state=SentState.UNKNOWN, reason=f"no word from {since}", recalling=True)
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
        return row, self._change(row, now, state=SentState.UNKNOWN, reason=f"no word from {self._silence(row)}")

    # --- inside

    def _silence(self, row: SentRow) -> str:
        return f"{row.to_host}"

    def _wants_word(self, row: SentRow) -> bool:
        return row.kind in _ASKED_FOR and (row.state in WAITING_STATES or row.state is SentState.HELD)

    def _change(self, row: SentRow, now: Now, **changes: object) -> list[Action]:
        changes.setdefault("at", now.wall)
        changed = dataclasses.replace(row, **changes)  # type: ignore[arg-type]
        self.rows[(row.msg_id, row.gid)] = changed
        return [RecordSent(changed), *self._waits.on_sent_changed(changed)]

    def _arm(self, row: SentRow, now: Now) -> None:
        if is_open(row) or row.state is SentState.UNCONFIRMED:
            self._timers.set(("bound", row.msg_id, row.gid), at_wall(WallMs(row.expires_at + GRACE_MS), now))

    def _disarm(self, key: Key) -> None:
        self._timers.cancel(("bound", *key))
        self._timers.cancel(("silence", *key))

    def open_rows(self) -> Iterator[SentRow]:
        return (r for r in self.rows.values() if is_open(r))


_ASKED_FOR = frozenset({Kind.SEND, Kind.REPLY, Kind.BROADCAST, Kind.COORD})
