"""The stock lane: one AMQP channel as the library means it, a task for each hand-over and each delivery.

It is what the fast lane falls back to, and how channels work that are not worth one. Functions of asyncio flavour begin
with `aio_`; the rules by number are those of `amqp.py`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar, cast

import aiormq
from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from pamqp.commands import Basic

from fleettrio.broker.libraries import plain
from fleettrio.broker.links import Decided, Deliver
from fleettrio.broker.port import PublishVerdict, RawDelivery, RawPublish, Verdict
from fleettrio.ids import Tag
from fleettrio.wire.headers import MAX_TABLE, RawHeaders, table_size

__all__ = ("StockChannel", "look_at")

T = TypeVar("T")

_SHORT_STRING = 255
"""Bytes of a routing key."""


class StockLink(Protocol):
    """The connection of a channel."""

    epoch: int
    settling: set[asyncio.Task[None]]
    publishing: set[asyncio.Task[None]]

    async def call(self, what: str, coroutine: Coroutine[Any, Any, T]) -> T: ...

    def spawn(self, coroutine: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> asyncio.Task[None]: ...


class StockChannel:
    """See `links.AmqpChannel`."""

    def __init__(self, link: StockLink, channel: Channel, serial: int, decided: Decided | None) -> None:
        self._link = link
        self._channel = channel
        self.serial = serial
        self._decided = decided or (lambda _: None)

    @property
    def is_closed(self) -> bool:
        return self._channel.is_closed

    async def call(self, what: str, method: str, **arguments: Any) -> Any:
        async def aio_in_turn() -> Any:
            # A full writer takes a later frame before those that wait for it: what was settled goes first.
            if self._link.settling:
                await asyncio.wait(self._link.settling)
            return await getattr(self._channel, method)(**arguments)

        return await self._link.call(what, aio_in_turn())

    async def consume(self, queue: str, *, prefetch: int, exclusive: bool, deliver: Deliver) -> str:
        async def aio_deliver(message: DeliveredMessage) -> None:
            deliver([self._delivery(queue, message)])

        what = f"consumer of {queue}"
        await self.call(what, "basic_qos", prefetch_count=prefetch)
        started = await self.call(
            what, "basic_consume", queue=queue, consumer_callback=aio_deliver, exclusive=exclusive
        )
        return str(started.consumer_tag)

    def _delivery(self, queue: str, message: DeliveredMessage) -> RawDelivery:
        frame = cast("Basic.Deliver | Basic.GetOk", message.delivery)
        return RawDelivery(
            tag=Tag(self._link.epoch, self.serial, frame.delivery_tag or 0),
            queue=queue,
            exchange=frame.exchange or "",
            routing_key=frame.routing_key or "",
            redelivered=bool(frame.redelivered),
            headers=cast(RawHeaders, message.header.properties.headers),  # rule 6
            body=message.body,
        )

    async def get(self, queue: str) -> RawDelivery | None:
        message = await self.call(f"head of {queue}", "basic_get", queue=queue)
        return None if isinstance(message.delivery, Basic.GetEmpty) else self._delivery(queue, message)

    def ack(self, delivery: int) -> None:
        if not self.is_closed:
            self._link.spawn(self._channel.basic_ack(delivery, wait=False), self._link.settling)

    def reject(self, delivery: int, *, requeue: bool) -> None:
        if not self.is_closed:
            self._link.spawn(self._channel.basic_reject(delivery, requeue=requeue, wait=False), self._link.settling)

    def publish(self, messages: Sequence[RawPublish]) -> None:
        for message in messages:
            size = table_size(message.headers)
            if size > MAX_TABLE or len(message.routing_key.encode()) > _SHORT_STRING:
                # Rule 7. The sender is told in the words for "the broker will not have it", which it would not.
                limits = f"the header table has {size} of {MAX_TABLE} bytes, the key at most {_SHORT_STRING}"
                self._decided([PublishVerdict(message.id, Verdict.NACKED, f"not sent: {limits}")])
                continue
            # In order: tasks start in order, and the channel's lock is fair.
            task = self._link.spawn(self._aio_publish(message), self._link.publishing)
            task.add_done_callback(functools.partial(self._published, message.id))

    def _published(self, publish_id: int, task: asyncio.Task[None]) -> None:
        self._decided([PublishVerdict(publish_id, *_verdict(task))])

    async def _aio_publish(self, message: RawPublish) -> None:
        table = {key: value if isinstance(value, str) else bytearray(value) for key, value in message.headers.items()}
        await self._channel.basic_publish(
            message.body,
            exchange=message.exchange,
            routing_key=message.routing_key,
            properties=Basic.Properties(
                content_type=message.content_type or None,
                headers=cast(Any, table),
                delivery_mode=2 if message.persistent else 1,
                expiration=str(message.expiration_ms) if message.expiration_ms > 0 else None,
            ),
            mandatory=message.mandatory,
            wait=False,
        )


def _verdict(task: asyncio.Task[None]) -> tuple[Verdict, str]:
    """What came of a publish: basic_publish() ends with the broker's confirm, or with why there is none."""
    error = None if task.cancelled() else task.exception()
    if isinstance(error, aiormq.PublishError):
        return Verdict.UNROUTABLE, "no queue is bound to this routing key"
    if isinstance(error, aiormq.DeliveryError):
        return Verdict.NACKED, "the broker refused it: a queue is full"
    if task.cancelled() or error is not None:
        return Verdict.UNKNOWN, f"no confirm: {plain(error)}"
    return Verdict.CONFIRMED, ""


def look_at(task: asyncio.Future[Any]) -> None:
    """Take notice of how `task` ended; otherwise asyncio reports an error that nobody asked for."""
    if not task.cancelled():
        task.exception()
