"""What a gateway begins with: what it is told, and what the store held."""

from __future__ import annotations

import dataclasses

from fleettrio.core.compose import Identity
from fleettrio.core.ledger import Limits
from fleettrio.core.rows import Entity, InboxRow, Peer, PeerEntity, SentRow
from fleettrio.ids import TraceId, WallMs
from fleettrio.wire.fleetfile import Fleet

__all__ = ("Kept", "Settings")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a gateway is told once, at its start."""

    me: Identity
    fleet: Fleet
    version: str
    standalone: bool
    epoch: int
    trace_id: TraceId
    """Under which presence and its questions go."""
    born: WallMs
    """When the store was made: an older brief may have been typed already (`ledger-lost`)."""
    highest_wall: WallMs = WallMs(0)
    """The highest wall time that the last processes saw (`wallmark`)."""
    limits: Limits = Limits()
    body_limit: int = 256 * 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the store held when the daemon started."""

    entities: tuple[Entity, ...] = ()
    inbox: tuple[InboxRow, ...] = ()
    sent: tuple[SentRow, ...] = ()
    peers: tuple[Peer, ...] = ()
    others: tuple[PeerEntity, ...] = ()
    seq: int = 0
