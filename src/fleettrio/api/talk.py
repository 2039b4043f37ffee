"""One client of the local socket: its requests are read and begun, its answers written as they are ready.

`api.rpc` has the rules.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import trio

from fleettrio.api import jsonrpc
from fleettrio.api.callers import Caller
from fleettrio.api.jsonrpc import BadRequest, CallError, Request
from fleettrio.api.lines import CHUNK, Incoming, Outgoing
from fleettrio.api.schema import Done, Hello
from fleettrio.api.service import Asked, Connection, Service
from fleettrio.errors import USAGE, FleetTrioError, ProtocolMisuse
from fleettrio.observe import COUNTERS, get_logger

__all__ = ("Talk", "survived")

log = get_logger("rpc")


Start = Callable[..., None]
"""`start(function, *arguments)`: a task of the connection's."""


class Talk:
    """One connection's two loops: one reads and starts requests, one writes what is ready."""

    def __init__(self, service: Service, stream: trio.SocketStream, connection: Connection) -> None:
        self._service = service
        self._stream = stream
        self.connection = connection
        self._in = Incoming(stream, service.limits.line_bytes)
        self._out = Outgoing(service.limits.outbox)
        self._running = 0
        self._unwritten = 0
        """Those of them whose answers wait to be written: nothing else bounds these."""

    async def write(self, scope: trio.CancelScope) -> None:
        """Write answers until the last one, or until the client stops reading; then end the connection."""
        while lines := await self._out.take():
            self._running -= self._unwritten
            self._unwritten = 0
            if not await self._write(b"".join(lines)):
                break
        scope.cancel()

    async def _write(self, data: bytes) -> bool:
        for start in range(0, len(data), CHUNK):
            with trio.move_on_after(self._service.limits.write_s) as deadline:
                try:
                    await self._stream.send_all(data[start : start + CHUNK])
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return False
            if deadline.cancelled_caught:
                return False
        return True

    async def read(self, start: Start) -> bool:
        """Read requests and `start` them, to the end; True when that is the client's: nobody is there for answers."""
        while True:
            groups: dict[str, list[tuple[Request, Any]]] = {}
            try:
                line = await self.next()
                if line is None:
                    return True
                while line is not None:
                    if line.strip() and not await self._start(line, groups, start):
                        self._out.end()
                        return False
                    line = self._in.ready()
            except BadRequest as problem:
                # What follows in the stream is the rest of that line: there is no way back to a line's start.
                await self.send(jsonrpc.encode_error(None, problem.body))
                self._out.end()
                return False
            finally:
                for method, group in groups.items():
                    start(self._run_together, method, group)

    async def next(self) -> bytes | None:
        return await self._in.next()

    async def send(self, line: bytes) -> None:
        await self._out.send(line)

    def caller(self) -> Caller:
        connection = self.connection
        return self._service.callers.decide(connection.ancestors, connection.uid, connection.token)

    async def _start(self, line: bytes, groups: dict[str, list[tuple[Request, Any]]], start: Start) -> bool:
        """Start the request in `line`, or put it to those that begin together. False when it took the connection over,
        and that is at its end now.
        """
        try:
            request = jsonrpc.parse_request(line)
        except BadRequest as problem:
            await self.send(jsonrpc.encode_error(None, problem.body))
            return True
        if request.method in self._service.streams:
            return await self._become(request)
        if self._running >= self._service.limits.in_flight:
            await self._refuse(request, jsonrpc.busy(f"{self._running} requests of this connection are open"))
            return True
        try:
            params = jsonrpc.parse_params(request)
        except BadRequest as problem:
            await self._refuse(request, problem.body)
            return True
        self._running += 1
        if isinstance(params, Hello):  # it says who asks for what stands behind it, and is answered first
            await self._run(request, params)
            return True
        together = self._service.together.get(request.method)
        if together is not None and together.takes(params):
            groups.setdefault(request.method, []).append((request, params))
        else:
            start(self._run, request, params)
        return True

    async def _refuse(self, request: Request, why: jsonrpc.ErrorBody) -> None:
        if not request.is_notification:
            await self.send(jsonrpc.encode_error(request.id, why))

    async def _become(self, request: Request) -> bool:
        """Let the connection be another protocol's to its end."""
        try:
            params = jsonrpc.parse_params(request)
        except BadRequest as problem:
            await self.send(jsonrpc.encode_error(request.id, problem.body))
            return False  # what follows is the other protocol's, and nobody speaks it
        self.connection.token = getattr(params, "token", "")
        await self.send(jsonrpc.encode(request.id, Done()))
        with survived(request.method):
            await self._service.streams[request.method](params, self)
        return False

    async def _run(self, request: Request, params: Any) -> None:
        try:
            answer = jsonrpc.encode_error(request.id, jsonrpc.internal_error(request.method))
            with survived(request.method):
                answer = jsonrpc.encode(request.id, await self._result(request.method, params))
            if not request.is_notification:
                await self.send(answer)
        finally:
            self._running -= 1

    async def _result(self, method: str, params: Any) -> Any:
        handler = self._service.methods.get(method, _unserved)
        if isinstance(params, Hello):
            self.connection.token = params.token
        try:
            return await handler(params, await self._called(method), self.connection)
        except ProtocolMisuse:
            raise
        except FleetTrioError as problem:
            return jsonrpc.failure(problem)

    async def _called(self, method: str) -> Caller:
        """Who calls; whoever has to know of it was told."""
        caller = self.caller()
        if self._service.on_call is not None:
            await self._service.on_call(method, caller, self.connection)
        return caller

    async def _run_together(self, method: str, group: Sequence[tuple[Request, Any]]) -> None:
        """Carry out requests without a task for each; each is answered when it is ready."""
        open_requests = dict(enumerate(request for request, _ in group))

        def answer(number: int, result: Any) -> None:
            request = open_requests.pop(number)
            if request.is_notification:
                self._running -= 1
                return
            self._unwritten += 1
            found = jsonrpc.failure(result) if isinstance(result, FleetTrioError) else result
            self._out.put(jsonrpc.encode(request.id, found))

        asked = [Asked(params, functools.partial(answer, number)) for number, (_, params) in enumerate(group)]
        failed: Any = jsonrpc.internal_error(method)
        with survived(method):
            try:
                await self._service.together[method].begin(asked, await self._called(method), self.connection)
            except ProtocolMisuse:
                raise
            except FleetTrioError as problem:
                failed = problem
        for number in list(open_requests):
            answer(number, failed)


@contextlib.contextmanager
def survived(method: str) -> Iterator[None]:
    """The one place where what nobody foresaw in the handling of a client ends: told with its traceback."""
    try:
        yield
    except Exception:
        log.exception("internal error", method=method[:80])
        COUNTERS.count("internal-error", method[:80])


async def _unserved(_params: Any, _caller: Caller, _connection: Connection) -> Any:
    raise CallError(
        USAGE, "no-such-method", "this daemon does not serve that method", "fleettrio down, then fleettrio up"
    )
