"""Messages from a host to another through the broker, beside bare AMQP clients that do less with them (G5, G6, G7).

Ours are two daemons with shipped settings, a source that keeps sends in flight on the socket of one, and a sink that
counts at the other: signed, verified, seen once, committed with fsync on both sides. A peer is two processes that
publish and consume, confirmed and acknowledged; it signs and stores nothing.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fleettrio import _accel
from fleettrio.bench.context import Context
from fleettrio.bench.environment import cores
from fleettrio.bench.figures import Hop
from fleettrio.bench.flames import flames
from fleettrio.bench.pair import Pair
from fleettrio.bench.peers import PEERS, Peer, PeerMissing, Peers, suspect
from fleettrio.bench.programs import CountsDiffer
from fleettrio.bench.results import Goal, Row, at_most, no_figure, row, times_as_good
from fleettrio.bench.samples import Samples, in_turn, ratios

__all__ = ("Rounds", "implementations", "measure", "run_rounds")

ROUND_S = 4.0
"""As many messages a round as take about so long."""
_FEWEST, _MOST = 400, 20_000
_WARM = 1000
_RAW = "raw socket"
_TITLE = "hop between two hosts, 1 KiB"
_OVER_PEERS: dict[str, tuple[str, Goal | None]] = {
    "pika": ("G5", times_as_good(1.0)),
    "aio-pika": ("G5.aio-pika", times_as_good(3.5)),
    "aio-pika/uvloop": ("G5.uvloop", None),
    "FastStream": ("G5.stream", None),
    _RAW: ("G6", times_as_good(0.75)),
}
_PEER_ROWS = {
    _RAW: "hop.raw",
    "pika": "hop.pika",
    "aio-pika": "hop.aio-pika",
    "aio-pika/uvloop": "hop.uvloop",
    "FastStream": "hop.stream",
}


def implementations() -> tuple[str, ...]:
    """What there is to measure here: the pure twin always, the compiled one where it was built."""
    return ("compiled", "pure") if _accel.IMPLEMENTATION == "compiled" else ("pure",)


class Rounds:
    """Hops by case, and what is wrong with the cases that have none."""

    def __init__(self) -> None:
        self.hops: dict[str, list[Hop]] = {}
        self.faults: dict[str, str] = {}
        self.lanes: dict[str, str] = {}
        self.ways: dict[str, str] = {}
        """How the source of each pair went about it."""

    def samples(self, case: str, figure: Callable[[Hop], float]) -> Samples:
        return Samples(tuple(figure(hop) for hop in self.hops[case]))

    def fault_of(self, *cases: str) -> str:
        """Why there is no figure of these together; empty when there is one."""
        return "; ".join(self.faults[case] for case in cases if case in self.faults)


def measure(context: Context) -> Iterator[Row]:
    """Hop for hop in turn: each implementation, each peer, once a round."""
    if context.profile is not None:
        yield from flames(context, context.profile)
        return
    rounds = run_rounds(context, {way: Pair(context, way) for way in implementations()}, PEERS.values())
    for implementation in implementations():
        yield from _our_rows(rounds, implementation)
    yield from _room_rows(rounds)
    yield from _peer_rows(rounds)


def run_rounds(context: Context, pairs: Mapping[str, Pair], with_peers: Iterable[Peer]) -> Rounds:
    """Hops of these pairs, which are started and ended, and of these peers. Who breaks down has a fault and no hops."""
    rounds = Rounds()
    with contextlib.ExitStack() as stack:
        cases: dict[str, Callable[[], Hop]] = {}
        for name, pair in pairs.items():
            stack.enter_context(pair)
            _warm_up(context, rounds, cases, name, functools.partial(_our_hop, pair))
            rounds.ways[name], rounds.lanes[name] = pair.way, pair.lane
        peers = Peers(context)
        for peer in with_peers:
            _warm_up(context, rounds, cases, peer.name, functools.partial(_peer_hop, peers, peer))
        _run(context, rounds, cases)
    return rounds


def _our_hop(pair: Pair, count: int) -> Hop:
    return pair.hop(count, way=pair.best_way(_WARM))


def _peer_hop(peers: Peers, peer: Peer, count: int) -> Hop:
    return peers.hop(peer, count, peers.best_window(peer, min(count, _WARM)))


def _warm_up(
    context: Context, rounds: Rounds, cases: dict[str, Callable[[], Hop]], case: str, run: Callable[[int], Hop]
) -> None:
    """Make it a case with as many messages a round as suit its pace, or note why it cannot be one."""
    context.progress.step(f"{case}: warming up")
    try:
        run(_WARM)
        rate = run(_WARM).rate
    except (CountsDiffer, PeerMissing) as problem:
        rounds.faults[case] = str(problem)
        return
    rounds.hops[case] = []
    cases[case] = functools.partial(run, max(_FEWEST, min(_MOST, int(rate * ROUND_S))))


def _run(context: Context, rounds: Rounds, cases: dict[str, Callable[[], Hop]]) -> None:
    def guarded(case: str) -> Hop | None:
        context.progress.step(f"{case}: hop", _done(rounds), len(cases) * context.rounds)
        try:
            return cases[case]()
        except CountsDiffer as problem:
            rounds.faults[case] = f"{case}: {problem}"
            return None

    for _, case, hop in in_turn({case: functools.partial(guarded, case) for case in cases}, context.rounds):
        if hop is not None:
            rounds.hops[case].append(hop)
            cost = f"{hop.sending_us:.0f} + {hop.receiving_us:.0f} µs CPU a message"
            context.progress.step(f"{case}: {hop.rate:.0f} msg/s, {cost}", _done(rounds), len(cases) * context.rounds)


def _done(rounds: Rounds) -> int:
    return sum(len(hops) for hops in rounds.hops.values())


def _our_rows(rounds: Rounds, ours: str) -> Iterator[Row]:
    """`pure` has the same rows without goals: it is there to work everywhere, not to be fast."""
    way: dict[str, Any] = {"implementation": ours, "lane": rounds.lanes.get(ours, ""), "fsync": "FULL"}
    for peer, (case, wanted) in _OVER_PEERS.items():
        goal = wanted if ours == "compiled" else None
        if fault := rounds.fault_of(ours, peer):
            yield no_figure(case, _TITLE, "msg/s", fault, goal=goal, **way)
            continue
        figures = rounds.samples(ours, _rate), rounds.samples(peer, _rate)
        more = {**way, "notes": [f"sent over {rounds.ways[ours]}"] if case == "G5" else []}
        yield row(case, _TITLE, "msg/s", *figures, peer_name=peer, goal=goal, suspect=_is_suspect(rounds, peer), **more)
    for case, title, limit, cpu in (
        ("G7", "CPU of the sending daemon for a message", 80, _sending),
        ("G7.taking", "CPU of the receiving daemon for a message", 120, _receiving),
    ):
        goal = at_most(limit) if ours == "compiled" else None
        if fault := rounds.fault_of(ours):
            yield no_figure(case, title, "µs", fault, goal=goal, **way)
            continue
        pika = None if rounds.fault_of("pika") else rounds.samples("pika", cpu)
        yield row(
            case, title, "µs", rounds.samples(ours, cpu), pika, peer_name="pika" if pika else "", goal=goal, **way
        )


def _room_rows(rounds: Rounds) -> Iterator[Row]:
    """What the machine has left for the daemons: broker, source and sink are on the same cores."""
    ours, *_ = implementations()
    if rounds.fault_of(ours, "pika"):
        return
    pika = rounds.samples("pika", _rate)
    for case, title, cpu, beside in (
        ("room.broker", "CPU of the broker for a message", _broker, rounds.samples("pika", _broker)),
        ("room.programs", "CPU of source and sink for a message", _programs, None),
    ):
        yield row(case, title, "µs", rounds.samples(ours, cpu), beside, peer_name="pika" if beside else "")
    title = f"a hop for which the daemons took no CPU at all, on {cores()} cores"
    yield row("room.hop", title, "msg/s", rounds.samples(ours, _without_daemons), pika, peer_name="pika")


def _peer_rows(rounds: Rounds) -> Iterator[Row]:
    """What the peers did themselves, beside the raw socket."""
    title = "the peers' hops"
    for name in PEERS:
        case = _PEER_ROWS[name]
        if fault := rounds.fault_of(name):
            yield no_figure(case, title, "msg/s", fault)
            continue
        sending, receiving = rounds.samples(name, _sending), rounds.samples(name, _receiving)
        cost = f"{name}, {sending.median:.0f} + {receiving.median:.0f} µs of CPU a message"
        raw = None if name == _RAW or rounds.fault_of(_RAW) else rounds.samples(_RAW, _rate)
        yield row(
            case,
            title,
            "msg/s",
            rounds.samples(name, _rate),
            raw,
            peer_name=_RAW if raw else "",
            suspect=_is_suspect(rounds, name),
            notes=[cost],
        )


def _is_suspect(rounds: Rounds, peer: str) -> bool:
    if rounds.fault_of(peer, _RAW):
        return False
    return suspect(PEERS[peer], ratios(rounds.samples(peer, _rate), rounds.samples(_RAW, _rate)).median)


def _rate(hop: Hop) -> float:
    return hop.rate


def _sending(hop: Hop) -> float:
    return hop.sending_us


def _receiving(hop: Hop) -> float:
    return hop.receiving_us


def _broker(hop: Hop) -> float:
    return hop.broker_us


def _programs(hop: Hop) -> float:
    return hop.programs_us


def _without_daemons(hop: Hop) -> float:
    """Messages a second, when every core is full of what others do for them."""
    return 1e6 * cores() / (hop.broker_us + hop.programs_us)
