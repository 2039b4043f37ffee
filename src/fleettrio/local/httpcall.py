"""One HTTP request to a server on this machine: a connection of its own, bounded in time and size, no redirects."""

from __future__ import annotations

from typing import Final

import h11
import msgspec
import trio

from fleettrio.errors import FleetTrioError

__all__ = ("Answer", "NoAnswer", "NoServer", "call")

ANSWER_LIMIT: Final = 1024 * 1024
"""Bytes of an answer."""
CALL_LIMIT_S: Final = 5.0
_PIECE = 64 * 1024


class NoServer(FleetTrioError):
    """Nobody listens there: nothing was asked."""


class NoAnswer(FleetTrioError):
    """It was asked, and gave no answer that can be used: it may have done what it was asked for."""


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: bytes


async def call(host: str, port: int, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Answer:
    """Ask once. Raises `NoServer`, `NoAnswer`. Cancelled, the server may have been asked."""
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    where = f"http://{shown}"
    try:
        with trio.fail_after(CALL_LIMIT_S):
            async with await _connect(host, port, where) as stream:
                return await _exchange(stream, _head(shown, method, path, headers, body), body, where)
    except trio.TooSlowError as error:
        raise NoAnswer(f"the server at {where} gave no answer within {CALL_LIMIT_S:g} s") from error
    except (trio.BrokenResourceError, OSError) as error:
        raise NoAnswer(f"the server at {where} broke the connection off") from error
    except h11.RemoteProtocolError as error:
        raise NoAnswer(f"the server at {where} does not speak HTTP: {error}") from error


async def _connect(host: str, port: int, where: str) -> trio.SocketStream:
    try:
        return await trio.open_tcp_stream(host, port)
    except OSError as error:
        raise NoServer(f"no server answers at {where}") from error


def _head(host: str, method: str, path: str, headers: dict[str, str], body: bytes) -> h11.Request:
    own = {"host": host, "connection": "close", "accept": "application/json", **headers}
    if body:
        own |= {"content-length": str(len(body))}
    return h11.Request(method=method, target=path, headers=list(own.items()))


async def _exchange(stream: trio.SocketStream, head: h11.Request, body: bytes, where: str) -> Answer:
    peer = h11.Connection(h11.CLIENT)
    parts = (head, h11.Data(body), h11.EndOfMessage()) if body else (head, h11.EndOfMessage())
    await stream.send_all(b"".join(peer.send(part) or b"" for part in parts))
    status, said = 0, bytearray()
    while True:
        match peer.next_event():
            case h11.NEED_DATA:
                peer.receive_data(await stream.receive_some(_PIECE))
            case h11.Response(status_code=code):
                status = code
            case h11.Data(data=data):
                said += data
                if len(said) > ANSWER_LIMIT:
                    raise NoAnswer(f"the server at {where} answers with more than {ANSWER_LIMIT} bytes")
            case h11.EndOfMessage():
                return Answer(status, bytes(said))
            case h11.ConnectionClosed() | h11.PAUSED:
                raise NoAnswer(f"the server at {where} ended in the middle of an answer")
