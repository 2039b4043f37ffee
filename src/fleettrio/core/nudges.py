"""Nudges: a client that fetches its mail, and sits in a pane, is told by one typed line that something waits.

    (nothing waits) ──mail comes──► due ──its time, idle, an empty composer──► typed ──30 s, 1, 2, 4, 8 min──► due …
           ▲                                                                    │
           └────────────── it fetched, or nothing waits any more ───────────────┘

Rules:
1. The line counts what waits by sender; nothing that a peer wrote is in it.
2. One line at a time: the next one after 30 s, 1, 2, 4, 8 min while it has not fetched, then none until it does. What
   comes meanwhile is counted in the next line and brings none of its own.
3. Never while it works, at a dialog, into a draft: the line waits until the agent is seen idle, or 10 s, and its step
   is not used up. An agent that is away is nudged when it is back.
4. The next time is recorded before the line is typed. A crash in between loses a line and never makes two; a time that
   passed while no daemon ran comes at the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from fleettrio.core.actions import (
    Action,
    Commit,
    DropDue,
    DropEntity,
    Nudge,
    Record,
    RecordDue,
    RecordEntity,
    StoreAction,
)
from fleettrio.core.coordination import Coordination
from fleettrio.core.entity import Entity
from fleettrio.core.gate import Gate, Hold
from fleettrio.core.ledger import Ledger
from fleettrio.core.roster import Roster
from fleettrio.core.rows import CALL, Due, InboxRow, InboxState
from fleettrio.core.rules import Event, Rules, TimerRules
from fleettrio.core.timers import Timers, at_wall
from fleettrio.ids import Gid, MsgId, Now, Seconds, WallMs

__all__ = ("NUDGE", "Nudged", "Nudges")

NUDGE = "nudge"
"""`Due.what` of these; their id is the agent's gid."""
GATHER_MS = 1_000
"""What comes together is counted together."""
AGAIN_MS = (30_000, 60_000, 120_000, 240_000, 480_000)
RETRY_S = 10.0


class Nudged(Event, frozen=True):
    """What came of a line: a `local.port.DeliveryOutcome`."""

    gid: Gid
    outcome: str


class _Cycle(msgspec.Struct):
    due: Due
    step: int
    """Lines typed so far."""
    in_hand: Due | None = None
    """What was due when the line was handed over, while nobody knows what came of it."""

    @property
    def is_over(self) -> bool:
        return self.step > len(AGAIN_MS)


