"""The signed header: one canonical CBOR map of short text keys to int, text, bytes or bool (RFC 8949, section 4.2).

`decode_header` takes exactly what `encode_header` gives, so `encode_header(decode_header(b)) == b` for every `b` that
is taken.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleettrio.errors import MalformedEnvelope

__all__ = ("MAX_HEADER", "Value", "decode_header", "encode_header")

Value = int | str | bytes | bool

MAX_HEADER = 4096
"""Bytes of a header."""

_MAX_KEY = 23
"""Bytes of a key: below this the two sort orders in use for canonical CBOR agree."""
_UINT, _NEGATIVE, _BYTES, _TEXT, _MAP = 0, 1, 2, 3, 5
_FALSE, _TRUE = 0xF4, 0xF5


def encode_header(fields: Mapping[str, Value]) -> bytes:
    """The canonical bytes of `fields`.

    Raises `MalformedEnvelope`, naming the field, for anything that a header cannot hold, and for over 4 KiB.
    """
    entries = []
    for key, value in fields.items():
        if not isinstance(key, str):
            raise MalformedEnvelope("header: a field name is not text")
        name = _utf8(key, key)
        if len(name) > _MAX_KEY:
            raise MalformedEnvelope(f"header: field {key!a} has a name over 23 bytes")
        entries.append((_head(_TEXT, len(name)) + name, _encode_value(key, value)))
    entries.sort()
    header = _head(_MAP, len(entries)) + b"".join(name + value for name, value in entries)
    if len(header) > MAX_HEADER:
        raise MalformedEnvelope(f"header: {len(header)} bytes, the most is 4096")
    return header


def _encode_value(key: str, value: object) -> bytes:
    if isinstance(value, bool):
        return bytes((_TRUE if value else _FALSE,))
    if isinstance(value, int):
        major, number = (_UINT, value) if value >= 0 else (_NEGATIVE, -1 - value)
        if number >= 1 << 64:
            raise MalformedEnvelope(f"header: field {key!a} is a number over 64 bits")
        return _head(major, number)
    if isinstance(value, str):
        text = _utf8(key, value)
        return _head(_TEXT, len(text)) + text
    if isinstance(value, bytes):
        return _head(_BYTES, len(value)) + value
    raise MalformedEnvelope(f"header: field {key!a} is not int, text, bytes or bool")


def _utf8(key: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise MalformedEnvelope(f"header: field {key!a} is not valid text") from None


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes((major << 5 | number,))
    if number < 1 << 8:
        return bytes((major << 5 | 24, number))
    if number < 1 << 16:
        return bytes((major << 5 | 25,)) + number.to_bytes(2, "big")
    if number < 1 << 32:
        return bytes((major << 5 | 26,)) + number.to_bytes(4, "big")
    return bytes((major << 5 | 27,)) + number.to_bytes(8, "big")


def decode_header(data: bytes) -> dict[str, Value]:
    """The fields of a header, in the order of its bytes.

    Raises `MalformedEnvelope`, naming the byte, for anything that is not canonical to the last bit.
    """
    if len(data) > MAX_HEADER:
        raise MalformedEnvelope(f"header: {len(data)} bytes, the most is 4096")
    if not data or data[0] >> 5 != _MAP:
        raise _bad("not a map", 0)
    count, at = _read_head(data, 0)
    fields: dict[str, Value] = {}
    last = b""
    for _ in range(count):
        start = at
        if at < len(data) and data[at] >> 5 != _TEXT:
            raise _bad("a field name is not text", at)
        length, at = _read_head(data, at)
        if length > _MAX_KEY:
            raise _bad("a field name is over 23 bytes", start)
        key, at = _read_text(data, start, at, length)
        encoded = data[start:at]
        if encoded <= last:
            raise _bad("a field appears twice" if encoded == last else "fields are not in order", start)
        last = encoded
        fields[key], at = _read_value(data, at)
    if at != len(data):
        raise _bad("bytes are left over", at)
    return fields


def _read_value(data: bytes, start: int) -> tuple[Value, int]:
    if start == len(data):
        raise _bad("ends early", start)
    if data[start] in (_FALSE, _TRUE):
        return data[start] == _TRUE, start + 1
    major = data[start] >> 5
    if major > _TEXT:
        raise _bad("a value is not int, text, bytes or bool", start)
    number, at = _read_head(data, start)
    if major == _UINT:
        return number, at
    if major == _NEGATIVE:
        return -1 - number, at
    if major == _TEXT:
        return _read_text(data, start, at, number)
    if number > len(data) - at:
        raise _bad("ends early", start)
    return data[at : at + number], at + number


def _read_head(data: bytes, start: int) -> tuple[int, int]:
    """Number of the item at `start`, and where its content begins."""
    if start == len(data):
        raise _bad("ends early", start)
    number = data[start] & 0x1F
    if number < 24:
        return number, start + 1
    if number > 27:
        raise _bad("an indefinite or reserved length", start)
    size = 1 << number - 24
    end = start + 1 + size
    if end > len(data):
        raise _bad("ends early", start)
    number = int.from_bytes(data[start + 1 : end], "big")
    if number < (24 if size == 1 else 1 << 4 * size):
        raise _bad("not the shortest form", start)
    return number, end


def _read_text(data: bytes, start: int, at: int, length: int) -> tuple[str, int]:
    if length > len(data) - at:
        raise _bad("ends early", start)
    try:
        return data[at : at + length].decode(), at + length
    except UnicodeDecodeError:
        raise _bad("text is not UTF-8", start) from None


def _bad(what: str, at: int) -> MalformedEnvelope:
    return MalformedEnvelope(f"header: {what} at byte {at}")
