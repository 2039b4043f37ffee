"""A small broker in memory behind `broker.port`: enough to run whole sessions without a broker, and to be unkind."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import deque
from collections.abc import AsyncIterator, Sequence

import trio

from fleettrio.broker.port import (
    BrokerSettings,
    ConsumerCancelled,
    ConsumerLocked,
    LinkBlocked,
    LinkUnblocked,
    PublishVerdict,
    RawDelivery,
    RawPublish,
    SessionEvent,
    Verdict,
)
from fleettrio.core.topology import Binding, Exchange, Queue
from fleettrio.errors import SessionLost
from fleettrio.ids import Seconds, Tag
from fleettrio.wire.headers import RawHeaders

SETTINGS = BrokerSettings(uris=("memory:",))


@dataclasses.dataclass(slots=True)
class _Message:
    publish: RawPublish
    redelivered: bool = False


@dataclasses.dataclass(slots=True)
class _Queue:
    messages: deque[_Message] = dataclasses.field(default_factory=deque)
    consumer: _Consumer | None = None


@dataclasses.dataclass(slots=True)
class _Consumer:
    session: MemorySession
    channel: int
    deliveries: trio.MemorySendChannel[RawDelivery]
    prefetch: int
    unacked: dict[int, _Message] = dataclasses.field(default_factory=dict)
    is_cancelled: bool = False


class MemoryBroker:
    def __init__(self) -> None:
        self.queues: dict[str, _Queue] = {}
        self.bindings: set[tuple[str, str, str]] = set()
        self.sessions: list[MemorySession] = []
        self.confirms = True
        """False: publishes are kept, and no verdict is given."""
        self.nacks = False
        self.published: list[RawPublish] = []
        self.consume_calls: list[str] = []
        self.locked: set[str] = set()
        self.dead: list[RawPublish] = []
        """Rejected messages."""

    @contextlib.asynccontextmanager
    async def open(self, settings: BrokerSettings, epoch: int) -> AsyncIterator[MemorySession]:
        session = MemorySession(self, epoch)
        self.sessions.append(session)
        try:
            yield session
        finally:
            session.close()

    def session_of(self, number: int) -> MemorySession:
        return self.sessions[number]

    def route(self, publish: RawPublish) -> bool:
        targets = {
            queue
            for queue, exchange, key in self.bindings
            if exchange == publish.exchange and key in (publish.routing_key, "roster.#")
        }
        for name in targets:
            self.queues[name].messages.append(_Message(publish))
            self.pump(name)
        return bool(targets)

    def pump(self, name: str) -> None:
        queue = self.queues[name]
        consumer = queue.consumer
        while consumer and queue.messages and len(consumer.unacked) < consumer.prefetch:
            message = queue.messages.popleft()
            number = consumer.session.next_tag()
            consumer.unacked[number] = message
            publish = message.publish
            fleet, sig, proof = (publish.headers.get(name) for name in ("fleet", "sig", "proof"))
            assert isinstance(fleet, bytes)
            assert isinstance(sig, bytes)
            assert isinstance(proof, bytes | None)
            consumer.deliveries.send_nowait(
                RawDelivery(
                    tag=Tag(consumer.session.epoch, consumer.channel, number),
                    queue=name,
                    exchange=publish.exchange,
                    routing_key=publish.routing_key,
                    redelivered=message.redelivered,
                    headers=RawHeaders(fleet=fleet, sig=sig, proof=proof),
                    body=publish.body,
                )
            )


class MemorySession:
    """One session; implements `broker.port.BrokerSession`."""

    def __init__(self, broker: MemoryBroker, epoch: int) -> None:
        self._broker = broker
        self.epoch = epoch
        self._verdicts, self.verdicts = trio.open_memory_channel[PublishVerdict](10_000)
        self._events, self.events = trio.open_memory_channel[SessionEvent](100)
        self._lost = trio.Event()
        self._why = ""
        self._open: list[RawPublish] = []
        self._consumers: dict[int, tuple[str, _Consumer]] = {}
        self._tag = 0
        self.last_heard = Seconds(0.0)
        self.acked = 0

    # --- being unkind

    def lose(self, why: str = "reset") -> None:
        self._why = why
        self._lost.set()

    def block(self, reason: str = "memory") -> None:
        self._events.send_nowait(LinkBlocked(reason))

    def unblock(self) -> None:
        self._events.send_nowait(LinkUnblocked())

    def cancel_consumer(self, name: str) -> None:
        self._end_consumer(name)
        self._events.send_nowait(ConsumerCancelled(name, "its queue was deleted"))

    def confirm_all(self) -> None:
        for publish in self._open:
            self._verdicts.send_nowait(PublishVerdict(publish.id, Verdict.CONFIRMED))
        self._open.clear()

    def close(self) -> None:
        for publish in self._open:
            self._verdicts.send_nowait(PublishVerdict(publish.id, Verdict.UNKNOWN, "the session ended"))
        self._open.clear()
        for name in [name for name, _ in self._consumers.values()]:
            self._end_consumer(name)
        for name, queue in self._broker.queues.items():
            self._broker.pump(name) if queue.consumer else None

    def _end_consumer(self, name: str) -> None:
        for channel, (queue_name, consumer) in list(self._consumers.items()):
            if queue_name != name:
                continue
            del self._consumers[channel]
            queue = self._broker.queues.get(name)
            if queue is None:
                continue
            for message in reversed(consumer.unacked.values()):
                message.redelivered = True
                queue.messages.appendleft(message)
            if queue.consumer is consumer:
                queue.consumer = None

    def next_tag(self) -> int:
        self._tag += 1
        return self._tag

    # --- the port

    async def declare(
        self, exchanges: Sequence[Exchange], queues: Sequence[Queue], bindings: Sequence[Binding]
    ) -> None:
        await trio.lowlevel.checkpoint()
        for queue in queues:
            self._broker.queues.setdefault(queue.name, _Queue())
        self._broker.bindings |= {(b.queue, b.exchange, b.routing_key) for b in bindings}

    async def consume(
        self, queue: str, *, prefetch: int, deliveries: trio.MemorySendChannel[RawDelivery], exclusive: bool = True
    ) -> None:
        await trio.lowlevel.checkpoint()
        self._broker.consume_calls.append(queue)
        found = self._broker.queues[queue]
        assert found.consumer is None or found.consumer.session is not self, f"{queue} is consumed already"
        if found.consumer is not None or queue in self._broker.locked:
            raise ConsumerLocked(f"{queue} is exclusively consumed")
        channel = len(self._broker.consume_calls)
        found.consumer = _Consumer(self, channel, deliveries, prefetch)
        self._consumers[channel] = queue, found.consumer
        self._broker.pump(queue)

    async def stop_consuming(self, queue: str, *, requeue: Sequence[Tag] = ()) -> None:
        await trio.lowlevel.checkpoint()
        found = self._broker.queues.get(queue)
        if found and found.consumer and found.consumer.session is self:
            found.consumer = None

    async def unbind(self, bindings: Sequence[Binding]) -> None:
        await trio.lowlevel.checkpoint()
        self._broker.bindings -= {(b.queue, b.exchange, b.routing_key) for b in bindings}

    async def delete_queue(self, queue: str, *, if_empty: bool = True) -> bool:
        await trio.lowlevel.checkpoint()
        if if_empty and self._broker.queues[queue].messages:
            return False
        self._broker.queues.pop(queue, None)
        return True

    async def message_count(self, queue: str) -> int | None:
        await trio.lowlevel.checkpoint()
        found = self._broker.queues.get(queue)
        return None if found is None else len(found.messages)

    def ack(self, tag: Tag) -> None:
        self._settle(tag)
        self.acked += 1

    def reject(self, tag: Tag) -> None:
        if message := self._settle(tag):
            self._broker.dead.append(message.publish)

    def _settle(self, tag: Tag) -> _Message | None:
        if tag.epoch != self.epoch or tag.channel not in self._consumers:
            return None
        name, consumer = self._consumers[tag.channel]
        message = consumer.unacked.pop(tag.delivery, None)
        self._broker.pump(name)
        return message

    def publish(self, messages: Sequence[RawPublish]) -> None:
        for publish in messages:
            self._broker.published.append(publish)
            if self._lost.is_set():
                self._verdicts.send_nowait(PublishVerdict(publish.id, Verdict.UNKNOWN, "not sent"))
            elif self._broker.nacks:
                self._verdicts.send_nowait(PublishVerdict(publish.id, Verdict.NACKED))
            elif not self._broker.route(publish) and publish.mandatory:
                self._verdicts.send_nowait(PublishVerdict(publish.id, Verdict.UNROUTABLE))
            elif self._broker.confirms:
                self._verdicts.send_nowait(PublishVerdict(publish.id, Verdict.CONFIRMED))
            else:
                self._open.append(publish)

    async def run_until_lost(self) -> None:
        await self._lost.wait()
        raise SessionLost(self._why)
