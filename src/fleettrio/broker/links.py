"""What the border gives to a session: AMQP connections and channels in Trio's flavour; `amqp.py` implements them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from fleettrio.broker.port import PublishVerdict, RawDelivery, RawPublish, SessionEvent
from fleettrio.errors import SessionLost
from fleettrio.ids import Seconds

__all__ = ("AmqpChannel", "Decided", "Deliver", "Link", "Refused")


Decided: TypeAlias = Callable[[list[PublishVerdict]], None]
Deliver: TypeAlias = Callable[[list[RawDelivery]], None]


class Refused(Exception):
    """The broker refused one call and closed the AMQP channel it came on; the connection is well.

    `code` is AMQP's: 403 access refused, 404 not found, 405 locked, 406 precondition failed; 504: the channel was
    closed already.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class AmqpChannel(Protocol):
    """One AMQP channel. After a `Refused` it is closed."""

    @property
    def is_closed(self) -> bool: ...

    @property
    def serial(self) -> int:
        """Unique in the session, which AMQP's own number is not: that one is used again."""

    async def call(self, what: str, method: str, **arguments: Any) -> Any:
        """One AMQP method that the broker answers. `what` names its object in errors.

        Raises `Refused`, or `SessionLost` when it fails otherwise or has no answer in time. Cancellation waits for the
        answer: a cancelled call would close the channel.
        """

    async def consume(self, queue: str, *, prefetch: int, exclusive: bool, deliver: Deliver) -> str:
        """Start a consumer and return its consumer tag; `deliver` must not block. Raises as `call` does."""

    async def get(self, queue: str) -> RawDelivery | None:
        """Take the head of `queue`, which is unacknowledged then; None when it is empty. Raises as `call` does."""

    def ack(self, delivery: int) -> None:
        """Hand over; a closed channel has given the delivery back and ignores it."""

    def reject(self, delivery: int, *, requeue: bool) -> None:
        """Hand over, to the queue again or to the dead letters; as `ack`."""

    def publish(self, messages: Sequence[RawPublish]) -> None:
        """Hand over, in order, on a channel that was opened with `decided`: that is called with one verdict of each."""


class Link(Protocol):
    """One AMQP connection."""

    @property
    def heard(self) -> Seconds:
        """Monotonic time of the last bytes from the broker."""

    @property
    def is_closed(self) -> bool: ...

    @property
    def lane(self) -> tuple[str, str]:
        """As `BrokerSession.lane`."""

    def watch(self, lost: Callable[[SessionLost], None], tell: Callable[[SessionEvent], None]) -> None:
        """`lost` is called when the connection ends or no longer answers, `tell` when it is blocked and unblocked."""

    async def open_channel(
        self,
        *,
        decided: Decided | None = None,
        closed: Callable[[AmqpChannel, str], None] | None = None,
        cancelled: Callable[[], None] | None = None,
    ) -> AmqpChannel:
        """Open an AMQP channel, for publishing when somebody wants to hear what was `decided`.

        `closed` is called with it and the reason when it ends, `cancelled` when the broker cancels its consumer. Raises
        `SessionLost`.
        """
