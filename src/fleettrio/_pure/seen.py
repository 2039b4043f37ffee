"""What was seen: ids of 16 bytes, the oldest forgotten first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

__all__ = ("SeenSet",)


class SeenSet:
    """Bounded set of ids of 16 bytes: it remembers the last `capacity` that were new, and forgets the oldest first."""

    __slots__ = ("_ids", "capacity")

    def __init__(self, capacity: int) -> None:
        if not 1 <= capacity <= 1 << 28:
            raise ValueError("a SeenSet holds at least one id, and at most 2**28")
        self.capacity = capacity
        self._ids: OrderedDict[bytes, None] = OrderedDict()

    def add(self, key: bytes) -> bool:
        """Remember `key`; False when it was known (it does not become younger by that)."""
        if len(key) != 16:
            raise ValueError("an id has 16 bytes")
        if key in self._ids:
            return False
        if len(self._ids) == self.capacity:
            self._ids.popitem(last=False)
        self._ids[key] = None
        return True

    def add_many(self, keys: Sequence[bytes]) -> list[bool]:
        """`add` each, in order."""
        return [self.add(key) for key in keys]

    def __contains__(self, key: object) -> bool:
        return key in self._ids

    def __len__(self) -> int:
        return len(self._ids)
