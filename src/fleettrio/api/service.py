"""What is served to the clients of the local socket: which methods, by whom, within which bounds. What one client is.

`api.rpc` has the rules. Whoever serves a method is given its parameters, who calls, and the connection it came by.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from fleettrio.api.callers import Caller, CallerRules, Process

__all__ = ("Asked", "Connection", "Handler", "Limits", "Lines", "OnCall", "Service", "Stream", "Together")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the socket, per connection but for `connections`."""

    line_bytes: int = 2 * 1024 * 1024
    """A body of 1 MiB in base64, and room."""
    in_flight: int = 64
    connections: int = 256
    outbox: int = 16
    """Answers that wait to be written, of those that can wait for room."""
    write_s: float = 10.0
    """A client that takes nothing for so long is dropped."""


@dataclasses.dataclass(eq=False, slots=True)
class Connection:
    """One client. `session` is unique for the life of the daemon; `token` is what its last `hello` showed.

    `ancestors` are its process and what started that, nearest first.
    """

    pid: int
    uid: int
    session: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)
    token: str = ""
    ancestors: tuple[Process, ...] = ()


Handler = Callable[[Any, Caller, Connection], Awaitable[Any]]
"""`await handler(params, caller, connection) -> result`, both of the types in `schema.METHODS`.

Cancelled when the client goes.
"""


class Asked(msgspec.Struct, frozen=True):
    """One of several requests that begin together."""

    params: Any
    answer: Callable[[Any], None]
    """Called once, with its result or with the `FleetTrioError` that it fails with."""


class Together(NamedTuple):
    """How requests of one method that were read together are carried out without a task for each."""

    takes: Callable[[Any], bool]
    """Whether one with these parameters can be; else the method's handler has it."""
    begin: Callable[[Sequence[Asked], Caller, Connection], Awaitable[None]]
    """Returns when all of them have their answers. Cancelled when the client goes."""


OnCall = Callable[[str, Caller, Connection], Awaitable[None]]
"""Told of each request before it is carried out: its method, who asks."""


class Lines(Protocol):
    """The lines of a connection that became another protocol's."""

    @property
    def connection(self) -> Connection: ...

    def caller(self) -> Caller:
        """Who calls, judged anew."""

    async def next(self) -> bytes | None:
        """The client's next line; None when it is gone. Raises BadRequest for one that is too long."""

    async def send(self, line: bytes) -> None:
        """Give the client a whole line; waits while too many are on their way."""


Stream = Callable[[Any, Lines], Awaitable[None]]
"""`await stream(params, lines)`: serve a connection to its end. Cancelled at the daemon's."""


class Service(msgspec.Struct, frozen=True):
    """What is served to every client."""

    methods: Mapping[str, Handler]
    together: Mapping[str, Together]
    streams: Mapping[str, Stream]
    callers: CallerRules
    on_call: OnCall | None
    limits: Limits
