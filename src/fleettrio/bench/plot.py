"""Pictures of recorded figures: what becomes of throughput, latency and cost as there is more.

One picture for each thing that was varied (`Row.at`), in it a panel for each unit, in that a line for each way in which
it was measured. Matplotlib draws them; it is optional, and nothing else needs it.
"""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from fleettrio.bench.recorded import Recorded, newest, read_csv, results_folder
from fleettrio.bench.results import ResultsUnreadable, Row
from fleettrio.errors import FleetTrioError

__all__ = ("Line", "Picture", "PlotImpossible", "pictures", "plot")

_AXES = {"in flight": "messages in flight", "body": "bytes of a body", "inboxes": "inboxes", "held": "messages held"}
_PANELS = {"msg/s": "messages a second", "ms": "milliseconds on the way", "µs": "µs of CPU a message"}
"""From top to bottom; other units come below."""
_STEEP = 20
"""An axis on which the largest figure is so many times the smallest one is logarithmic."""


class PlotImpossible(FleetTrioError):
    """There is nothing to draw, or nothing to draw it with, or no place for it."""


class Line(msgspec.Struct, frozen=True):
    """Points from left to right. A peer's line is drawn with dashes."""

    label: str
    points: tuple[tuple[float, float], ...]
    is_peer: bool = False


class Picture(msgspec.Struct, frozen=True):
    """`panels`: by unit. `made_on`: commits and machines, in words."""

    axis: str
    panels: dict[str, tuple[Line, ...]]
    made_on: str

    @property
    def file_name(self) -> str:
        return f"{self.axis.replace(' ', '-')}.png"


def plot(files: Sequence[pathlib.Path], out: pathlib.Path) -> list[pathlib.Path]:
    """Draw what `files` have, or else the recorded results of this checkout, into the folder `out`, which is made.

    Raises `PlotImpossible`, and `ResultsUnreadable` for a file that is no CSV of a benchmark.
    """
    chosen = list(files) or _recorded_files()
    found = pictures(one for file in chosen for one in read_csv(file))
    if not found:
        names = ", ".join(file.name for file in chosen)
        raise PlotImpossible(
            f"no figure in {names} was measured for more than one size",
            hint="record some: fleettrio bench curve --record",
        )
    figures = _library()
    try:
        out.mkdir(parents=True, exist_ok=True)
        return [_draw(figures, picture, out / picture.file_name) for picture in found]
    except OSError as problem:
        raise PlotImpossible(f"{out} takes no pictures: {problem.strerror}", hint="name another folder") from None


def pictures(recorded: Iterable[Recorded]) -> list[Picture]:
    """What there is to draw: of each figure the newest, of each line at least two points."""
    latest = [one for one in newest(recorded).values() if len(one.row.at) == 1 and one.row.measured is not None]
    axes = dict.fromkeys(axis for one in latest for axis in one.row.at)
    found = []
    for axis in axes:
        of_axis = [one for one in latest if axis in one.row.at]
        units = dict.fromkeys([*_PANELS, *(one.row.unit for one in of_axis)])
        panels = {unit: _lines(axis, [one.row for one in of_axis if one.row.unit == unit]) for unit in units}
        if drawn := {unit: lines for unit, lines in panels.items() if lines}:
            made_on = dict.fromkeys(f"commit {one.commit}, {one.when}, {one.machine}" for one in of_axis)
            found.append(Picture(axis, drawn, "\n".join(made_on)))
    return found


def _lines(axis: str, rows: Sequence[Row]) -> tuple[Line, ...]:
    ours: dict[str, list[tuple[float, float]]] = {}
    peers: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        assert row.measured is not None
        way = f" ({row.implementation})" if row.implementation else ""
        ours.setdefault(row.title + way, []).append((row.at[axis], row.measured))
        # A growing cost has its own first point as its peer: that is no line.
        if row.peer is not None and not row.peer_name.replace(",", "").isdigit():
            peers.setdefault(row.peer_name, []).append((row.at[axis], row.peer))
    whole = [Line(label, tuple(sorted(points))) for label, points in ours.items() if len(points) > 1]
    # Measured beside both implementations, in the same rounds: the same figures twice.
    dashed = [Line(label, tuple(sorted(set(points))), is_peer=True) for label, points in peers.items()]
    return (*whole, *(line for line in dashed if len(line.points) > 1))


def _recorded_files() -> list[pathlib.Path]:
    folder = results_folder()
    files = sorted(folder.glob("*.csv")) if folder else []
    if not files:
        raise ResultsUnreadable(
            "there are no recorded results here", hint="name a CSV file, or record some: fleettrio bench curve --record"
        )
    return files


def _library() -> Any:
    try:
        return importlib.import_module("matplotlib.figure")
    except ImportError:
        raise PlotImpossible(
            "matplotlib, which draws the pictures, is not installed", hint="python -m pip install 'matplotlib>=3.9'"
        ) from None


def _draw(figures: Any, picture: Picture, file: pathlib.Path) -> pathlib.Path:
    height = 2.6 * len(picture.panels) + 0.8
    drawn = figures.Figure(figsize=(7.2, height), layout="constrained")
    panels = drawn.subplots(len(picture.panels), sharex=True, squeeze=False)
    for (unit, lines), (panel,) in zip(picture.panels.items(), panels, strict=True):
        for line in lines:
            across, up = zip(*line.points, strict=True)
            style = {"linestyle": "--", "color": "0.5"} if line.is_peer else {}
            panel.plot(across, up, marker="o", markersize=4, label=line.label, **style)
        sizes = sorted({x for line in lines for x, _ in line.points})
        panel.set_xscale("log" if _is_steep(sizes) else "linear")
        panel.set_xticks(sizes, [f"{size:,.0f}".replace(",", " ") for size in sizes])
        panel.minorticks_off()
        heights = [y for line in lines for _, y in line.points]
        if _is_steep(heights):
            panel.set_yscale("log")
            panel.yaxis.set_major_formatter("{x:g}")
            panel.yaxis.set_minor_formatter(lambda *_: "")
        else:
            panel.set_ylim(0, 1.25 * max(heights))  # room for the names of the lines
        panel.set_ylabel(_PANELS.get(unit, unit), fontsize=8)
        panel.tick_params(labelsize=8)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=7)
    panels[-1][0].set_xlabel(_AXES.get(picture.axis, picture.axis), fontsize=8)
    drawn.suptitle(picture.made_on, fontsize=6, color="0.4")
    drawn.savefig(file, dpi=110, metadata={"Software": None})
    return file


def _is_steep(figures: Sequence[float]) -> bool:
    return min(figures) > 0 and max(figures) >= _STEEP * min(figures)
