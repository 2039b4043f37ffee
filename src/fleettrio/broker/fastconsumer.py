"""What the fast lane does on a channel that consumes: deliveries in lists, and the fewest frames that settle them.

Rules:

1. Acks wait for the end of the turn. Those below the lowest delivery in hand are one frame (`multiple`); rejects go
   before them, so that none of them is acknowledged by it.
2. What is settled twice goes as it is: the broker judges it.
"""

from __future__ import annotations

from collections.abc import Callable

from fleettrio._accel import Delivered, encode_ack, encode_reject
from fleettrio.broker.links import Deliver
from fleettrio.broker.port import RawDelivery
from fleettrio.ids import Tag

__all__ = ("Consumer",)


class Consumer:
    """A channel on which a queue is consumed; it outlives the consuming, since its deliveries are settled on it."""

    def __init__(self, channel: int, epoch: int, serial: int, settle_soon: Callable[[Consumer], None]) -> None:
        self.channel = channel
        self._epoch = epoch
        self._serial = serial
        self._settle_soon = settle_soon
        self._queue = ""
        self._deliver: Deliver = lambda _: None
        self._news: list[RawDelivery] = []
        self._in_hand: set[int] = set()
        self._acks: list[int] = []
        self._rejects: list[bytes] = []
        self._strays: list[bytes] = []
        self._is_stopped = False

    def begin(self, queue: str, deliver: Deliver) -> None:
        """Its deliveries are of `queue` from now on."""
        self._queue, self._deliver = queue, deliver

    def hear(self, found: object) -> None:
        """A delivery; handed on with all that the same read brings."""
        if isinstance(found, Delivered):
            self._in_hand.add(found.delivery_tag)
            self._news.append(
                RawDelivery(
                    Tag(self._epoch, self._serial, found.delivery_tag),
                    self._queue,
                    found.exchange,
                    found.routing_key,
                    found.redelivered,
                    found.headers,
                    found.body,
                )
            )

    def tell(self) -> None:
        """This read is over: hand on what it brought."""
        news, self._news = self._news, []
        if news:
            self._deliver(news)

    def stop(self) -> None:
        """Nothing may be written on this channel any more."""
        self._is_stopped = True
        self._acks, self._rejects, self._strays = [], [], []

    def ack(self, delivery: int) -> None:
        if self._is_stopped:
            return
        if delivery in self._in_hand:
            self._in_hand.remove(delivery)
            self._acks.append(delivery)
        else:
            self._strays.append(encode_ack(self.channel, delivery, False))
        self._settle_soon(self)

    def reject(self, delivery: int, *, requeue: bool) -> None:
        if self._is_stopped:
            return
        self._in_hand.discard(delivery)
        self._rejects.append(encode_reject(self.channel, delivery, requeue))
        self._settle_soon(self)

    def settlements(self) -> list[bytes]:
        """The frames of what was settled since the last time."""
        acks, rejects, strays = self._acks, self._rejects, self._strays
        self._acks, self._rejects, self._strays = [], [], []
        lowest = min(self._in_hand, default=None)
        below = [delivery for delivery in acks if lowest is None or delivery < lowest]
        above = acks if not below else [delivery for delivery in acks if lowest is not None and delivery > lowest]
        run = [encode_ack(self.channel, max(below), len(below) > 1)] if below else []
        return [*rejects, *run, *(encode_ack(self.channel, delivery, False) for delivery in above), *strays]
