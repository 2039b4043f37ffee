"""Virtual time and whatever lives in it: hosts, their agents and clients, the broker between them. A seed decides all.

A step is an async function that never waits: it runs to its end, or until the process it belongs to dies. Steps run
one after the other, by time. A step that stands for something that takes its time (text typed into an agent) lets the
world go on in its middle (`pass_time`).
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from fleettrio.ids import Now, Seconds, WallMs
from tests.sim.broker import Broker
from tests.sim.faults import Faults
from tests.sim.history import History

if TYPE_CHECKING:
    from tests.sim.host import Host

__all__ = ("START", "Clock", "Crash", "VirtualClock", "World")

START = 1_800_000_000_000
QUIET_S = 15.0
HOOKED, LED = 0.4, 0.25
"""Of the worlds."""
FAR_OFF_MS = 12_000
"""Two clocks that are both not further off agree well enough for the 30 s that hosts allow each other."""
Step = Callable[[], Awaitable[None]]


class Crash(BaseException):
    """The process is dead: nothing of it goes on. Not an `Exception`, so that nothing of it can be caught."""


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.rng_of_hooks = random.Random(f"hooks {seed}")
        self.has_hooks = self.rng_of_hooks.random() < HOOKED
        """Its agents run hooks."""
        self.rng_of_leads = random.Random(f"leads {seed}")
        self.has_leads = self.rng_of_leads.random() < LED
        """Each of its hosts has a lead, who speaks to the others by the coordinator's broker."""
        self.now = 0.0
        """Seconds since the beginning."""
        self.faults = Faults(self.rng)
        self.history = History(self)
        self.broker = Broker(self)
        self.leads = Broker(self, "leads")
        """The coordinator's."""
        self.hosts: list[Host] = []
        self.copies: list[Host] = []
        """Machines with a copy of another one's disk."""
        self.asks: Step
        """Somebody asks somebody something."""
        self.events = 0
        """Given to the cores of all hosts, the passing of time not counted."""
        self._steps: list[tuple[float, int, Step]] = []
        self._numbers = itertools.count()

    @property
    def is_quiet(self) -> bool:
        """Everything that went wrong was mended a while ago."""
        return self.faults.is_healed and self.now > self.history.healed_at + QUIET_S

    def after(self, seconds: float, step: Step) -> None:
        heapq.heappush(self._steps, (self.now + seconds, next(self._numbers), step))

    async def run_until(self, moment: float) -> None:
        """Let everything happen that is due until then."""
        while self._steps and self._steps[0][0] <= moment:
            at, _, step = heapq.heappop(self._steps)
            self.now = max(self.now, at)
            await step()
        self.now = max(self.now, moment)

    async def pass_time(self, seconds: float) -> None:
        await self.run_until(self.now + seconds)

    @property
    def wall_ms(self) -> int:
        """What a right clock shows."""
        return START + round(self.now * 1000)

    def seconds(self, wall_ms: int) -> float:
        """Since the beginning, of a time that some host's clock showed."""
        return (wall_ms - START) / 1000

    def a_moment(self, least: float = 0.0005, most: float = 0.02) -> float:
        """How long something small takes."""
        return self.rng.uniform(least, most)


class Clock:
    """The clocks of one host: the wall clock may be wrong, and turned."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.skew_ms = 0

    def turn_to(self, skew_ms: int) -> None:
        """Set the wall clock so far off."""
        self.skew_ms = skew_ms
        if abs(skew_ms) > FAR_OFF_MS:
            self._world.history.is_a_clock_far_off = True

    def now(self) -> Now:
        elapsed = self._world.now
        return Now(WallMs(START + round(elapsed * 1000) + self.skew_ms), Seconds(1_000.0 + elapsed))


class VirtualClock(trio.abc.Clock):
    """Trio's clock is the world's: deadlines of the code under test are in virtual time, too."""

    def __init__(self, world: World) -> None:
        self._world = world

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return 1_000.0 + self._world.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return max(0.0, deadline - self.current_time())
