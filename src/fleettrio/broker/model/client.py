"""A client's connection to the model broker, and its AMQP channels.

Rules: what the broker says waits in `outgoing`, in order, until somebody takes it: holding a frame back is a slow link,
throwing it away a lost one. A refused call raises, and closes its channel (`ChannelClosed` is said too); a closed
channel gives back what was unacknowledged.
While a connection is blocked the broker reads nothing from it: hand-overs wait, calls get no answer (`Unanswered`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from fleettrio.broker.links import Refused
from fleettrio.broker.model.frames import (
    Blocked,
    Cancelled,
    ChannelClosed,
    Confirmed,
    ConnectionClosed,
    Delivered,
    Frame,
    Returned,
    Unblocked,
)
from fleettrio.broker.model.message import Message
from fleettrio.broker.model.queue import Consumer, Held, ModelQueue

if TYPE_CHECKING:
    from fleettrio.broker.model.broker import ModelBroker

__all__ = ("ModelChannel", "ModelConnection", "Unanswered")

_T = TypeVar("_T")


class Unanswered(Exception):
    """The broker does not read this connection, or it is lost: a call on it has no answer."""


class _Unacked(msgspec.Struct, eq=False):
    held: Held
    queue: ModelQueue
    consumer: Consumer | None
    since: int


class ModelConnection:
    """Made by `ModelBroker.connect`."""

    def __init__(self, broker: ModelBroker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.outgoing: deque[Frame] = deque()
        self.channels: dict[int, ModelChannel] = {}
        self.is_lost = False
        self.is_blocked = False
        self.unread: deque[Callable[[], None]] = deque()
        """What the client has written since the connection was blocked."""
        self._numbers = 0

    def open_channel(self, *, confirms: bool = False) -> ModelChannel:
        self.must_answer()
        self._numbers += 1
        channel = ModelChannel(self, self._numbers, confirms=confirms)
        self.channels[channel.number] = channel
        return channel

    def say(self, frame: Frame) -> None:
        if not self.is_lost:
            self.outgoing.append(frame)

    def take(self) -> list[Frame]:
        """Everything the broker has said so far."""
        taken = list(self.outgoing)
        self.outgoing.clear()
        return taken

    def read(self, hand_over: Callable[[], None]) -> None:
        """Do it now, or when the broker reads this connection again."""
        if self.is_lost:
            return
        if self.is_blocked:
            self.unread.append(hand_over)
        else:
            hand_over()

    def must_answer(self) -> None:
        if self.is_lost:
            raise Unanswered(f"connection {self.name} is lost")
        if self.is_blocked:
            raise Unanswered(f"connection {self.name} is blocked: the broker reads nothing from it")

    def block(self, reason: str = "low on memory") -> None:
        """Stop reading it, as an alarm does at its next publish."""
        if not self.is_blocked and not self.is_lost:
            self.is_blocked = True
            self.say(Blocked(reason))

    def unblock(self) -> None:
        if self.is_blocked and not self.is_lost:
            self.is_blocked = False
            self.say(Unblocked())
            while self.unread and not self.is_blocked:
                self.unread.popleft()()

    def lose(self, text: str = "connection reset") -> None:
        """The connection is gone, for both sides at once. What the broker had said and nobody took is lost with it;
        everything unacknowledged goes back to its queue, in order."""
        if self.is_lost:
            return
        self.outgoing.clear()
        self.say(ConnectionClosed(text))
        self.is_lost = True
        self.unread.clear()
        channels = list(self.channels.values())
        for channel in channels:
            channel.end_consumers()
        for channel in channels:
            channel.give_back()
            channel.is_closed = True
        self.channels.clear()
        self.broker.forget(self)


class ModelChannel:
    """An AMQP channel. Calls raise `Refused`, after which it is closed, or `Unanswered`."""

    def __init__(self, connection: ModelConnection, number: int, *, confirms: bool) -> None:
        self.connection = connection
        self.number = number
        self.confirms = confirms
        self.is_closed = False
        self.unacked: dict[int, _Unacked] = {}
        self.consumers: dict[str, Consumer] = {}
        self.opened_at = connection.broker.now
        self._deliveries = 0
        self._publishes = 0

    @property
    def _broker(self) -> ModelBroker:
        return self.connection.broker

    # Calls

    def declare_exchange(self, name: str, type_: str = "", *, durable: bool = True, passive: bool = False) -> None:
        self._call(lambda: self._broker.declare_exchange(name, type_, durable=durable, passive=passive))

    def declare_queue(
        self,
        name: str,
        arguments: Mapping[str, str | int] | None = None,
        *,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        passive: bool = False,
    ) -> tuple[int, int]:
        """Returns the ready messages and the consumers."""
        owner = self.connection
        if passive:
            queue = self._call(lambda: self._broker.queue_for(name, owner))
        else:
            queue = self._call(
                lambda: self._broker.declare_queue(
                    name, arguments or {}, owner, durable=durable, exclusive=exclusive, auto_delete=auto_delete
                )
            )
        return len(queue.ready), len(queue.consumers)

    def bind(self, queue: str, exchange: str, routing_key: str) -> None:
        self._call(lambda: self._broker.bind(queue, exchange, routing_key, self.connection))

    def unbind(self, queue: str, exchange: str, routing_key: str) -> None:
        self._call(lambda: self._broker.unbind(queue, exchange, routing_key, self.connection))

    def delete_queue(self, name: str, *, if_empty: bool = False, if_unused: bool = False) -> int:
        """Returns how many ready messages went with it."""
        return self._call(
            lambda: self._broker.delete_queue(name, self.connection, if_empty=if_empty, if_unused=if_unused)
        )

    def consume(self, queue: str, *, prefetch: int = 0, exclusive: bool = False) -> str:
        """Returns the consumer tag. The first deliveries are in `outgoing` already."""
        consumer = self._call(lambda: self._broker.consume(queue, self, prefetch=prefetch, exclusive=exclusive))
        self.consumers[consumer.tag] = consumer
        consumer.queue.serve(self._broker.now)
        return consumer.tag

    def cancel(self, tag: str) -> None:
        """End a consumer; what it has in hand stays unacknowledged on this channel."""
        self._call(lambda: None)
        consumer = self.consumers.pop(tag, None)
        if consumer is not None:
            self._broker.end_consumer(consumer)

    def get(self, queue: str) -> Delivered | None:
        """The head of `queue`, which is unacknowledged then; it counts against no prefetch."""
        found = self._call(lambda: self._broker.queue_for(queue, self.connection))
        held = found.take(self._broker.now)
        return None if held is None else self._hand_out(held, found, None)

    def close(self) -> None:
        self._call(lambda: None)
        self.end_consumers()
        self._end()

    def _call(self, call: Callable[[], _T]) -> _T:
        self.connection.must_answer()
        if self.is_closed:
            raise Refused(504, "its AMQP channel is closed")
        try:
            return call()
        except Refused as refused:
            self._close(refused.code, str(refused))
            raise

    # Hand-overs

    def publish(self, message: Message, *, mandatory: bool = False) -> int:
        """Returns the number that its verdict will carry. Without confirms there is none."""
        self._publishes += 1
        number = self._publishes

        def arrive() -> None:
            alarm = self._broker.alarm
            if alarm and message.body:
                self.connection.block(alarm)  # its header was read, its body is not
                self.connection.unread.appendleft(arrive)
                return
            self._arrive(message, number, mandatory)
            if alarm:
                self.connection.block(alarm)

        self.connection.read(arrive)
        return number

    def _arrive(self, message: Message, number: int, mandatory: bool) -> None:
        if self.is_closed:
            return
        try:
            routed, ok = self._broker.route(message.received())
        except Refused as refused:
            self._close(refused.code, str(refused))
            return
        if mandatory and not routed:
            self.connection.say(Returned(self.number, number, message))
        if self.confirms:
            self.connection.say(Confirmed(self.number, number, ok))

    def ack(self, delivery: int, *, multiple: bool = False) -> None:
        self._settle(delivery, multiple, lambda _: None)

    def reject(self, delivery: int, *, requeue: bool = False) -> None:
        """Back to its queue, or to the dead letters."""
        self._settle(delivery, False, self._requeue if requeue else self._bury)

    def _settle(self, delivery: int, multiple: bool, act: Callable[[list[_Unacked]], None]) -> None:
        def arrive() -> None:
            if self.is_closed:
                return
            if multiple:
                tags = [tag for tag in sorted(self.unacked) if delivery in (0, tag) or tag <= delivery]
            else:
                tags = [delivery] if delivery in self.unacked else []
            if not tags and not (multiple and delivery == 0):
                self._close(406, f"PRECONDITION_FAILED - unknown delivery tag {delivery}")
                return
            settled = [self._out_of_hand(tag) for tag in tags]
            act(settled)
            for queue in dict.fromkeys(each.queue for each in settled):
                queue.serve(self._broker.now)

        self.connection.read(arrive)

    def _requeue(self, settled: list[_Unacked]) -> None:
        for queue in dict.fromkeys(each.queue for each in settled):
            if self._broker.queues.get(queue.name) is queue:
                queue.take_back([each.held for each in settled if each.queue is queue], self._broker.now)

    def _bury(self, settled: list[_Unacked]) -> None:
        for each in settled:
            if self._broker.queues.get(each.queue.name) is each.queue:
                each.queue.bury_rejected(each.held.message)

    def _out_of_hand(self, tag: int) -> _Unacked:
        unacked = self.unacked.pop(tag)
        if unacked.consumer is not None:
            unacked.consumer.unacked -= 1
            unacked.queue.has_room_again(unacked.consumer)
        return unacked

    # Its ends

    def deliver(self, consumer: Consumer, held: Held) -> None:
        """A queue gives a message to a consumer of this channel."""
        consumer.unacked += 1
        self.connection.say(self._hand_out(held, consumer.queue, consumer))

    def _hand_out(self, held: Held, queue: ModelQueue, consumer: Consumer | None) -> Delivered:
        self._deliveries += 1
        self.unacked[self._deliveries] = _Unacked(held, queue, consumer, self._broker.now)
        self._broker.expect(self._broker.now + self._broker.consumer_timeout_ms)
        return Delivered(
            self.number,
            consumer.tag if consumer else "",
            queue.name,
            self._deliveries,
            held.redelivered,
            held.message,
        )

    def lose_consumer(self, consumer: Consumer) -> None:
        """Its queue is gone: the client is told."""
        if self.consumers.pop(consumer.tag, None):
            self.connection.say(Cancelled(self.number, consumer.tag))

    def time_out(self, limit_ms: int) -> None:
        self._close(
            406,
            f"PRECONDITION_FAILED - delivery acknowledgement on channel {self.number} timed out. Timeout value used: "
            f"{limit_ms} ms. This timeout value can be configured, see consumers doc guide to learn more",
        )

    def _close(self, code: int, text: str) -> None:
        self.connection.say(ChannelClosed(self.number, code, text))
        self.end_consumers()
        self._end()

    def _end(self) -> None:
        self.connection.channels.pop(self.number, None)
        self.is_closed = True
        self.give_back()

    def end_consumers(self) -> None:
        consumers, self.consumers = list(self.consumers.values()), {}
        for consumer in consumers:
            self._broker.end_consumer(consumer)

    def give_back(self) -> None:
        self._requeue([self._out_of_hand(tag) for tag in sorted(self.unacked)])
