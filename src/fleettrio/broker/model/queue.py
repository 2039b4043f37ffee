"""A classic queue of the model broker: its messages in order, its limits, its consumers in turn.

Rules, as RabbitMQ has them: only ready messages count against the limits. A full `reject-publish` queue refuses before
it looks for a consumer; a `drop-head` one buries its oldest. Expiry acts on the head alone: what has expired behind a
live message stays and is counted. What comes back goes to the place it had, marked as redelivered. Consumers are served
in turn; one that is found without room leaves the round, and joins it again at its end.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from fleettrio.broker.model.message import Message

if TYPE_CHECKING:
    from fleettrio.broker.model.client import ModelChannel, ModelConnection

__all__ = ("Consumer", "Held", "ModelQueue")


class Held(msgspec.Struct, eq=False):
    """A message in one queue."""

    message: Message
    place: int
    """Its place in the order of the queue, which it keeps."""
    expires_at: int | None
    redelivered: bool = False


class Consumer(msgspec.Struct, eq=False):
    tag: str
    queue: ModelQueue
    channel: ModelChannel
    prefetch: int
    """0: without bound."""
    exclusive: bool = False
    unacked: int = 0

    @property
    def has_room(self) -> bool:
        return self.prefetch == 0 or self.unacked < self.prefetch


class ModelQueue:
    def __init__(
        self,
        name: str,
        arguments: Mapping[str, str | int],
        bury: Callable[[ModelQueue, Message, str], None],
        expect: Callable[[int], None],
        *,
        durable: bool = True,
        auto_delete: bool = False,
        owner: ModelConnection | None = None,
    ) -> None:
        """`bury` takes what this queue dead-letters, with the reason; `expect` is told when its head will expire.

        `owner` is the connection of an exclusive queue.
        """
        self.name = name
        self.arguments = dict(arguments)
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner
        self.ready: list[Held] = []
        self.consumers: list[Consumer] = []
        self._round: deque[Consumer] = deque()
        """Whose turn it is, without those that were found to have no room."""
        self.is_stuffed = False
        """An unkindness: it takes nothing, as if it were full."""
        self._bury = bury
        self._expect = expect
        self._places = 0
        self._bytes = 0

    def _limit(self, argument: str) -> int | None:
        value = self.arguments.get(argument)
        return value if isinstance(value, int) else None

    # Coming in

    def refuses(self, message: Message) -> bool:
        """Whether this publish would be too much for a queue that tells its publishers so."""
        if self.is_stuffed:
            return True
        return self.arguments.get("x-overflow") == "reject-publish" and self._would_overflow(1, len(message.body))

    def _would_overflow(self, messages: int, size: int) -> bool:
        most, bytes_ = self._limit("x-max-length"), self._limit("x-max-length-bytes")
        return (most is not None and len(self.ready) + messages > most) or (
            bytes_ is not None and self._bytes + size > bytes_
        )

    def put(self, message: Message, now: int) -> None:
        """Take it, hand out what can be handed out, then bury what is too much or too late."""
        lives = [ms for ms in (self._limit("x-message-ttl"), message.expiration_ms) if ms is not None]
        self._places += 1
        self.ready.append(Held(message, self._places, now + min(lives) if lives else None))
        self._bytes += len(message.body)
        if len(self.ready) == 1 and (consumer := self._next_consumer()):
            self._hand_to(consumer)  # however short its life: a waiting consumer comes before the expiry
        self._drop_overflow()
        self.expire(now)

    def _drop_overflow(self) -> None:
        while self.ready and self.arguments.get("x-overflow") != "reject-publish" and self._would_overflow(0, 0):
            self._bury(self, self._pop().message, "maxlen")

    def take_back(self, held: Iterable[Held], now: int) -> None:
        """Requeue: each to the place it had."""
        for each in held:
            each.redelivered = True
            self._bytes += len(each.message.body)
            bisect.insort(self.ready, each, key=lambda held: held.place)
        self._drop_overflow()
        self.serve(now)

    # Going out

    def serve(self, now: int) -> None:
        """Give the ready messages to the consumers in turn, as far as their prefetch allows."""
        self.expire(now)
        while self.ready and (consumer := self._next_consumer()):
            self._hand_to(consumer)
            self.expire(now)

    def _next_consumer(self) -> Consumer | None:
        while self._round and not self._round[0].has_room:
            self._round.popleft()
        return self._round[0] if self._round else None

    def _hand_to(self, consumer: Consumer) -> None:
        self._round.rotate(-1)
        consumer.channel.deliver(consumer, self._pop())

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        self._round.append(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        if consumer in self._round:
            self._round.remove(consumer)

    def has_room_again(self, consumer: Consumer) -> None:
        """Something of what it had in hand was settled."""
        if consumer in self.consumers and consumer not in self._round:
            self._round.append(consumer)

    def take(self, now: int) -> Held | None:
        """The head, for `basic.get`."""
        self.expire(now)
        held = self._pop() if self.ready else None
        self._watch_head()
        return held

    def expire(self, now: int) -> None:
        while self.ready and self._is_dead_head(now):
            self._bury(self, self._pop().message, "expired")
        self._watch_head()

    def _watch_head(self) -> None:
        if self.ready and (due := self.ready[0].expires_at) is not None:
            self._expect(due)

    def _is_dead_head(self, now: int) -> bool:
        expires_at = self.ready[0].expires_at
        return expires_at is not None and expires_at <= now

    def _pop(self) -> Held:
        held = self.ready.pop(0)
        self._bytes -= len(held.message.body)
        return held

    @property
    def next_deadline(self) -> int | None:
        return self.ready[0].expires_at if self.ready else None

    @property
    def bodies(self) -> list[bytes]:
        """Of the ready messages, from the head: for tests that look."""
        return [held.message.body for held in self.ready]

    def bury_rejected(self, message: Message) -> None:
        self._bury(self, message, "rejected")
