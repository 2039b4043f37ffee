"""The recipient's rows while they can still change, and what waits for whom.

The store has every row; here are the open ones (`waiting`, `injecting`, `offered`) and the `unconfirmed` ones, which a
later sign of life may still turn into `injected`. A final row leaves: every later event is answered from the store.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from fleettrio.core.actions import Action, OpenInbox, PauseInbox, Record
from fleettrio.core.calls import Key
from fleettrio.core.lane import Lane
from fleettrio.core.notices import Notices
from fleettrio.core.roster import Roster
from fleettrio.core.rows import Entity, InboxRow, InboxState
from fleettrio.core.timers import Timers, at_wall
from fleettrio.core.topology import InboxQueue
from fleettrio.ids import Gid, Leaf, Now

__all__ = ("Ledger", "Limits", "queue_owner")

RESUME_BELOW = 0.8


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Caps of one inbox; over them its broker queue is not consumed until it is under 80 %."""

    messages: int = 1_000
    bytes: int = 64 * 1024 * 1024


def queue_owner(entity: Entity) -> InboxQueue:
    """The broker queue of an entity: push entities take broadcasts by default."""
    return InboxQueue(entity.gid, entity.groups, broadcast=entity.takes == "push")


class Ledger:
    def __init__(self, roster: Roster, notices: Notices, timers: Timers, limits: Limits) -> None:
        self.rows: dict[Key, InboxRow] = {}
        self._lanes: dict[Gid, Lane] = {}
        self._full: set[Gid] = set()
        self._roster = roster
        self._notices = notices
        self._timers = timers
        self._limits = limits

    def lane(self, gid: Gid) -> Lane:
        return self._lanes.setdefault(gid, Lane())

    def waiting(self) -> Iterator[InboxRow]:
        """Every row that waits, of all entities."""
        return (row for lane in self._lanes.values() for row in lane)

    def holds(self, key: Key, leaf: Leaf) -> bool:
        """True when these very bytes came in already (twice in one batch: the store did not know them yet)."""
        known = self.rows.get(key)
        return known is not None and known.leaf == leaf

    def is_full(self, gid: Gid) -> bool:
        return gid in self._full

    # --- steps of a row

    def wait(self, row: InboxRow, now: Now) -> None:
        """The row waits (again), at the place its arrival gives it."""
        key = (row.msg_id, row.gid)
        self.rows[key] = row
        self.lane(row.gid).add(row)
        self._timers.set(("expiry", *key), at_wall(row.expires_at, now))

    def back_to_waiting(self, row: InboxRow, now: Now, *, repeat: bool) -> list[Action]:
        waiting = dataclasses.replace(row, state=InboxState.WAITING, repeat=repeat, at=now.wall)
        self.wait(waiting, now)
        return [Record(waiting, row)]

    def take_out(self, row: InboxRow, now: Now, state: InboxState, *, notified: bool) -> InboxRow:
        """The row leaves its lane for somebody's hands (`injecting`, `offered`); the caller records it."""
        key = (row.msg_id, row.gid)
        self.lane(row.gid).remove(row)
        taken = dataclasses.replace(row, state=state, at=now.wall, notified=notified)
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
        key = (row.msg_id, row.gid)
        self.lane(row.gid).remove(row)
        self._timers.cancel(("expiry", *key))
        done = dataclasses.replace(
            row, state=state, reason=reason, detail=detail, via=via, at=now.wall, notified=not tell
        )
        if state is InboxState.UNCONFIRMED:
            self.rows[key] = done
        else:
            self.rows.pop(key, None)
        return [Record(done, row), *(self._notices.owe(done, now) if tell else [])]

    def finish_undelivered(self, row: InboxRow, now: Now, state: InboxState, reason: str = "") -> list[Action]:
        """The row ends without having been delivered, unless it was offered once: then nobody can know."""
        if row.repeat:
            return self.finish(row, now, InboxState.UNCONFIRMED, reason="offered")
        return self.finish(row, now, state, reason=reason)

    def undo(self, row: InboxRow, before: InboxRow | None, now: Now) -> None:
        """The store could not record `row`: it is what it was."""
        key = (row.msg_id, row.gid)
        self.lane(row.gid).remove(row)
        if before is None:
            self.rows.pop(key, None)
            self._timers.cancel(("expiry", *key))
        elif before.state is InboxState.WAITING:
            self.wait(before, now)
        else:
            self.rows[key] = before

    def forget_lane(self, gid: Gid) -> None:
        self._lanes.pop(gid, None)
        self._full.discard(gid)

    # --- caps

    def check_full(self, gid: Gid) -> list[Action]:
        """Stop consuming at the cap, go on under 80 % of it: the backlog stays where the broker's caps act."""
        entity = self._roster.entities.get(gid)
        if entity is None:
            return []
        lane, limits = self.lane(gid), self._limits
        if gid not in self._full and (lane.count >= limits.messages or lane.bytes >= limits.bytes):
            self._full.add(gid)
            return [PauseInbox(gid)]
        is_low = lane.count < limits.messages * RESUME_BELOW and lane.bytes < limits.bytes * RESUME_BELOW
        if gid in self._full and is_low:
            self._full.discard(gid)
            return [OpenInbox(queue_owner(entity))]
        return []
