"""Another host, and the entities there, as that host says."""

from __future__ import annotations

import msgspec

from fleettrio.ids import Gid, HostId, WallMs

__all__ = ("Peer", "PeerEntity")


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """What this host knows of another one, from its signed presence."""

    host: HostId
    epoch: int = 0
    seq: int = 0
    roster_rev: int = -1
    trust_rev: int = 0
    version: str = ""
    kinds: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    heard_at: WallMs = WallMs(0)
    """Our wall clock when its last beat came."""
    offset_ms: int = 0
    """Its wall clock minus ours at that beat."""
    refuses_us: str = ""
    """Reason of its last refusal of our messages, empty when it takes them."""
    we_refuse: str = ""
    """Reason of our last refusal of its messages."""
    has_left: bool = False
    """Its last beat said that its daemon ends."""


class PeerEntity(msgspec.Struct, frozen=True, kw_only=True):
    """An entity of another host, as that host announced it."""

    gid: Gid
    host: HostId
    name: str
    role: str = ""
    takes: str = "pull"
    groups: tuple[str, ...] = ()
    status: str = "idle"
    since: WallMs = WallMs(0)
    harness: str = ""
    wakes: bool = False
    full: bool = False
    repo: str = ""
    head: str = ""
    rev: int = 0
