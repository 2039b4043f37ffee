"""Whether bytes are plain canonical CBOR: what bodies between gateways and the fleet file are made of (`wire.plain`).

Maps with text keys in order (shorter ones first), lists, int, text, bytes and bool, each in its shortest form; no tag,
float, null or indefinite length. Text is not looked into: a decoder does that.
"""

from __future__ import annotations

__all__ = ("is_plain",)

_BYTES, _TEXT, _LIST, _MAP = 2, 3, 4, 5
_BOOLS = (0xF4, 0xF5)


def is_plain(data: bytes, depth: int) -> bool:
    """Whether `data` is one such map, and nothing in it lies more than `depth` containers deep."""
    return len(data) > 0 and data[0] >> 5 == _MAP and _end_of(data, 0, depth) == len(data)


def _end_of(data: bytes, at: int, depth: int) -> int:
    """Where the item at `at` ends; -1 when it is none."""
    if at >= len(data):
        return -1
    if data[at] in _BOOLS:
        return at + 1
    major = data[at] >> 5
    number, at = _head(data, at)
    if at < 0 or major > _MAP:
        return -1
    if major in (_BYTES, _TEXT):
        return at + number if number <= len(data) - at else -1
    if major not in (_LIST, _MAP):
        return at
    if depth <= 0 or number > len(data) - at:
        return -1
    key = b""
    for _ in range(number):
        if major == _MAP:
            start = at
            if at >= len(data) or data[at] >> 5 != _TEXT:
                return -1
            at = _end_of(data, at, 0)
            if at < 0 or (len(data[start:at]), data[start:at]) <= (len(key), key):
                return -1
            key = data[start:at]
        at = _end_of(data, at, depth - 1)
        if at < 0:
            return -1
    return at


def _head(data: bytes, at: int) -> tuple[int, int]:
    """Number of the item at `at`, and where its content begins; -1 when that is not its shortest form."""
    number = data[at] & 0x1F
    if number < 24:
        return number, at + 1
    if number > 27:
        return 0, -1
    size = 1 << number - 24
    end = at + 1 + size
    if end > len(data):
        return 0, -1
    number = int.from_bytes(data[at + 1 : end], "big")
    return (number, end) if number >= (24 if size == 1 else 1 << 4 * size) else (0, -1)
