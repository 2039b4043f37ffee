"""The model broker behind the port, for tests under Trio: the shipped session over connections that are objects.

`MemoryBroker().open` is an `OpenSession`. `TwoLinks` and `Setup` are the real ones; only the two connections beneath
are the model's. What the broker says is heard at once, unless a link is told to hold it back. Time passes at each call.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import trio

from fleettrio.broker.links import AmqpChannel, Decided
from fleettrio.broker.memorychannel import MemoryChannel, nobody
from fleettrio.broker.model.broker import ModelBroker
from fleettrio.broker.model.client import Unanswered
from fleettrio.broker.model.frames import (
    Blocked,
    ChannelClosed,
    Confirmed,
    ConnectionClosed,
    Frame,
    Unblocked,
)
from fleettrio.broker.model.message import Message
from fleettrio.broker.port import (
    BrokerSettings,
    LinkBlocked,
    LinkUnblocked,
    RawPublish,
    SessionEvent,
)
from fleettrio.broker.twolinks import TwoLinks
from fleettrio.errors import SessionLost
from fleettrio.ids import Seconds

__all__ = ("SETTINGS", "MemoryBroker", "MemoryLink", "MemorySession")

SETTINGS = BrokerSettings(uris=("memory:",))


class MemoryBroker:
    """A model broker, its sessions, and switches to be unkind with."""

    def __init__(self, model: ModelBroker | None = None) -> None:
        self.model = model or ModelBroker(vhost="memory")
        self.sessions: list[MemorySession] = []
        self.links: list[MemoryLink] = []
        """The connections that are open."""
        self.published: list[RawPublish] = []
        """Everything that was handed over."""
        self.consume_calls: list[str] = []
        self.confirms = True
        """False: confirms wait until `MemorySession.confirm_all`."""
        self._started = self.model.now
        self._stirred = trio.Event()

    @property
    def dead(self) -> list[Message]:
        """The dead letters that wait in `fleet.dlq`."""
        queue = self.model.queues.get("fleet.dlq")
        return [held.message for held in queue.ready] if queue else []

    def pass_time(self) -> None:
        """Let the model's clock follow Trio's, and everybody hear what came of it."""
        self.model.advance(self._started + round(trio.current_time() * 1000))
        self.flow()

    async def run_time(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Let everything happen at its moment, although nobody calls just then. Runs until cancelled."""
        task_status.started()
        while True:
            self._stirred = trio.Event()
            due = self.model.next_deadline()
            with trio.move_on_at(math.inf if due is None else (due - self._started) / 1000):
                await self._stirred.wait()
            self.pass_time()

    def flow(self) -> None:
        """Let every link that is not held back hear what the broker has said to it."""
        self._stirred.set()
        for link in list(self.links):
            while link.connection.outgoing and not link.is_held:
                link.hear(link.connection.outgoing.popleft())

    @contextlib.asynccontextmanager
    async def open(self, settings: BrokerSettings, epoch: int) -> AsyncIterator[MemorySession]:
        """As `OpenSession`: never refused, closed at once."""
        session = MemorySession(self, settings, epoch)
        self.sessions.append(session)
        try:
            await session.start()
            yield session
        finally:
            session.end()
            for link in (session.publishing, session.consuming):
                link.close()
            session.give_up()


class MemorySession(TwoLinks):
    """A session over two connections to the model, and how to be unkind to it."""

    def __init__(self, broker: MemoryBroker, settings: BrokerSettings, epoch: int) -> None:
        self.publishing = MemoryLink(broker, "publishing", settings, epoch)
        self.consuming = MemoryLink(broker, "consuming", settings, epoch)
        super().__init__(self.publishing, self.consuming, epoch)

    def lose(self, why: str = "reset") -> None:
        """Both connections are gone."""
        for link in (self.publishing, self.consuming):
            link.connection.lose(why)
            link.broker.flow()

    def block(self, reason: str = "memory") -> None:
        self.publishing.connection.block(reason)
        self.publishing.broker.flow()

    def unblock(self) -> None:
        self.publishing.connection.unblock()
        self.publishing.broker.flow()

    def cancel_consumer(self, queue: str) -> None:
        self.consuming.broker.model.cancel_consumers(queue)
        self.consuming.broker.flow()

    def confirm_all(self) -> None:
        """Give the confirms that `MemoryBroker.confirms` kept."""
        self.publishing.give_confirms()


