"""One message at a time: a brief until its answer, beside an unsigned call over bare AMQP (G8); every way in (G14)."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any

from fleettrio.api.schema import Confirm, Send, Show, Wait
from fleettrio.bench.context import Context
from fleettrio.bench.hop import implementations
from fleettrio.bench.pair import BODY, Pair
from fleettrio.bench.paths import PATHS, Agent, Path, agent_on
from fleettrio.bench.peers import PEERS, PeerMissing, Peers
from fleettrio.bench.programs import CountsDiffer
from fleettrio.bench.results import Goal, Row, at_most, no_figure, row, times_as_good
from fleettrio.bench.samples import Samples, in_turn, quantile
from fleettrio.clients.client import Client
from fleettrio.testing.agents.room import TmuxRoom

__all__ = ("measure", "read")

CALLS = 100
_WARM = 10
_READS = 60
_OWN_MS = 50
"""What a way may add to the fixed waits of its transport."""
_PEERS = ("aio-pika", "raw socket", "pika", "aio-pika/uvloop")
_SHORT = {"raw socket": "raw", "pika": "pika", "aio-pika/uvloop": "uvloop"}
_TRIP = "brief → put in → answer, one at a time"
_DISK = "the disk"
_COMMITS = 4
"""One after the other from the brief to the answer; the next one needs what the one before has written."""


def measure(context: Context) -> Iterator[Row]:
    with contextlib.ExitStack() as stack:
        room = stack.enter_context(TmuxRoom())
        pairs = {way: stack.enter_context(Pair(context, way, agents=0, env=room.env)) for way in implementations()}
        yield from _answers(context, pairs)
        yield from _reads(context, pairs[implementations()[0]], room)


# --- G8


def _answers(context: Context, pairs: dict[str, Pair]) -> Iterator[Row]:
    peers, trips, faults = Peers(context), dict[str, list[list[float]]](), dict[str, str]()
    with contextlib.ExitStack() as stack:
        cases: dict[str, Callable[[int], list[float]]] = {}
        for way, pair in pairs.items():
            answering = stack.enter_context(agent_on(pair.beta, PATHS["stream"], context.folder, answers=True))
            pair.wait_known(answering.address)
            client = stack.enter_context(pair.alpha.client())
            cases[way] = functools.partial(_briefs, client, answering)
        for name in _PEERS:
            cases[name] = functools.partial(peers.trips, PEERS[name])
        cases[_DISK] = functools.partial(_commits, context.folder / "commits.db")
        for name in list(cases):
            context.progress.step(f"{name}: warming up")
            try:
                cases[name](_WARM)
                trips[name] = []
            except (CountsDiffer, PeerMissing) as problem:
                faults[name] = str(problem)
                del cases[name]
        bound = {name: functools.partial(run, CALLS) for name, run in cases.items()}
        for number, name, found in in_turn(bound, context.rounds):
            trips[name].append(found)
            context.progress.step(f"{name}: {1e3 * quantile(found, 0.5):.2f} ms", number + 1, context.rounds)
    for way, pair in pairs.items():
        yield from _answer_rows(trips, faults, way, pair.lane)
    peer = None if "aio-pika" in faults else _ms(trips["aio-pika"], 0.5)
    title = f"{_COMMITS} commits of 1 KiB in a row, by SQLite alone: median"
    yield row("room.commits", title, "ms", _ms(trips[_DISK], 0.5), peer, peer_name="aio-pika" if peer else "")


def _answer_rows(trips: dict[str, list[list[float]]], faults: dict[str, str], way: str, lane: str) -> Iterator[Row]:
    about: dict[str, Any] = {"implementation": way, "lane": lane, "fsync": "FULL"}
    for case, share, goal in (("G8", 0.5, times_as_good(1.0)), ("G8.p99", 0.99, times_as_good(1 / 1.5))):
        title = f"{_TRIP}: {'median' if share == 0.5 else '99 %'}"
        wanted = goal if way == "compiled" else None
        for name in _PEERS:
            is_goal = name == "aio-pika"
            row_id = case if is_goal else f"{case}.{_SHORT[name]}"
            fault = "; ".join(faults[one] for one in (way, name) if one in faults)
            if fault:
                yield no_figure(row_id, title, "ms", fault, goal=wanted if is_goal else None, **about)
                continue
            ours, theirs = (_ms(trips[one], share) for one in (way, name))
            yield row(row_id, title, "ms", ours, theirs, peer_name=name, goal=wanted if is_goal else None, **about)


def _ms(rounds: list[list[float]], share: float) -> Samples:
    return Samples(tuple(1e3 * quantile(found, share) for found in rounds))


def _briefs(client: Client, agent: Agent, count: int) -> list[float]:
    """Seconds of `count` briefs until their answers, each of them seen to be put in and answered once."""
    body, seconds, sent = os.urandom(BODY), list[float](), list[str]()
    for _ in range(count):
        began = time.perf_counter()
        (message,) = client.call("send", Send(to=[agent.address], body=body, wants_reply=True)).messages
        over = client.call("wait", Wait(ids=[message.msg_id]))
        seconds.append(time.perf_counter() - began)
        if not over.done or [answer.re for answer in over.answers] != [message.msg_id]:
            raise CountsDiffer(f"a brief has no answer within a minute: {message.sentence}")
        client.call("confirm", Confirm(over.cursor))
        sent.append(message.msg_id)
    for msg_id in sent:
        (shown,) = client.call("show", Show(id=msg_id)).messages
        if shown.state not in ("injected", "answered"):
            raise CountsDiffer(f"a brief was answered and is {shown.state}")
    return seconds


def _commits(file: pathlib.Path, count: int) -> list[float]:
    """Seconds of `count` times as many commits as a brief and its answer need, with fsync as ours."""
    seconds = list[float]()
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", _ROWS):
            connection.execute(statement)
        for _ in range(count):
            began = time.perf_counter()
            for _ in range(_COMMITS):
                connection.execute("INSERT INTO body(body) VALUES (?)", (os.urandom(BODY),))
            seconds.append(time.perf_counter() - began)
    return seconds


_ROWS = "CREATE TABLE IF NOT EXISTS body(id INTEGER PRIMARY KEY, body BLOB NOT NULL)"


# --- G14


def _reads(context: Context, pair: Pair, room: TmuxRoom) -> Iterator[Row]:
    for path in PATHS.values():
        context.progress.step(f"read by {path.name}")
        with agent_on(pair.beta, path, context.folder, room=room) as agent:
            pair.wait_known(agent.address)
            for place, host in (("local", pair.beta), ("remote", pair.alpha)):
                with host.client() as client:
                    yield from _read_rows(context, path, place, client, agent, pair)


def _read_rows(context: Context, path: Path, place: str, client: Client, agent: Agent, pair: Pair) -> Iterator[Row]:
    goal: Goal = at_most(_OWN_MS + path.fixed_ms)
    about: dict[str, Any] = {"implementation": pair.implementation, "lane": pair.lane, "fsync": "FULL"}
    title, before = (f"written → read, {place}", "here." if place == "local" else "")
    seconds = list[float]()
    try:
        for number in range(_READS):
            seconds.append(read(client, agent))
            context.progress.step(f"read by {path.name}, {place}", number + 1, _READS)
    except CountsDiffer as problem:
        yield no_figure(f"G14.{before}{path.name}", title, "ms", str(problem), goal=goal, **about)
        return
    ms = [1e3 * one for one in seconds]
    waits = [f"its transport waits {path.fixed_ms:g} ms by itself"] if path.fixed_ms else []
    row_id, middle, most = f"G14.{before}{path.name}", Samples((quantile(ms, 0.5),)), Samples((quantile(ms, 0.99),))
    yield row(row_id, f"{title}: median", "ms", middle, goal=goal, notes=waits, **about)
    yield row(f"{row_id}.p99", f"{title}: 99 %", "ms", most, **about)


def read(client: Client, agent: Agent) -> float:
    """Seconds until it was read, by an agent at rest: what came before is told as delivered, and its turn is over where
    the agent says so. What an agent does with a message is no part of the way to it."""
    agent.wait_rest()
    before = agent.turns()
    began = time.time()
    (message,) = client.call("send", Send(to=[agent.address], body=b"please look at it\n" * 57)).messages
    took = agent.wait_turn(len(before)) - began
    if not client.call("wait", Wait(ids=[message.msg_id], until="delivered")).done:
        raise CountsDiffer(f"{agent.address} read what its host calls undelivered")
    return took
