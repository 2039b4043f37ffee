"""A broker session over two connections, one for consuming and acks, one for publishing.

Rules: an alarm stops the broker reading a publishing connection, and acks on it would stick, so they go the other way.
Every publish has one verdict, however the session ends. A tag is worth something on its channel in its session only.
A fault of one consumer is an event; the loss of either connection or of the publishing channel is the session's end.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence

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
from fleettrio.broker.setup import MISMATCH, Setup, about_ours
from fleettrio.core.topology import Binding, Exchange, Queue
from fleettrio.errors import ProtocolMisuse, SessionLost
from fleettrio.ids import Seconds, Tag

__all__ = ("TwoLinks",)

_VERDICTS = 65_536
"""Lists; more than any publishing window: a full verdict channel is a bug of ours."""
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
        self._send_verdicts, self.verdicts = trio.open_memory_channel[list[PublishVerdict]](_VERDICTS)
        self._send_event, self.events = trio.open_memory_channel[SessionEvent](_EVENTS)
        self._lost = trio.Event()
        self._why: Exception = SessionLost("the session has not begun")
        self._idle_setups: list[Setup] = []
        self._publish_channel: AmqpChannel | None = None
        self._open: set[int] = set()
        self._consumers: dict[str, _Consumer] = {}
        self._browsed: dict[str, AmqpChannel] = {}
        self._browsing = trio.Lock()
        self._channels: dict[int, AmqpChannel] = {}
        self._in_hand: dict[int, int] = {}
        """Deliveries of each consumer's channel that nobody has settled."""

    async def start(self) -> None:
        """Watch both connections and open the publishing channel. Raises `SessionLost`."""
        for link in (self._publishing, self._consuming):
            link.watch(self._lose, self._tell)
        self._publish_channel = await self._publishing.open_channel(decided=self._decided, closed=self._publish_closed)

    def end(self) -> None:
        """The connections are about to be closed, which is then no loss of theirs."""
        self._lose(SessionLost("the session is over"))

    def give_up(self) -> None:
        """The connections are closed: whatever is open now will never be confirmed."""
        self._give_up(list(self._open), "the session ended before the broker confirmed")

    @property
    def lane(self) -> tuple[str, str]:
        return self._publishing.lane

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

    @contextlib.contextmanager
    def _setup(self) -> Iterator[Setup]:
        """A set-up channel that nobody uses: what is set up at the same time does not wait for each other."""
        setup = self._idle_setups.pop() if self._idle_setups else Setup(self._consuming)
        try:
            yield setup
        finally:
            self._idle_setups.append(setup)

    async def declare(
        self, exchanges: Sequence[Exchange], queues: Sequence[Queue], bindings: Sequence[Binding]
    ) -> None:
        with self._setup() as setup:
            await setup.declare(exchanges, queues, bindings)

    async def unbind(self, bindings: Sequence[Binding]) -> None:
        with self._setup() as setup:
            await setup.unbind(bindings)

    async def message_count(self, queue: str) -> int | None:
        with self._setup() as setup:
            return await setup.message_count(queue)

    async def delete_queue(self, queue: str, *, if_empty: bool = True) -> bool:
        consumer = self._consumers.get(queue)
        if consumer is not None and consumer.tag:
            raise ProtocolMisuse(f"queue {queue} is consumed; stop that before it is deleted")
        channel = consumer.channel if consumer is not None else None
        if channel is None or channel.is_closed:
            with self._setup() as setup:
                return await setup.delete_queue(queue, if_empty=if_empty)
        # Behind what was rejected on that channel: the broker counts what is in hand for nothing, and drops it.
        with about_ours(f"queue {queue}"):
            try:
                await channel.call(f"queue {queue}", "queue_delete", queue=queue, if_empty=if_empty)
            except Refused as refused:
                if if_empty and refused.code == MISMATCH:
                    return False
                raise
        await channel.call(f"channel of {queue}", "close")
        return True

    # Consuming

    async def consume(
        self,
        queue: str,
        *,
        prefetch: int,
        deliveries: trio.MemorySendChannel[list[RawDelivery]],
        exclusive: bool = True,
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
            self._in_hand[consumer.channel.serial] = 0
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

    def _deliver(self, deliveries: trio.MemorySendChannel[list[RawDelivery]], batch: list[RawDelivery]) -> None:
        self._in_hand[batch[0].tag.channel] += len(batch)
        try:
            deliveries.send_nowait(batch)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # nobody takes them any more; unacked, it goes back to the queue with its channel
        except trio.WouldBlock:
            self._lose(ProtocolMisuse(f"queue {batch[0].queue}: more deliveries in hand than its prefetch allows"))

    def _channel_closed(self, consumer: _Consumer, channel: AmqpChannel, why: str) -> None:
        self._channels.pop(channel.serial, None)
        self._in_hand.pop(channel.serial, None)
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
                self._settled(back)
                channel.reject(back.delivery, requeue=True)

    def in_hand(self, queue: str) -> int:
        consumer = self._consumers.get(queue)
        channel = consumer.channel if consumer is not None else None
        return self._in_hand.get(channel.serial, 0) if channel is not None else 0

    # Browsing

    async def get(self, queue: str) -> RawDelivery | None:
        async with self._browsing:
            channel = self._browsed.get(queue)
            if channel is None or channel.is_closed:
                channel = await self._consuming.open_channel(closed=self._browsing_ended)
                self._browsed[queue] = self._channels[channel.serial] = channel
        with about_ours(f"queue {queue}"):
            return await channel.get(queue)

    async def release(self, queue: str) -> None:
        channel = self._browsed.pop(queue, None)
        if channel is not None and not channel.is_closed:
            with contextlib.suppress(Refused):  # it has closed meanwhile, which gives everything back
                await channel.call(f"channel of {queue}", "close")

    def _browsing_ended(self, channel: AmqpChannel, _why: str) -> None:
        self._channels.pop(channel.serial, None)

    # Settling

    def ack(self, tag: Tag) -> None:
        channel = self._channel_of(tag)
        if channel is not None:
            self._settled(tag)
            channel.ack(tag.delivery)

    def reject(self, tag: Tag) -> None:
        channel = self._channel_of(tag)
        if channel is not None:
            self._settled(tag)
            channel.reject(tag.delivery, requeue=False)

    def _settled(self, tag: Tag) -> None:
        if tag.channel in self._in_hand:
            self._in_hand[tag.channel] -= 1

    def _channel_of(self, tag: Tag) -> AmqpChannel | None:
        return self._channels.get(tag.channel) if tag.epoch == self.epoch else None

    # Publishing

    def publish(self, messages: Sequence[RawPublish]) -> None:
        ids = [message.id for message in messages]
        if len(set(ids)) < len(ids) or not self._open.isdisjoint(ids):
            raise ProtocolMisuse(f"a publish is open already, one of {ids}")
        self._open.update(ids)
        if self._lost.is_set() or self._publish_channel is None:
            self._give_up(ids, f"not sent: {self._why}")
        else:
            self._publish_channel.publish(messages)

    def _give_up(self, ids: Sequence[int], why: str) -> None:
        self._decided([PublishVerdict(publish_id, Verdict.UNKNOWN, why) for publish_id in ids])

    def _decided(self, verdicts: Sequence[PublishVerdict]) -> None:
        """The one verdict of each publish: what is said of it after the session's end comes too late."""
        first = [verdict for verdict in verdicts if verdict.id in self._open]
        if not first:
            return
        self._open.difference_update([verdict.id for verdict in first])
        try:
            self._send_verdicts.send_nowait(first)
        except trio.WouldBlock:
            self._lose(ProtocolMisuse(f"nobody takes the verdicts of the session: {_VERDICTS} lists are waiting"))

    def _publish_closed(self, _channel: AmqpChannel, why: str) -> None:
        self._lose(SessionLost(f"the publishing channel was closed: {why}"))
