"""A broker session over two connections, one for consuming and acks, one for publishing.

Rules: an alarm stops the broker reading a publishing connection, and acks on it would stick, so they go the other way.
Every publish has one verdict, however the session ends. A tag is worth something on its channel in its session only.
A fault of one consumer is an event; the loss of either connection or of the publishing channel is the session's end.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence

import trio

from fleettrio.broker.links import AmqpChannel, Link, Refused
from fleettrio.broker.port import (
    ConsumerCancelled,
    PublishVerdict,
    RawDelivery,
    RawPublish,
    SessionEvent,
    Verdict,
)
from fleettrio.broker.setup import Setup, about_ours
from fleettrio.core.topology import Binding, Exchange, Queue
from fleettrio.errors import ProtocolMisuse, SessionLost
from fleettrio.ids import Seconds, Tag

__all__ = ("TwoLinks",)

_VERDICTS = 65_536
"""More than any publishing window: a full verdict channel is a bug of ours."""
_EVENTS = 4_096


class _Consumer:
    """A queue and the AMQP channel it is consumed on, which outlives the consuming: acks still go there."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.channel: AmqpChannel | None = None
        self.tag = ""
        """Empty while it does not consume."""
        self.ended_early = ""
        """Why it ended before its start was known to have succeeded."""


