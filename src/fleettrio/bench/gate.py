"""`make gate`: fails when the hot path or a hop costs more than `benchmarks/gates.toml` allows.

Rules:

1. Only what a busy machine leaves alone is judged: instructions, and CPU time beside a peer's in the same run.
2. A bound is tightened when the code got better, by hand and with the margin that the file states, and never loosened.
3. A gate that cannot fail is none: `--plant fast` and `--plant hop` put a known regression in place, and must be red.
"""

from __future__ import annotations

import argparse
import math
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping

import msgspec

from fleettrio import _accel
from fleettrio.bench.context import Context, checkout
from fleettrio.bench.figures import Hop
from fleettrio.bench.hop import run_rounds
from fleettrio.bench.instructions import count_all
from fleettrio.bench.pair import Pair
from fleettrio.bench.patches import UNBATCHED, patched
from fleettrio.bench.peers import PEERS
from fleettrio.bench.report import figure
from fleettrio.bench.samples import ratios
from fleettrio.bench.traffic import Way
from fleettrio.clients.cli.table import note, print_error, print_table
from fleettrio.errors import STOPPED, FleetTrioError
from fleettrio.testing.stopping import stopped_by_signals

__all__ = ("Bound", "Gates", "GatesUnreadable", "main", "read_gates", "red")

ENCODED_TWICE = """\
from fleettrio import _accel
once = _accel.encode_header
if _accel.IMPLEMENTATION == "compiled":
    _accel.encode_header = lambda fields: once(fields) and once(fields)
"""
"""The plant `fast`: the compiled twin encodes every header, throws it away and encodes it again."""
_PLANTED = ("encode",)
"""The cases that see it: with the plant they alone are counted."""
ROUNDS = 3
_PEER = "aio-pika"
_WAY = Way(1, 4, 64)
_SIDES: Mapping[str, Callable[[Hop], float]] = {
    "sending": lambda hop: hop.sending_us,
    "receiving": lambda hop: hop.receiving_us,
}
_RED, _BROKEN = 3, 1


class GatesUnreadable(FleetTrioError):
    """`benchmarks/gates.toml` is not there, or says something else than bounds."""

    exit_code = 2


class Gates(msgspec.Struct, forbid_unknown_fields=True):
    python: str
    """The version that the instructions were counted on; on another one they are only shown."""
    instructions: dict[str, float]
    """Case → the most instructions of one item, compiled."""
    compiled: dict[str, float]
    """Case → how many times as many instructions the pure twin takes, at least."""
    hop: dict[str, float]
    """`sending`, `receiving` → how many times our CPU time for a message goes into the peer's, at least."""


class Bound(msgspec.Struct, frozen=True):
    """A figure beside its bound."""

    name: str
    measured: float
    bound: float
    is_most: bool = False

    @property
    def is_met(self) -> bool:
        return self.measured <= self.bound if self.is_most else self.measured >= self.bound


def read_gates(file: pathlib.Path) -> Gates:
    """Raises `GatesUnreadable`, which names the file and what is wrong with it."""
    try:
        return msgspec.toml.decode(file.read_bytes(), type=Gates)
    except OSError as problem:
        raise GatesUnreadable(f"{file}: {problem.strerror}", hint="run it in a checkout") from None
    except msgspec.DecodeError as problem:
        raise GatesUnreadable(f"{file}: {problem}") from None


def red(bounds: list[Bound]) -> list[str]:
    """A sentence for each bound that is not kept."""
    sentences = []
    for bound in bounds:
        if not bound.is_met:
            allowed = f"at {'most' if bound.is_most else 'least'} {figure(bound.bound)} is allowed"
            sentences.append(f"{bound.name}: {figure(bound.measured)}, {allowed}")
    return sentences


def instruction_bounds(gates: Gates, context: Context, *, is_planted: bool) -> Iterator[Bound]:
    """Of every case in the file. Raises FleetTrioError when they cannot be counted."""
    if _accel.IMPLEMENTATION != "compiled":
        why = _accel.PROBLEM or "FLEETTRIO_NO_EXTENSIONS is set"
        raise FleetTrioError(f"there is no compiled hot path to judge: {why}", hint="build it: make dev")
    if is_planted:  # what is counted inherits it
        os.environ.update(patched(context.folder, ENCODED_TWICE))
    cases = _PLANTED if is_planted else tuple(gates.instructions)
    context.progress.step("instructions of the compiled hot path")
    compiled = count_all(cases)
    is_judged = gates.python == ".".join(map(str, sys.version_info[:2]))
    for case in cases:
        most = gates.instructions[case] if is_judged else math.inf
        yield Bound(f"{case}, instructions", compiled[case], most, is_most=True)
    context.progress.step("instructions of its pure twin")
    pure = count_all(cases, is_pure=True)
    for case in cases:
        yield Bound(f"{case}, pure ÷ compiled", pure[case] / compiled[case], gates.compiled[case])


def hop_bounds(gates: Gates, context: Context, *, is_planted: bool) -> Iterator[Bound]:
    """CPU time of the peer's processes beside that of ours. Raises FleetTrioError when the counts do not match."""
    pair = Pair(context, patch=UNBATCHED if is_planted else "", way=_WAY)
    rounds = run_rounds(context, {"ours": pair}, [PEERS[_PEER]])
    if fault := rounds.fault_of("ours", _PEER):
        raise FleetTrioError(f"the hops cannot be judged: {fault}")
    for side, least in gates.hop.items():
        theirs, ours = (rounds.samples(case, _SIDES[side]) for case in (_PEER, "ours"))
        yield Bound(f"{side}, CPU of {_PEER} ÷ ours", ratios(theirs, ours).median, least)


_PARTS = {"fast": instruction_bounds, "hop": hop_bounds}


def main(arguments: list[str]) -> int:
    """0 green, 3 red, 1 when it could not be measured, 2 for bad options or bounds, 130 when it was stopped."""
    parser = argparse.ArgumentParser(prog="python -m fleettrio.bench.gate", description="ratios that must not fall")
    parser.add_argument("--plant", choices=_PARTS, help="put a known regression in place; only its part is judged")
    plant: str | None = parser.parse_args(arguments).plant
    bounds = list[Bound]()
    try:
        gates = read_gates((checkout() or pathlib.Path()) / "benchmarks" / "gates.toml")
        with stopped_by_signals(), Context(rounds=ROUNDS) as context:
            for name in [plant] if plant else _PARTS:
                context.progress.begin(f"gate {name}")
                bounds += _PARTS[name](gates, context, is_planted=bool(plant))
            context.progress.end()
    except KeyboardInterrupt:
        note("stopped; everything that was started has ended")
        return STOPPED
    except FleetTrioError as problem:
        print_error(str(problem), problem.hint)
        return problem.exit_code if isinstance(problem, GatesUnreadable) else _BROKEN
    return _told(bounds)


def _told(bounds: list[Bound]) -> int:
    rows = []
    for bound in bounds:
        allowed = f"{'≤' if bound.is_most else '≥'} {figure(bound.bound)}" if math.isfinite(bound.bound) else "-"
        rows.append((bound.name, figure(bound.measured), allowed, "" if bound.is_met else "RED"))
    print_table(("figure", "measured", "bound", ""), rows)
    sentences = red(bounds)
    for sentence in sentences:
        print_error(sentence)
    print(f"\nthe gate is {'red' if sentences else 'green'}")
    return _RED if sentences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
