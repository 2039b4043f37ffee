"""Everything the core waits for, as data: one heap of named moments, no clock.

A timer is named by a tuple; setting it again moves it. Stale heap entries are dropped when they surface, and all at
once when they are the most: a message that got its word at once leaves one behind that lies 14 days ahead.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from fleettrio.ids import Now, Seconds, WallMs

__all__ = ("EPOCH", "Timers", "at_wall")

Name = tuple[str, ...]
_STALE_ALLOWED = 64
EPOCH = Seconds(0.0)
"""Before every moment."""
FAR = Seconds(float("inf"))


def at_wall(moment: WallMs, now: Now) -> Seconds:
    """The monotonic moment at which the wall clock will say `moment`, if nobody turns it meanwhile."""
    return Seconds(now.mono + (moment - now.wall) / 1000)


class Timers:
    def __init__(self) -> None:
        self._at: dict[Name, Seconds] = {}
        self._heap: list[tuple[Seconds, Name]] = []

    def set(self, name: Name, at: Seconds) -> None:
        if self._at.get(name) != at:
            self._at[name] = at
            heapq.heappush(self._heap, (at, name))
            if len(self._heap) > _STALE_ALLOWED + 2 * len(self._at):
                self._heap = [(moment, timer) for timer, moment in self._at.items()]
                heapq.heapify(self._heap)

    def set_if_unset(self, name: Name, at: Seconds) -> None:
        if name not in self._at:
            self.set(name, at)

    def set_if_earlier(self, name: Name, at: Seconds) -> None:
        if at < self._at.get(name, FAR):
            self.set(name, at)

    def cancel(self, name: Name) -> None:
        self._at.pop(name, None)

    def bring_forward(self, seconds: float) -> None:
        """Every moment is so much nearer: the clock stood still while time went by."""
        self._at = {name: Seconds(at - seconds) for name, at in self._at.items()}
        self._heap = [(at, name) for name, at in self._at.items()]
        heapq.heapify(self._heap)

    def next(self) -> Seconds | None:
        """The earliest moment, None when nothing is set."""
        while self._heap:
            at, name = self._heap[0]
            if self._at.get(name) == at:
                return at
            heapq.heappop(self._heap)
        return None

    def due(self, now: Now) -> Iterator[Name]:
        """Take the timers whose moment has come, earliest first. Ones set meanwhile for the past are taken too."""
        while (at := self.next()) is not None and at <= now.mono:
            _, name = heapq.heappop(self._heap)
            del self._at[name]
            yield name