class TwoLinks:
    """See `BrokerSession`."""

    def __init__(self, publishing: Link, consuming: Link, epoch: int) -> None:
        self.epoch = epoch
        self._publishing = publishing
        self._consuming = consuming
        self._send_verdict, self.verdicts = trio.open_memory_channel[PublishVerdict](_VERDICTS)
        self._send_event, self.events = trio.open_memory_channel[SessionEvent](_EVENTS)
        self._lost = trio.Event()
        self._why: Exception = SessionLost("the session has not begun")
        self._setup = Setup(consuming)
        self._publish_channel: AmqpChannel | None = None
        self._open: set[int] = set()
        self._consumers: dict[str, _Consumer] = {}
        self._channels: dict[int, AmqpChannel] = {}

    async def start(self) -> None:
        """Watch both connections and open the publishing channel. Raises `SessionLost`."""
        for link in (self._publishing, self._consuming):
            link.watch(self._lose, self._tell)
        self._publish_channel = await self._publishing.open_channel(confirms=True, closed=self._publish_closed)

    def end(self) -> None:
        """The connections are about to be closed, which is then no loss of theirs."""
        self._lose(SessionLost("the session is over"))

    def give_up(self) -> None:
        """The connections are closed: whatever is open now will never be confirmed."""
        for publish_id in list(self._open):
            self._decide(publish_id, Verdict.UNKNOWN, "the session ended before the broker confirmed")

    @property
    def last_heard(self) -> Seconds:
        return self._publishing.heard

    async def run_until_lost(self) -> None:
        await self._lost.wait()
        raise self._why

    def _lose(self, why: Exception) -> None:
        if not self._lost.is_set():
            self._why = why
            self._lost.set()

    def _tell(self, event: SessionEvent) -> None:
        try:
            self._send_event.send_nowait(event)
        except trio.WouldBlock:
            self._lose(ProtocolMisuse(f"nobody takes the events of the session: {_EVENTS} are waiting"))

    # Set-up

    async def declare(
        self, exchanges: Sequence[Exchange], queues: Sequence[Queue], bindings: Sequence[Binding]
    ) -> None:
        await self._setup.declare(exchanges, queues, bindings)

    async def unbind(self, bindings: Sequence[Binding]) -> None:
        await self._setup.unbind(bindings)

    async def message_count(self, queue: str) -> int | None:
        return await self._setup.message_count(queue)

    async def delete_queue(self, queue: str, *, if_empty: bool = True) -> bool:
        consumer = self._consumers.get(queue)
        if consumer is not None and consumer.tag:
            raise ProtocolMisuse(f"queue {queue} is consumed; stop that before it is deleted")
        deleted = await self._setup.delete_queue(queue, if_empty=if_empty)
        if deleted and consumer is not None and consumer.channel is not None and not consumer.channel.is_closed:
            await consumer.channel.call(f"channel of {queue}", "close")
        return deleted

    # Consuming

    async def consume(
        self, queue: str, *, prefetch: int, deliveries: trio.MemorySendChannel[RawDelivery], exclusive: bool = True
    ) -> None:
        if deliveries.statistics().max_buffer_size < 2 * prefetch:
            raise ProtocolMisuse(f"queue {queue}: its memory channel must hold twice the prefetch of {prefetch}")
        consumer = self._consumers.setdefault(queue, _Consumer(queue))
        if consumer.tag:
            raise ProtocolMisuse(f"queue {queue} is consumed already")
        if consumer.channel is None or consumer.channel.is_closed:
            consumer.channel = await self._consuming.open_channel(
                closed=functools.partial(self._channel_closed, consumer),
                cancelled=functools.partial(self._stopped, consumer, "the broker cancelled it: its queue is gone"),
            )
            self._channels[consumer.channel.serial] = consumer.channel
        consumer.ended_early = ""
        with about_ours(f"consumer of {queue}"):
            consumer.tag = await consumer.channel.consume(
                queue,
                prefetch=prefetch,
                exclusive=exclusive,
                deliver=functools.partial(self._deliver, deliveries),
            )
        if consumer.ended_early:
            self._stopped(consumer, consumer.ended_early)

    def _deliver(self, deliveries: trio.MemorySendChannel[RawDelivery], delivery: RawDelivery) -> None:
        try:
            deliveries.send_nowait(delivery)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # nobody takes them any more; unacked, it goes back to the queue with its channel
        except trio.WouldBlock:
            self._lose(ProtocolMisuse(f"queue {delivery.queue}: more deliveries in hand than its prefetch allows"))

    def _channel_closed(self, consumer: _Consumer, channel: AmqpChannel, why: str) -> None:
        self._channels.pop(channel.serial, None)
        if consumer.channel is channel:
            self._stopped(consumer, f"its AMQP channel was closed: {why}")

    def _stopped(self, consumer: _Consumer, why: str) -> None:
        """The broker ended a consumer. Not worth an event when all of them go with their connection."""
        if self._lost.is_set() or self._consuming.is_closed:
            consumer.tag = ""
        elif consumer.tag:
            consumer.tag = ""
            self._tell(ConsumerCancelled(consumer.queue, why))
        else:
            consumer.ended_early = why

    async def stop_consuming(self, queue: str, *, requeue: Sequence[Tag] = ()) -> None:
        consumer = self._consumers.get(queue)
        if consumer is None or consumer.channel is None:
            return
        channel, tag = consumer.channel, consumer.tag
        consumer.tag = ""
        if tag:
            # Refused: the channel has closed meanwhile, which ends the consuming and gives everything back.
            with contextlib.suppress(Refused):
                await channel.call(f"consumer of {queue}", "basic_cancel", consumer_tag=tag)
        for back in requeue:
            if back.epoch == self.epoch and back.channel == channel.serial:
                channel.reject(back.delivery, requeue=True)

    def ack(self, tag: Tag) -> None:
        channel = self._channel_of(tag)
        if channel is not None:
            channel.ack(tag.delivery)

    def reject(self, tag: Tag) -> None:
        channel = self._channel_of(tag)
        if channel is not None:
            channel.reject(tag.delivery, requeue=False)

    def _channel_of(self, tag: Tag) -> AmqpChannel | None:
        return self._channels.get(tag.channel) if tag.epoch == self.epoch else None

    # Publishing

    def publish(self, messages: Sequence[RawPublish]) -> None:
        for message in messages:
            if message.id in self._open:
                raise ProtocolMisuse(f"publish {message.id} is open already")
            self._open.add(message.id)
            if self._lost.is_set() or self._publish_channel is None:
                self._decide(message.id, Verdict.UNKNOWN, f"not sent: {self._why}")
            else:
                self._publish_channel.publish(message, functools.partial(self._decide, message.id))

    def _decide(self, publish_id: int, verdict: Verdict, detail: str) -> None:
        """The one verdict of a publish: what is said of it after the session's end comes too late."""
        if publish_id not in self._open:
            return
        self._open.discard(publish_id)
        try:
            self._send_verdict.send_nowait(PublishVerdict(publish_id, verdict, detail))
        except trio.WouldBlock:
            self._lose(ProtocolMisuse(f"nobody takes the verdicts of the session: {_VERDICTS} are waiting"))

    def _publish_closed(self, _channel: AmqpChannel, why: str) -> None:
        self._lose(SessionLost(f"the publishing channel was closed: {why}"))
