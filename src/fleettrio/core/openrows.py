"""The rows of what was sent from here and has no last word yet, each with the time for which that is waited for.

Most get their word at once. So nothing is kept for one that is young but the row itself: one timer (`look`) looks at
all of them after a minute, and those that are still there get a timer of their own (`bound`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from fleettrio.core.actions import Action, RecordSent
from fleettrio.core.recent import Recent
from fleettrio.core.rows import Key, SentRow
from fleettrio.core.said import is_open
from fleettrio.core.timers import EPOCH, Timers, at_wall
from fleettrio.core.waits import Waits
from fleettrio.ids import Now, Seconds, WallMs

__all__ = ("GRACE_MS", "LOOK", "LOOK_S", "OpenRows", "bound_of")

GRACE_MS = 30_000
LOOK_S = 60.0
LOOK = ("look",)
UNDO_RETRY_S = 5.0


class OpenRows:
    def __init__(self, rows: Iterable[SentRow], waits: Waits, timers: Timers) -> None:
        self.rows: dict[Key, SentRow] = {r.key: r for r in rows if is_open(r)}
        self._recent: Recent[SentRow] = Recent()
        self._waits = waits
        self._timers = timers
        self._local_views: dict[Key, str] = {}
        """What a QUERY was answered with that changes only the view."""
        self.followers: dict[str, Callable[[SentRow, Now], list[Action]]] = {}
        """By kind: who goes on when a row reaches another state."""

    def get(self, key: Key) -> SentRow | None:
        """The row as it is now, where the store may be a moment behind."""
        return self.rows.get(key) or self._recent.get(key)

    def accept(self, row: SentRow, now: Now) -> None:
        """A new message, or a retried one; its row is recorded together with its publish."""
        self._keep(row)
        if row.expires_at + GRACE_MS - now.wall < 2 * 1000 * LOOK_S:
            self._arm(row, now)
        else:
            self._timers.set_if_unset(LOOK, Seconds(now.mono + LOOK_S))

    def forget(self, key: Key) -> None:
        """As if it had never been: it could not be recorded, and not a byte of it left."""
        self.rows.pop(key, None)
        self._recent.drop(key)
        self._drop_open(key)

    def undo(self, row: SentRow, before: SentRow | None, now: Now) -> None:
        """The store could not record `row`: it is what it was."""
        key = row.key
        self.forget(key)
        if before is not None:
            self._keep(before)
            self._arm(before, now, not_before=Seconds(now.mono + UNDO_RETRY_S))

    def view_note(self, key: Key) -> str:
        return self._local_views.get(key, "")

    def open_rows(self) -> Iterator[SentRow]:
        return (r for r in self.rows.values() if is_open(r))

    # --- for the outbox

    def _change(self, row: SentRow, now: Now, may_wait: bool = False, /, **changes: Any) -> list[Action]:
        changes.setdefault("at", now.wall)
        changed = msgspec.structs.replace(row, **changes)
        key = self._keep(changed)
        if not is_open(row):  # it had its end, and its time was not waited for any more
            self._arm(changed, now)
        actions: list[Action] = [RecordSent(changed, row, may_wait), *self._waits.on_sent_changed(key, changed)]
        if changed.state is not row.state and (follow := self.followers.get(row.kind)):
            actions += follow(changed, now)
        return actions

    def _keep(self, row: SentRow) -> Key:
        key = row.key
        if is_open(row):
            self.rows[key] = row
        else:
            self.rows.pop(key, None)
            self._recent.put(key, row)
            self._drop_open(key)
        return key

    def _drop_open(self, key: Key) -> None:
        self._local_views.pop(key, None)
        self._timers.cancel(("bound", *key))

    def _arm(self, row: SentRow, now: Now, not_before: Seconds = EPOCH) -> None:
        if is_open(row):
            self._timers.set(("bound", row.msg_id, row.gid), max(bound_of(row, now), not_before))


def bound_of(row: SentRow, now: Now) -> Seconds:
    """When nothing is waited for any more, by the monotonic clock."""
    return at_wall(WallMs(row.expires_at + GRACE_MS), now)
