"""Ids of the wire: gids that prove their host, message ids, and the syntax of every name.

Pure: entropy and time come in as arguments.
"""

from __future__ import annotations

import functools
import hashlib
import re

from fleettrio._accel import RESERVED_NAMES, is_gid, is_msg_id, is_name, is_trace_id
from fleettrio.ids import FleetId, Gid, HostId, MsgId

__all__ = (
    "GATEWAY_SALT",
    "HUMAN_SALT",
    "NAME_RULE",
    "RESERVED_NAMES",
    "MsgIds",
    "derive_gid",
    "is_fleet_id",
    "is_gid",
    "is_msg_id",
    "is_name",
    "is_trace_id",
    "msg_id_wall_ms",
    "new_msg_id",
    "solo_fleet_id",
)

GATEWAY_SALT = bytes(16)
HUMAN_SALT = b"\x01" * 16
NAME_RULE = "lower-case letters, digits and hyphens, at most 32, not one of: " + " ".join(sorted(RESERVED_NAMES))
"""What `is_name` wants, in words."""
_FLEET_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@functools.lru_cache(maxsize=4096)
def derive_gid(fleet_id: FleetId | str, host: HostId | str, salt: bytes) -> Gid:
    """The gid that `salt` (16 bytes) gives on `host`: only an envelope signed by that host can carry it."""
    if len(salt) != 16:
        raise ValueError(f"a salt has 16 bytes, not {len(salt)}")
    named = b"\0".join((b"fleettrio/1 gid", fleet_id.encode(), host.encode(), salt))
    return Gid(_uuid(hashlib.blake2b(named, digest_size=32).digest()[:16], version=8))


def solo_fleet_id(entropy: bytes) -> FleetId:
    """Name of the fleet that a host is by itself until it joins one; `entropy` has at least 8 bytes."""
    if len(entropy) < 8:
        raise ValueError("8 bytes of entropy are needed")
    return FleetId("solo-" + entropy[:8].hex())


def new_msg_id(wall_ms: int, entropy: bytes) -> MsgId:
    """A UUID version 7 of this moment (ms since the epoch); `entropy` has at least 10 bytes."""
    if len(entropy) < 10:
        raise ValueError("10 bytes of entropy are needed")
    return MsgId(_uuid(wall_ms.to_bytes(6, "big") + entropy[:10], version=7))


class MsgIds:
    """New ids whose order is that in which they were made, within a millisecond too (RFC 9562, 6.2, method 1)."""

    def __init__(self) -> None:
        self._wall_ms = self._count = 0

    def new(self, wall_ms: int, entropy: bytes) -> MsgId:
        """As `new_msg_id`. Of more than 4096 in a millisecond the order of the last ones is left to chance."""
        self._count = min(self._count + 1, _MOST_OF_A_MS) if wall_ms == self._wall_ms else 0
        self._wall_ms = wall_ms
        return MsgId(_dashed(wall_ms << 80 | self._count << 64 | int.from_bytes(entropy[2:10], "big"), version=7))


_MOST_OF_A_MS = 0xFFF
"""What fits between version and variant."""


def msg_id_wall_ms(msg_id: MsgId) -> int:
    """The moment in a UUID version 7, in ms since the epoch, as its sender's clock said."""
    return int(msg_id[:8] + msg_id[9:13], 16)


def is_fleet_id(value: str) -> bool:
    return _FLEET_ID.fullmatch(value) is not None


def _uuid(raw: bytes, *, version: int) -> str:
    return _dashed(int.from_bytes(raw, "big"), version=version)


def _dashed(bits: int, *, version: int) -> str:
    digits = f"{bits & _FREE | version << 76 | 0x2 << 62:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


_FREE = (1 << 128) - 1 & ~(0xF << 76) & ~(0x3 << 62)
"""The bits of a UUID that are neither version nor variant."""
