"""An AMQP channel on the fast lane: calls go the library's way, publishing, deliveries and settling the lane's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleettrio.broker.fastconsumer import Consumer
from fleettrio.broker.fastlane import Lane
from fleettrio.broker.links import AmqpChannel, Decided, Deliver
from fleettrio.broker.port import RawDelivery, RawPublish

__all__ = ("FastChannel",)


class FastChannel:
    """See `links.AmqpChannel`. `stock` is the same channel as the library has it, `number` is AMQP's of it."""

    def __init__(self, lane: Lane, stock: AmqpChannel, number: int, epoch: int, decided: Decided | None) -> None:
        self.serial = stock.serial
        self._lane = lane
        self._stock = stock
        self._number = number
        self._epoch = epoch
        self._publisher = lane.publisher(number, decided) if decided is not None else None
        self._consumer: Consumer | None = None

    @property
    def is_closed(self) -> bool:
        return self._stock.is_closed

    def closed(self, why: str) -> None:
        """It has closed for this reason: open publishes are given up."""
        if self._publisher is not None:
            self._publisher.give_up(why)

    async def call(self, what: str, method: str, **arguments: Any) -> Any:
        self._lane.flush()
        if method == "close":
            self._lane.stop(self._number)
        return await self._stock.call(what, method, **arguments)

    async def consume(self, queue: str, *, prefetch: int, exclusive: bool, deliver: Deliver) -> str:
        if self._consumer is None:
            self._consumer = self._lane.consumer(self._number, self._epoch, self.serial)
        self._consumer.begin(queue, deliver)
        return await self._stock.consume(queue, prefetch=prefetch, exclusive=exclusive, deliver=deliver)

    async def get(self, queue: str) -> RawDelivery | None:
        return await self._stock.get(queue)

    def ack(self, delivery: int) -> None:
        (self._consumer or self._stock).ack(delivery)

    def reject(self, delivery: int, *, requeue: bool) -> None:
        (self._consumer or self._stock).reject(delivery, requeue=requeue)

    def publish(self, messages: Sequence[RawPublish]) -> None:
        if self._publisher is not None:
            self._publisher.publish(messages)
