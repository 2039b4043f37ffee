"""Messages a second, and how long each is on its way, as there is more: in flight, in a body, inboxes on a host.

They go as in the benchmark `hop`: between two hosts with shipped settings, through the broker. Beside them, where that
is possible, stands pika, which signs and stores nothing. `fleettrio bench plot` draws the lines.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fleettrio.bench.context import Context
from fleettrio.bench.crowd import open_inboxes
from fleettrio.bench.figures import Hop
from fleettrio.bench.hop import implementations
from fleettrio.bench.pair import BODY, Pair
from fleettrio.bench.peers import PEERS, PeerMissing, Peers
from fleettrio.bench.programs import CountsDiffer
from fleettrio.bench.results import Row, no_figure, row
from fleettrio.bench.samples import Samples, in_turn, quantile
from fleettrio.bench.traffic import Way
from fleettrio.testing.waiting import wait_until

__all__ = ("measure",)

_ROUNDS = 3
"""At most: a line has several points, and its shape is what counts."""
_WARM = 500
_USUAL = Way(4, 64)
_READERS = 100
"""So many inboxes take turns at most: each has a connection to the daemon, which takes 256."""
_LIMIT_S = 120.0
_PEER = PEERS["pika"]


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """`count` messages in a round: what takes a second or two, or is enough to be counted."""

    size: int
    count: int
    body: int = BODY
    way: Way = _USUAL

    @property
    def in_flight(self) -> int:
        return self.way.connections * self.way.in_flight * self.way.group


_LOAD = (
    Point(1, 60, way=Way(1, 1)),
    Point(8, 400, way=Way(1, 8)),
    Point(64, 2_000, way=Way(1, 64)),
    Point(256, 4_000, way=_USUAL),
)
_BODIES = (
    Point(100, 4_000, 100),
    Point(1_024, 4_000, 1_024),
    Point(16_384, 1_500, 16_384),
    Point(262_144, 150, 262_144),
)
_INBOXES = tuple(Point(size, 3_000) for size in (1, 10, 100, 1_000))


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """What is varied, as `Row.at` names it, and the words for it."""

    at: str
    title: str
    points: tuple[Point, ...]


LOAD = Line("in flight", "hop of 1 KiB, N messages in flight", _LOAD)
BODY_SIZE = Line("body", "hop of N bytes, 256 in flight", _BODIES)
INBOXES = Line("inboxes", "hop of 1 KiB to a host with N inboxes, 256 in flight", _INBOXES)


def measure(context: Context) -> Iterator[Row]:
    with contextlib.ExitStack() as stack:
        pairs = {way: stack.enter_context(Pair(context, way)) for way in implementations()}
        for pair in pairs.values():
            pair.hop(_WARM)
        for line in (LOAD, BODY_SIZE):
            yield from _together(context, line, pairs)
    yield from _as_it_fills(context)


def _together(context: Context, line: Line, pairs: Mapping[str, Pair]) -> Iterator[Row]:
    """Every point of every one, once a round."""
    peers = Peers(context)
    cases: dict[tuple[str, int], Callable[[], Hop]] = {}
    for point in line.points:
        for name, pair in pairs.items():
            cases[name, point.size] = functools.partial(pair.hop, point.count, body=point.body, way=point.way)
        cases[_PEER.name, point.size] = functools.partial(
            peers.hop, _PEER, point.count, min(point.in_flight, point.count), point.body
        )
    found = _hops(context, line, cases)
    for point in line.points:
        for name, pair in pairs.items():
            yield from _rows(line, point, pair, found[name, point.size], found[_PEER.name, point.size])


def _as_it_fills(context: Context) -> Iterator[Row]:
    """One host that gets more and more inboxes."""
    with Pair(context, implementations()[0], agents=0) as pair:
        for point in INBOXES.points:
            context.progress.step(f"{point.size} inboxes")
            pair.grow(point.size)
            wait_until(f"{point.size} open inboxes", functools.partial(_are_open, pair, point.size), _LIMIT_S)
            run = functools.partial(
                pair.hop, point.count, body=point.body, way=point.way, readers=min(point.size, _READERS)
            )
            key = (pair.implementation, point.size)
            yield from _rows(INBOXES, point, pair, _hops(context, INBOXES, {key: run})[key], "")


def _are_open(pair: Pair, inboxes: int) -> bool:
    """The person has an inbox, too."""
    return open_inboxes(pair.beta) > inboxes


def _hops(
    context: Context, line: Line, cases: Mapping[tuple[str, int], Callable[[], Hop]]
) -> dict[tuple[str, int], list[Hop] | str]:
    """The rounds of each case, or why it has no figure."""
    rounds = min(context.rounds, _ROUNDS)
    found: dict[tuple[str, int], list[Hop] | str] = {case: [] for case in cases}
    names = {f"{name}, {size} {line.at}": (name, size) for name, size in cases}

    def guarded(name: str) -> Hop | str:
        done = sum(len(hops) for hops in found.values() if not isinstance(hops, str))
        context.progress.step(name, done, len(cases) * rounds)
        try:
            return cases[names[name]]()
        except (CountsDiffer, PeerMissing) as problem:
            return str(problem)

    for _, name, hop in in_turn({name: functools.partial(guarded, name) for name in names}, rounds):
        hops = found[names[name]]
        if isinstance(hop, str):
            found[names[name]] = hop
        elif not isinstance(hops, str):
            hops.append(hop)
    return found


def _rows(line: Line, point: Point, pair: Pair, ours: list[Hop] | str, theirs: list[Hop] | str) -> Iterator[Row]:
    """Without a figure of the peer there is still ours."""
    about: dict[str, Any] = {"implementation": pair.implementation, "lane": pair.lane, "fsync": "FULL"}
    about["at"] = {line.at: float(point.size)}
    row_id = f"curve.{line.at.replace(' ', '-')}.{point.size}"
    if isinstance(ours, str):
        yield no_figure(row_id, line.title, "msg/s", ours, **about)
        return
    peer = None if isinstance(theirs, str) else Samples(tuple(hop.rate for hop in theirs))
    rates = Samples(tuple(hop.rate for hop in ours))
    yield row(row_id, line.title, "msg/s", rates, peer, peer_name=_PEER.name if peer else "", **about)
    for name, share, words in (("p50", 0.5, "median"), ("p99", 0.99, "99 %")):
        waits = Samples(tuple(1e3 * quantile(hop.waits, share) for hop in ours))
        yield row(f"{row_id}.{name}", f"{line.title}, on the way: {words}", "ms", waits, **about)
