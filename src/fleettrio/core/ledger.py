"""The recipient's rows while they are open, and what waits for whom.

The store has every row; here are the open ones (`waiting`, `injecting`, `offered`). A row that has its word leaves:
every later event is answered from the store (for a moment, from the recent ones).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fleettrio.core.actions import Action, OpenInbox, PauseInbox, Record
from fleettrio.core.entity import Entity
from fleettrio.core.lane import Lane
from fleettrio.core.link import ForNotice
from fleettrio.core.notices import Notices
from fleettrio.core.recent import Recent
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, InboxState, Key
from fleettrio.core.timers import EPOCH, Timers, at_wall
from fleettrio.core.topology import InboxQueue, inbox_of
from fleettrio.ids import Gid, Now, Seconds
from fleettrio.wire.kinds import Kind

__all__ = ("Ledger", "Limits", "queue_owner")

RESUME_BELOW = 0.8
UNDO_RETRY_S = 5.0
ANNOUNCE_S = 1.0


class Limits(msgspec.Struct, frozen=True):
    """Caps of one inbox; over them its broker queue is not consumed until it is under 80 %."""

    messages: int = 1_000
    bytes: int = 64 * 1024 * 1024


def queue_owner(entity: Entity) -> InboxQueue:
    """The broker queue of an entity."""
    return inbox_of(entity.gid, entity.takes, entity.groups, entity.left)


class Ledger:
    def __init__(self, roster: Roster, notices: Notices, timers: Timers, limits: Limits) -> None:
        self.rows: dict[Key, InboxRow] = {}
        self.recent: Recent[InboxRow] = Recent()
        self._lanes: dict[Gid, Lane] = {}
        self._full: set[Gid] = set()
        self._roster = roster
        self._notices = notices
        self._timers = timers
        self._limits = limits

    def lane(self, gid: Gid) -> Lane:
        if (lane := self._lanes.get(gid)) is None:
            lane = self._lanes[gid] = Lane()
        return lane

    def waiting(self) -> Iterator[InboxRow]:
        """Every row that waits, of all entities."""
        return (row for lane in self._lanes.values() for row in lane)

    def get(self, key: Key) -> InboxRow | None:
        """The row as it is now, where the store may be a moment behind."""
        return self.rows.get(key) or self.recent.get(key)

    def is_full(self, gid: Gid) -> bool:
        """True from its cap on until it is under 80 % of it."""
        return gid in self._full or self._is_at_cap(self.lane(gid))

    # --- steps of a row

    def wait(self, row: InboxRow, now: Now, not_before: Seconds = EPOCH) -> None:
        """The row waits (again), at the place its arrival gives it."""
        key = row.key
        self.rows[key] = row
        self.recent.drop(key)
        self.lane(row.gid).add(row)
        self._timers.set_if_earlier(("expiry", row.gid), max(at_wall(row.expires_at, now), not_before))

    def change(self, row: InboxRow, **changes: object) -> list[Action]:
        """A waiting row is another one now, and waits on in its place."""
        changed = msgspec.structs.replace(row, **changes)
        self.rows[row.key] = changed
        self.lane(row.gid).add(changed)
        return [Record(changed, row)]

    def change_told(self, row: InboxRow, now: Now, **changes: object) -> list[Action]:
        """The same, and the sender is told how it waits now."""
        is_owed = self._notices.is_owed(row.from_host)
        changed = self.change(row, **changes, notified=row.notified and not is_owed)
        return [*changed, *self._notices.owe(self.rows[row.key], now)]

    def back_to_waiting(self, row: InboxRow, now: Now, *, repeat: bool) -> list[Action]:
        waiting = msgspec.structs.replace(row, state=InboxState.WAITING, repeat=repeat, at=now.wall)
        self.wait(waiting, now)
        return [Record(waiting, row), *([] if waiting.notified else self._notices.owe(waiting, now))]

    def take_out(self, row: InboxRow, now: Now, state: InboxState, stale: str = "") -> InboxRow:
        """The row leaves its lane for somebody's hands (`injecting`, `offered`), with a note of what has moved since it
        was written; the caller records it."""
        key = row.key
        self.lane(row.gid).remove(row)
        taken = msgspec.structs.replace(row, state=state, stale=stale, at=now.wall)
        self.rows[key] = taken
        return taken

    def finish(
        self,
        row: InboxRow,
        now: Now,
        state: InboxState,
        *,
        reason: str = "",
        detail: str = "",
        via: str = "",
        tell: bool = True,
    ) -> list[Action]:
        """The row gets its word; the sender's host is owed it, unless it is told otherwise (`tell=False`)."""
        key = row.key
        self.lane(row.gid).remove(row)
        is_owed = tell and self._notices.is_owed(row.from_host)
        done = msgspec.structs.replace(
            row, state=state, reason=reason, detail=detail, via=via, at=now.wall, notified=not is_owed
        )
        self.rows.pop(key, None)
        self.recent.put(key, done)
        if not tell:
            self._notices.settle(row)
        return [Record(done, row), *(self._notices.owe(done, now) if tell else [])]

    def notice_verdict(self, purpose: ForNotice, verdict: str, now: Now) -> list[Action]:
        """A notice was confirmed, or not: the rows that it told are owed nothing any more."""
        told, next_ones = self._notices.verdict(purpose, verdict, now)
        return [*(self._told(row) for row in told), *next_ones]

    def _told(self, row: InboxRow) -> Record:
        """Should the process die before that is on the disk, it is told once more."""
        key = row.key
        current = self.rows.get(key)
        if current is None:  # its last word
            done = msgspec.structs.replace(row, notified=True)
            self.recent.put(key, done)
            return Record(done, row, may_wait=True)
        marked = msgspec.structs.replace(current, notified=True)
        self.rows[key] = marked
        if marked.state is InboxState.WAITING:
            self.lane(row.gid).add(marked)
        return Record(marked, current, may_wait=True)

    def finish_undelivered(
        self, row: InboxRow, now: Now, state: InboxState, reason: str = "", detail: str = ""
    ) -> list[Action]:
        """The row ends without having been delivered, unless it was offered once: then nobody can know.

        Of a question it does not matter who saw it: whoever asked waits no longer.
        """
        if row.repeat and row.kind != Kind.ASK:
            return self.finish(row, now, InboxState.UNCONFIRMED, reason="offered")
        return self.finish(row, now, state, reason=reason, detail=detail)

    def undo(self, row: InboxRow, before: InboxRow | None, now: Now) -> None:
        """The store could not record `row`: it is what it was."""
        key = row.key
        self.lane(row.gid).remove(row)
        self.rows.pop(key, None)
        self.recent.drop(key)
        self._notices.settle(row)
        if before is None:
            return
        if before.state is InboxState.WAITING:
            self.wait(before, now, not_before=Seconds(now.mono + UNDO_RETRY_S))
        elif before.state.is_open:
            self.rows[key] = before
        else:
            self.recent.put(key, before)
        if not before.notified:
            self._notices.remember(before)

    def forget_lane(self, gid: Gid) -> None:
        self._lanes.pop(gid, None)
        self._timers.cancel(("expiry", gid))
        self._full.discard(gid)

    # --- caps

    def check_full(self, gid: Gid, now: Now) -> list[Action]:
        """Stop consuming at the cap, go on under 80 % of it: the backlog stays where the broker's caps act."""
        entity = self._roster.entities.get(gid)
        if entity is None:
            return []
        lane, limits = self.lane(gid), self._limits
        if gid not in self._full and self._is_at_cap(lane):
            self._full.add(gid)
            self._announce_full(entity, True, now)
            return [PauseInbox(gid)]
        is_low = lane.count < limits.messages * RESUME_BELOW and lane.bytes < limits.bytes * RESUME_BELOW
        if gid in self._full and is_low:
            self._full.discard(gid)
            self._announce_full(entity, False, now)
            return [OpenInbox(queue_owner(entity))]
        if entity.full is not (gid in self._full):  # as the store had it when the last process ended
            self._announce_full(entity, gid in self._full, now)
        return []

    def _is_at_cap(self, lane: Lane) -> bool:
        return lane.count >= self._limits.messages or lane.bytes >= self._limits.bytes

    def _announce_full(self, entity: Entity, full: bool, now: Now) -> None:
        """Its presence says so. Not recorded: it follows from the rows."""
        self._roster.put(msgspec.structs.replace(entity, full=full))
        self._timers.set_if_unset(("announce", entity.gid), Seconds(now.mono + ANNOUNCE_S))
