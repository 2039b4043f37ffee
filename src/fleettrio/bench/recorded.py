"""Figures that are kept: lines of CSV files that name commit, machine and load, added by `fleettrio bench --record`.

The plots and the tables of `docs/performance.md` are drawn from them, and from nothing else.
"""

from __future__ import annotations

import csv
import pathlib
import time
from collections.abc import Iterable, Mapping

import msgspec

from fleettrio.bench.context import checkout
from fleettrio.bench.results import ResultsUnreadable, Row

__all__ = ("Recorded", "append_csv", "newest", "read_csv", "results_folder")

_FACTS = ("commit", "machine", "load", "python", "compiled", "broker")
_COLUMNS = (
    "when", *_FACTS, "id", "implementation", "lane", "fsync", "title", "at",
    "unit", "measured", "peer", "peer_name", "ratio", "spread", "goal", "met", "suspect",
)  # fmt: skip
_OF_ROW = tuple(name for name in _COLUMNS if name in Row.__struct_fields__)
_HINT = "record some: fleettrio bench all --record"


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A row, and what it was measured on. `load` is the machine's as the run began; `when` is UTC."""

    when: str
    commit: str
    machine: str
    python: str
    load: str
    row: Row


def results_folder() -> pathlib.Path | None:
    """`benchmarks/results` of the sources that this runs from; None when it was installed without them."""
    root = checkout()
    return None if root is None else root / "benchmarks" / "results"


def append_csv(file: pathlib.Path, rows: Iterable[Row], facts: Mapping[str, str]) -> None:
    """Add the rows to `file`, which is made with its heading when it is not there."""
    is_new = not file.exists()
    when = time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime())
    shown = {name: facts.get(name, "") for name in _FACTS}
    with open(file, "a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        for row in rows:
            writer.writerow({"when": when, **shown, **_cells(row)})


def read_csv(file: pathlib.Path) -> list[Recorded]:
    """Every line, oldest first. Raises `ResultsUnreadable`, which names the file, and the line that says nothing."""
    try:
        lines = list(csv.DictReader(file.read_text("utf-8").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        why = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise ResultsUnreadable(f"{file}: {why}", hint=_HINT) from None
    found = []
    for number, line in enumerate(lines, 2):
        try:
            found.append(_recorded(line))
        except (KeyError, ValueError, msgspec.ValidationError) as problem:
            what = f"there is no column {problem}" if isinstance(problem, KeyError) else str(problem)
            raise ResultsUnreadable(f"{file}, line {number}, is no figure of a benchmark: {what}", hint=_HINT) from None
    return found


def newest(found: Iterable[Recorded]) -> dict[str, Recorded]:
    """By key of the row, in the order in which they first came: what was recorded last."""
    last: dict[str, Recorded] = {}
    for one in found:
        before = last.get(one.row.key)
        if before is None or one.when >= before.when:
            last[one.row.key] = one
    return last


def _cells(row: Row) -> dict[str, str]:
    plain = {name: getattr(row, name) for name in _OF_ROW if name != "at"}
    cells = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in plain.items()}
    place = ";".join(f"{name}={value:g}" for name, value in row.at.items())
    return {**{name: "" if value is None else str(value) for name, value in cells.items()}, "at": place}


def _recorded(line: Mapping[str, str]) -> Recorded:
    cells: dict[str, object] = {name: line[name] or None for name in _OF_ROW}
    pairs = (pair.partition("=") for pair in line["at"].split(";") if pair)
    given = {name: cell for name, cell in cells.items() if cell is not None}
    for name in ("met", "suspect"):
        if name in given:
            given[name] = str(given[name]).lower()
    row = msgspec.convert(
        {"measured": None, **given, "at": {name: value for name, _, value in pairs}}, Row, strict=False
    )
    return Recorded(**{name: line[name] for name in ("when", "commit", "machine", "python", "load")}, row=row)
