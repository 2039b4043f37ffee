"""Agents that are started and ended by request, on this host or another one."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fleettrio.api.schema.base import Line, Methods, Path
from fleettrio.api.schema.messages import MessageView

__all__ = ("Ordered", "Orphan", "Prune", "Pruned", "Spawn", "Stop")


class Spawn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    profile: Line
    host: Line = ""
    """Empty: this host."""
    name: Line = ""
    """Empty: made from the profile's, there."""
    cwd: Path = ""
    """An absolute path on that host, under a root of the profile; empty: the profile's own folder."""
    worktree: bool = False
    """Give it a git worktree of the repository at that folder, with a branch of its own."""
    groups: Annotated[list[Line], Meta(max_length=32)] = []
    brief: bytes | None = None
    """Its first message, sent to it once it is ready."""


class Stop(msgspec.Struct, forbid_unknown_fields=True):
    target: Line
    """`name`, `name@host`, a gid, or the id of the SPAWN that asked for it."""
    reason: Line = ""


class Ordered(msgspec.Struct):
    """What was asked, as the asking side knows it; it ends `ready`, `done` or `failed` (`wait` until `delivered`)."""

    message: MessageView
    gid: str
    """Of the agent that is started, or ended."""
    host: str
    brief: str = ""
    """Id of the brief; it goes out when the agent is ready, and fails when it cannot be."""


class Prune(msgspec.Struct, forbid_unknown_fields=True):
    take: bool = False
    """False: only look."""


class Orphan(msgspec.Struct):
    """Something of an agent that is gone."""

    kind: str
    """`pane`, `worktree` or `inbox`."""
    what: str
    detail: str
    gone: bool = False
    """It was taken away now; else `detail` says why not."""


class Pruned(msgspec.Struct):
    orphans: list[Orphan]


METHODS: Methods = {
    "prune": (Prune, Pruned),
    "spawn": (Spawn, Ordered),
    "stop": (Stop, Ordered),
}
