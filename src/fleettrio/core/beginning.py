"""What a gateway begins with: what it is told, and what the store held."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fleettrio.core.compose import Identity
from fleettrio.core.entity import Entity
from fleettrio.core.ledger import Limits
from fleettrio.core.peer import Peer, PeerEntity
from fleettrio.core.rows import Claim, Due, InboxRow, Key, SentRow
from fleettrio.core.spawned import Spawnable, SpawnRow
from fleettrio.ids import TraceId, WallMs
from fleettrio.wire.fleet import Fleet

__all__ = ("Coordinator", "Kept", "Settings")


class Coordinator(msgspec.Struct, frozen=True, kw_only=True):
    """Who this host is among leads (`coordination`)."""

    me: Identity
    """Of the same host, under the coordinator's fleet id."""
    coord_id: str
    lead: str
    """The name of the agent here that is the lead."""
    fleet: Fleet
    """The coordinator's: it pairs coordIds with hosts."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway is told once, at its start."""

    me: Identity
    fleet: Fleet
    version: str
    standalone: bool
    epoch: int
    """The number of this process, above the stored one of the last (`epochs`)."""
    trace_id: TraceId
    """Under which presence and its questions go."""
    born: WallMs
    """When the store was made: an older brief may have been typed already (`ledger-lost`)."""
    highest_wall: WallMs = WallMs(0)
    """The highest wall time that the last processes saw (`wallmark`)."""
    paused: str = ""
    """What was paused when the last process ended (`pauses`)."""
    limits: Limits = Limits()
    body_limit: int = 256 * 1024
    profiles: tuple[Spawnable, ...] = ()
    """What may be started here."""
    person_seen: WallMs = WallMs(0)
    """When the person was last at this host (`beside`)."""
    news: tuple[str, ...] = ()
    """What the person wants to be told of (`news`)."""
    coordinator: Coordinator | None = None
    no_coordinator: str = ""
    """Why there is none, though one is configured."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What the store held when the daemon started."""

    entities: tuple[Entity, ...] = ()
    inbox: tuple[InboxRow, ...] = ()
    landed: tuple[InboxRow, ...] = ()
    """The newest that were put into each entity, or handed to it, oldest first (`depth`)."""
    sent: tuple[SentRow, ...] = ()
    peers: tuple[Peer, ...] = ()
    others: tuple[PeerEntity, ...] = ()
    spawns: tuple[SpawnRow, ...] = ()
    claims: tuple[Claim, ...] = ()
    dues: tuple[Due, ...] = ()
    untold: tuple[SentRow, ...] = ()
    """What failed and its sender was not told of (`failures`)."""
    owed: Mapping[Key, bytes] = msgspec.field(default_factory=dict)
    """Bodies of messages of ours that are to be sent again."""
    seq: int = 0
