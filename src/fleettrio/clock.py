"""The one place that reads a clock.

The environment variable `FLEETTRIO_CLOCK_OFFSET_MS` shifts the wall clock by so many milliseconds (it may be negative;
ten years at most): for tests and for trying out what a wrong clock does to a fleet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Protocol

import trio

from fleettrio.errors import ConfigError
from fleettrio.ids import Now, Seconds, WallMs

__all__ = ("Clock", "SystemClock")

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
            raise ConfigError([f"{OFFSET_VARIABLE}: {text[:40]!r} is no whole number of milliseconds"]) from None
        if abs(self.offset_ms) > MOST_OFFSET_MS:
            raise ConfigError([f"{OFFSET_VARIABLE}: {text[:40]} is more than ten years ({MOST_OFFSET_MS} ms)"])

    def wall(self) -> WallMs:
        """The wall clock alone; works outside Trio too."""
        return WallMs(time.time_ns() // 1_000_000 + self.offset_ms)

    def now(self) -> Now:
        return Now(self.wall(), Seconds(trio.current_time()))
