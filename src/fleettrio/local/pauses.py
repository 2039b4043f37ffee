"""Waiting between two looks at what cannot tell by itself: most of it comes at once, the rest takes its time."""

from __future__ import annotations

import trio

__all__ = ("Pauses",)

FIRST_S = 0.001


class Pauses:
    """The first takes `first_s`, each that follows twice as long, none longer than `most_s` (seconds)."""

    def __init__(self, most_s: float, first_s: float = FIRST_S) -> None:
        self._next_s = min(first_s, most_s)
        self._most_s = most_s

    async def pause(self) -> None:
        """Wait the next one. Cancelled, that one is over."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self._most_s)
        await trio.sleep(pause_s)
