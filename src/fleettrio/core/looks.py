"""When a work tree is looked at for a message, and how long a look is good for.

Rules:
1. At each opportunity to land, never before. What is put into an agent is looked at by its delivery task, between the
   transport's own look and the mark (`AgentReserved.drift`); what a client fetches, before it is offered.
2. A look is good for the one opportunity it was made for.
3. One look at a time for an entity, for all that could be offered. What comes in meanwhile waits for the next.
4. An answer is the result of the call that waits for it, now: that call does not wait for a look too.
5. `onStale = drop`: what has drifted ends, undelivered, and its sender is told why.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from fleettrio.core.actions import Action, LookAtTree
from fleettrio.core.drift import Drift
from fleettrio.core.events import TreeLookedAt
from fleettrio.core.gate import End, Look, Verdict
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, InboxState, Key
from fleettrio.ids import Gid, Now

__all__ = ("STALE_DROPPED", "Looks", "dropped")

STALE_DROPPED = "stale-dropped"


def dropped(row: InboxRow, drift: Drift | None) -> End | None:
    """The end of a message that its sender would rather not have delivered now."""
    if drift is None or not drift.is_stale or row.on_stale != "drop":
        return None
    return End(InboxState.FAILED, STALE_DROPPED, drift.note)


class Looks:
    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._under_way: set[Gid] = set()
        self._found: dict[Key, Drift | None] = {}

    def judge(self, row: InboxRow, now: Now) -> Verdict | None:
        """A judge of `gate`."""
        key = row.key
        if key in self._found:
            return dropped(row, self._found[key])
        entity = self._roster.entities.get(row.gid)
        return Look() if row.has_causal and entity is not None and entity.cwd else None

    def ask(self, gid: Gid, rows: Sequence[InboxRow]) -> list[Action]:
        """Look for these messages, unless a look is under way."""
        if gid in self._under_way:
            return []
        self._under_way.add(gid)
        return [LookAtTree(gid, tuple(rows))]

    def is_under_way(self, gid: Gid) -> bool:
        return gid in self._under_way

    @contextlib.contextmanager
    def using(self, event: TreeLookedAt) -> Iterator[None]:
        """While this lasts, what was found is known."""
        self._under_way.discard(event.gid)
        self._found = dict(event.found)
        try:
            yield
        finally:
            self._found = {}

    @property
    def is_at_hand(self) -> bool:
        return bool(self._found)

    def note(self, row: InboxRow) -> str:
        """What is said about the message with the offer that is made now."""
        drift = self._found.get(row.key)
        return drift.note if drift else ""
