"""Pages with tables out of the code: their text is written by hand, what stands between marks is what the code says.

`docs/states.md` has what the core does, state by state; `docs/flows.md` the kinds.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.core.tables import agents, asks, claims, kinds, peers, recipient, sender
from tests.core.tables.walk import Table, render

__all__ = ("FLOWS", "STATES", "TABLES", "cells", "draw", "kinds_on_page")

DOCS = Path(__file__).parents[3] / "docs"
STATES, FLOWS = DOCS / "states.md", DOCS / "flows.md"
TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        recipient.PUSH,
        recipient.TAKEN,
        recipient.PULL,
        sender.SENT,
        asks.ASKER,
        asks.ASKED,
        agents.AGENT,
        agents.SPAWN,
        agents.REQUEST,
        peers.PEER,
        claims.CLAIM,
    )
}
_MARKED = re.compile(r"<!-- table: ([a-z-]+) -->\n(.*?)<!-- end -->\n", re.DOTALL)


def cells(name: str) -> dict[tuple[str, str], str]:
    """`(event, state)` → what the page says that comes of it."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in _between(STATES)[name].splitlines()]
    states = lines[0][1:]
    return {(line[0], state): cell for line in lines[2:] for state, cell in zip(states, line[1:], strict=True)}


def kinds_on_page() -> str:
    return _between(FLOWS)["kinds"]


def draw() -> None:
    """Write every table anew."""
    drawn = {name: render(table) for name, table in TABLES.items()} | {"kinds": kinds.draw()}
    for page in (STATES, FLOWS):
        text = page.read_text(encoding="utf-8")
        filled = _MARKED.sub(lambda found: f"<!-- table: {found[1]} -->\n{drawn[found[1]]}<!-- end -->\n", text)
        page.write_text(filled, encoding="utf-8")


def _between(page: Path) -> dict[str, str]:
    return dict(_MARKED.findall(page.read_text(encoding="utf-8")))
