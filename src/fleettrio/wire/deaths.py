"""`x-death`: what the broker notes in a message each time it dead-letters it.

A hint and no more: any publisher may put it there, and only the latest entry of what was taken from `fleet.dlq` was
surely written by the broker. Reading never raises and is bounded: entries that cannot be read are left out.
"""

from __future__ import annotations

import msgspec

from fleettrio._pure.tables import Cut, take_counted, take_value
from fleettrio.ids import WallMs

__all__ = ("MAX_DEATHS", "Death", "read_deaths")

MAX_DEATHS = 16
"""Entries that are read, the latest first."""
_NAME_LIMIT, _NUMBER_LIMIT = 255, 2**53
_TABLE, _INTEGERS, _MOMENT = ord("F"), frozenset(b"bBsuIilL"), ord("T")
_TEXTS = frozenset(b"Sx")


class Death(msgspec.Struct, frozen=True):
    """One way of dying in one queue. `at` is the broker's clock, the first time; 0 when it is not told."""

    reason: str
    """`rejected`, `expired`, `maxlen` or `delivery_limit`."""
    queue: str
    exchange: str
    """Where it was published to before."""
    count: int
    at: WallMs


def read_deaths(array: bytes) -> tuple[Death, ...]:
    """Read the bytes of an AMQP array of tables. Never raises."""
    found: list[Death] = []
    at = 0
    try:
        while at < len(array) and len(found) < MAX_DEATHS:
            kind, value, at = take_value(array, at)
            if kind == _TABLE and (death := _read(value)) is not None:
                found.append(death)
    except Cut:
        pass
    return tuple(found)


def _read(table: bytes) -> Death | None:
    texts: dict[bytes, str] = {}
    count, moment, at = 0, 0, 0
    try:
        while at < len(table):
            key, at = take_counted(table, at, 1)
            kind, value, at = take_value(table, at)
            if kind in _TEXTS:
                texts.setdefault(key, value[:_NAME_LIMIT].decode("utf-8", "replace"))
            elif key == b"count" and kind in _INTEGERS:
                count = min(int.from_bytes(value, "big"), _NUMBER_LIMIT)
            elif key == b"time" and kind == _MOMENT:
                moment = min(int.from_bytes(value, "big") * 1000, _NUMBER_LIMIT)
    except Cut:
        return None
    if b"reason" not in texts or b"queue" not in texts:
        return None
    return Death(texts[b"reason"], texts[b"queue"], texts.get(b"exchange", ""), count, WallMs(moment))
