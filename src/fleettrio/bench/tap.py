"""What passes a proxy between clients and the broker: bytes, AMQP frames, and the messages that were published."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

from fleettrio.wire.headers import read_content_header
from fleettrio.wire.parsed import Parsed, parse_delivery

__all__ = ("FrameTap",)

_GREETING = 8
_HEADER, _BODY = 2, 3
_LARGEST = 64 * 1024 * 1024


@dataclasses.dataclass
class FrameTap:
    """Counts, over all connections and both ways. A `proxy.Tap`."""

    size: int = 0
    frames: int = 0
    published: list[Parsed] = dataclasses.field(default_factory=list)
    """Signed messages on their way to the broker, in the order in which they passed; unsigned ones are left out."""
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def reset(self) -> None:
        with self._lock:
            self.size = self.frames = 0
            self.published = []

    def __call__(self, to_broker: bool) -> Callable[[bytes], None]:
        stream = _Stream(self, to_broker)
        return stream.heard

    def add(self, size: int, frames: list[tuple[int, bytes]], messages: list[Parsed]) -> None:
        with self._lock:
            self.size += size
            self.frames += len(frames)
            self.published += messages


class _Stream:
    """One way of one connection, cut into frames."""

    def __init__(self, tap: FrameTap, to_broker: bool) -> None:
        self._tap, self._to_broker = tap, to_broker
        self._rest = b""
        self._skip = _GREETING if to_broker else 0
        self._header, self._body, self._size = b"", bytearray(), 0

    def heard(self, data: bytes) -> None:
        frames = self._cut(data)
        messages = [found for kind, payload in frames if (found := self._message(kind, payload))] * self._to_broker
        self._tap.add(len(data), frames, messages)

    def _cut(self, data: bytes) -> list[tuple[int, bytes]]:
        self._rest += data
        greeted = min(self._skip, len(self._rest))
        self._skip -= greeted
        at, frames = greeted, list[tuple[int, bytes]]()
        while len(self._rest) - at >= 8:
            after = at + 8 + int.from_bytes(self._rest[at + 3 : at + 7], "big")
            if after > len(self._rest):
                break
            frames.append((self._rest[at], self._rest[at + 7 : after - 1]))
            at = after
        self._rest = self._rest[at:]
        return frames

    def _message(self, kind: int, payload: bytes) -> Parsed | None:
        """The signed message that this frame completes."""
        if kind == _HEADER:
            self._header, self._size = payload, read_content_header(payload).body_size
            self._body.clear()
        elif kind == _BODY:
            self._body += payload
        if not self._header or len(self._body) < self._size:
            return None
        headers, self._header = read_content_header(self._header).headers, b""
        found = parse_delivery(headers, bytes(self._body), body_limit=_LARGEST)
        return found if isinstance(found, Parsed) else None
