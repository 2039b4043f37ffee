"""What the store answers without reading: the bodies that it took a moment ago, and that an id is in no row yet.

Rules:
1. A body never changes: what was handed in is what is read, and read most in the moment after.
2. An id begins with the time of its making. One behind the newest of the file, as it was found, and not among those
   handed in since, is in no row: that is exact, whatever clocks say. Of any other the file has to be asked.
3. Both are bounded, and forget the oldest first; no id up to a forgotten one is known to be new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from fleettrio.core.actions import Commit, Record, StoreAction
from fleettrio.core.rows import Key
from fleettrio.ids import MsgId
from fleettrio.store.tables import StoredMessage

__all__ = ("Fresh",)

MOST_BODIES, MOST_BYTES = 8_192, 8 * 1024 * 1024
MOST_IDS = 65_536


class Fresh:
    def __init__(self) -> None:
        self._commits: OrderedDict[Key, Commit] = OrderedDict()
        self._bytes = 0
        self._ids: OrderedDict[Key, None] = OrderedDict()
        self._bound = MsgId("")
        """Of no id up to this one it is known that it is new."""
        self.is_bound = False
        """True once the newest id of the file was found."""

    def found(self, newest: MsgId) -> None:
        """The newest id of the file; empty: it has none. What was handed in before that was read counts as well."""
        self._bound, self.is_bound = max(newest, self._bound), True

    def took(self, actions: Iterable[StoreAction]) -> None:
        """These are handed in."""
        ids = self._ids
        for action in actions:
            if type(action) is Record:
                if action.before is None:  # else it was handed in, or found, before
                    ids[action.row.msg_id, action.row.gid] = None
            elif type(action) is Commit:
                key = action.row.msg_id, action.row.gid
                ids[key] = None
                if replaced := self._commits.pop(key, None):
                    self._bytes -= replaced.row.size
                self._commits[key] = action
                self._bytes += action.row.size
        while len(ids) > MOST_IDS:
            (msg_id, _), _ = ids.popitem(last=False)
            self._bound = max(msg_id, self._bound)
        while self._bytes > MOST_BYTES or len(self._commits) > MOST_BODIES:
            _, oldest = self._commits.popitem(last=False)
            self._bytes -= oldest.row.size

    def is_new(self, key: Key) -> bool:
        """True when certainly no row has this key."""
        return self.is_bound and key[0] > self._bound and key not in self._ids

    def messages(self, keys: Sequence[Key]) -> list[StoredMessage] | None:
        """Them all, in the order of `keys`; None when one of them has to be read."""
        found = [self._commits.get(key) for key in keys]
        return [StoredMessage(c.header, c.sig, c.proof, c.body) for c in found if c] if all(found) else None

    def forget_messages(self) -> None:
        """Some of them are on the disk no more."""
        self._commits.clear()
        self._bytes = 0
