"""An AMQP 0-9-1 client that builds its own frames, for what no library would send: poison, forgeries, floods.

Blocking, standard library only, one channel with confirms on. It checks nothing of what it is told to send.
"""

from __future__ import annotations

import dataclasses
import socket
import struct
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from fleettrio.errors import FleetTrioError

__all__ = (
    "RawAnswer",
    "RawClient",
    "RawClientError",
    "field",
    "nested_arrays",
    "properties",
    "short",
    "table",
)

_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_END = b"\xce"
_CHANNEL = 1
_TIMEOUT_S = 60.0

_START, _START_OK, _TUNE, _TUNE_OK, _OPEN, _OPEN_OK, _CLOSE = (
    (10, 10), (10, 11), (10, 30), (10, 31), (10, 40), (10, 41), (10, 50),
)  # fmt: skip
_CHANNEL_OPEN, _CHANNEL_OPEN_OK, _CHANNEL_CLOSE = (20, 10), (20, 11), (20, 40)
_CONFIRM_SELECT, _CONFIRM_SELECT_OK = (85, 10), (85, 11)
_BLOCKED = (10, 60)
_PUBLISH, _RETURN, _GET, _GET_OK, _GET_EMPTY, _ACK, _NACK = (
    (60, 40), (60, 50), (60, 70), (60, 71), (60, 72), (60, 80), (60, 120),
)  # fmt: skip


class RawClientError(FleetTrioError):
    """The broker closed the connection or channel, or answered something else."""


@dataclasses.dataclass(frozen=True, slots=True)
class RawAnswer:
    """A message as `get` found it: `properties` are flags and values as they stood on the wire."""

    routing_key: bytes
    properties: bytes
    body: bytes


def short(value: str | bytes) -> bytes:
    """A short string."""
    data = value.encode() if isinstance(value, str) else value
    return bytes([len(data)]) + data


def _long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def field(key: str | bytes, value: bytes | str, kind: bytes = b"") -> bytes:
    """One entry of a table: bytes become a byte array, text a long string. With `kind` the value is taken as it is."""
    if kind:
        assert isinstance(value, bytes)
        return short(key) + kind + value
    return short(key) + (b"S" + _long(value.encode()) if isinstance(value, str) else b"x" + _long(value))


def table(*entries: bytes) -> bytes:
    """Entries made by `field`, with the length in front."""
    return _long(b"".join(entries))


def nested_arrays(depth: int) -> bytes:
    """The value of a field of type `A`: an array in an array in an array."""
    value = _long(b"")
    for _ in range(depth - 1):
        value = _long(b"A" + value)
    return value


def properties(
    headers: bytes | None = None,
    *,
    content_type: str = "",
    expiration: str = "",
    message_id: str = "",
    timestamp: int | None = None,
) -> bytes:
    """Flags and values of the basic properties; `headers` is a whole table, which may be anything."""
    given: Iterable[tuple[int, bytes | None]] = (
        (15, short(content_type) if content_type else None),
        (13, headers),
        (12, b"\x02"),  # persistent
        (8, short(expiration) if expiration else None),
        (7, short(message_id) if message_id else None),
        (6, None if timestamp is None else struct.pack(">Q", timestamp)),
    )
    present = [(bit, value) for bit, value in given if value is not None]
    return struct.pack(">H", sum(1 << bit for bit, _ in present)) + b"".join(value for _, value in present)


