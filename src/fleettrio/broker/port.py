"""What a broker session is to the rest of fleettrio. `amqp.py` is the real one, `memory.py` the model.

Nothing here knows AMQP libraries or asyncio. Hand-overs (`ack`, `reject`, `publish`) never block and never raise for a
lost link: what came of a publish arrives as a `PublishVerdict`, what became of the session as the end of `run`.
Verdicts and deliveries come in lists, as many as the broker's words that were heard together; no list is empty.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec
import trio

from fleettrio.core.topology import Binding, Exchange, Queue
from fleettrio.ids import Seconds, Tag
from fleettrio.wire.headers import RawHeaders

__all__ = (
    "CONTENT_TYPE",
    "BrokerSession",
    "BrokerSettings",
    "ConsumerCancelled",
    "ConsumerLocked",
    "LinkBlocked",
    "LinkUnblocked",
    "PublishVerdict",
    "QueueMismatch",
    "RawDelivery",
    "RawHeaders",
    "RawPublish",
    "SessionEvent",
    "Verdict",
)


CONTENT_TYPE = "application/octet-stream"


class Verdict(enum.StrEnum):
    """What became of one publish. Exactly one per publish; a late one may follow `UNKNOWN`."""

    CONFIRMED = "confirmed"
    UNROUTABLE = "unroutable"
    NACKED = "nacked"
    UNKNOWN = "outcome-unknown"


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the broker. URIs never appear in a log; `user` and `password_file` are read at each connect."""

    uris: tuple[str, ...]
    user: str = ""
    password_file: str = ""
    ca_file: str = ""
    allow_plaintext: bool = False
    heartbeat_s: int = 10
    call_limit_s: float = 4.0
    connect_limit_s: float = 4.0
    fast_lane: bool = True
    """False: the stock lane, whatever is installed."""


class RawDelivery(msgspec.Struct, frozen=True, gc=False):
    """One delivery as the broker handed it over; nothing in it has been checked."""

    tag: Tag
    queue: str
    exchange: str
    routing_key: str
    redelivered: bool
    headers: RawHeaders
    body: bytes


class RawPublish(msgspec.Struct, frozen=True, gc=False):
    """One message for the broker. `id` names it in its verdict and is unique in the life of the daemon."""

    id: int
    exchange: str
    routing_key: str
    mandatory: bool
    persistent: bool
    expiration_ms: int
    content_type: str
    headers: Mapping[str, bytes | str]
    body: bytes


class PublishVerdict(msgspec.Struct, frozen=True, gc=False):
    id: int
    verdict: Verdict
    detail: str = ""


class LinkBlocked(msgspec.Struct, frozen=True):
    """The broker raised an alarm: it reads nothing more from the publishing connection."""

    reason: str


class LinkUnblocked(msgspec.Struct, frozen=True):
    pass


class ConsumerCancelled(msgspec.Struct, frozen=True):
    """The broker ended a consumer (its queue was deleted), or the consumer's AMQP channel closed."""

    queue: str
    reason: str


SessionEvent = LinkBlocked | LinkUnblocked | ConsumerCancelled


class ConsumerLocked(Exception):
    """Another connection consumes this queue exclusively (403 or 405). An expected failure: retried by its inbox."""


class QueueMismatch(Exception):
    """The queue exists with other arguments or another type (406). Only a person can mend it."""


class BrokerSession(Protocol):
    """One broker connection's life: two connections underneath, one AMQP channel per consumer.

    `verdicts` and `events` are never closed: what arrived until the end can still be taken with `receive_nowait`.
    """

    epoch: int
    verdicts: trio.MemoryReceiveChannel[list[PublishVerdict]]
    events: trio.MemoryReceiveChannel[SessionEvent]

    @property
    def lane(self) -> tuple[str, str]:
        """Which way publishes and deliveries go, `fast`, `stock` or `model`, and why it is not the fast one."""

    @property
    def last_heard(self) -> Seconds:
        """Monotonic time of the last bytes from the broker on the publishing connection."""

    async def declare(
        self, exchanges: Sequence[Exchange], queues: Sequence[Queue], bindings: Sequence[Binding]
    ) -> None:
        """Make these exist: shared ones are looked for passively first and declared only when absent.

        Raises `QueueMismatch` (406), `ConsumerLocked` (405) or `SessionLost`. After cancellation some may exist.
        """

    async def consume(
        self,
        queue: str,
        *,
        prefetch: int,
        deliveries: trio.MemorySendChannel[list[RawDelivery]],
        exclusive: bool = True,
    ) -> None:
        """Start the consumer of `queue` on an AMQP channel of its own. Raises `ConsumerLocked`, `SessionLost`."""

    async def stop_consuming(self, queue: str, *, requeue: Sequence[Tag] = ()) -> None:
        """`basic.cancel`, then give `requeue` back to the queue in order. No-op for an unknown queue."""

    async def unbind(self, bindings: Sequence[Binding]) -> None:
        """Remove bindings; one that is not there is no error."""

    def in_hand(self, queue: str) -> int:
        """Deliveries of the consumer of `queue`, also of one that was stopped, that nobody has settled."""

    async def delete_queue(self, queue: str, *, if_empty: bool = True) -> bool:
        """Delete a queue of ours; False when it still has messages. Comes behind whatever was settled before.

        What is in hand counts for nothing and goes with the queue: settle it first (`in_hand`).
        """

    async def message_count(self, queue: str) -> int | None:
        """Ready messages in `queue`, None when it does not exist."""

    async def get(self, queue: str) -> RawDelivery | None:
        """Take the head of `queue` without a consumer; None when it has no ready message.

        What was taken is ours (`ack`, `reject`) until `release(queue)` or the session's end gives the rest back, in
        order and marked redelivered: take, look and release is how a queue is browsed, by one at a time. Raises
        `ConsumerLocked` (403, 405), `SessionLost`; also for a queue that does not exist, which `message_count` tells.
        Cancellation waits for the answer.
        """

    async def release(self, queue: str) -> None:
        """Give back what `get` took from `queue` and nobody settled. No-op when there is nothing."""

    def ack(self, tag: Tag) -> None:
        """Acknowledge; a tag of another epoch is dropped (the broker requeued that delivery long ago)."""

    def reject(self, tag: Tag) -> None:
        """Reject to the dead letters; a tag of another epoch is dropped."""

    def publish(self, messages: Sequence[RawPublish]) -> None:
        """Hand over, in order. Each gets exactly one verdict, `UNKNOWN` at the latest when the session ends.

        One whose id is open already is our bug, and none of `messages` is handed over: `ProtocolMisuse`.
        """

    async def run_until_lost(self) -> None:
        """Return never: raises `SessionLost` with the reason when either connection is gone."""


class OpenSession(Protocol):
    """How a session is opened; implemented by the border and by the model broker."""

    def __call__(self, settings: BrokerSettings, epoch: int) -> AbstractAsyncContextManager[BrokerSession]:
        """Connect within `connect_limit_s` or raise `SessionLost`; leaving closes both connections, bounded."""
