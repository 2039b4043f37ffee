"""The bytes of one connection: TCP or TLS, between the socket and the library, with the fast lane in the middle."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import trio
from aiormq.connection import TransportFactory

from fleettrio.broker.fastlane import Lane
from fleettrio.ids import Seconds

__all__ = ("ABORT_S", "Streams")

ABORT_S = 0.3
"""How long a peer that does not answer is waited for, once its transport is cut."""


class _Reader(asyncio.StreamReader):
    """Knows when bytes last came, and lets the lane have them first."""

    heard = Seconds(0.0)
    lane: Lane | None = None

    def feed_data(self, data: Any) -> None:
        self.heard = Seconds(trio.current_time())
        if self.lane is not None:
            data = self.lane.hear(data, self.heard)
        super().feed_data(data)


class _Protocol(asyncio.StreamReaderProtocol):
    """Has the lane wait, too, while the socket takes no more."""

    lane: Lane | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.lane is not None:
            self.lane.hold("socket")

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.lane is not None:
            self.lane.release("socket")


class _Writer(asyncio.StreamWriter):
    """Knows whether all that the library wrote was whole frames, one at a time, as it does while it connects."""

    writes_whole_frames = True

    def write(self, data: Any) -> None:
        is_frame = len(data) == 8 + int.from_bytes(data[3:7], "big") and data[-1:] == b"\xce"
        self.writes_whole_frames &= is_frame or data[:4] == b"AMQP"
        super().write(data)


class Streams(TransportFactory):
    """Makes the TCP or TLS transport of one connection, and keeps it, so that it can be cut."""

    def __init__(self, context: ssl.SSLContext | None, lane: Lane | None) -> None:
        self._context = context
        self._lane = lane
        self.reader: _Reader | None = None
        self.writer: _Writer | None = None
        self.transport: asyncio.Transport | None = None

    async def create(self, url: Any, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        self.reader = _Reader(loop=loop)
        protocol = _Protocol(self.reader, loop=loop)
        self.reader.lane = protocol.lane = self._lane
        # A peer that is stuck cannot take part in the closing handshake of TLS.
        tls: dict[str, Any] = {"ssl": self._context, "ssl_shutdown_timeout": ABORT_S} if self._context else {}
        self.transport, _ = await loop.create_connection(lambda: protocol, url.host, url.port, **tls)
        self.writer = _Writer(self.transport, protocol, self.reader, loop)
        return self.reader, self.writer

    def write(self, data: bytes) -> None:
        """Whole frames, now: the library's writer is not asked, and its frames may come before and behind."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def cut(self) -> None:
        if self.transport is not None:
            self.transport.abort()
