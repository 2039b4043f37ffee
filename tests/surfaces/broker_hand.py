"""What an administrator does to the broker by hand: a queue with other arguments, messages taken and given back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

import trio

from fleettrio.broker.amqp import open_border, open_session
from fleettrio.broker.port import BrokerSession, BrokerSettings
from fleettrio.core.topology import Binding, Queue
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.waiting import BOUND_S
from fleettrio.wire.envelope import Envelope, Kind, decode_envelope

T = TypeVar("T")


class Place(Protocol):
    """A virtual host of a broker of ours: a fleet's, or that of leads."""

    @property
    def broker(self) -> BrokerNode | None: ...

    @property
    def vhost(self) -> str: ...


def by_hand(place: Place, do: Callable[[BrokerSession], Awaitable[T]]) -> T:
    """Do it over a session of the administrator's."""
    assert place.broker is not None
    settings = BrokerSettings(uris=(place.broker.uri("guest", place.vhost, password="guest"),))

    async def run() -> T:
        async with open_border(), open_session(settings, 1) as session:
            return await do(session)

    return trio.run(run)


def replace_queue(place: Place, name: str, arguments: Mapping[str, str | int], *bindings: tuple[str, str]) -> None:
    """The queue anew, with these arguments and bindings (exchange, key). Nobody may be consuming it."""

    async def do(session: BrokerSession) -> None:
        await session.delete_queue(name, if_empty=False)
        bound = tuple(Binding(name, exchange, key) for exchange, key in bindings)
        await session.declare((), (Queue(name, arguments),), bound)

    by_hand(place, do)


def take_and_give_back(place: Place, queue: str, times: int) -> None:
    """Take the head of a queue and give it back, so often; what was given back is there again a moment later."""

    async def do(session: BrokerSession) -> None:
        for _ in range(times):
            await _wait_and_take(session, queue)
            await session.release(queue)

    by_hand(place, do)


async def _wait_and_take(session: BrokerSession, queue: str) -> None:
    with trio.fail_after(BOUND_S):
        while await session.get(queue) is None:  # noqa: ASYNC110 - the broker tells nobody
            await trio.sleep(0.02)


def count(place: Place, queue: str) -> int:
    """Ready messages in a queue."""

    async def do(session: BrokerSession) -> int:
        return await session.message_count(queue) or 0

    return by_hand(place, do)


class Overheard:
    """A copy of all that goes to one key of an exchange, from now on."""

    def __init__(self, place: Place, exchange: str, key: str) -> None:
        self._place, self._queue = place, f"overheard.{exchange}.{key}"
        self._taken: list[Envelope] = []
        bound = (Binding(self._queue, exchange, key),)
        by_hand(place, lambda session: session.declare((), (Queue(self._queue, {}),), bound))

    def about(self, msg_id: str, kind: Kind) -> list[Envelope]:
        """Of that kind, and about that message."""

        async def take(session: BrokerSession) -> None:
            while got := await session.get(self._queue):
                self._taken.append(decode_envelope(got.headers.fleet or b""))
                session.ack(got.tag)

        by_hand(self._place, take)
        return [envelope for envelope in self._taken if (envelope.re, envelope.kind) == (msg_id, kind)]


def exists(place: Place, queue: str) -> bool:
    async def do(session: BrokerSession) -> bool:
        return await session.message_count(queue) is not None

    return by_hand(place, do)


def delete_queue(place: Place, queue: str) -> None:
    """Take it away with all that is in it, whoever consumes it."""

    async def do(session: BrokerSession) -> None:
        await session.delete_queue(queue, if_empty=False)

    by_hand(place, do)
