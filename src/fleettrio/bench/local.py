"""Messages between agents of one host, beside SQLite alone, doing the least that a bus must do (G11).

Ours is the bus of a daemon, its socket and its broker left away. 64 messages are in flight: a sender's next ones go out
together when as many have reached their recipient, whose pulls are confirmed. The peer inserts a message and its row
under a random key and reads the message back, 64 to a commit. Both commit with fsync.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pathlib
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import trio

from fleettrio import _accel
from fleettrio.bench.bus import bus
from fleettrio.bench.context import Context
from fleettrio.bench.programs import CountsDiffer
from fleettrio.bench.results import Row, no_figure, row, times_as_good
from fleettrio.bench.samples import interleaved
from fleettrio.ids import MsgId
from fleettrio.testing.stopping import run_until_stopped

__all__ = ("measure",)

IN_FLIGHT = 64
_COUNT = 6_400
_BODY = os.urandom(1024)
_TITLE = "a message to a neighbour, from send to hand, 1 KiB"
_PEER = "SQLite alone"
_GOAL = times_as_good(0.5)


def measure(context: Context) -> Iterator[Row]:
    def round_of(run: Callable[[pathlib.Path], float], name: str) -> float:
        context.progress.step(f"{name}: {_COUNT} messages")
        with tempfile.TemporaryDirectory(dir=context.folder) as folder:
            return run(pathlib.Path(folder))

    cases = {name: functools.partial(round_of, run, name) for name, run in (("ours", _ours), (_PEER, _alone))}
    way: dict[str, Any] = {"implementation": _accel.IMPLEMENTATION, "fsync": "FULL"}
    try:
        found = interleaved(cases, context.rounds)
    except CountsDiffer as problem:
        yield no_figure("G11", _TITLE, "µs", str(problem), goal=_GOAL, **way)
        return
    yield row("G11", _TITLE, "µs", found["ours"], found[_PEER], peer_name=_PEER, goal=_GOAL, **way)


def _ours(folder: pathlib.Path) -> float:
    return run_until_stopped(functools.partial(_through_the_bus, folder))


async def _through_the_bus(folder: pathlib.Path) -> float:
    """Microseconds a message. Raises `CountsDiffer`."""
    async with bus(folder, "worker") as host, trio.open_nursery() as nursery:
        sent: list[MsgId] = []
        taken: list[MsgId] = []
        free, room = IN_FLIGHT, trio.Event()

        async def send() -> None:
            nonlocal free, room
            while len(sent) < _COUNT:
                await room.wait() if not free else None
                number, free, room = min(free, _COUNT - len(sent)), 0, trio.Event()
                sent.extend(await host.send(*itertools.repeat("worker", number), body=_BODY))

        began = time.perf_counter()
        nursery.start_soon(send)
        cursor = 0
        while len(taken) < _COUNT:
            ids, bodies, cursor = await host.pull("worker", confirmed=cursor)
            if any(body != _BODY for body in bodies) or len(bodies) != len(ids):
                raise CountsDiffer("a message came without its body")
            taken += ids
            free += len(ids)
            room.set()
        await host.confirm(cursor)
        spent = time.perf_counter() - began
    if sorted(taken) != sorted(sent):
        raise CountsDiffer(f"{len(set(taken) & set(sent))} of {len(sent)} messages were taken once each")
    return 1e6 * spent / _COUNT


def _alone(folder: pathlib.Path) -> float:
    with contextlib.closing(sqlite3.connect(folder / "alone.db", isolation_level=None)) as connection:
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", *_SCHEMA):
            connection.execute(statement)
        ids = [str(uuid.uuid4()) for _ in range(_COUNT)]
        began = time.perf_counter()
        for first in range(0, _COUNT, IN_FLIGHT):
            group = ids[first : first + IN_FLIGHT]
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO body VALUES (?, ?)", [(name, _BODY) for name in group])
            connection.executemany(
                "INSERT INTO message VALUES (?, 'worker', 'waiting', ?)", zip(group, itertools.count())
            )
            if any(
                connection.execute("SELECT body FROM body WHERE id = ?", (name,)).fetchone() != (_BODY,)
                for name in group
            ):
                raise CountsDiffer("SQLite lost a body")
            connection.execute("COMMIT")
        return 1e6 * (time.perf_counter() - began) / _COUNT


_SCHEMA = (
    "CREATE TABLE body(id TEXT PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE message(id TEXT PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, at INTEGER NOT NULL)",
)
