"""The socket of a herdr server: one request a connection, an answer or an error.

Rules:
1. The server closes a connection after its answer. A wait holds it open.
2. Not every error says that nothing was done: only `NOTHING_DONE` are proof of that.
3. The socket of another user is nobody's server.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
import trio

from fleettrio.errors import FleetTrioError

__all__ = ("ANSWER_LIMIT_S", "MOST_SENT", "NOTHING_DONE", "HerdrError", "HerdrSocket", "socket_of")

ANSWER_LIMIT_S = 10.0
"""For everything that does not wait; the server's own bound is 5 s."""
MOST_SENT = 1024 * 1024
"""Bytes of a request: the server refuses a longer first line."""
MOST_READ = 4 * 1024 * 1024

NOTHING_DONE = frozenset(
    {
        "agent_blocked",
        "agent_launch_pending",
        "agent_not_found",
        "agent_not_ready",
        "agent_target_ambiguous",
        "empty_agent_prompt",
        "invalid_request",
        "server_unavailable",
        "too_long",
    }
)
"""Codes of errors that come before the first byte."""

T = TypeVar("T")


class HerdrError(FleetTrioError):
    """herdr said no, or could not be asked. `code` is its word, or `server_unavailable`, `malformed`, `too_slow`."""

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code

    @property
    def may_have_run(self) -> bool:
        return self.code not in NOTHING_DONE


class _Error(msgspec.Struct):
    code: str
    message: str = ""


class _Answer(msgspec.Struct):
    id: str
    result: msgspec.Raw = msgspec.Raw()
    error: _Error | None = None


class HerdrSocket:
    def __init__(self, path: str) -> None:
        self._path = path

    async def ask(
        self, method: str, params: Mapping[str, object], shape: type[T], limit_s: float = ANSWER_LIMIT_S
    ) -> T:
        """The result of `method`, as `shape`. Raises `HerdrError`. Cancelled, it may have been done."""
        wanted = secrets.token_hex(8)
        request = msgspec.json.encode({"id": wanted, "method": method, "params": params}) + b"\n"
        if len(request) > MOST_SENT:
            raise HerdrError("too_long", f"herdr takes {MOST_SENT} bytes at once, this is {len(request)}")
        line = await self._exchange(method, request, limit_s)
        try:
            answer = msgspec.json.decode(line, type=_Answer)
            if answer.error is not None:
                # A request that was no good may come back without its id.
                raise HerdrError(answer.error.code, f"herdr: {answer.error.message or answer.error.code}")
            if answer.id != wanted:
                raise HerdrError("malformed", f"herdr answered {method} with another request's answer")
            return msgspec.json.decode(answer.result, type=shape)
        except msgspec.MsgspecError as error:
            raise HerdrError("malformed", f"herdr's answer to {method} is not what it should be: {error}") from error

    async def _exchange(self, method: str, request: bytes, limit_s: float) -> bytes:
        stream = await self._connect()
        async with stream:
            try:
                with trio.fail_after(limit_s):
                    await stream.send_all(request)
                    return await _line(stream)
            except trio.TooSlowError as error:
                raise HerdrError("too_slow", f"herdr did not answer {method} within {limit_s:g} s") from error
            except (OSError, trio.BrokenResourceError) as error:
                raise HerdrError("malformed", f"herdr ended the connection in the middle of {method}") from error

    async def _connect(self) -> trio.SocketStream:
        try:
            if os.stat(self._path).st_uid != os.getuid():
                raise HerdrError("server_unavailable", f"the socket {self._path} is another user's")
            with trio.fail_after(ANSWER_LIMIT_S):
                return await trio.open_unix_socket(self._path)
        except (OSError, ValueError, trio.TooSlowError) as error:
            raise HerdrError(
                "server_unavailable",
                f"no herdr server answers at {self._path}",
                hint="start herdr, or give its socket: --herdr SOCKET#TERMINAL",
            ) from error


async def _line(stream: trio.SocketStream) -> bytes:
    data = bytearray()
    while chunk := await stream.receive_some(65_536):
        data += chunk
        if b"\n" in chunk:
            return bytes(data.partition(b"\n")[0])
        if len(data) > MOST_READ:
            raise HerdrError("malformed", f"herdr's answer is longer than {MOST_READ} bytes")
    if not data:
        raise HerdrError("malformed", "herdr closed the connection without an answer")
    return bytes(data)


def socket_of(env: Mapping[str, str]) -> str:
    """Where herdr's socket is by its own rules: named whole, by a session's name, or the usual one."""
    if whole := env.get("HERDR_SOCKET_PATH"):
        return whole
    base = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME") or Path.home()) / ".config") / "herdr"
    session = env.get("HERDR_SESSION", "")
    return str(base / "sessions" / session / "herdr.sock" if session else base / "herdr.sock")
