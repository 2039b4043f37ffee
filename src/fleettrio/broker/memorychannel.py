"""A channel of the model broker behind the port (`memory`): calls, deliveries, publishes and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fleettrio.broker.links import AmqpChannel, Decided, Deliver
from fleettrio.broker.model.client import ModelChannel
from fleettrio.broker.model.frames import Cancelled, Confirmed, Delivered, Frame, Returned
from fleettrio.broker.model.message import Message
from fleettrio.broker.port import PublishVerdict, RawDelivery, RawPublish, Verdict
from fleettrio.ids import Tag
from fleettrio.wire.headers import MAX_TABLE, table_size

if TYPE_CHECKING:
    from fleettrio.broker.memory import MemoryLink

__all__ = ("MemoryChannel", "nobody")

_SHORT_STRING = 255


def nobody(*_: object) -> None:
    """For whoever does not want to hear."""


class MemoryChannel:
    """See `links.AmqpChannel`."""

    def __init__(
        self,
        link: MemoryLink,
        channel: ModelChannel,
        decided: Decided,
        closed: Callable[[AmqpChannel, str], None],
        cancelled: Callable[[], None],
    ) -> None:
        self._link = link
        self._channel = channel
        self._decided = decided
        self._closed = closed
        self._cancelled = cancelled
        self._deliver: Deliver = nobody
        self._open: dict[int, int] = {}
        self._returned: set[int] = set()
        self.serial = channel.number

    @property
    def is_closed(self) -> bool:
        return self._channel.is_closed

    async def call(self, what: str, method: str, **arguments: Any) -> Any:
        return await self._link.ask(what, lambda: getattr(self, f"_{method}")(**arguments))

    def _exchange_declare(
        self, *, exchange: str, exchange_type: str = "", durable: bool = True, passive: bool = False
    ) -> Any:
        self._channel.declare_exchange(exchange, exchange_type, durable=durable, passive=passive)
        return SimpleNamespace()  # an answer: None would say that there is no such exchange

    def _queue_declare(self, *, queue: str, **arguments: Any) -> Any:
        ready, consumers = self._channel.declare_queue(queue, **arguments)
        return SimpleNamespace(message_count=ready, consumer_count=consumers)

    def _queue_bind(self, **ends: str) -> None:
        self._channel.bind(**ends)

    def _queue_unbind(self, **ends: str) -> None:
        self._channel.unbind(**ends)

    def _queue_delete(self, *, queue: str, if_empty: bool) -> None:
        self._channel.delete_queue(queue, if_empty=if_empty)

    def _basic_cancel(self, *, consumer_tag: str) -> None:
        self._channel.cancel(consumer_tag)

    def _close(self) -> None:
        self._channel.close()
        self._link.forget(self.serial)

    async def consume(self, queue: str, *, prefetch: int, exclusive: bool, deliver: Deliver) -> str:
        self._link.broker.consume_calls.append(queue)
        self._deliver = deliver
        started = await self._link.ask(
            f"consumer of {queue}",
            lambda: self._channel.consume(queue, prefetch=prefetch, exclusive=exclusive),
        )
        return str(started)

    async def get(self, queue: str) -> RawDelivery | None:
        found = await self._link.ask(f"head of {queue}", lambda: self._channel.get(queue))
        return None if found is None else self._delivery(found)

    def ack(self, delivery: int) -> None:
        self._channel.ack(delivery)
        self._link.broker.pass_time()

    def reject(self, delivery: int, *, requeue: bool) -> None:
        self._channel.reject(delivery, requeue=requeue)
        self._link.broker.pass_time()

    def publish(self, messages: Sequence[RawPublish]) -> None:
        for message in messages:
            self._publish(message)

    def _publish(self, message: RawPublish) -> None:
        self._link.broker.published.append(message)
        if self.is_closed:
            self._tell(message.id, Verdict.UNKNOWN, "not sent: its AMQP channel is closed")
            return
        size = table_size(message.headers)
        if size > MAX_TABLE or len(message.routing_key.encode()) > _SHORT_STRING:
            self._tell(message.id, Verdict.NACKED, f"not sent: {size} bytes of headers, or too long a key")
            return
        number = self._channel.publish(
            Message(
                exchange=message.exchange,
                routing_key=message.routing_key,
                body=message.body,
                headers=dict(message.headers),
                expiration_ms=message.expiration_ms if message.expiration_ms > 0 else None,
                content_type=message.content_type,
                persistent=message.persistent,
            ),
            mandatory=message.mandatory,
        )
        self._open[number] = message.id
        self._link.broker.pass_time()

    # What the broker says

    def hear(self, frame: Frame) -> None:
        match frame:
            case Delivered():
                self._deliver([self._delivery(frame)])
            case Returned(_, number, _):
                self._returned.add(number)
            case Confirmed(_, number, ok):
                self._decide(number, ok)
            case Cancelled():
                self._cancelled()

    def _delivery(self, frame: Delivered) -> RawDelivery:
        return RawDelivery(
            tag=Tag(self._link.epoch, self.serial, frame.delivery),
            queue=frame.queue,
            exchange=frame.message.exchange,
            routing_key=frame.message.routing_key,
            redelivered=frame.redelivered,
            headers=frame.message.read_headers(),
            body=frame.message.body,
        )

    def _decide(self, number: int, ok: bool) -> None:
        publish_id = self._open.pop(number, None)
        if publish_id is None:
            return
        if not ok:
            self._tell(publish_id, Verdict.NACKED, "the broker refused it: a queue is full")
        elif number in self._returned:
            self._tell(publish_id, Verdict.UNROUTABLE, "no queue is bound to this routing key")
        else:
            self._tell(publish_id, Verdict.CONFIRMED, "")

    def _tell(self, publish_id: int, verdict: Verdict, detail: str) -> None:
        self._decided([PublishVerdict(publish_id, verdict, detail)])

    def hear_closed(self, why: str) -> None:
        for publish_id in self._open.values():
            self._tell(publish_id, Verdict.UNKNOWN, f"no confirm: {why}")
        self._open.clear()
        self._closed(self, why)
