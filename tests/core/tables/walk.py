"""State tables, walked: each cell is a fresh real core brought into a state, and one event.

A table lists how a state is reached and how an event is made; what comes of it is what the core says. `render` draws it
for `docs/states.md`, which a test compares with the core of today.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ("STAYS", "Table", "render", "walk")

STAYS = "·"
"""The row is as it was, but for what follows."""


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """`Case` is whatever `states` make, `events` drive and `say` reads."""

    name: str
    states: Mapping[str, Sequence[Callable[[], Any]]]
    """Column → ways into it. All of a column's ways must end alike: final states share one."""
    events: Mapping[str, Callable[[Any], object]]
    say: Callable[[Any], str]
    impossible: frozenset[tuple[str, str]] = frozenset()
    """`(event, state)` that cannot be: nobody can do that to what is not there."""


def walk(table: Table, event: str, state: str) -> str:
    """What the event makes of the state: the new state, or `STAYS`."""
    if (event, state) in table.impossible:
        return ""
    ends = {_end(table, reach, table.events[event]) for reach in table.states[state]}
    assert len(ends) == 1, f"{table.name}: {event!r} ends states in the column {state!r} differently: {sorted(ends)}"
    return ends.pop()


def _end(table: Table, reach: Callable[[], Any], event: Callable[[Any], object]) -> str:
    case = reach()
    before = table.say(case)
    event(case)
    after = table.say(case)
    return STAYS + after.removeprefix(before) if after.startswith(before) else after


def render(table: Table) -> str:
    """The table in Markdown: events down, states across."""
    lines = [_line("", *table.states), "|" + "---|" * (len(table.states) + 1)]
    lines += [_line(event, *(walk(table, event, state) for state in table.states)) for event in table.events]
    return "\n".join(lines) + "\n"


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
