"""Ids of the wire: gids that prove their host, message ids, and the syntax of every name (`10-wire`).

Pure: entropy and time come in as arguments.
"""

from __future__ import annotations

import hashlib
import re
import uuid

from fleettrio.ids import FleetId, Gid, HostId, MsgId

__all__ = (
    "GATEWAY_SALT",
    "HUMAN_SALT",
    "RESERVED_NAMES",
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
RESERVED_NAMES = frozenset({"human", "user", "operator", "system", "gateway", "all", "last"})

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_FLEET_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_GID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_MSG_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_TRACE_ID = re.compile(r"[0-9a-f]{32}")


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


def msg_id_wall_ms(msg_id: MsgId) -> int:
    """The moment in a UUID version 7, in ms since the epoch, as its sender's clock said."""
    return int(msg_id[:8] + msg_id[9:13], 16)


def is_name(value: str) -> bool:
    """Whether `value` may name an agent, a group, a profile or a host: the syntax holds and it is not reserved."""
    return _NAME.fullmatch(value) is not None and value not in RESERVED_NAMES


def is_fleet_id(value: str) -> bool:
    return _FLEET_ID.fullmatch(value) is not None


def is_gid(value: str) -> bool:
    return _GID.fullmatch(value) is not None


def is_msg_id(value: str) -> bool:
    return _MSG_ID.fullmatch(value) is not None


def is_trace_id(value: str) -> bool:
    return _TRACE_ID.fullmatch(value) is not None


def _uuid(raw: bytes, *, version: int) -> str:
    bits = int.from_bytes(raw, "big") & ~(0xF << 76) & ~(0x3 << 62)
    return str(uuid.UUID(int=bits | version << 76 | 0x2 << 62))
