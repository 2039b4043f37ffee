"""Many runs: which seeds, in which order, and what is said about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.sim.faults import KINDS
from tests.sim.run import Run

__all__ = ("LEAST_EVENTS", "LEAST_SHARE", "Tally", "add_failed", "once_failed")

LEAST_SHARE = 0.05
"""Of the seeds, that each kind of fault must strike."""
LEAST_EVENTS = 200
"""Given to the cores in each run, the passing of time not counted."""
_FILE = Path(__file__).with_name("seeds.txt")


def once_failed() -> list[int]:
    """The seeds that once failed."""
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    return [int(line.partition("#")[0]) for line in lines if line.partition("#")[0].strip()]


def add_failed(runs: Iterable[Run]) -> None:
    """Keep the seeds of these runs, so that they are run first from now on."""
    known = set(once_failed())
    with _FILE.open("a", encoding="utf-8") as file:
        for run in runs:
            if run.seed not in known:
                file.write(f"{run.seed}  # {run.broken[0]}\n")


class Tally:
    """What came of many runs."""

    def __init__(self) -> None:
        self.failed: list[Run] = []
        self.struck: Counter[str] = Counter()
        self.runs = 0
        self.fewest_events = 0

    def add(self, run: Run) -> None:
        self.runs += 1
        self.struck.update(run.struck.keys())
        self.fewest_events = run.events if self.runs == 1 else min(self.fewest_events, run.events)
        if run.broken:
            self.failed.append(run)

    @property
    def rare(self) -> list[str]:
        """The kinds of fault that struck too few of the runs to have tested anything."""
        return [kind for kind in KINDS if self.struck[kind] < LEAST_SHARE * self.runs]

    def told(self) -> list[str]:
        """One line for each kind of fault, then one for each broken promise."""
        lines = [f"{kind:16} struck {self.struck[kind]:6} of {self.runs} seeds" for kind in KINDS]
        return [*lines, *(f"seed {run.seed}: {broken}" for run in self.failed for broken in run.broken)]
