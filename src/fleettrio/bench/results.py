"""A row of a benchmark: a figure, its peer's figure, and what is to be thought of it. Whole runs are read and written.

A ratio says how many times as good as its peer we are, whatever the unit: above 1 is better, and more is better. It is
the middle of the ratios of single rounds. A goal is a bound of the ratio, or of the figure itself.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from fleettrio.bench.samples import Samples, ratios
from fleettrio.errors import FleetTrioError

__all__ = (
    "Goal",
    "ResultsUnreadable",
    "Row",
    "Run",
    "at_least",
    "at_most",
    "fallen",
    "no_figure",
    "once",
    "read_results",
    "row",
    "times_as_good",
)

MORE_IS_BETTER = frozenset({"msg/s", "ids/s", "×", "MB/s"})
"""Units; of every other one less is better."""
TOLERANCE = 0.2
"""A ratio may be so much lower than in the run it is compared with: two runs see two machines."""


class ResultsUnreadable(FleetTrioError):
    """A file that was given as results of an earlier run is none."""

    exit_code = 2


class Goal(msgspec.Struct, frozen=True):
    bound: float
    of: str
    """`ratio` or `measured`."""
    is_most: bool = False

    def text(self, unit: str) -> str:
        return f"{'≤' if self.is_most else '≥'} {self.bound:.3g} {'×' if self.of == 'ratio' else unit}"

    def is_met(self, measured: float, ratio: float | None) -> bool | None:
        """None when the figure that it is about is not there."""
        figure = ratio if self.of == "ratio" else measured
        if figure is None:
            return None
        return figure <= self.bound if self.is_most else figure >= self.bound


def times_as_good(bound: float) -> Goal:
    """The ratio is at least `bound`: 10 for ten times as fast, 0.5 for at most twice the time."""
    return Goal(bound, "ratio")


def at_most(bound: float) -> Goal:
    """The figure itself is at most `bound`, in its unit."""
    return Goal(bound, "measured", is_most=True)


def at_least(bound: float) -> Goal:
    return Goal(bound, "measured")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Without `measured` there is no figure, and `notes` say why."""

    id: str
    """`G1`, or `G1.pure` for another row of the same goal; with `implementation` it names the row for ever."""
    title: str
    unit: str
    measured: float | None
    peer: float | None = None
    """In the same unit."""
    peer_name: str = ""
    ratio: float | None = None
    goal: str = ""
    met: bool | None = None
    suspect: bool = False
    """The peer did far worse than it should: no verdict stands on it."""
    spread: float = 0.0
    """Of the ratio, else of the figure: 0.05 is ± 5 %."""
    implementation: str = ""
    """`compiled` or `pure`."""
    lane: str = ""
    """`fast` or `stock`: how messages go to the broker and come from it."""
    fsync: str = ""
    """What of it is on the disk before it counts: `FULL`, or empty where nothing is stored."""
    notes: tuple[str, ...] = ()
    at: dict[str, float] = {}
    """What was varied, for the plots: `{"body": 1024, "in flight": 64}`."""

    @property
    def key(self) -> str:
        return f"{self.id} {self.implementation}".rstrip()

    @property
    def goal_id(self) -> str:
        """The goal that it is about: `G1` of `G1.pure`."""
        return self.id.partition(".")[0]

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "no figure"
        if self.suspect:
            return "suspect"
        return {True: "met", False: "missed", None: ""}[self.met]


def row(
    id: str,  # noqa: A002 - what it is called in the results
    title: str,
    unit: str,
    ours: Samples,
    peer: Samples | None = None,
    *,
    peer_name: str = "",
    goal: Goal | None = None,
    suspect: bool = False,
    implementation: str = "",
    lane: str = "",
    fsync: str = "",
    notes: Iterable[str] = (),
    at: Mapping[str, float] | None = None,
) -> Row:
    """The row of what was measured, with its peer's rounds beside ours. `suspect` takes the verdict away."""
    ratio = None
    if peer is not None:
        ratio = ratios(ours, peer) if unit in MORE_IS_BETTER else ratios(peer, ours)
    times = None if ratio is None else ratio.median
    met = goal.is_met(ours.median, times) if goal and not suspect else None
    return Row(
        id=id,
        title=title,
        unit=unit,
        measured=ours.median,
        peer=None if peer is None else peer.median,
        peer_name=peer_name,
        ratio=times,
        goal=goal.text(unit) if goal else "",
        met=met,
        suspect=suspect,
        spread=(ratio or ours).spread,
        implementation=implementation,
        lane=lane,
        fsync=fsync,
        notes=tuple(notes),
        at=dict(at or {}),
    )


def no_figure(id: str, title: str, unit: str, why: str, *, goal: Goal | None = None, **more: Any) -> Row:  # noqa: A002
    """The row of what could not be measured, or was counted wrong; `why` is the sentence that says so."""
    return Row(id=id, title=title, unit=unit, measured=None, goal=goal.text(unit) if goal else "", notes=(why,), **more)


def once(rows: Sequence[tuple[str, str, str, Goal]], measure: Callable[[], Sequence[float]]) -> Iterator[Row]:
    """Rows (id, title, unit, goal) of what one round is enough for: it is far from its goal, or far from missing it."""
    try:
        figures = measure()
    except FleetTrioError as problem:
        for case, title, unit, goal in rows:
            yield no_figure(case, title, unit, str(problem), goal=goal)
        return
    for (case, title, unit, goal), figure in zip(rows, figures, strict=True):
        yield row(case, title, unit, Samples((figure,)), goal=goal, fsync="FULL")


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of the benchmark found: the rows, and on what."""

    results: list[Row]
    environment: dict[str, str]


def read_results(file: pathlib.Path) -> Run:
    """An earlier run's JSON. Raises `ResultsUnreadable`, which names the file and what is wrong with it."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Run)
    except OSError as problem:
        raise ResultsUnreadable(
            f"{file}: {problem.strerror}", hint="write one: fleettrio bench all --json FILE"
        ) from None
    except msgspec.DecodeError as problem:
        raise ResultsUnreadable(
            f"{file} is not the JSON of a benchmark: {problem}", hint="write one: fleettrio bench all --json FILE"
        ) from None


def fallen(results: Iterable[Row], earlier: Iterable[Row], tolerance: float = TOLERANCE) -> list[str]:
    """A sentence for each row whose ratio fell below its floor: the earlier ratio less `tolerance`.

    A row that had a ratio and has no figure now fell, too. Rows of other benchmarks than these are not looked at.
    """
    floors = {old.key: old.ratio * (1 - tolerance) for old in earlier if old.ratio is not None and not old.suspect}
    sentences = []
    for new in results:
        floor = floors.get(new.key)
        if floor is None or new.suspect:
            continue
        if new.ratio is None:
            sentences.append(f"{new.key}: no ratio any more, at least {floor:.2f} × before ({'; '.join(new.notes)})")
        elif new.ratio < floor:
            sentences.append(f"{new.key}: {new.ratio:.2f} × as good as {new.peer_name}, at least {floor:.2f} × before")
    return sentences
