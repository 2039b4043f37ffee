"""Repeated measurements: taken in turn with those of a peer, so that both see the same machine, and their middle."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

__all__ = ("Samples", "cpu_per_item", "in_turn", "interleaved", "quantile", "ratios", "wall_per_item")

_LEAST_S = 0.05

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Samples:
    """One figure for each round, in the order of the rounds."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median: 0.05 is ± 5 %."""
        if len(self.values) < 2 or not self.median:
            return 0.0
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return (high - low) / 2 / abs(self.median)


def in_turn(cases: Mapping[str, Callable[[], T]], rounds: int) -> Iterator[tuple[int, str, T]]:
    """Round, name and result of every case, once a round; every other round goes through them backwards."""
    for number in range(rounds):
        names = list(cases)
        for name in reversed(names) if number % 2 else names:
            yield number, name, cases[name]()


def interleaved(cases: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Samples]:
    """The figures of every case, taken in turn."""
    values: dict[str, list[float]] = {name: [] for name in cases}
    for _, name, value in in_turn(cases, rounds):
        values[name].append(value)
    return {name: Samples(tuple(found)) for name, found in values.items()}


def ratios(over: Samples, under: Samples) -> Samples:
    """`over / under`, round by round: what the machine did to both in one round is left out of it."""
    return Samples(tuple(one / other for one, other in zip(over.values, under.values, strict=True)))


def cpu_per_item(run: Callable[[int], object], *, least_s: float = _LEAST_S) -> float:
    """CPU seconds of this process for one item; `run(n)` does n of them.

    n grows until a run takes `least_s`. What other processes do hardly shows in it.
    """
    return _per_item(run, time.process_time, least_s)


def wall_per_item(run: Callable[[int], object], *, least_s: float = _LEAST_S) -> float:
    """As `cpu_per_item`, in seconds of the clock: for what uses more than one core."""
    return _per_item(run, time.perf_counter, least_s)


def _per_item(run: Callable[[int], object], clock: Callable[[], float], least_s: float) -> float:
    count = 1
    while True:
        began = clock()
        run(count)
        spent = clock() - began
        if spent >= least_s:
            return spent / count
        count = max(count * 2, int(count * least_s * 1.2 / spent)) if spent > least_s / 100 else count * 10


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of them do not exceed: 0.5 is the median. Raises ValueError when there are none."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
