"""Agents that this host starts: what may be started, and the row of each that was."""

from __future__ import annotations

import enum

import msgspec

from fleettrio.ids import Gid, HostId, TraceId, WallMs

__all__ = ("SpawnRow", "SpawnState", "Spawnable")


class SpawnState(enum.StrEnum):
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    ENDED = "ended"
    """It is gone, or never got ready. Its id is never used again."""

    @property
    def is_in_use(self) -> bool:
        return self is not SpawnState.ENDED


class SpawnRow(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that this host started, or tried to. Its name, place and state are those of its entity."""

    spawn_id: Gid
    """Also the agent's gid."""
    host: HostId
    """The host that asked for it."""
    profile: str
    state: SpawnState
    trace_id: TraceId
    depth: int = 0
    cwd: str = ""
    """The folder that was asked for; empty for the profile's own."""
    worktree: bool = False
    """A git worktree was asked for; `tree` is its folder once it is there."""
    tree: str = ""
    started: int = 0
    """Start time of its process, which tells it from another one with its pid (`panes.scope`)."""
    reason: str = ""
    detail: str = ""
    at: WallMs = WallMs(0)


class Spawnable(msgspec.Struct, frozen=True, kw_only=True):
    """What the core has to know of a profile; the rest of it is the launcher's."""

    name: str
    most: int
    transport: str
    role: str = ""
    harness: str = ""
    groups: tuple[str, ...] = ()
    reply: str = "auto"
    """What becomes of an answer that its agent did not give: `auto` (its last words), `nag`, `manual`."""
