"""The local socket: newline-delimited JSON-RPC 2.0 over a Unix socket, straight on Trio.

Rules that must not break:

1. The folder is 0700 and the socket 0600; a socket file is removed only when nobody answers on it.
2. One line is one request. Requests of one connection run at the same time; answers come in the order they are ready.
   But a `hello` is over before what stands behind it begins: it says who asks.
   Those of one method that were read together may begin together, and answers that are ready together are one write;
   nothing waits for company.
3. No client can hold anything up: its line, its open requests, its send buffer and the time it may take to read are
   bounded, each on its own connection.
4. When a connection ends, its running requests are cancelled, then `on_close` runs.
5. Errors that are part of the contract become an answer. Any other exception is a bug: it is logged, its request is
   answered with `internal-error`, and connection and daemon go on.

6. A connection may become another protocol's (`streams`): its lines are that one's from then on, with the same bounds.

A client keeps its side open until the answer is there: end-of-file means that it is gone.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Awaitable, Callable, Mapping

import trio

from fleettrio.api import endpoint, jsonrpc
from fleettrio.api.callers import CallerRules
from fleettrio.api.jsonrpc import CallError
from fleettrio.api.service import Asked, Connection, Handler, Limits, Lines, OnCall, Service, Stream, Together
from fleettrio.api.talk import Talk, survived

__all__ = ("Asked", "CallError", "Connection", "Handler", "Limits", "Lines", "Stream", "Together", "serve")

_CLOSE_LIMIT_S = 2.0
OnClose = Callable[[Connection], Awaitable[None]]


async def serve(
    path: pathlib.Path,
    methods: Mapping[str, Handler],
    callers: CallerRules,
    *,
    together: Mapping[str, Together] | None = None,
    streams: Mapping[str, Stream] | None = None,
    on_close: OnClose | None = None,
    on_call: OnCall | None = None,
    limits: Limits | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `methods` on the socket at `path` until cancelled; those in `streams` take the connection over.

    `on_call` runs before each request, once for those that begin together; `on_close` once for each connection after
    its last request ended, within 2 s. `started()` is called when clients can connect. Raises FleetTrioError when the
    socket cannot be made or another daemon answers on it.

    Cancelled: every connection is closed, every running request cancelled, the socket file removed.
    """
    listener = endpoint.listen(path)
    remove = endpoint.remover(path)
    service = Service(methods, together or {}, streams or {}, callers, on_call, limits or Limits())
    server = _Server(service, on_close)
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

    def __init__(self, service: Service, on_close: OnClose | None) -> None:
        self._service = service
        self._on_close = on_close
        self._open = 0

    async def take(self, stream: trio.SocketStream) -> None:
        """Serve one accepted client to its end."""
        self._open += 1
        try:
            if self._open > self._service.limits.connections:
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
        lineage = self._service.callers.lineage
        connection.ancestors = await trio.to_thread.run_sync(lineage, connection.pid, abandon_on_cancel=True)
        talk = Talk(self._service, stream, connection)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(talk.write, nursery.cancel_scope)
                if await talk.read(nursery.start_soon):
                    nursery.cancel_scope.cancel()
        finally:
            if self._on_close is not None:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSE_LIMIT_S), survived("close"):
                    await self._on_close(connection)