class MemoryLink:
    """See `links.Link`."""

    lane = ("model", "there is no broker")

    def __init__(self, broker: MemoryBroker, role: str, settings: BrokerSettings, epoch: int) -> None:
        self.broker = broker
        self.connection = broker.model.connect(role)
        self.epoch = epoch
        self.is_held = False
        """True: what the broker says waits in `connection.outgoing`, as on a slow link."""
        self.heard = Seconds(trio.current_time())
        self._role = role
        self._limit_s = settings.call_limit_s
        self._channels: dict[int, MemoryChannel] = {}
        self._kept: list[Confirmed] = []
        self._lost: Callable[[SessionLost], None] = lambda _: None
        self._tell: Callable[[SessionEvent], None] = lambda _: None
        broker.links.append(self)

    @property
    def is_closed(self) -> bool:
        return self.connection.is_lost

    def watch(self, lost: Callable[[SessionLost], None], tell: Callable[[SessionEvent], None]) -> None:
        self._lost, self._tell = lost, tell

    async def ask(self, what: str, method: Callable[[], Any]) -> Any:
        """One call and its answer, in the words of the border."""
        await trio.lowlevel.cancel_shielded_checkpoint()
        self.broker.pass_time()
        try:
            return method()
        except Unanswered as error:
            why = SessionLost(f"{what}: {error}")
        finally:
            self.broker.flow()
        if not self.is_closed:
            with trio.CancelScope(shield=True):
                await trio.sleep(self._limit_s)
            why = SessionLost(f"{what}: the broker did not answer within {self._limit_s:g} s")
        self._lost(why)
        raise why

    async def open_channel(
        self,
        *,
        decided: Decided | None = None,
        closed: Callable[[AmqpChannel, str], None] | None = None,
        cancelled: Callable[[], None] | None = None,
    ) -> AmqpChannel:
        if self.is_closed:
            raise SessionLost(f"the {self._role} connection is closed")
        what = f"an AMQP channel of the {self._role} connection"
        opened = await self.ask(what, lambda: self.connection.open_channel(confirms=decided is not None))
        channel = MemoryChannel(self, opened, decided or nobody, closed or nobody, cancelled or nobody)
        self._channels[opened.number] = channel
        return channel

    def hear(self, frame: Frame) -> None:
        self.heard = Seconds(trio.current_time())
        match frame:
            case Blocked(reason):
                self._tell(LinkBlocked(reason))
            case Unblocked():
                self._tell(LinkUnblocked())
            case ConnectionClosed(text):
                self._lost(SessionLost(f"the {self._role} connection was closed: {text}"))
                self._close_channels(text)
            case Confirmed() if not self.broker.confirms:
                self._kept.append(frame)
            case ChannelClosed(number, _, text):
                self._channels.pop(number).hear_closed(text)
            case _:
                if frame.channel in self._channels:
                    self._channels[frame.channel].hear(frame)

    def give_confirms(self) -> None:
        kept, self._kept = self._kept, []
        for frame in kept:
            if frame.channel in self._channels:
                self._channels[frame.channel].hear(frame)

    def forget(self, number: int) -> None:
        """A channel was closed by us."""
        self._channels.pop(number).hear_closed("closed")

    def close(self) -> None:
        if not self.is_closed:
            self.connection.lose("closed")
            self.connection.outgoing.clear()
        self._close_channels("closed")
        self.broker.links.remove(self)
        self.broker.flow()

    def _close_channels(self, why: str) -> None:
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            channel.hear_closed(why)