class RawClient:
    """Connected and ready when made. A context manager."""

    def __init__(
        self,
        port: int,
        vhost: str = "/",
        *,
        host: str = "127.0.0.1",
        user: str = "guest",
        password: str = "guest",  # noqa: S107  RabbitMQ's own default, on loopback only
    ) -> None:
        self._socket = socket.create_connection((host, port), timeout=_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        try:
            self._log_in(user, password, vhost)
        except BaseException:
            self._socket.close()
            raise

    def _log_in(self, user: str, password: str, vhost: str) -> None:
        self._socket.sendall(b"AMQP\x00\x00\x09\x01")
        self._expect(0, _START)
        login = f"\0{user}\0{password}".encode()
        self._method(0, _START_OK, table() + short("PLAIN") + _long(login) + short("en_US"))
        channels, frame_size, _heartbeat = struct.unpack(">HIH", self._expect(0, _TUNE))
        self._frame_size = frame_size or 131_072
        self._method(0, _TUNE_OK, struct.pack(">HIH", channels, frame_size, 0))
        self._method(0, _OPEN, short(vhost) + short("") + b"\x00")
        self._expect(0, _OPEN_OK)
        self._method(_CHANNEL, _CHANNEL_OPEN, short(""))
        self._expect(_CHANNEL, _CHANNEL_OPEN_OK)
        self._method(_CHANNEL, _CONFIRM_SELECT, b"\x00")
        self._expect(_CHANNEL, _CONFIRM_SELECT_OK)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection without a word."""
        self._socket.close()

    def publish(
        self,
        exchange: str,
        routing_key: str | bytes,
        message_properties: bytes,
        body: bytes = b"",
        *,
        mandatory: bool = False,
    ) -> str:
        """Publish and wait for the verdict: `ack`, `nack` or `returned`. `message_properties`: see `properties()`."""
        self.send(exchange, routing_key, message_properties, body, mandatory=mandatory)
        return self.verdict()

    def send(
        self,
        exchange: str,
        routing_key: str | bytes,
        message_properties: bytes,
        body: bytes = b"",
        *,
        mandatory: bool = False,
    ) -> None:
        """Publish without waiting; `verdict()` must be called as often."""
        start = b"\x00\x00" + short(exchange) + short(routing_key) + bytes([mandatory])
        self._method(_CHANNEL, _PUBLISH, start)
        self._frame(_HEADER, _CHANNEL, struct.pack(">HHQ", 60, 0, len(body)) + message_properties)
        step = self._frame_size - 8
        for at in range(0, len(body), step):
            self._frame(_BODY, _CHANNEL, body[at : at + step])

    def verdict(self) -> str:
        """The next verdict. Confirms of several at once are not told apart: publish and wait in turn for exactness."""
        *returned, confirm = self.outcome()
        return "returned" if returned and confirm == "ack" else confirm

    def outcome(self) -> list[str]:
        """What the broker says up to the next confirm, in its order: `return 312 NO_ROUTE`, then `ack` or `nack`."""
        words: list[str] = []
        while True:
            kind, _, payload = self._read()
            if kind != _METHOD:
                continue  # the content of a returned message
            method = struct.unpack(">HH", payload[:4])
            if method == _RETURN:
                (code,) = struct.unpack(">H", payload[4:6])
                words.append(f"return {code} {payload[7 : 7 + payload[6]].decode(errors='replace')}")
            elif method in (_ACK, _NACK):
                return [*words, "nack" if method == _NACK else "ack"]
            elif method != _BLOCKED:
                raise self._surprise(method, payload)

    def get(self, queue: str) -> RawAnswer | None:
        """Take one message out of `queue` (without ack), None when it is empty."""
        self._method(_CHANNEL, _GET, b"\x00\x00" + short(queue) + b"\x01")
        _, _, payload = self._read()
        method = struct.unpack(">HH", payload[:4])
        if method == _GET_EMPTY:
            return None
        if method != _GET_OK:
            raise self._surprise(method, payload)
        exchange_end = 14 + payload[13]
        routing_key = payload[exchange_end + 1 : exchange_end + 1 + payload[exchange_end]]
        _, _, header = self._read()
        (size,) = struct.unpack(">Q", header[4:12])
        body = b""
        while len(body) < size:
            body += self._read()[2]
        return RawAnswer(routing_key, header[12:], body)

    # Frames

    def _frame(self, kind: int, channel: int, payload: bytes) -> None:
        self._socket.sendall(struct.pack(">BHI", kind, channel, len(payload)) + payload + _END)

    def _method(self, channel: int, method: tuple[int, int], arguments: bytes) -> None:
        self._frame(_METHOD, channel, struct.pack(">HH", *method) + arguments)

    def _read(self) -> tuple[int, int, bytes]:
        """The next frame that is no heartbeat: its type, channel and payload."""
        while True:
            kind, channel, size = struct.unpack(">BHI", self._receive(7))
            payload = self._receive(size + 1)[:-1]
            if kind != _HEARTBEAT:
                return kind, channel, payload

    def _receive(self, size: int) -> bytes:
        while len(self._received) < size:
            try:
                more = self._socket.recv(65_536)
            except ConnectionError as error:
                raise RawClientError("the broker closed the connection") from error
            if not more:
                raise RawClientError("the broker closed the connection")
            self._received += more
        data, self._received = self._received[:size], self._received[size:]
        return data

    def _expect(self, channel: int, expected: tuple[int, int]) -> bytes:
        """The arguments of the next method, which must be this one."""
        _, got_channel, payload = self._read()
        method = struct.unpack(">HH", payload[:4])
        if (got_channel, method) != (channel, expected):
            raise self._surprise(method, payload)
        return payload[4:]

    @staticmethod
    def _surprise(method: tuple[int, ...], payload: bytes) -> RawClientError:
        if method in (_CLOSE, _CHANNEL_CLOSE):
            (code,) = struct.unpack(">H", payload[4:6])
            text = payload[7 : 7 + payload[6]].decode(errors="replace")
            return RawClientError(f"closed by the broker: {code} {text}")
        return RawClientError(f"the broker answered with method {method}")
