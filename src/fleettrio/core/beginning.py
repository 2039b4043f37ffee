"""What a gateway begins with: what it is told, and what the store held."""

from __future__ import annotations

import dataclasses

from fleettrio.core.actions import Action, Note, RecordSetting
from fleettrio.core.compose import Identity
from fleettrio.core.ledger import Limits
from fleettrio.core.rows import Entity, InboxRow, Peer, PeerEntity, SentRow
from fleettrio.ids import Now, TraceId, WallMs
from fleettrio.wire.fleetfile import Fleet

__all__ = ("Kept", "Settings", "begin_epoch")

MOST_AHEAD_MS = 24 * 60 * 60 * 1000
"""An epoch further ahead of the wall clock than this was taken from a clock that was wrong."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a gateway is told once, at its start."""

    me: Identity
    fleet: Fleet
    version: str
    standalone: bool
    epoch: int
    """The number of this process, above the stored one of the last; `begin_epoch` judges it."""
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


def begin_epoch(settings: Settings, now: Now) -> tuple[int, list[Action]]:
    """The epoch that this process goes by, recorded: the given one, unless a wrong clock left it behind.

    Nobody takes what is said under an epoch far ahead, so one that is begins anew at the wall clock, with a note.
    """
    if settings.epoch <= now.wall + MOST_AHEAD_MS:
        return settings.epoch, [RecordSetting("epoch", str(settings.epoch))]
    text = f"{settings.epoch} is from a clock that was ahead; this host begins anew at {now.wall}"
    note = Note("epoch", None, None, settings.trace_id, settings.me.host, "clock", text, alarm=True)
    return now.wall, [RecordSetting("epoch", str(now.wall)), note]
