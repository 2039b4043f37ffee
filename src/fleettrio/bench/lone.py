"""A message by itself: from the request to its bytes for the socket, beside the same without batches.

Nothing waits for a batch to fill, so the mechanism must cost a lone message nothing. Both ways are in one process, on
one store: the same host, asked for one message after the other, which two publishers take in turn, in pairs; only one
of them puts several under one signature. So what the machine does meanwhile strikes both, and leaves the ratio alone.
"""

from __future__ import annotations

import functools
import pathlib
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

import trio

from fleettrio import _accel
from fleettrio.bench.bus import Bus, bus
from fleettrio.bench.context import Context
from fleettrio.bench.pair import BODY
from fleettrio.bench.programs import CountsDiffer
from fleettrio.bench.results import Row, no_figure, row, times_as_good
from fleettrio.bench.samples import Samples
from fleettrio.broker.fastlane import Lane
from fleettrio.broker.port import BrokerSession, PublishVerdict, RawPublish
from fleettrio.core.events import SessionOpened, VerdictGiven
from fleettrio.ids import Seconds
from fleettrio.ports import InboxRequest, SessionPorts
from fleettrio.tasks.publish import ToPublish, run_publish
from fleettrio.testing.stopping import run_until_stopped
from fleettrio.wire.signing import MAX_BATCH, Signer

__all__ = ("measure_lone",)

_PAIRS = 150
_WARM = 20
_CHANNEL, _FRAME_MAX = 1, 131_072
_ELSEWHERE = "worker"
_TITLE = "a lone message, signed and on the disk, from the request to its bytes"


def measure_lone(context: Context) -> Iterator[Row]:
    goal = times_as_good(0.95)
    about: dict[str, Any] = {"implementation": _accel.IMPLEMENTATION, "lane": "fast", "fsync": "FULL"}
    rounds: list[tuple[float, float]] = []
    try:
        for number in range(context.rounds):
            context.progress.step(f"{_PAIRS} pairs of lone messages", number + 1, context.rounds)
            with tempfile.TemporaryDirectory(dir=context.folder) as folder:
                rounds.append(run_until_stopped(functools.partial(_round, pathlib.Path(folder))))
    except CountsDiffer as problem:
        yield no_figure("wire.lone", _TITLE, "µs", str(problem), goal=goal, **about)
        return
    shipped, unbatched = (Samples(tuple(1e6 * one[place] for one in rounds)) for place in (0, 1))
    notes = [f"medians of {_PAIRS} pairs a round"]
    yield row("wire.lone", _TITLE, "µs", shipped, unbatched, peer_name="unbatched", goal=goal, notes=notes, **about)


class _Socket:
    """A fast lane whose bytes go nowhere: it notes when they would be written."""

    def __init__(self) -> None:
        self.written_at = 0.0
        self.written = trio.Event()
        self.ids: list[int] = []
        self._lane = Lane(self._write, lambda: None, lambda _: None)
        self._lane.begin(_FRAME_MAX)
        self._publisher = self._lane.publisher(_CHANNEL, self._decided)

    @property
    def last_heard(self) -> Seconds:
        return Seconds(trio.current_time())

    def publish(self, messages: Sequence[RawPublish]) -> None:
        self.ids += [message.id for message in messages]
        self._publisher.publish(messages)
        self.written.set()

    def _write(self, _: bytes) -> None:
        self.written_at = time.perf_counter()

    def _decided(self, verdicts: list[PublishVerdict]) -> None:
        raise CountsDiffer(f"a lone message was not written: {verdicts[0].detail}")


async def _round(folder: pathlib.Path) -> tuple[float, float]:
    """The medians of both ways, in seconds. Raises `CountsDiffer`."""
    socket = _Socket()
    spent: tuple[list[float], list[float]] = ([], [])
    async with bus(folder, elsewhere=(_ELSEWHERE,)) as host, trio.open_nursery() as nursery:
        ways = [await _session(host, socket, most, nursery) for most in (None, 1)]
        host.performer.session = ways[0]
        await host.performer.handle(SessionOpened(1))
        await socket.written.wait()  # that this host is there
        for number in range(2 * (_PAIRS + _WARM)):
            # Which way is first changes from one pair to the next.
            place = (number + number // 2) % 2
            host.performer.session = ways[place]
            spent[place].append(await _message(host, socket))
        nursery.cancel_scope.cancel()
    shipped, unbatched = (statistics.median(found[_WARM:]) for found in spent)
    return shipped, unbatched


async def _session(host: Bus, socket: _Socket, most: int | None, nursery: trio.Nursery) -> SessionPorts:
    """A session with a publisher that signs at most so many together; None: as many as it does."""
    identity = host.performer.gateway.settings.me
    signer = Signer(identity.fleet_id, identity.host, 1, bytes(32))
    requests = ToPublish(MAX_BATCH)
    inboxes, _ = trio.open_memory_channel[InboxRequest](MAX_BATCH)
    broker = cast(BrokerSession, socket)  # nothing else of it is asked for here
    await nursery.start(functools.partial(run_publish, most=most), requests, broker, host.performer, signer)
    return SessionPorts(broker, requests, inboxes, lambda _: None)


async def _message(host: Bus, socket: _Socket) -> float:
    """Seconds until its bytes are there. It is confirmed, and all is quiet, when this returns."""
    socket.written = trio.Event()
    began = time.perf_counter()
    (asked,) = await host.ask(_ELSEWHERE, body=bytes(BODY))
    await socket.written.wait()
    took = socket.written_at - began
    ids, socket.ids = socket.ids, []
    await host.performer.handle(*(VerdictGiven(each, "confirmed", "") for each in ids))
    await host.performer.calls.result(asked.call)
    return took
