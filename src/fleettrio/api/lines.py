"""The lines of one connection of the local socket, in and out, each way bounded.

What came in one read is there at once, line by line; what is ready to go out together goes out in one write.
"""

from __future__ import annotations

import trio

from fleettrio.api import jsonrpc

__all__ = ("Incoming", "Outgoing")

CHUNK = 64 * 1024


class Incoming:
    """Bounded lines of a stream."""

    def __init__(self, stream: trio.SocketStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self._buffer = bytearray()
        self._at = 0
        """Where the next line begins."""

    def ready(self) -> bytes | None:
        """The next line, when it is there as a whole. Raises `BadRequest` for one that is too long."""
        end = self._buffer.find(b"\n", self._at)
        if end < 0:
            return None
        if end - self._at > self._limit:
            raise jsonrpc.too_long(self._limit)
        line = bytes(self._buffer[self._at : end])
        self._at = end + 1
        return line

    async def next(self) -> bytes | None:
        """The next line without its newline; None at the end of the stream, where a piece of a line is dropped.

        Raises `BadRequest` for one that is too long. Cancelled, nothing is lost.
        """
        if (line := self.ready()) is not None:
            return line
        del self._buffer[: self._at]
        self._at = 0
        while True:
            searched = len(self._buffer)
            if searched > self._limit:
                raise jsonrpc.too_long(self._limit)
            try:
                chunk = await self._stream.receive_some(CHUNK)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return None
            if not chunk:
                return None
            self._buffer += chunk
            if self._buffer.find(b"\n", searched) >= 0:
                return self.ready()


class Outgoing:
    """What waits to be written to a client, in order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines: list[bytes] = []
        self._is_last = False
        self._filled = trio.Event()
        self._taken = trio.Event()

    def put(self, line: bytes) -> None:
        """Add a line; how many there may be is its giver's to know."""
        self._lines.append(line)
        self._filled.set()

    async def send(self, line: bytes) -> None:
        """Add a line; waits while too many are on their way. Cancelled while it waits, it is not added."""
        while len(self._lines) >= self._most:
            await self._taken.wait()
        self.put(line)

    def end(self) -> None:
        """Nothing comes after what is there now."""
        self._is_last = True
        self._filled.set()

    async def take(self) -> list[bytes]:
        """All that is there, once there is something; empty when everything was taken and nothing comes any more."""
        while not self._lines and not self._is_last:
            self._filled = trio.Event()
            await self._filled.wait()
        lines, self._lines = self._lines, []
        self._taken.set()
        self._taken = trio.Event()
        return lines
