"""The broker of the world: the shipped model of RabbitMQ. It may lose what it confirmed, or see it twice."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import trio

from fleettrio.broker.memory import MemoryBroker
from fleettrio.broker.model.broker import ModelBroker
from fleettrio.broker.model.client import ModelConnection
from fleettrio.broker.model.message import Message
from fleettrio.core.topology import CONTROL, MSG, OPS, ROSTER
from tests.sim.way import SlowConnection

if TYPE_CHECKING:
    from tests.sim.forger import Forger
    from tests.sim.world import World

__all__ = ("Broker",)

TICK_MS = 1_000
AGAIN_S = (0.01, 1.0, 8.0, 30.0)


class _Memory(MemoryBroker):
    """What has expired is seen when somebody comes to its queue; the rest of the time is let pass once a second."""

    def pass_time(self) -> None:
        now = int(trio.current_time() * 1000)
        if now - self.model.now > TICK_MS:
            self.model.advance(now)
        self.model.now = now


class Broker(ModelBroker):
    def __init__(self, world: World, vhost: str = "world") -> None:
        super().__init__(vhost=vhost)
        self._world = world
        self.memory = _Memory(self)
        self.beats: deque[tuple[float, Message]] = deque(maxlen=64)
        """What hosts said of being alive, and when."""
        self.forger: Forger | None = None
        """Reads everything, writes what it likes."""

    def connect(self, name: str = "") -> ModelConnection:
        connection = SlowConnection(self, name)
        self.connections.append(connection)
        return connection

    def route(self, message: Message) -> tuple[bool, bool]:
        faults = self._world.faults
        if message.exchange == ROSTER and message.routing_key.endswith("._gateway"):
            self.beats.append((self._world.now, message))
        if message.exchange in (MSG, OPS) and self.forger is not None:
            self.forger.saw(message)
        if faults.strikes("lost-notice" if message.exchange == CONTROL else "drop"):
            self._world.history.was_dropped(message.body)
            return True, True
        routed, is_taken = super().route(message)
        if routed and is_taken and faults.strikes("duplicate"):
            self._world.after(self._world.rng.choice(AGAIN_S), lambda: self._again(message))
        return routed, is_taken

    def stuff_something(self, seconds: float) -> None:
        """One of the queues takes nothing for a while, as if it were full."""
        queue = self._world.rng.choice([queue for queue in self.queues.values() if not queue.name.startswith("fleet")])
        queue.is_stuffed = True

        async def drained() -> None:
            queue.is_stuffed = False

        self._world.after(seconds, drained)

    async def _again(self, message: Message) -> None:
        """Somebody who may write this exchange gives it the very same bytes."""
        self.put(message)

    def put(self, message: Message) -> None:
        """Somebody's bytes, straight into the queues."""
        super().route(message.received())
