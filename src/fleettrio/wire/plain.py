"""Plain canonical CBOR with nesting: bodies between gateways and the fleet file.

Maps with text keys, lists, int, text, bytes and bool; nothing else. The library's decoder is lenient and knows tags
(a shared reference alone makes 256 KiB grow without end), so tags never reach it, and what it gave must encode to the
same bytes again.
"""

from __future__ import annotations

from typing import Any

import cbor2

from fleettrio.errors import MalformedEnvelope

__all__ = ("dump_plain", "load_plain")

_BYTES, _TEXT, _TAG, _SIMPLE = 2, 3, 6, 7
_BOOLS = (0xF4, 0xF5)


def dump_plain(value: Any) -> bytes:
    """Canonical bytes of `value`."""
    return cbor2.dumps(value, canonical=True)


def load_plain(data: bytes, *, what: str, limit: int, depth: int) -> dict[str, Any]:
    """The map in `data`, at most `limit` bytes and `depth` containers deep; the size is judged before anything is read.

    Raises `MalformedEnvelope`, whose text begins with `what`.
    """
    if len(data) > limit:
        raise MalformedEnvelope(f"{what}: {len(data)} bytes, the most is {limit}")
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
    _check_keys(value, what)
    if dump_plain(value) != data:
        raise MalformedEnvelope(f"{what}: not canonical CBOR")
    return value


def _refuse_rich_items(data: bytes, what: str) -> None:
    """Walk from item head to item head, without nesting: no tag, float, null or indefinite length gets past."""
    at, end = 0, len(data)
    while at < end:
        major, number = data[at] >> 5, data[at] & 0x1F
        if major == _TAG or (major == _SIMPLE and data[at] not in _BOOLS):
            raise MalformedEnvelope(f"{what}: holds something other than maps, lists, int, text, bytes and bool")
        at += 1
        if 24 <= number <= 27:
            size = 1 << number - 24
            number = int.from_bytes(data[at : at + size], "big")
            at += size
        elif number > 27:
            raise MalformedEnvelope(f"{what}: holds an indefinite or reserved length")
        if major in (_BYTES, _TEXT):
            at += number


def _check_keys(value: object, what: str) -> None:
    # As deep as the decoder let it be.
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise MalformedEnvelope(f"{what}: a key is not text")
            _check_keys(item, what)
    elif type(value) is list:
        for item in value:
            _check_keys(item, what)
