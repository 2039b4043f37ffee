"""A plain client of the local socket: standard-library sockets and msgspec, no Trio, so that a command starts fast."""

from __future__ import annotations

import contextlib
import pathlib
import socket
from types import TracebackType
from typing import Any, Self

import msgspec

from fleettrio import __version__
from fleettrio.api.schema import METHODS, Hello, Welcome
from fleettrio.errors import NO_DAEMON, USAGE, FleetTrioError

__all__ = ("REQUEST_LIMIT", "CallFailed", "Client", "ConnectionLost", "DaemonMissing")

REQUEST_LIMIT = 2 * 1024 * 1024
"""Bytes of one request line; the daemon takes no longer one."""
_ANSWER_LIMIT = 128 * 1024 * 1024
_CHUNK = 256 * 1024
_ANSWER_S = 75.0
"""No call takes longer than 50 s by contract."""


class DaemonMissing(FleetTrioError):
    """Nobody answers on the socket."""

    exit_code = NO_DAEMON


class ConnectionLost(FleetTrioError):
    """The daemon went, or fell silent, while it had a request in hand: it may or may not have been carried out."""

    exit_code = NO_DAEMON


class CallFailed(FleetTrioError):
    """The daemon's answer is an error. `exit_code` is the command's, `reason` one word for programs."""

    def __init__(self, message: str, *, hint: str, reason: str, exit_code: int, retry_ms: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.exit_code = exit_code
        self.retry_ms = retry_ms


class _Call(msgspec.Struct):
    id: int
    method: str
    params: msgspec.Struct
    jsonrpc: str = "2.0"


class _ErrorData(msgspec.Struct):
    reason: str = ""
    hint: str = ""
    exit: int = 3
    retry_ms: int = 0


class _Error(msgspec.Struct):
    message: str
    data: _ErrorData = msgspec.field(default_factory=_ErrorData)


class _Answer(msgspec.Struct):
    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw()
    error: _Error | None = None


class Client:
    """One connection: `with Client.connect(path, token) as client: client.call("status", Empty())`.

    Calls are made one after the other. After `ConnectionLost`, or a KeyboardInterrupt inside a call, it is of no use.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()
        self._calls = 0
        self.welcome: Welcome
        """Who we are to the daemon."""

    @classmethod
    def connect(cls, path: pathlib.Path, token: str = "") -> Client:
        """Connect and say hello. Raises DaemonMissing when nobody answers."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(5.0)
        try:
            connection.connect(str(path))
        except OSError as problem:
            connection.close()
            raise DaemonMissing(
                "no fleettrio daemon runs here" if _is_absence(problem) else f"cannot reach the daemon: {problem}",
                hint="start it: fleettrio up",
            ) from None
        client = cls(connection)
        try:
            client.welcome = client.call("hello", Hello(token, __version__))
        except BaseException:
            client.close()
            raise
        return client

    def call(self, method: str, params: msgspec.Struct, limit_s: float = _ANSWER_S) -> Any:
        """The method's result, of the type that `schema.METHODS` names.

        Raises CallFailed when the daemon answers with an error, ConnectionLost when no answer comes within `limit_s`.
        """
        self._calls += 1
        line = msgspec.json.encode(_Call(self._calls, method, params)) + b"\n"
        if len(line) > REQUEST_LIMIT:
            raise CallFailed(
                f"the request is {len(line)} bytes long, at most {REQUEST_LIMIT} go through",
                hint="send a smaller body, or send the path of a file",
                reason="too-large",
                exit_code=USAGE,
            )
        self._connection.settimeout(limit_s)
        # A daemon that refuses us may close before it has read all: its reason is still there to be read.
        with contextlib.suppress(BrokenPipeError):
            self._write(line, method, limit_s)
        answer = self._read_answer(method, limit_s)
        if answer.error is not None:
            error = answer.error
            raise CallFailed(
                error.message,
                hint=error.data.hint,
                reason=error.data.reason,
                exit_code=error.data.exit,
                retry_ms=error.data.retry_ms,
            )
        try:
            return msgspec.json.decode(answer.result, type=METHODS[method][1])
        except msgspec.DecodeError as problem:
            raise ConnectionLost(
                f"the daemon answered {method} with something else: {problem}",
                hint="the daemon may be of another version: fleettrio down, then fleettrio up",
            ) from None

    def close(self) -> None:
        """Hang up. What was offered and not confirmed is offered again."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, line: bytes, method: str, limit_s: float) -> None:
        try:
            self._connection.sendall(line)
        except TimeoutError:
            raise _silence(method, limit_s) from None

    def _read_answer(self, method: str, limit_s: float) -> _Answer:
        while True:
            line = self._read_line(method, limit_s)
            try:
                answer = msgspec.json.decode(line, type=_Answer)
            except msgspec.DecodeError as problem:
                raise ConnectionLost(f"the daemon's answer cannot be read: {problem}", hint=_LOOK) from None
            # Without an id it is about the connection itself: too many clients, a line that could not be read.
            if answer.id == self._calls or (answer.id is None and answer.error is not None):
                return answer

    def _read_line(self, method: str, limit_s: float) -> bytes:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > _ANSWER_LIMIT:
                raise ConnectionLost(f"the daemon's answer to {method} has no end", hint=_LOOK)
            try:
                chunk = self._connection.recv(_CHUNK)
            except TimeoutError:
                raise _silence(method, limit_s) from None
            except OSError:
                chunk = b""
            if not chunk:
                raise ConnectionLost(f"the daemon ended while it had a request ({method}) in hand", hint=_LOOK)
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line


_LOOK = "fleettrio status; if it is gone: fleettrio up"


def _silence(method: str, limit_s: float) -> ConnectionLost:
    return ConnectionLost(f"the daemon did not answer {method} within {limit_s:.0f} s", hint="fleettrio doctor")


def _is_absence(problem: OSError) -> bool:
    return isinstance(problem, FileNotFoundError | ConnectionRefusedError)
