"""What goes wrong in a run: chosen by the seed, counted when it really struck.

A run has a handful of the kinds below, each at a rate of its own, until the world is healed. `strikes` is asked at
every place where a fault of a kind could happen; what it answers yes to has happened.
"""

from __future__ import annotations

import random
from collections import Counter

__all__ = ("KINDS", "Faults")

CHANCES = {
    "crash": 1 / 120,
    "crash-at-a-commit": 1 / 60,
    "link-loss": 1 / 160,
    "delay": 1 / 12,
    "reorder": 1 / 8,
    "duplicate": 1 / 12,
    "drop": 1 / 12,
    "lost-notice": 1 / 6,
    "full-queue-at-reconnect": 1 / 2,
    "forgery": 1 / 4,
    "treason": 1 / 4,
}
"""Kind → chance at each place where it may strike, in a run that has it."""
ACCIDENTS = ("restart", "partition", "frozen-holder", "clock-skew", "clock-step", "stale-beat", "cloned-state")
"""Kinds that strike a host at a moment of their own (`tests.sim.accidents`)."""
CROWDS = ("two-members-on-one-host", "full-inbox", "question-behind-a-full-inbox")
"""What is no fault, and must have happened all the same."""
CHOSEN = (*CHANCES, *ACCIDENTS, *CROWDS)
HANDS = ("taken-by-a-hook", "lead-to-lead")
"""The same, in worlds whose agents run hooks, and in those that have leads."""
KINDS = (*CHOSEN, *HANDS)
SHARE = 0.33
"""Of the runs that have a kind."""
RARE = {"cloned-state": 0.12}
"""Kinds that leave too little to be checked to have them more often."""


class Faults:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.chosen = {kind for kind in CHOSEN if rng.random() < RARE.get(kind, SHARE)}
        self.struck: Counter[str] = Counter()
        self.is_healed = False

    def strikes(self, kind: str) -> bool:
        """Whether it happens here and now."""
        if self.is_healed or kind not in self.chosen or self._rng.random() >= CHANCES[kind]:
            return False
        self.struck[kind] += 1
        return True

    def happens(self, accident: str) -> bool:
        """Whether an accident that comes at its own moment is one of this run's."""
        if self.is_healed or accident not in self.chosen:
            return False
        self.struck[accident] += 1
        return True
