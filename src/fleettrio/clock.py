"""The one place that reads a clock.

The environment variable `FLEETTRIO_CLOCK_OFFSET_MS` shifts the wall clock by so many milliseconds (it may be negative;
ten years at most): for tests and for trying out what a wrong clock does to a fleet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec
import trio

from fleettrio.errors import ConfigError
from fleettrio.ids import Now, Seconds, WallMs

__all__ = ("Clock", "Pulse", "Standstill", "SystemClock", "since_boot", "standstill_limit")

OFFSET_VARIABLE = "FLEETTRIO_CLOCK_OFFSET_MS"
MOST_OFFSET_MS = 10 * 365 * 24 * 60 * 60 * 1000
"""Ten years: what is written down under a clock further off could not be said to another host."""


class Clock(Protocol):
    """Where the shell takes `now` from."""

    def now(self) -> Now:
        """This moment on both clocks. Called inside Trio only."""


class SystemClock:
    """The machine's wall clock, and Trio's clock for everything that waits (so tests can put a mock clock under it)."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        text = (os.environ if env is None else env).get(OFFSET_VARIABLE, "0")
        try:
            self.offset_ms = int(text)
        except ValueError:
            raise ConfigError([f"{OFFSET_VARIABLE}: {text[:40]!r} is not a whole number of milliseconds"]) from None
        if abs(self.offset_ms) > MOST_OFFSET_MS:
            raise ConfigError([f"{OFFSET_VARIABLE}: {text[:40]} is more than ten years ({MOST_OFFSET_MS} ms)"])

    def wall(self) -> WallMs:
        """The wall clock alone; works outside Trio too."""
        return WallMs(time.time_ns() // 1_000_000 + self.offset_ms)

    def now(self) -> Now:
        return Now(self.wall(), Seconds(trio.current_time()))


_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Counts on while the machine sleeps, where the system has such a clock."""


def since_boot() -> tuple[Seconds, Seconds]:
    """Time since this machine was started, and how much of it the machine slept."""
    awake, boot = time.clock_gettime(time.CLOCK_MONOTONIC), time.clock_gettime(_BOOT)
    return Seconds(boot), Seconds(boot - awake)


class Standstill(msgspec.Struct, frozen=True):
    """This process did not run for `seconds`; for `slept` of them its machine slept."""

    seconds: float
    slept: float


class Pulse:
    """Notices that this process stood still: it was frozen, or asleep with its machine.

    Whoever lets it tick every `EVERY_S` is told of a standstill behind it. What was in hand then may be somebody
    else's by now, so it is in doubt at once, before the next tick, until there is a new session (`renew`).
    """

    EVERY_S = 2.0
    SLEPT_S = 1.0
    """A machine that slept so long has lost its connections, as a rule."""

    def __init__(self, limit_s: float, read: Callable[[], tuple[Seconds, Seconds]] = since_boot) -> None:
        """`limit_s`: a standstill so long is one, though the machine did not sleep. `read`: see `since_boot`."""
        self._limit_s = limit_s
        self._read = read
        self._ticked, self._slept = read()
        self._is_in_doubt = False

    @property
    def is_in_doubt(self) -> bool:
        """True after a standstill until `renew`."""
        self._is_in_doubt = self._is_in_doubt or self._standstill() is not None
        return self._is_in_doubt

    def tick(self) -> Standstill | None:
        """The standstill since the last tick, if there was one."""
        found = self._standstill()
        self._is_in_doubt = self._is_in_doubt or found is not None
        self._ticked, self._slept = self._read()
        return found

    def renew(self) -> None:
        """A session begins: what comes in hand from now on is ours. A standstill that no tick has told of stays."""
        self._is_in_doubt = self._standstill() is not None

    def _standstill(self) -> Standstill | None:
        at, slept = self._read()
        seconds, asleep = at - self._ticked - self.EVERY_S, slept - self._slept
        if seconds <= self._limit_s and asleep <= self.SLEPT_S:
            return None
        return Standstill(max(seconds, asleep), max(0.0, asleep))


def standstill_limit(heartbeat_s: float) -> float:
    """What a `Pulse` is given, so that every standstill of 1.5 heartbeats of the broker is noticed.

    A broker gives our queues to another two heartbeats after it heard us, not earlier; it hears us every half of one.
    A pulse may have begun to wait just when the standstill began, and takes its wait off. Below four seconds a
    heartbeat is the limit: no busy moment is to end a session.
    """
    return max(heartbeat_s, 1.5 * heartbeat_s - Pulse.EVERY_S)
