"""The local socket: newline-delimited JSON-RPC 2.0 over a Unix socket, straight on Trio.

Rules that must not break:

1. The folder is 0700 and the socket 0600; a socket file is removed only when nobody answers on it.
2. One line is one request. Requests of one connection run at the same time; answers come in the order they are ready.
3. No client can hold anything up: its line, its open requests, its send buffer and the time it may take to read are
   bounded, each on its own connection.
4. When a connection ends, its running requests are cancelled, then `on_close` runs.
5. Errors that are part of the contract become an answer. Any other exception is a bug: it is logged, its request is
   answered with `internal-error`, and connection and daemon go on.

A client keeps its side open until the answer is there: end-of-file means that it is gone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import trio

from fleettrio.api import endpoint, jsonrpc
from fleettrio.api.callers import Caller, CallerRules, Process
from fleettrio.api.jsonrpc import BadRequest, CallError, Request
from fleettrio.api.schema import Hello
from fleettrio.errors import FleetTrioError, ProtocolMisuse
from fleettrio.observe import COUNTERS, get_logger

__all__ = ("CallError", "Connection", "Handler", "Limits", "serve")

_CHUNK = 64 * 1024
_CLOSE_LIMIT_S = 2.0

log = get_logger("rpc")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the socket, per connection but for `connections`."""

    line_bytes: int = 2 * 1024 * 1024
    """A body of 1 MiB in base64, and room."""
    in_flight: int = 64
    connections: int = 256
    outbox: int = 16
    """Answers that wait to be written."""
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


