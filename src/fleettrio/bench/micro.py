"""The hot path by itself, beside libraries that do the same and beside its pure twin (G1 to G4)."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

from fleettrio import _accel, _pure
from fleettrio.bench import materials
from fleettrio.bench.cases import CASES, PEERS, WAYS, cost
from fleettrio.bench.context import Context
from fleettrio.bench.environment import cores
from fleettrio.bench.results import Goal, Row, at_least, at_most, no_figure, row, times_as_good
from fleettrio.bench.samples import Samples, interleaved, ratios, wall_per_item

__all__ = ("measure", "twin_ratio")

_COMPILED, _PURE = "compiled", "pure"
_TITLES = {
    "encode": "canonical header encoded",
    "decode": "canonical header decoded, strictly",
    "verify": "64 signed messages of a host verified, one of them",
    "verify-one": "one signed message verified alone",
    "seen": "an id added to 1 000 000 seen ones, or found there",
    "publish": "a publish encoded in AMQP frames, 64 at once",
    "read": "a delivery read out of AMQP frames, 64 at once",
    "send": "a message from envelope to bytes on the wire, 64 at once",
    "receive": "a message from bytes on the wire to verified, 64 at once",
    "envelope-out": "an envelope encoded and checked",
    "envelope-in": "an envelope decoded and checked",
}
_PEER_NAMES = {
    "encode": "cbor2",
    "decode": "cbor2",
    "verify": "PyNaCl",
    "verify-one": "PyNaCl",
    "seen": "OrderedDict",
}
_GOALS: dict[str, tuple[str, Goal]] = {
    "encode": ("G1", times_as_good(10)),
    "decode": ("G2", times_as_good(10)),
    "verify": ("G3", times_as_good(20)),
    "verify-one": ("G3.one", times_as_good(0.953)),
    "seen": ("G4", times_as_good(3)),
}
_TWIN_GOALS = {"encode": ("G1.pure", times_as_good(15))}
_WAY_GOALS = {"send": at_most(10), "receive": at_most(10)}
_UNIT = "µs"
_MANY = 1_000_000


def measure(context: Context) -> Iterator[Row]:
    """Every case of both implementations and of its peer in turn; then what is no time of one item."""
    is_compiled = _accel.IMPLEMENTATION == _COMPILED
    for name in filter(_TITLES.__contains__, CASES):
        context.progress.step(_TITLES[name])
        yield from _twins(name, context.rounds, is_compiled=is_compiled)
    for name in WAYS:
        context.progress.step(_TITLES[name])
        yield from _way(name, context.rounds, is_compiled=is_compiled)
    if is_compiled:
        context.progress.step("signatures in threads")
        yield from _threads(context.rounds)
        context.progress.step("memory and pauses of the seen ids")
        yield from _memory(context.rounds)


def twin_ratio(name: str, rounds: int) -> float:
    """How many times as fast the compiled twin does a case of `CASES` as the pure one: the middle of these rounds."""
    ours, pure = CASES[name](_accel), CASES[name](_pure)
    found = interleaved({_COMPILED: lambda: cost(ours), _PURE: lambda: cost(pure)}, rounds)
    return ratios(found[_PURE], found[_COMPILED]).median


def _micro(case: Callable[[], float]) -> Callable[[], float]:
    return lambda: 1e6 * case()


def _twins(name: str, rounds: int, *, is_compiled: bool) -> Iterator[Row]:
    cases: dict[str, Callable[[], float]] = {}
    pure = CASES[name](_pure)
    cases[_PURE] = _micro(lambda: cost(pure))
    if is_compiled:
        ours = CASES[name](_accel)
        cases[_COMPILED] = _micro(lambda: cost(ours))
    if name in PEERS:
        peer = PEERS[name]()
        cases["peer"] = _micro(lambda: cost(peer))
    found = interleaved(cases, rounds)
    goal_id, goal = _GOALS.get(name, (name, None))
    for implementation in (_COMPILED, _PURE):
        if implementation in found and "peer" in found:
            yield row(
                goal_id,
                _TITLES[name],
                _UNIT,
                found[implementation],
                found["peer"],
                peer_name=_PEER_NAMES[name],
                goal=goal if implementation == _COMPILED else None,
                implementation=implementation,
            )
    if is_compiled:
        twin_id, twin_goal = _TWIN_GOALS.get(name, (f"{name}.pure", None))
        yield row(
            twin_id,
            _TITLES[name],
            _UNIT,
            found[_COMPILED],
            found[_PURE],
            peer_name="pure twin",
            goal=twin_goal,
            implementation=_COMPILED,
        )
    elif "peer" not in found:
        yield row(goal_id, _TITLES[name], _UNIT, found[_PURE], implementation=_PURE)


def _way(name: str, rounds: int, *, is_compiled: bool) -> Iterator[Row]:
    """The pure build in a process of its own: these use the implementation that was chosen at the start."""
    ours = WAYS[name]()
    cases = {_accel.IMPLEMENTATION: _micro(lambda: cost(ours))}
    if is_compiled:
        cases[_PURE] = _micro(lambda: _cost_elsewhere(name))
    found = interleaved(cases, rounds)
    yield row(
        name,
        _TITLES[name],
        _UNIT,
        found[_accel.IMPLEMENTATION],
        found[_PURE] if is_compiled else None,
        peer_name="pure twin" if is_compiled else "",
        goal=_WAY_GOALS.get(name) if is_compiled else None,
        implementation=_accel.IMPLEMENTATION,
    )


def _cost_elsewhere(name: str) -> float:
    environment = {**os.environ, "FLEETTRIO_NO_EXTENSIONS": "1"}
    command = [sys.executable, "-m", "fleettrio.bench.cases", name]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


# --- threads ------------------------------------------------------------------------------------


def _threads(rounds: int) -> Iterator[Row]:
    """By the clock: two threads that verify, beside one; one call that has many signatures, beside one by one."""
    title = "signatures verified on two cores, as many times as on one"
    goal = at_least(1.7)
    if (number := cores()) < 2:
        yield no_figure("G3.threads", title, "×", f"{number} core here", goal=goal, implementation=_COMPILED)
        return
    busy_before = _others_s()
    found = interleaved(_threaded_cases(), rounds)
    busy = _others_s() - busy_before
    notes = [f"other processes used {busy:.1f} s of the cores meanwhile"] if busy > 0.2 else []
    yield row(
        "G3.threads", title, "×", ratios(found["one"], found["two"]), goal=goal, implementation=_COMPILED,
        notes=notes, suspect=bool(notes),
    )  # fmt: skip
    title = "64 signatures in one call, as many times as one by one"
    gain = ratios(found["singly"], found["together"])
    yield row("G3.split", title, "×", gain, implementation=_COMPILED, notes=notes)


def _threaded_cases() -> dict[str, Callable[[], float]]:
    """Seconds of the clock for the same work."""
    items = materials.signed_alone()
    share = items[:8]  # so few that the call stays on its own core

    def one(count: int) -> None:
        for _ in range(count):
            _accel.verify_many(share)

    def two(count: int) -> None:
        threads = [threading.Thread(target=one, args=(count,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def singly(count: int) -> None:
        for item in items * count:
            _accel.verify_many([item])

    def together(count: int) -> None:
        for _ in range(count):
            _accel.verify_many(items)

    return {
        "one": lambda: wall_per_item(one),
        "two": lambda: wall_per_item(two) / 2,
        "singly": lambda: wall_per_item(singly),
        "together": lambda: wall_per_item(together),
    }


def _others_s() -> float:
    """CPU seconds that other processes of this machine have used; 0 where the system does not tell."""
    with contextlib.suppress(OSError, ValueError):
        fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        used = sum(map(int, (*fields[:3], *fields[5:8])))
        return used / os.sysconf("SC_CLK_TCK") - time.process_time()
    return 0.0


# --- memory and pauses --------------------------------------------------------------------------


def _memory(rounds: int) -> Iterator[Row]:
    ids = [os.urandom(16) for _ in range(_MANY)]
    new = [os.urandom(16) for _ in range(_MANY // 10)]
    sizes, pauses = [], []
    for _ in range(min(rounds, 3)):
        before = _resident()
        seen = _accel.SeenSet(_MANY)
        for at in range(0, _MANY, materials.BATCH):
            seen.add_many(ids[at : at + materials.BATCH])
        sizes.append((_resident() - before) / _MANY)
        pauses.append(1e3 * _longest(seen.add, new))
        del seen
    title = "1 000 000 seen ids"
    for row_id, what, unit, values, most in (
        ("G4.memory", "memory of one", "bytes", sizes, 48),
        ("G4.pause", "longest add, where the oldest is forgotten", "ms", pauses, 1),
    ):
        yield row(
            row_id, f"{title}: {what}", unit, Samples(tuple(values)), goal=at_most(most), implementation=_COMPILED
        )


def _longest(add: Callable[[bytes], bool], ids: list[bytes]) -> float:
    """CPU seconds of the slowest; what the system does to this process meanwhile is not its doing."""
    longest = 0.0
    for key in ids:
        began = time.thread_time()
        add(key)
        longest = max(longest, time.thread_time() - began)
    return longest


def _resident() -> int:
    """Bytes of this process in memory."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
