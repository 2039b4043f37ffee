"""What becomes of it as there is more: agents, hosts, messages; and how soon all is well again (G9, G10, G12, G13)."""

from __future__ import annotations

from collections.abc import Iterator

from fleettrio.bench.context import Context
from fleettrio.bench.crowd import crowd
from fleettrio.bench.growth import growth
from fleettrio.bench.neighbours import neighbours
from fleettrio.bench.outage import outage
from fleettrio.bench.results import Row

__all__ = ("measure",)


def measure(context: Context) -> Iterator[Row]:
    yield from crowd(context)
    yield from neighbours(context)
    yield from outage(context)
    yield from growth(context)
