"""The words that name things, as types: ids, hosts, tags and the two kinds of time.

Wall time comes from other hosts and is compared with `expiresAt`; monotonic time is ours and drives timers. They are
two types, so that mixing them does not pass the type checker.
"""

from __future__ import annotations

from typing import NewType

import msgspec

__all__ = (
    "FleetId",
    "Gid",
    "HostId",
    "Leaf",
    "MsgId",
    "Now",
    "Seconds",
    "SpawnId",
    "Tag",
    "TraceId",
    "TurnId",
    "WallMs",
    "short_id",
)

Gid = NewType("Gid", str)
"""Global id of an entity: a lower-case UUID that proves the host it lives on (`wire.gids`)."""
HostId = NewType("HostId", str)
FleetId = NewType("FleetId", str)
MsgId = NewType("MsgId", str)
"""UUID version 7, lower case."""
TraceId = NewType("TraceId", str)
"""32 hex digits, a W3C trace id."""
TurnId = NewType("TurnId", str)
SpawnId = NewType("SpawnId", str)
Leaf = NewType("Leaf", bytes)
"""BLAKE2b-256 over exact header and body bytes (`docs/wire.md`): what a message *is*."""
WallMs = NewType("WallMs", int)
"""Milliseconds since the epoch, as some host's wall clock said."""
Seconds = NewType("Seconds", float)
"""This process's monotonic clock."""


class Now(msgspec.Struct, frozen=True):
    """The moment an event is handled: wall clock for expiry, monotonic clock for timers."""

    wall: WallMs
    mono: Seconds


class Tag(msgspec.Struct, frozen=True, order=True, gc=False):
    """A delivery tag. It is worth something only on its AMQP channel in its session (`epoch`)."""

    epoch: int
    channel: int
    delivery: int


def short_id(msg_id: str) -> str:
    """The form of a msgId that people see: its last 8 digits (the first ones of a UUIDv7 are the clock)."""
    return msg_id[-8:]