async def serve(
    path: pathlib.Path,
    methods: Mapping[str, Handler],
    callers: CallerRules,
    *,
    on_close: Callable[[Connection], Awaitable[None]] | None = None,
    limits: Limits | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `methods` on the socket at `path` until cancelled.

    `on_close` runs once for each connection after its last request ended, bounded by 2 s. `started()` is called when
    clients can connect. Raises FleetTrioError when the socket cannot be made or another daemon answers on it.

    Cancelled: every connection is closed, every running request cancelled, the socket file removed.
    """
    listener = endpoint.listen(path)
    remove = endpoint.remover(path)
    server = _Server(methods, callers, on_close, limits or Limits())
    try:
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                nursery.start_soon(server.take, await endpoint.accept(listener))
    finally:
        listener.close()
        remove()


class _Server:
    """What all connections share."""

    def __init__(
        self,
        methods: Mapping[str, Handler],
        callers: CallerRules,
        on_close: Callable[[Connection], Awaitable[None]] | None,
        limits: Limits,
    ) -> None:
        self.methods = methods
        self.callers = callers
        self.limits = limits
        self._on_close = on_close
        self._open = 0

    async def take(self, stream: trio.SocketStream) -> None:
        """Serve one accepted client to its end."""
        self._open += 1
        try:
            if self._open > self.limits.connections:
                with trio.move_on_after(_CLOSE_LIMIT_S), contextlib.suppress(trio.BrokenResourceError):
                    await stream.send_all(
                        jsonrpc.encode_error(None, jsonrpc.busy(f"{self._open - 1} clients are connected"))
                    )
            else:
                await self._serve_one(stream)
        finally:
            self._open -= 1
            # Not `aclose()`: it is a checkpoint, where a shutdown would put Cancelled in place of a bug's exception.
            stream.socket.close()

    async def _serve_one(self, stream: trio.SocketStream) -> None:
        connection = Connection(*endpoint.peer_of(stream.socket))
        # In a thread: reading a stuck process's environment blocks.
        lineage = self.callers.lineage
        connection.ancestors = await trio.to_thread.run_sync(lineage, connection.pid, abandon_on_cancel=True)
        talk = _Talk(self, stream, connection)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(talk.write, nursery.cancel_scope)
                await talk.read(nursery)
        finally:
            if self._on_close is not None:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSE_LIMIT_S), _survived("close"):
                    await self._on_close(connection)


class _Talk:
    """One connection's two loops: one reads and starts requests, one writes what is ready."""

    def __init__(self, server: _Server, stream: trio.SocketStream, connection: Connection) -> None:
        self._server = server
        self._stream = stream
        self._connection = connection
        self._running = 0
        # None is the last one: close once everything before it is out.
        self._send, self._outbox = trio.open_memory_channel[bytes | None](server.limits.outbox)

    async def write(self, scope: trio.CancelScope) -> None:
        """Write answers until the last one, or until the client stops reading; then end the connection."""
        async for line in self._outbox:
            if line is None or not await self._write_line(line):
                break
        scope.cancel()

    async def _write_line(self, line: bytes) -> bool:
        for start in range(0, len(line), _CHUNK):
            with trio.move_on_after(self._server.limits.write_s) as deadline:
                try:
                    await self._stream.send_all(line[start : start + _CHUNK])
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return False
            if deadline.cancelled_caught:
                return False
        return True

    async def read(self, nursery: trio.Nursery) -> None:
        """Read requests and start them until the client goes; then cancel what still runs."""
        lines = _Lines(self._stream, self._server.limits.line_bytes)
        while True:
            try:
                line = await lines.next()
            except BadRequest as problem:
                # What follows in the stream is the rest of that line: there is no way back to a line's start.
                await self._send.send(jsonrpc.encode_error(None, problem.body))
                await self._send.send(None)
                return
            if line is None:
                nursery.cancel_scope.cancel()
                return
            if line.strip():
                await self._start(line, nursery)

    async def _start(self, line: bytes, nursery: trio.Nursery) -> None:
        try:
            request = jsonrpc.parse_request(line)
        except BadRequest as problem:
            await self._send.send(jsonrpc.encode_error(None, problem.body))
            return
        if self._running >= self._server.limits.in_flight:
            if not request.is_notification:
                busy = jsonrpc.busy(f"{self._running} requests of this connection are open")
                await self._send.send(jsonrpc.encode_error(request.id, busy))
            return
        self._running += 1
        nursery.start_soon(self._run, request)

    async def _run(self, request: Request) -> None:
        try:
            answer = jsonrpc.encode_error(request.id, jsonrpc.internal_error(request.method))
            with _survived(request.method):
                answer = jsonrpc.encode(request.id, await self._result(request))
            if not request.is_notification:
                await self._send.send(answer)
        finally:
            self._running -= 1

    async def _result(self, request: Request) -> Any:
        handler = self._server.methods.get(request.method, _unserved)
        try:
            params = jsonrpc.parse_params(request)
        except BadRequest as problem:
            return problem.body
        if isinstance(params, Hello):
            self._connection.token = params.token
        caller = self._server.callers.decide(self._connection.ancestors, self._connection.uid, self._connection.token)
        try:
            return await handler(params, caller, self._connection)
        except ProtocolMisuse:
            raise
        except FleetTrioError as problem:
            return jsonrpc.failure(problem)


@contextlib.contextmanager
def _survived(method: str) -> Iterator[None]:
    """The one place where what nobody foresaw in the handling of a client ends: told with its traceback."""
    try:
        yield
    except Exception:
        log.exception("internal error", method=method[:80])
        COUNTERS.count("internal-error", method[:80])


async def _unserved(_params: Any, _caller: Caller, _connection: Connection) -> Any:
    raise CallError(2, "no-such-method", "this daemon does not serve that method", "fleettrio down, then fleettrio up")


class _Lines:
    """Bounded lines of a stream."""

    def __init__(self, stream: trio.SocketStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self._buffer = bytearray()

    async def next(self) -> bytes | None:
        """The next line without its newline; None at the end of the stream, where a piece of a line is dropped."""
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > self._limit:
                break
            try:
                chunk = await self._stream.receive_some(_CHUNK)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return None
            if not chunk:
                return None
            self._buffer += chunk
        if end < 0 or end > self._limit:
            raise jsonrpc.too_long(self._limit)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line
