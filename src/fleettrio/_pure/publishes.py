"""Writing AMQP 0-9-1: publishes with their contents, many in one go; acknowledgements.

The frames are those of the specification (2.3.5 and 4.2): a method, a content header, as many bodies as the frame
size asks for. Of the properties only those are written that we use; header tables hold text and bytes, by key.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Protocol

__all__ = ("Outgoing", "encode_ack", "encode_publishes", "encode_reject", "table_size")

_METHOD, _HEADER, _BODY = 1, 2, 3
_END = b"\xce"
_OVERHEAD = 8
"""Bytes of a frame beside its payload."""
_BASIC, _PUBLISH, _ACK, _REJECT = 60, 40, 80, 90
_CONTENT_TYPE, _HEADERS, _DELIVERY_MODE, _EXPIRATION, _MESSAGE_ID = 1 << 15, 1 << 13, 1 << 12, 1 << 8, 1 << 7
_SHORT = 255


class Outgoing(Protocol):
    """What is published: see `broker.port.RawPublish`. Its `id`, in decimal, becomes AMQP's `message_id`."""

    @property
    def id(self) -> int: ...
    @property
    def exchange(self) -> str: ...
    @property
    def routing_key(self) -> str: ...
    @property
    def mandatory(self) -> bool: ...
    @property
    def persistent(self) -> bool: ...
    @property
    def expiration_ms(self) -> int: ...
    @property
    def content_type(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, bytes | str]: ...
    @property
    def body(self) -> bytes: ...


def encode_publishes(
    channel: int, frame_max: int, max_table: int, messages: Sequence[Outgoing]
) -> tuple[bytes, dict[int, str]]:
    """The frames of all `messages` on AMQP channel `channel`, in order, and why some are left out, by their index.

    `frame_max` is what was negotiated, in bytes, 0 for no limit. Left out is what AMQP cannot carry, or what would have
    the broker close the connection: a name over 255 bytes, a header table over `max_table` bytes or over the frame
    size, which cannot be split, and text that is no Unicode.
    """
    frames: list[bytes] = []
    left_out: dict[int, str] = {}
    for index, message in enumerate(messages):
        try:
            frames += _publish(channel, frame_max, max_table, message)
        except UnicodeEncodeError:
            left_out[index] = "a name or a header of it is not valid text"
        except _TooLarge as error:
            left_out[index] = str(error)
    return b"".join(frames), left_out


class _TooLarge(Exception):
    pass


def _publish(channel: int, frame_max: int, max_table: int, message: Outgoing) -> list[bytes]:
    method = struct.pack(">HHH", _BASIC, _PUBLISH, 0) + _short(message.exchange) + _short(message.routing_key)
    method += b"\1" if message.mandatory else b"\0"
    header = _content_header(message, max_table)
    if frame_max and len(header) + _OVERHEAD > frame_max:
        raise _TooLarge(f"its content header has {len(header)} bytes and cannot be split")
    body, step = message.body, frame_max - _OVERHEAD if frame_max else len(message.body) or 1
    return [
        _frame(_METHOD, channel, method),
        _frame(_HEADER, channel, header),
        *(_frame(_BODY, channel, body[at : at + step]) for at in range(0, len(body), step)),
    ]


def _content_header(message: Outgoing, max_table: int) -> bytes:
    size = table_size(message.headers)
    if size > max_table:
        raise _TooLarge(f"the header table has {size} of {max_table} bytes")
    flags = _HEADERS | _DELIVERY_MODE | _MESSAGE_ID
    content_type = expiration = b""
    if message.content_type:
        flags |= _CONTENT_TYPE
        content_type = _short(message.content_type)
    if message.expiration_ms > 0:
        flags |= _EXPIRATION
        expiration = _short(str(message.expiration_ms))
    return b"".join(
        (
            struct.pack(">HHQH", _BASIC, 0, len(message.body), flags),
            content_type,
            _table(message.headers),
            b"\2" if message.persistent else b"\1",
            expiration,
            _short(str(message.id)),
        )
    )


def _table(table: Mapping[str, bytes | str]) -> bytes:
    entries = []
    for key, value in sorted(table.items()):
        kind, data = (b"S", value.encode()) if isinstance(value, str) else (b"x", value)
        entries.append(_short(key) + kind + len(data).to_bytes(4, "big") + data)
    payload = b"".join(entries)
    return len(payload).to_bytes(4, "big") + payload


def table_size(table: Mapping[str, bytes | str]) -> int:
    """Bytes of `table` on the wire: its length, then each key (short string), type, length and value."""
    return 4 + sum(
        len(key.encode()) + 6 + len(value.encode() if isinstance(value, str) else value) for key, value in table.items()
    )


def _short(text: str) -> bytes:
    data = text.encode()
    if len(data) > _SHORT:
        raise _TooLarge(f"a name in it has {len(data)} bytes, the most is {_SHORT}")
    return bytes((len(data),)) + data


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + _END


def encode_ack(channel: int, delivery_tag: int, multiple: bool) -> bytes:
    """The frame of Basic.Ack; `multiple` settles every delivery of that AMQP channel up to this one."""
    return _frame(_METHOD, channel, struct.pack(">HHQ?", _BASIC, _ACK, delivery_tag, multiple))


def encode_reject(channel: int, delivery_tag: int, requeue: bool) -> bytes:
    """The frame of Basic.Reject."""
    return _frame(_METHOD, channel, struct.pack(">HHQ?", _BASIC, _REJECT, delivery_tag, requeue))
