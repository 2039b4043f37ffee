"""The rows that got their word a moment ago.

The store has them; but what another task is reading from it may be older than what was just decided. So the last ones
are kept here, and everybody who looks a row up looks here first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from fleettrio.core.rows import Key

__all__ = ("Recent",)

Row = TypeVar("Row")

MOST = 2_048
"""Far more than can be decided while one read of the store is under way."""


class Recent(Generic[Row]):
    def __init__(self, most: int = MOST) -> None:
        self._rows: OrderedDict[Key, Row] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: Key) -> Row | None:
        return self._rows.get(key)

    def put(self, key: Key, row: Row) -> None:
        self._rows[key] = row
        self._rows.move_to_end(key)
        if len(self._rows) > self._most:
            self._rows.popitem(last=False)

    def drop(self, key: Key) -> None:
        self._rows.pop(key, None)
