"""How fast messages land, and how many may be called back before they come: buckets that delay.

A bucket is one moment: up to when what landed has used it up. A message fits when that moment, less what may come at
once, is not after the time that was signed with it. So a backlog that was written over an hour lands at once, and one
that was written in a second lands at the bucket's pace.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

import msgspec

from fleettrio.ids import WallMs

__all__ = ("PER_PAIR", "PER_RECIPIENT", "Buckets", "Pace")

MOST = 4_096
"""Buckets of one kind. One that is not used for long is full again, and forgotten first."""


class Pace(msgspec.Struct, frozen=True):
    """So many at once, and one more every `every_ms`."""

    at_once: int
    every_ms: int


PER_PAIR = Pace(at_once=10, every_ms=2_000)
PER_RECIPIENT = Pace(at_once=40, every_ms=500)


class Buckets:
    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._used_until: OrderedDict[Hashable, int] = OrderedDict()

    def free_at(self, name: Hashable, ts: WallMs) -> WallMs:
        """The moment, by the clock of `ts`, from which on a message of `ts` fits."""
        ahead = (self._pace.at_once - 1) * self._pace.every_ms
        return WallMs(max(self._used_until.get(name, 0) - ahead, ts))

    def use(self, name: Hashable, ts: WallMs) -> None:
        """A message of `ts` landed."""
        self._used_until[name] = max(self._used_until.get(name, 0), ts) + self._pace.every_ms
        self._used_until.move_to_end(name)
        if len(self._used_until) > MOST:
            self._used_until.popitem(last=False)

    def take(self, name: Hashable, now: WallMs) -> bool:
        """Use it, if something fits now."""
        if self.free_at(name, now) > now:
            return False
        self.use(name, now)
        return True
