"""Results for a reader: tables of 80 columns, and the verdict over all goals."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from fleettrio.bench.results import Row
from fleettrio.clients.cli.table import print_table, say

__all__ = ("GOALS", "deciding", "figure", "print_environment", "print_goals", "print_rows", "verdicts")

GOALS = tuple(f"G{number}" for number in range(1, 15))
_HEADERS = ("row", "measured", "peer", "ratio", "±", "goal", "verdict")


def print_rows(rows: Iterable[Row]) -> None:
    """A table for each way in which it ran: compiled or pure, which lane, what is on disk."""
    ordered = sorted(rows, key=lambda row: _way(row) or "~")  # stable: otherwise in the order they were measured
    for way, of_way in itertools.groupby(ordered, key=_way):
        print(f"\n{way or 'Whatever it runs on'}\n")
        _print_table(list(of_way))


def print_goals(rows: Sequence[Row]) -> None:
    """The goals, each with the rows that decide it, and in the last lines which are met and which are not."""
    print("\nThe goals\n")
    _print_table(deciding(rows))
    print()
    for sentence in verdicts(rows):
        say(sentence)


def deciding(rows: Iterable[Row]) -> list[Row]:
    """The rows that decide a goal, goal by goal: the pure twin has none."""
    found = [row for row in rows if row.goal and row.implementation != "pure"]
    return sorted(found, key=lambda row: GOALS.index(row.goal_id) if row.goal_id in GOALS else 99)


def verdicts(rows: Iterable[Row]) -> list[str]:
    """How many goals are met, and which are not."""
    of_goals = deciding(rows)
    by_goal = {goal: {row.verdict for row in of_goals if row.goal_id == goal} for goal in GOALS}
    sentences = [f"{sum(words == {'met'} for words in by_goal.values())} of {len(GOALS)} goals met"]
    for word in ("missed", "suspect", "no figure"):
        found = [goal for goal, words in by_goal.items() if word in words]
        sentences += [f"{word}: {', '.join(found)}"] if found else []
    unmeasured = [goal for goal, words in by_goal.items() if not words]
    return sentences + ([f"not measured: {', '.join(unmeasured)}"] if unmeasured else [])


def print_environment(facts: Mapping[str, str]) -> None:
    print("\nMade on\n")
    print_table(("what", "which"), [(name, value) for name, value in facts.items() if value], has_heading=False)


def figure(value: float | None, unit: str = "") -> str:
    """Three digits, thousands apart: `4 812 msg/s`, `0.412 µs`; a hyphen where there is none."""
    if value is None:
        return "-"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f} {unit}".replace(",", " ").strip()


def _way(row: Row) -> str:
    words = (row.implementation, row.lane and f"{row.lane} lane", row.fsync and f"fsync {row.fsync}")
    return ", ".join(filter(None, words)).capitalize()


def _print_table(rows: Sequence[Row]) -> None:
    """What is measured as a line, its rows below it in columns that are the same for all."""
    lines = {id(row): _line(row) for row in rows}
    columns = zip(_HEADERS, *lines.values(), strict=True)
    headers = [column[0].ljust(max(map(len, column))) for column in columns]
    for number, what in enumerate(dict.fromkeys(map(_what, rows))):
        say(what)
        of_it = [lines[id(row)] for row in rows if _what(row) == what]
        print_table(headers, of_it, indent="  ", has_heading=not number)
    for row in rows:
        for note in row.notes:
            say(f"{row.key}: {note}", indent="    ")


def _what(row: Row) -> str:
    return f"{row.title}, {row.unit}"


def _line(row: Row) -> tuple[str, ...]:
    return (
        row.id,
        figure(row.measured),
        f"{row.peer_name} {figure(row.peer)}" if row.peer_name else "-",
        "-" if row.ratio is None else f"{figure(row.ratio)} ×",
        "-" if row.measured is None else f"{row.spread:.0%}",
        row.goal.removesuffix(row.unit).rstrip() or "-",
        row.verdict or "-",
    )