class Nudges:
    def __init__(
        self,
        roster: Roster,
        ledger: Ledger,
        gate: Gate,
        coordination: Coordination,
        timers: Timers,
        kept: Iterable[Due],
    ) -> None:
        self._roster = roster
        self._ledger = ledger
        self._gate = gate
        self._coordination = coordination
        self._timers = timers
        self._cycles = {Gid(due.id): _Cycle(due, _step_of(due)) for due in kept}
        self.rules: Rules = {Nudged: self._nudged}
        self.timer_rules: TimerRules = {NUDGE: lambda name, now: self._due(Gid(name[0]), now)}

    def start(self, now: Now) -> list[Action]:
        """What was due goes on; what waits and was never nudged for begins."""
        for gid in list(self._cycles):
            self._arm(gid, now)
        known = [gid for gid in self._cycles if gid not in self._roster.entities]
        return [action for gid in [*known, *self._roster.entities] for action in self._review(gid, now)]

    def follow(self, records: Sequence[StoreAction], now: Now) -> list[Action]:
        """What was decided may begin or end that something waits for a client."""
        touched: dict[Gid, bool] = {}
        for action in records:
            if type(action) is Commit or type(action) is Record:
                row = action.row
                touched[row.gid] = touched.get(row.gid, False) or row.state is InboxState.OFFERED
            elif isinstance(action, RecordEntity):
                touched.setdefault(action.entity.gid, False)
            elif isinstance(action, DropEntity):
                touched.setdefault(action.gid, False)
        return [found for gid, fetched in touched.items() for found in self._review(gid, now, fetched=fetched)]

    def undo(self, action: RecordDue, now: Now) -> None:
        """It could not be recorded, so the line was not handed over either."""
        cycle = self._cycles.get(Gid(action.row.id))
        if cycle is not None and cycle.in_hand is not None:
            self._back(Gid(action.row.id), cycle, now)

    def waiting(self, gid: Gid, now: Now) -> tuple[tuple[str, int], ...]:
        """What `gid` could fetch now, counted by sender, the most first."""
        return tuple(Counter(map(self._coordination.correspondent, self._free(gid, now))).most_common())

    # --- inside

    def _free(self, gid: Gid, now: Now) -> Iterator[InboxRow]:
        rows = (row for row in self._ledger.lane(gid) if row.when != CALL)
        return (row for row in rows if not isinstance(self._gate.judge(row, now), Hold))

    def _review(self, gid: Gid, now: Now, *, fetched: bool = False) -> Iterator[Action]:
        entity = self._roster.entities.get(gid)
        cycle = self._cycles.get(gid)
        if cycle is None and (entity is None or not _is_nudged(entity)):
            return
        if entity is None or not _is_nudged(entity) or not any(self._free(gid, now)):
            yield from self._end(gid)
        elif cycle is None or (fetched and cycle.step):
            first_ms = AGAIN_MS[0] if fetched else GATHER_MS
            yield self._set(gid, WallMs(now.wall + first_ms), 0, now)
        elif entity.status == "idle" and cycle.due.at <= now.wall and cycle.in_hand is None and not cycle.is_over:
            self._timers.set((NUDGE, gid), now.mono)  # it has just become idle

    def _set(self, gid: Gid, at: WallMs, step: int, now: Now) -> Action:
        before = self._cycles.get(gid)
        due = Due(id=MsgId(gid), what=NUDGE, at=at, sender=gid, made_at=now.wall, request=str(step).encode())
        self._cycles[gid] = _Cycle(due, step, before.in_hand if before else None)
        self._arm(gid, now)
        return RecordDue(due)

    def _arm(self, gid: Gid, now: Now) -> None:
        cycle = self._cycles[gid]
        if cycle.is_over:
            self._timers.cancel((NUDGE, gid))
        else:
            self._timers.set((NUDGE, gid), at_wall(cycle.due.at, now))

    def _end(self, gid: Gid) -> list[Action]:
        self._timers.cancel((NUDGE, gid))
        cycle = self._cycles.pop(gid, None)
        return [DropDue(cycle.due)] if cycle else []

    def _due(self, gid: Gid, now: Now) -> list[Action]:
        cycle, entity = self._cycles.get(gid), self._roster.entities.get(gid)
        if cycle is None or entity is None or cycle.in_hand is not None or entity.status != "idle":
            return []  # when it is idle, it is seen (`follow`)
        if now.wall < cycle.due.at:  # the wall clock was turned back meanwhile
            self._arm(gid, now)
            return []
        counted = self.waiting(gid, now)
        if not counted:
            return self._end(gid)
        in_hand, step = cycle.due, cycle.step + 1
        again_ms = AGAIN_MS[min(step, len(AGAIN_MS)) - 1]
        recorded = self._set(gid, WallMs(now.wall + again_ms), step, now)
        self._cycles[gid].in_hand = in_hand
        return [recorded, Nudge(gid, counted)]

    def _nudged(self, event: Nudged, now: Now) -> list[Action]:
        cycle = self._cycles.get(event.gid)
        if cycle is None or cycle.in_hand is None:
            return []
        if event.outcome != "nothing-written":
            cycle.in_hand = None
            self._arm(event.gid, now)
            return []
        self._back(event.gid, cycle, now)
        return [RecordDue(self._cycles[event.gid].due)]

    def _back(self, gid: Gid, cycle: _Cycle, now: Now) -> None:
        """Not a byte of it was written: the same line is due, in a moment."""
        assert cycle.in_hand is not None
        self._cycles[gid] = _Cycle(cycle.in_hand, _step_of(cycle.in_hand))
        self._timers.set((NUDGE, gid), Seconds(now.mono + RETRY_S))


def _is_nudged(entity: Entity) -> bool:
    """A client that fetches, in a place where a line can be typed."""
    return entity.takes == "pull" and bool(entity.target) and entity.status not in ("stopping", "gone")


def _step_of(due: Due) -> int:
    return int(due.request) if due.request.isdigit() else 0
