"""What the peers share: the job they are given, the messages they send, how they time it and what they tell.

Messages carry their number in their first eight bytes, so that a consumer can say which ones it got, and how often.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

MODE = sys.argv[1]
JOB: dict[str, Any] = json.load(sys.stdin)
HOST, PORT, VHOST = JOB["host"], JOB["port"], JOB["vhost"]
USER, PASSWORD = "guest", "guest"
COUNT, WINDOW = JOB["count"], JOB["window"]
URL = f"amqp://{USER}:{PASSWORD}@{HOST}:{PORT}/{VHOST}"
EXCHANGE, HOP, ASK, ANSWER = "peers", "hop", "ask", "answer"
WARM = 20
"""Calls before those that count."""

_REST = os.urandom(JOB["body"] - 8)
HEADERS: dict[str, Any] = {
    "kind": "brief",
    "version": 1,
    "id": bytearray(os.urandom(16)),
    "trace": bytearray(os.urandom(16)),
    "sender": bytearray(os.urandom(16)),
    "to": bytearray(os.urandom(16)),
    "at": 1_750_000_000_000,
    "until": 1_750_000_600_000,
    "mark": bytearray(os.urandom(64)),
}
"""As many fields, of the kinds and sizes, that a signed message has."""


def body(number: int) -> bytes:
    return number.to_bytes(8, "big") + _REST


def number_of(data: bytes) -> int:
    return int.from_bytes(data[:8], "big")


def ready() -> None:
    print("READY", flush=True)


class Meter:
    """Seconds by the machine's clock and CPU seconds of this process, from `begin` to `end`; told as JSON."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._began, self._cpu = time.monotonic(), time.process_time()

    def end(self, **more: Any) -> None:
        told = {"began": self._began, "ended": time.monotonic(), "cpu": time.process_time() - self._cpu}
        print(json.dumps({**told, **more}), flush=True)


class Got:
    """Which numbers came."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._meter = Meter()

    def note(self, data: bytes) -> bool:
        """True when it was the last one."""
        if not self.numbers:
            self._meter.begin()
        self.numbers.append(number_of(data))
        return len(self.numbers) == COUNT

    def tell(self) -> None:
        self._meter.end(got=len(self.numbers), distinct=len(set(self.numbers) & set(range(COUNT))))


class Trips:
    """Round trips one after the other; the first few do not count."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._since = 0.0

    def begin(self) -> int:
        """The number of the call that begins."""
        self._since = time.perf_counter()
        return len(self._seconds)

    def end(self) -> bool:
        """True when it was the last one."""
        self._seconds.append(time.perf_counter() - self._since)
        return len(self._seconds) == COUNT + WARM

    def tell(self) -> None:
        print(json.dumps({"seconds": self._seconds[WARM:]}), flush=True)


async def keep_in_flight(send: Callable[[int], Awaitable[object]]) -> None:
    """`send(number)` for every message, at most WINDOW at the same time."""
    numbers = iter(range(COUNT))

    async def lane() -> None:
        for number in numbers:
            await send(number)

    await asyncio.gather(*(lane() for _ in range(min(WINDOW, COUNT))))


def run(modes: dict[str, Callable[[], Any]]) -> None:
    """The function of the mode asked for; a coroutine runs on asyncio's own loop, or on uvloop with `--uvloop`."""
    work = modes[MODE]()
    if not asyncio.iscoroutine(work):
        return
    if "--uvloop" in sys.argv:
        import uvloop

        uvloop.run(work)
    else:
        asyncio.run(work)
