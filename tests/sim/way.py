"""The way between one host and the broker while a session lives: it takes time, it can be cut, it loses things.

What goes up keeps its order, what comes down keeps its order within an AMQP channel. Cut, whatever is still on its way
is gone, in both directions, and the two ends notice it when they notice it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fleettrio.broker.memory import SETTINGS, MemoryLink, MemorySession
from fleettrio.broker.model.client import ModelConnection
from fleettrio.broker.model.frames import Confirmed, Delivered, Frame, Returned

if TYPE_CHECKING:
    from tests.sim.sessions import Sessions

__all__ = ("SlowConnection", "Way")


class SlowConnection(ModelConnection):
    """A connection whose words travel."""

    way: Way | None = None
    link: MemoryLink

    def say(self, frame: Frame) -> None:
        if self.way is not None:
            self.way.down(self, frame)

    def read(self, hand_over: Callable[[], None]) -> None:
        assert self.way is not None
        self.way.up(self, lambda: ModelConnection.read(self, hand_over))


class Way:
    """Of one session: the shipped session over two connections to the model."""

    def __init__(self, line: Sessions, epoch: int) -> None:
        self._line = line
        self._world = line.world
        self._memory = line.broker.memory
        self.session = MemorySession(self._memory, SETTINGS, epoch)
        self.is_cut = self._is_flushed = False
        self._busy_until: dict[object, float] = {}
        """When the last thing sent this way arrives: nothing overtakes it."""
        for link in self._links:
            assert isinstance(link.connection, SlowConnection)
            link.connection.way, link.connection.link = self, link

    @property
    def _links(self) -> tuple[MemoryLink, MemoryLink]:
        return self.session.publishing, self.session.consuming

    def up(self, connection: SlowConnection, step: Callable[[], None]) -> None:
        """One hand-over of the process: before it, the process may die."""
        self._line.process.step()
        self._travel(connection, step, kind="delay", is_up=True)

    def down(self, connection: SlowConnection, frame: Frame) -> None:
        def heard() -> None:
            connection.link.hear(frame)
            self._line.heard()

        channel = frame.channel if isinstance(frame, Delivered | Confirmed | Returned) else 0
        kind = "reorder" if isinstance(frame, Delivered) else "delay"
        self._travel((connection, channel), heard, kind=kind, is_up=False)

    def _travel(self, way: object, step: Callable[[], None], *, kind: str, is_up: bool) -> None:
        """Do `step` when it has arrived at the other end, if the link still stands then."""
        delay = self._world.a_moment()
        if self._world.faults.strikes(kind):
            delay += self._world.rng.uniform(0.5, 4.0)
        at = max(self._world.now + delay, self._busy_until.get(way, 0.0))
        self._busy_until[way] = at
        is_sent_before = not self.is_cut

        async def arrive() -> None:
            if not self.is_cut or (is_up and is_sent_before and self._is_flushed):
                self._memory.pass_time()
                step()

        self._world.after(at - self._world.now, arrive)

    def cut(self, broker_notices_s: float) -> None:
        """Nothing gets through any more; the broker takes back what was in hand when it notices.

        What was written before may still get there, as what a dead process wrote does.
        """
        if self.is_cut:
            return
        self.is_cut = True
        self._is_flushed = self._world.rng.random() < 0.5
        if self._is_flushed:
            broker_notices_s = max(broker_notices_s, *(at - self._world.now for at in self._busy_until.values()), 0.0)
        self._world.after(broker_notices_s, self._notice)

    async def _notice(self) -> None:
        for link in self._links:
            link.connection.lose("closed")
            self._memory.links.remove(link)

    def close(self) -> None:
        """This end is done: every publish without a verdict gets one."""
        self.cut(0.0)
        self.session.end()
        self.session.give_up()
