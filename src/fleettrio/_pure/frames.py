"""Reading AMQP 0-9-1: frames out of bytes, and whole contents out of the frames of channels that are ours.

Rules:

1. Bytes come in as they were read, cut anywhere. A frame counts once all of it is there.
2. Of a channel that is ours, deliveries, returns and confirms come out read; every other frame comes out as its bytes.
3. What a publisher can cause is one message with a `problem`. What only the broker can cause, and breaks the protocol,
   is `Broken`: nothing behind it can be read.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from fleettrio._pure.contents import ContentHeader, RawHeaders, read_content_header
from fleettrio._pure.tables import Cut, take, take_counted

__all__ = ("Broken", "Confirm", "Delivered", "FrameReader", "Incoming", "Returned")

_METHOD, _HEADER, _BODY = 1, 2, 3
_END = 0xCE
_OVERHEAD = 8
_CHANNEL_CLASS = b"\0\x14"
_RETURN, _DELIVER, _ACK, _NACK = b"\0\x3c\0\x32", b"\0\x3c\0\x3c", b"\0\x3c\0\x50", b"\0\x3c\0\x78"


class Delivered(msgspec.Struct, frozen=True):
    """Basic.Deliver with its content; nothing in it has been checked."""

    channel: int
    consumer_tag: str
    delivery_tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    headers: RawHeaders
    body: bytes


class Returned(msgspec.Struct, frozen=True):
    """Basic.Return: nothing is bound to the routing key. Its body, which we sent, is dropped."""

    channel: int
    code: int
    text: str
    exchange: str
    routing_key: str
    message_id: str


class Confirm(msgspec.Struct, frozen=True):
    """Basic.Ack or Basic.Nack of what was published; `multiple`: of everything up to this tag."""

    channel: int
    delivery_tag: int
    multiple: bool
    nacked: bool


class Broken(msgspec.Struct, frozen=True):
    """The broker does not speak AMQP 0-9-1 any more; the reader takes nothing behind it."""

    why: str


Incoming: TypeAlias = Delivered | Returned | Confirm | Broken | bytes
"""`bytes`: one whole frame that is not ours, from its type to its end."""

_Method: TypeAlias = tuple[bytes, str, int, int, str, str]
"""Of a content that is under way: which method, consumer tag or reply text, tag or code, redelivered, exchange, key."""


class FrameReader:
    """Splits what the broker writes on one connection."""

    __slots__ = ("_broken", "_contents", "_rest", "frame_max")

    def __init__(self, frame_max: int) -> None:
        """`frame_max` is what was negotiated, in bytes, 0 for no limit; it is set anew when that is known."""
        self.frame_max = frame_max
        self._rest = b""
        self._contents: dict[int, _Content | None] = {}
        self._broken = False

    def take(self, channel: int) -> None:
        """From here on AMQP channel `channel` is ours."""
        self._contents.setdefault(channel, None)

    def leave(self, channel: int) -> None:
        """It is not ours any more; a content that is under way on it is dropped."""
        self._contents.pop(channel, None)

    def feed(self, data: bytes) -> list[Incoming]:
        """What is complete with `data`, in the order of the bytes. Never raises for what is in them."""
        found: list[Incoming] = []
        data, at = self._rest + data, 0
        while not self._broken and len(data) - at >= _OVERHEAD - 1:
            size = int.from_bytes(data[at + 3 : at + 7], "big")
            if self.frame_max and size + _OVERHEAD > self.frame_max:
                self._break(found, f"a frame of {size + _OVERHEAD} bytes, the most is {self.frame_max}")
                break
            end = at + size + _OVERHEAD
            if end > len(data):
                break
            if data[end - 1] != _END:
                self._break(found, "a frame without its end")
                break
            self._take_frame(data[at:end], found)
            at = end
        self._rest = b"" if self._broken else data[at:]
        return found

    def _break(self, found: list[Incoming], why: str) -> None:
        self._broken = True
        found.append(Broken(why))

    def _take_frame(self, frame: bytes, found: list[Incoming]) -> None:
        kind, channel, payload = frame[0], int.from_bytes(frame[1:3], "big"), frame[7:-1]
        if channel not in self._contents:
            found.append(frame)
            return
        content = self._contents[channel]
        if content is not None:
            if kind == _METHOD and payload.startswith(_CHANNEL_CLASS):
                self._contents[channel] = None  # the channel ends in the middle of a content
                found.append(frame)
                return
            try:
                content.take(kind, payload)
            except (Cut, ValueError) as error:
                self._break(found, f"content: {error}")
                return
            if content.is_whole:
                self._contents[channel] = None
                found.append(content.made(channel))
            return
        if kind != _METHOD or payload[:4] not in (_RETURN, _DELIVER, _ACK, _NACK):
            found.append(frame)
            return
        try:
            if payload[:4] in (_RETURN, _DELIVER):
                self._contents[channel] = _Content(_read_method(payload))
            else:
                found.append(_read_confirm(channel, payload))
        except Cut as error:
            self._break(found, f"method: {error}")


class _Content:
    """A delivery or a return whose frames are not all there yet."""

    def __init__(self, method: _Method) -> None:
        self._method = method
        self._header: ContentHeader | None = None
        self._parts: list[bytes] = []
        self._missing = 0

    def take(self, kind: int, payload: bytes) -> None:
        """Raises `Cut` or `ValueError` for a frame that has no place in a content."""
        if self._header is None:
            if kind != _HEADER:
                raise Cut(f"a frame of type {kind} where its header should be")
            self._header = read_content_header(payload)
            self._missing = self._header.body_size
            return
        if kind != _BODY:
            raise Cut(f"a frame of type {kind} where its body should be")
        if len(payload) > self._missing:
            raise Cut(f"{len(payload)} bytes of body, {self._missing} are missing")
        self._parts.append(payload)
        self._missing -= len(payload)

    @property
    def is_whole(self) -> bool:
        return self._header is not None and self._missing == 0

    def made(self, channel: int) -> Delivered | Returned:
        assert self._header is not None
        which, text, number, redelivered, exchange, key = self._method
        if which == _RETURN:
            return Returned(channel, number, text, exchange, key, self._header.message_id)
        body = b"".join(self._parts)
        return Delivered(channel, text, number, bool(redelivered), exchange, key, self._header.headers, body)


def _read_method(payload: bytes) -> _Method:
    """Raises `Cut`. Bytes that are no text become one that nobody owns."""
    which, at = take(payload, 0, 4)
    if which == _RETURN:
        code, at = take(payload, at, 2)
        text, at = take_counted(payload, at, 1)
        redelivered = b"\0"
    else:
        text, at = take_counted(payload, at, 1)
        code, at = take(payload, at, 8)
        redelivered, at = take(payload, at, 1)
    exchange, at = take_counted(payload, at, 1)
    key, at = take_counted(payload, at, 1)
    return which, _text(text), int.from_bytes(code, "big"), redelivered[0] & 1, _text(exchange), _text(key)


def _read_confirm(channel: int, payload: bytes) -> Confirm:
    tag, at = take(payload, 4, 8)
    bits, _ = take(payload, at, 1)
    return Confirm(channel, int.from_bytes(tag, "big"), bool(bits[0] & 1), payload[:4] == _NACK)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
