"""Walking AMQP field tables: a value is passed over by its length, so nothing nested in it can deepen the walk."""

from __future__ import annotations

__all__ = ("Cut", "take", "take_counted", "take_value")

_FIXED_SIZES = {
    ord(kind): size
    for kinds, size in (("V", 0), ("tbB", 1), ("su", 2), ("Iif", 4), ("D", 5), ("lLdT", 8))
    for kind in kinds
}
_COUNTED = frozenset(b"SxAF")
"""Long string, byte array, array, table: four bytes of length, then that many bytes, whatever is nested in them."""


class Cut(Exception):
    """The bytes end, or contradict themselves, before what they announce. Never leaves the readers of this package."""


def take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    end = at + size
    if end > len(data):
        raise Cut(f"{size} bytes announced, {len(data) - at} left")
    return data[at:end], end


def take_counted(data: bytes, at: int, width: int) -> tuple[bytes, int]:
    """A value with its length in front, `width` bytes wide."""
    size, at = take(data, at, width)
    return take(data, at, int.from_bytes(size, "big"))


def take_value(data: bytes, at: int) -> tuple[int, bytes, int]:
    """One field value: its type, its bytes (without the length), where the next thing begins."""
    kind, at = take(data, at, 1)
    if kind[0] in _COUNTED:
        value, at = take_counted(data, at, 4)
    elif kind[0] in _FIXED_SIZES:
        value, at = take(data, at, _FIXED_SIZES[kind[0]])
    else:
        raise Cut(f"unknown field type 0x{kind[0]:02x}")
    return kind[0], value, at
