"""Waiting for what the core makes of a client's request."""

from __future__ import annotations

import functools
from collections.abc import Collection

import trio

from fleettrio.api.rpc import Connection
from fleettrio.core.requests import CallEnded, CallTimedOut
from fleettrio.perform import Performer

__all__ = ("or_given_up", "result_of", "result_within")


async def result_of(performer: Performer, call: int, connection: Connection) -> object:
    """The call's result; raises `CallFailed`. Cancelled before it, the core forgets the call."""
    async with or_given_up(performer, (call,), connection):
        return await performer.calls.result(call)


async def result_within(performer: Performer, call: int, connection: Connection, patience: trio.CancelScope) -> object:
    """The same for a call that waits: None if there is no result when `patience` ends, by its deadline or cancelled.

    What was decided for it in the last moment counts: it is recorded as given to this client, so it must get there.
    """
    timed_out = functools.partial(performer.handle, CallTimedOut(call, connection.session))
    async with or_given_up(performer, (call,), connection):
        return await performer.calls.result(call, patience, timed_out)


class or_given_up:  # noqa: N801 - a context manager that reads as a word; a generator is dearer, and this is hot
    """What calls come to is read, or made ready for their client, inside: cancelled there, the core is told of those
    that are in `calls` then."""

    def __init__(self, performer: Performer, calls: Collection[int], connection: Connection) -> None:
        self._performer = performer
        self._calls = calls
        self._session = connection.session

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, trio.Cancelled):
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                await self._performer.handle(*(CallEnded(call, self._session, gone=False) for call in self._calls))
