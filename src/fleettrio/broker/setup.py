"""Exchanges, queues and bindings on the broker: looked for, made, taken away.

Rules: what the fleet shares is looked for passively and made only when absent; what is ours is declared. A refusal
closes the AMQP channel it came on, so all of this has a channel of its own, one call at a time, opened anew after each
refusal; its loss hurts nothing.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import trio

from fleettrio.broker.links import AmqpChannel, Link, Refused
from fleettrio.broker.port import ConsumerLocked, QueueMismatch
from fleettrio.core.topology import Binding, Exchange, Queue
from fleettrio.errors import SessionLost

__all__ = ("Fit", "Look", "Setup", "about_ours")

ACCESS_REFUSED, NOT_FOUND, LOCKED, MISMATCH = 403, 404, 405, 406


class Fit(enum.StrEnum):
    """How a thing on the broker is, compared with what it must be."""

    OK = "ok"
    MISSING = "missing"
    DIFFERS = "differs"
    HIDDEN = "cannot tell"
    """It exists; this login may not compare it."""


class Look(msgspec.Struct, frozen=True):
    """What a look at an exchange or a queue found; `detail` has the broker's words."""

    fit: Fit
    detail: str = ""


class Setup:
    """A set-up channel of a session, on `link`, whose exclusive queues these are."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._channel: AmqpChannel | None = None
        self._turn = trio.Lock()

    async def _call(self, what: str, method: str, **arguments: Any) -> Any:
        async with self._turn:
            if self._channel is None or self._channel.is_closed:
                self._channel = await self._link.open_channel()
            return await self._channel.call(what, method, **arguments)

    async def _found(self, what: str, method: str, **arguments: Any) -> Any | None:
        """The answer, or None when there is no such thing."""
        try:
            return await self._call(what, method, **arguments)
        except Refused as refused:
            if refused.code == NOT_FOUND:
                return None
            raise

    async def declare(
        self, exchanges: Sequence[Exchange], queues: Sequence[Queue], bindings: Sequence[Binding]
    ) -> None:
        """As `BrokerSession.declare`."""
        for exchange in exchanges:
            await self._declare_exchange(exchange)
        for queue in queues:
            await self._declare_queue(queue)
        for binding in bindings:
            await self._bind(binding)

    async def look(self, thing: Exchange | Queue) -> Look:
        """Compare what is on the broker with `thing`; nothing is made. Raises `SessionLost`.

        Whether it exists, anybody is told. Type and arguments are compared by the broker when something that exists is
        declared again, which takes the right to configure it.
        """
        if isinstance(thing, Exchange):
            what, method, name = f"exchange {thing.name}", "exchange_declare", {"exchange": thing.name}
            rest: dict[str, Any] = _exchange_arguments(thing)
        else:
            what, method, name = f"queue {thing.name}", "queue_declare", {"queue": thing.name}
            rest = _queue_arguments(thing)
        try:
            if await self._found(what, method, **name, passive=True) is None:
                return Look(Fit.MISSING)
            await self._call(what, method, **name, **rest)
        except Refused as refused:
            if refused.code == MISMATCH:
                return Look(Fit.DIFFERS, str(refused))
            if refused.code == ACCESS_REFUSED:
                return Look(Fit.HIDDEN, "this login may not compare it")
            return Look(Fit.HIDDEN, str(refused))
        return Look(Fit.OK)

    async def _declare_exchange(self, exchange: Exchange) -> None:
        what = f"exchange {exchange.name}"
        with _about_shared(what):
            if await self._found(what, "exchange_declare", exchange=exchange.name, passive=True) is None:
                await self._call(what, "exchange_declare", exchange=exchange.name, **_exchange_arguments(exchange))

    async def _declare_queue(self, queue: Queue) -> None:
        what = f"queue {queue.name}"
        with _about_shared(what) if queue.shared else about_ours(what):
            if queue.shared and await self._found(what, "queue_declare", queue=queue.name, passive=True) is not None:
                return
            await self._call(what, "queue_declare", queue=queue.name, **_queue_arguments(queue))

    async def _bind(self, binding: Binding) -> None:
        what = f"binding of {binding.queue} to {binding.exchange}"
        with about_ours(what):
            try:
                await self._call(what, "queue_bind", **_ends(binding))
            except Refused as refused:
                # Who may not bind a shared queue did not make it either; whoever made it has bound it.
                if not (binding.shared and refused.code == ACCESS_REFUSED):
                    raise

    async def unbind(self, bindings: Sequence[Binding]) -> None:
        """As `BrokerSession.unbind`."""
        for binding in bindings:
            what = f"binding of {binding.queue} to {binding.exchange}"
            with about_ours(what):
                await self._found(what, "queue_unbind", **_ends(binding))

    async def message_count(self, queue: str) -> int | None:
        """As `BrokerSession.message_count`."""
        what = f"queue {queue}"
        with about_ours(what):
            answer = await self._found(what, "queue_declare", queue=queue, passive=True)
        return None if answer is None else int(answer.message_count)

    async def delete_queue(self, queue: str, *, if_empty: bool) -> bool:
        """As `BrokerSession.delete_queue`."""
        what = f"queue {queue}"
        with about_ours(what):
            try:
                await self._found(what, "queue_delete", queue=queue, if_empty=if_empty)
            except Refused as refused:
                if if_empty and refused.code == MISMATCH:
                    return False
                raise
        return True


def _exchange_arguments(exchange: Exchange) -> dict[str, Any]:
    return {"exchange_type": exchange.type, "durable": exchange.durable}


def _queue_arguments(queue: Queue) -> dict[str, Any]:
    return {
        "durable": queue.durable,
        "exclusive": queue.exclusive,
        "auto_delete": queue.auto_delete,
        "arguments": dict(queue.arguments),
    }


def _ends(binding: Binding) -> dict[str, str]:
    return {"queue": binding.queue, "exchange": binding.exchange, "routing_key": binding.routing_key}


@contextlib.contextmanager
def about_ours(what: str) -> Iterator[None]:
    """A refusal about a queue of our own, in the words of the port."""
    try:
        yield
    except Refused as refused:
        if refused.code in (ACCESS_REFUSED, LOCKED):
            raise ConsumerLocked(f"{what}: {refused}") from refused
        if refused.code == MISMATCH:
            raise QueueMismatch(f"{what}: {refused}") from refused
        raise SessionLost(f"{what}: {refused}") from refused


@contextlib.contextmanager
def _about_shared(what: str) -> Iterator[None]:
    """A refusal about something that the fleet shares, without which no session works."""
    try:
        yield
    except Refused as refused:
        if refused.code == MISMATCH:
            raise QueueMismatch(f"{what}: {refused}") from refused
        raise SessionLost(
            f"{what} is missing, and this login may not make it: {refused}",
            hint="An administrator makes what the fleet shares, once: fleettrio broker plan --apply --user NAME",
        ) from refused
