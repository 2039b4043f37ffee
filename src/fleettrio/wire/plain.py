"""Plain canonical CBOR with nesting: bodies between gateways and the fleet file.

Maps with text keys, lists, int, text, bytes and bool; nothing else. The library's decoder is lenient and knows tags
(a shared reference alone makes 256 KiB grow without end), so tags never reach it. `_accel.is_plain` sees at once that
bytes are as they must be; of others it is found out what is wrong, and what the library gave must encode to the same
bytes again.
"""

from __future__ import annotations

from typing import Any

import cbor2

from fleettrio._accel import is_plain
from fleettrio.errors import MalformedEnvelope

__all__ = ("dump_ordered", "dump_plain", "load_plain")

_BYTES, _TEXT, _TAG, _SIMPLE = 2, 3, 6, 7
_BOOLS = (0xF4, 0xF5)


def dump_plain(value: Any) -> bytes:
    """Canonical bytes of `value`."""
    return cbor2.dumps(value, canonical=True)


def dump_ordered(value: dict[str, Any], *, what: str, limit: int) -> bytes:
    """The same of maps that are in canonical order already, at most `limit` bytes; four times as fast.

    Raises `MalformedEnvelope`.
    """
    data = cbor2.dumps(value)
    if len(data) > limit:
        raise MalformedEnvelope(f"{what}: {len(data)} bytes, the most is {limit}")
    return data


def load_plain(data: bytes, *, what: str, limit: int, depth: int) -> dict[str, Any]:
    """The map in `data`, at most `limit` bytes and `depth` containers deep; the size is judged before anything is read.

    Raises `MalformedEnvelope`, whose text begins with `what`.
    """
    if len(data) > limit:
        raise MalformedEnvelope(f"{what}: {len(data)} bytes, the most is {limit}")
    is_good = is_plain(data, depth)
    if not is_good:
        _refuse_rich_items(data, what)
    try:
        value = cbor2.loads(
            data,
            max_depth=depth,
            allow_indefinite=False,
            allow_duplicate_keys=False,
            strict_hashable_types=True,
        )
    except cbor2.CBORDecodeError as error:
        raise MalformedEnvelope(f"{what}: not CBOR that can be read: {error}") from None
    if type(value) is not dict:
        raise MalformedEnvelope(f"{what}: not a map")
    if not is_good:
        _check_maps(value, what)
        if cbor2.dumps(value) != data:
            raise MalformedEnvelope(f"{what}: not canonical CBOR")
    return value


def _head_sizes() -> tuple[int, ...]:
    """How far it is from an item head to the next one, by the head's first byte; 0: it has to be looked at."""
    sizes = []
    for first in range(256):
        major, number = first >> 5, first & 0x1F
        if major == _TAG or number > 27 or (major == _SIMPLE and first not in _BOOLS):
            sizes.append(0)
        elif number < 24:
            sizes.append(1 + (number if major in (_BYTES, _TEXT) else 0))
        else:
            sizes.append(0 if major in (_BYTES, _TEXT) else 1 + (1 << number - 24))
    return tuple(sizes)


_SIZES = _head_sizes()


def _refuse_rich_items(data: bytes, what: str) -> None:
    """Walk from item head to item head, without nesting: no tag, float, null or indefinite length gets past."""
    at, end, sizes = 0, len(data), _SIZES
    while at < end:
        first = data[at]
        if step := sizes[first]:
            at += step
            continue
        major, number = first >> 5, first & 0x1F
        if major == _TAG or (major == _SIMPLE and first not in _BOOLS):
            raise MalformedEnvelope(f"{what}: holds something other than maps, lists, int, text, bytes and bool")
        if number > 27:
            raise MalformedEnvelope(f"{what}: holds an indefinite or reserved length")
        width = 1 << number - 24
        at += 1 + width + int.from_bytes(data[at + 1 : at + 1 + width], "big")


def _check_maps(value: object, what: str) -> None:
    """As deep as the decoder let it be: keys are text, and in canonical order."""
    if type(value) is dict:
        before = (-1, b"")
        for key, item in value.items():
            if type(key) is not str:
                raise MalformedEnvelope(f"{what}: a key is not text")
            raw = key.encode()
            order = (len(raw), raw)
            if order < before:
                raise MalformedEnvelope(f"{what}: not canonical CBOR")
            before = order
            if type(item) in _HOLD:
                _check_maps(item, what)
    elif type(value) is list:
        for item in value:
            if type(item) in _HOLD:
                _check_maps(item, what)


_HOLD = frozenset({dict, list})
