"""A model of RabbitMQ (classic queues) as far as fleettrio uses it: synchronous, deterministic, without a clock.

For tests and simulations. Time is what `advance` says, in milliseconds. Every verdict, delivery and refusal that this
gives was compared with the real broker's. In short:

    broker = ModelBroker()
    link = broker.connect("alpha")
    channel = link.open_channel(confirms=True)
    channel.declare_queue("inbox", {"x-max-length": 10})
    channel.publish(Message(exchange="", routing_key="inbox", body=b"hello"), mandatory=True)
    link.take()  # → [Confirmed(channel=1, number=1, ok=True)]

Faults: `link.lose()`; hold back, reorder or throw away what stands in `link.outgoing`; `broker.inject` a forgery or a
copy; `queue.is_stuffed`; `broker.raise_alarm()` or `link.block()`; `broker.nacks`; `broker.locked`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fleettrio.broker.links import Refused
from fleettrio.broker.model.client import ModelChannel, ModelConnection
from fleettrio.broker.model.message import Message, is_cycle, with_death
from fleettrio.broker.model.queue import Consumer, ModelQueue

__all__ = ("ModelBroker",)

_TYPES = ("topic", "direct", "fanout")
_CONSUMER_TIMEOUT_MS, _TICK_MS = 30 * 60_000, 60_000


class _Exchange(msgspec.Struct, frozen=True):
    type: str
    durable: bool


class ModelBroker:
    def __init__(self, now: int = 0, *, vhost: str = "/") -> None:
        self.now = now
        self.vhost = vhost
        self.exchanges = {"amq.topic": _Exchange("topic", True), "amq.direct": _Exchange("direct", True)}
        self.queues: dict[str, ModelQueue] = {}
        self.bindings: dict[tuple[str, str, str], None] = {}
        """Queue, exchange, routing key; in the order in which they were made."""
        self.connections: list[ModelConnection] = []
        self.consumer_timeout_ms, self.tick_ms = _CONSUMER_TIMEOUT_MS, _TICK_MS
        self.alarm = ""
        """Why it is short of something; empty when it is not. See `raise_alarm`."""
        self.nacks = False
        """An unkindness: every publish is nacked and goes nowhere."""
        self.locked: set[str] = set()
        """An unkindness: queues that a connection nobody sees consumes exclusively."""
        self._tags = 0
        self._quiet_until: int | None = None
        """Nothing happens by itself before; None: nothing at all. It may be earlier than what really comes next."""

    def connect(self, name: str = "") -> ModelConnection:
        connection = ModelConnection(self, name or f"connection {len(self.connections) + 1}")
        self.connections.append(connection)
        return connection

    # Time

    def advance(self, now: int) -> None:
        """Let time pass until `now`; everything happens at its moment. The past is ignored."""
        while self._quiet_until is not None and self._quiet_until <= now:
            self._quiet_until = self.next_deadline()
            if self._quiet_until is not None and self._quiet_until <= now:
                self.now = max(self.now, self._quiet_until)
                self._let_expire()
        self.now = max(self.now, now)

    def expect(self, due: int) -> None:
        """Something may happen by itself then."""
        self._quiet_until = due if self._quiet_until is None else min(due, self._quiet_until)

    def set_consumer_timeout(self, limit_ms: int = 0, look_every_ms: int = 0) -> None:
        """How long a delivery may stay unacknowledged, and how often each channel looks; 0: as usual."""
        self.consumer_timeout_ms, self.tick_ms = limit_ms or _CONSUMER_TIMEOUT_MS, look_every_ms or _TICK_MS
        self.expect(self.now)

    def next_deadline(self) -> int | None:
        """When something next happens by itself."""
        heads = [due for queue in self.queues.values() if (due := queue.next_deadline) is not None]
        ticks = [tick for channel in self._channels() if (tick := self._timeout_of(channel)) is not None]
        return min([*heads, *ticks], default=None)

    def _let_expire(self) -> None:
        for queue in list(self.queues.values()):
            queue.expire(self.now)
        for channel in self._channels():
            due = self._timeout_of(channel)
            if due is not None and due <= self.now:
                channel.time_out(self.consumer_timeout_ms)

    def _timeout_of(self, channel: ModelChannel) -> int | None:
        """The first look of this channel that finds its oldest delivery held for too long."""
        oldest = next(iter(channel.unacked.values()), None)
        if oldest is None:
            return None
        late = oldest.since + self.consumer_timeout_ms - channel.opened_at
        return channel.opened_at + (late // self.tick_ms + 1) * self.tick_ms

    def _channels(self) -> list[ModelChannel]:
        return [channel for connection in self.connections for channel in connection.channels.values()]

    # What exists

    def declare_exchange(self, name: str, type_: str, *, durable: bool, passive: bool) -> None:
        found = self.exchanges.get(name)
        if found is None:
            if passive:
                raise self._no_exchange(name)
            assert type_ in _TYPES, f"exchange type {type_} is not modelled"
            self.exchanges[name] = _Exchange(type_, durable)
        elif not passive:
            self._same(f"exchange '{name}'", "type", type_, found.type)
            self._same(f"exchange '{name}'", "durable", durable, found.durable)

    def declare_queue(
        self,
        name: str,
        arguments: Mapping[str, str | int],
        owner: ModelConnection,
        *,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
    ) -> ModelQueue:
        found = self.queues.get(name)
        if found is None:
            self.queues[name] = ModelQueue(
                name,
                arguments,
                self._bury,
                self.expect,
                durable=durable,
                auto_delete=auto_delete,
                owner=owner if exclusive else None,
            )
            return self.queues[name]
        if (found.owner is not None) != exclusive or found.owner not in (None, owner):
            raise self._locked(name)
        self._same(f"queue '{name}'", "durable", durable, found.durable)
        self._same(f"queue '{name}'", "auto_delete", auto_delete, found.auto_delete)
        for argument in sorted({*arguments, *found.arguments}):
            self._same(f"queue '{name}'", argument, arguments.get(argument), found.arguments.get(argument))
        return found

    def _same(self, what: str, argument: str, given: object, found: object) -> None:
        if given != found:
            raise Refused(
                406,
                f"PRECONDITION_FAILED - inequivalent arg '{argument}' for {what} in vhost '{self.vhost}': "
                f"received {_said(given)} but current is {_said(found)}",
            )

    def queue_for(self, name: str, client: ModelConnection) -> ModelQueue:
        """The queue, if `client` may touch it. Raises `Refused` 404 or 405."""
        found = self.queues.get(name)
        if found is None:
            raise Refused(404, f"NOT_FOUND - no queue '{name}' in vhost '{self.vhost}'")
        if found.owner not in (None, client):
            raise self._locked(name)
        return found

    def bind(self, queue: str, exchange: str, routing_key: str, client: ModelConnection) -> None:
        self.queue_for(queue, client)
        if exchange not in self.exchanges:
            raise self._no_exchange(exchange)
        self.bindings[queue, exchange, routing_key] = None

    def unbind(self, queue: str, exchange: str, routing_key: str, client: ModelConnection) -> None:
        """What is not there need not be taken away, not even from a queue that is another's."""
        if (queue, exchange, routing_key) in self.bindings:
            self.queue_for(queue, client)
            del self.bindings[queue, exchange, routing_key]

    def delete_queue(self, name: str, client: ModelConnection, *, if_empty: bool, if_unused: bool) -> int:
        if name not in self.queues:
            return 0
        queue = self.queue_for(name, client)
        if if_unused and queue.consumers:
            raise Refused(406, f"PRECONDITION_FAILED - queue '{name}' in vhost '{self.vhost}' in use")
        if if_empty and queue.ready:
            raise Refused(406, f"PRECONDITION_FAILED - queue '{name}' in vhost '{self.vhost}' is not empty")
        self._drop_queue(queue)
        return len(queue.ready)

    def _drop_queue(self, queue: ModelQueue) -> None:
        del self.queues[queue.name]
        self.bindings = {key: None for key in self.bindings if key[0] != queue.name}
        for consumer in list(queue.consumers):
            queue.remove_consumer(consumer)
            consumer.channel.lose_consumer(consumer)

    def _locked(self, name: str) -> Refused:
        return Refused(
            405,
            f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '{self.vhost}'. "
            "It could be originally declared on another connection or the exclusive property value does not match "
            "that of the original declaration.",
        )

    def _no_exchange(self, name: str) -> Refused:
        return Refused(404, f"NOT_FOUND - no exchange '{name}' in vhost '{self.vhost}'")

    # Consumers

    def consume(self, name: str, channel: ModelChannel, *, prefetch: int, exclusive: bool) -> Consumer:
        queue = self.queue_for(name, channel.connection)
        others = queue.consumers
        if name in self.locked or (others and (exclusive or others[0].exclusive)):
            raise Refused(403, f"ACCESS_REFUSED - queue '{name}' in vhost '{self.vhost}' in exclusive use")
        self._tags += 1
        consumer = Consumer(f"consumer-{self._tags}", queue, channel, prefetch, exclusive)
        queue.add_consumer(consumer)
        return consumer

    def end_consumer(self, consumer: Consumer) -> None:
        queue = consumer.queue
        if consumer in queue.consumers:
            queue.remove_consumer(consumer)
            if queue.auto_delete and not queue.consumers and self.queues.get(queue.name) is queue:
                self._drop_queue(queue)

    def cancel_consumers(self, name: str) -> None:
        """An unkindness: end the consumers of a queue that stays, and tell them."""
        for consumer in list(self.queues[name].consumers):
            self.queues[name].remove_consumer(consumer)
            consumer.channel.lose_consumer(consumer)

    def forget(self, connection: ModelConnection) -> None:
        """A connection is gone, and its exclusive queues with it."""
        self.connections.remove(connection)
        for queue in [queue for queue in self.queues.values() if queue.owner is connection]:
            self._drop_queue(queue)

    # Messages

    def route(self, message: Message) -> tuple[bool, bool]:
        """Put a message into every queue it belongs to: whether there is one, and whether all of them took it.

        Raises `Refused` 404 for an exchange that does not exist.
        """
        if self.nacks:
            return True, False
        queues = self._queues_for(message)
        full = [queue for queue in queues if queue.refuses(message)]
        for queue in queues:
            if queue not in full:
                queue.put(message, self.now)
        return bool(queues), not full

    def inject(self, message: Message) -> bool:
        """Put a message in as if some connection had published it; whether a queue took it."""
        routed, _ = self.route(message.received())
        return routed

    def _queues_for(self, message: Message) -> list[ModelQueue]:
        if not message.exchange:
            names = dict.fromkeys(key for key in message.keys if key in self.queues)
        else:
            found = self.exchanges.get(message.exchange)
            if found is None:
                raise self._no_exchange(message.exchange)
            names = dict.fromkeys(
                queue
                for queue, exchange, pattern in self.bindings
                if exchange == message.exchange and any(_matches(found.type, pattern, key) for key in message.keys)
            )
        return [self.queues[name] for name in names]

    def _bury(self, queue: ModelQueue, message: Message, reason: str) -> None:
        """Dead-letter, as RabbitMQ does: unconfirmed, and silently nowhere when there is no such exchange."""
        exchange = queue.arguments.get("x-dead-letter-exchange")
        if not isinstance(exchange, str) or (exchange and exchange not in self.exchanges):
            return
        key = queue.arguments.get("x-dead-letter-routing-key")
        dead = with_death(
            message,
            queue=queue.name,
            reason=reason,
            at_ms=self.now,
            exchange=exchange,
            key=key if isinstance(key, str) else None,
        )
        for target in self._queues_for(dead):
            if not target.refuses(dead) and (reason == "rejected" or not is_cycle(dead, target.name)):
                target.put(dead, self.now)

    # Alarms

    def raise_alarm(self) -> None:
        """From now on the broker stops reading a connection at the first message it publishes."""
        self.alarm = "low on memory"

    def clear_alarm(self) -> None:
        self.alarm = ""
        for connection in list(self.connections):
            connection.unblock()


def _said(value: object) -> str:
    if value is None:
        return "none"
    return f"'{str(value).lower() if isinstance(value, bool) else value}'"


def _matches(type_: str, pattern: str, key: str) -> bool:
    if type_ == "fanout":
        return True
    if type_ == "direct":
        return pattern == key
    return _matches_words(pattern.split("."), key.split("."))


def _matches_words(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_matches_words(pattern[1:], words[at:]) for at in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _matches_words(pattern[1:], words[1:])
