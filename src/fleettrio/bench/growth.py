"""What a message costs as work grows: more of it held, more inboxes, longer bodies (G13).

Each point is the CPU time of a host without socket and broker, from send to confirmed, store included; it is compared
with the smallest point of its line. The cost of a message stays the same, or grows by its bytes alone.
"""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fleettrio import _accel
from fleettrio.bench.bus import Bus, bus
from fleettrio.bench.context import Context
from fleettrio.bench.programs import CountsDiffer
from fleettrio.bench.results import Row, no_figure, row, times_as_good
from fleettrio.bench.samples import interleaved
from fleettrio.core.ledger import Limits
from fleettrio.ids import MsgId
from fleettrio.testing.stopping import run_until_stopped

__all__ = ("growth",)

IN_FLIGHT = 64
AT_A_TIME = 10
SMALL = 1_024
HELD, INBOXES, BODIES = (10, 1_000, 10_000), (10, 100, 1_000), (100, 1_024, 16_384, 262_144)
_MESSAGES, _LEAST = 1_280, 128
_BYTES_A_ROUND = 16 * 1024 * 1024
_FLAT = times_as_good(0.67)
"""At most half as much again as the smallest point: caches and trees get deeper."""
_ROOMY = Limits(messages=100_000, bytes=1 << 32)

Point = Callable[[pathlib.Path], float]


def growth(context: Context) -> Iterator[Row]:
    yield from _line(context, "held", "while N wait in its inbox", HELD, _while_held)
    yield from _line(context, "inboxes", "with N inboxes, ten of which take turns at a time", INBOXES, _among_inboxes)
    yield from _line(context, "body", "with a body of N bytes", BODIES, _of_bytes)


def _line(
    context: Context, name: str, title: str, sizes: Sequence[int], measure: Callable[[int, pathlib.Path], float]
) -> Iterator[Row]:
    def point(size: int) -> float:
        context.progress.step(f"{name} {size}")
        with tempfile.TemporaryDirectory(dir=context.folder) as folder:
            return measure(size, pathlib.Path(folder))

    first = sizes[0]
    way: dict[str, Any] = {"implementation": _accel.IMPLEMENTATION, "fsync": "FULL"}
    try:
        found = interleaved({str(size): functools.partial(point, size) for size in sizes}, context.rounds)
    except CountsDiffer as problem:
        yield no_figure(f"G13.{name}", f"a message {title}", "µs", str(problem), **way)
        return
    for size in sizes:
        is_first = size == first
        yield row(
            f"G13.{name}.{size}",
            f"a message {title}",
            "µs",
            found[str(size)],
            None if is_first else found[str(first)],
            peer_name="" if is_first else f"{first:,}",
            # A body's bytes are written, read and hashed: that line is to be linear, and its figures are there to see.
            goal=None if is_first or measure is _of_bytes else _FLAT,
            at={name: float(size)},
            **way,
        )


def _while_held(size: int, folder: pathlib.Path) -> float:
    async def run() -> float:
        async with bus(folder, "worker", limits=_ROOMY) as host:
            await _fill(host, ["worker"], size)
            return await _turn_over(host, ["worker"], os.urandom(SMALL), _MESSAGES, held=size)

    return run_until_stopped(run)


def _among_inboxes(size: int, folder: pathlib.Path) -> float:
    async def run() -> float:
        names = [f"worker{number}" for number in range(size)]
        async with bus(folder, *names, limits=_ROOMY) as host:
            return await _turn_over(host, names, os.urandom(SMALL), _MESSAGES)

    return run_until_stopped(run)


def _of_bytes(size: int, folder: pathlib.Path) -> float:
    count = max(_LEAST, min(_MESSAGES, _BYTES_A_ROUND // size))

    async def run() -> float:
        async with bus(folder, "worker", limits=_ROOMY) as host:
            return await _turn_over(host, ["worker"], os.urandom(size), count)

    return run_until_stopped(run)


async def _fill(host: Bus, names: list[str], count: int) -> None:
    body = os.urandom(SMALL)
    for first in range(0, count, 256):
        await host.send(*itertools.islice(itertools.cycle(names), min(256, count - first)), body=body)


async def _turn_over(host: Bus, names: list[str], body: bytes, count: int, held: int = 0) -> float:
    """Microseconds of CPU a message: groups are sent, taken and confirmed, so that as many are held as before.

    Raises `CountsDiffer`.
    """
    in_turn = itertools.cycle(names)
    sent = taken = 0
    began = time.process_time()
    while sent < count:
        some = list(itertools.islice(in_turn, min(AT_A_TIME, len(names))))
        group = list(itertools.islice(itertools.cycle(some), min(IN_FLIGHT, count - sent)))
        sent += len(await host.send(*group, body=body))
        for name in dict.fromkeys(group):
            ids: list[MsgId] = []
            while len(ids) < group.count(name):
                got, _, cursor = await host.pull(name, most=group.count(name) - len(ids))
                ids += got
                await host.confirm(cursor)
            taken += len(ids)
    spent = time.process_time() - began
    if taken != sent:
        raise CountsDiffer(f"{taken} of {sent} messages were taken, {held} were held before")
    return 1e6 * spent / count
