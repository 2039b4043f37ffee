"""Agents of this host: made known, let go, shown."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fleettrio.api.schema.base import Done, Line, Methods, Path, Pid

__all__ = (
    "AgentView",
    "Attach",
    "Attached",
    "Detach",
    "Token",
)


class Attach(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: Line = ""
    role: Line = ""
    """A label of at most 64 printable characters."""
    takes: Line = ""
    """`push`, `pull`, or empty: push with a pane, a command or a transport, else pull."""
    groups: Annotated[list[Line], Meta(max_length=32)] | None = None
    """None: those it was in. `all` is for a client that fetches and wants what goes to everybody, too."""
    pane: Line = ""
    """A tmux pane id (`%3`); with a socket name: `socket:%3`."""
    command: Annotated[list[Path], Meta(max_length=64)] = []
    """A headless command that takes each message on its standard input."""
    stream: bool = False
    """The command stays, and is fed a line of JSON for each message."""
    transport: Line = ""
    """A transport by its name (`http`, `codex-queue`, one of another package); with `target`."""
    target: Path = ""
    harness: Line = ""
    cwd: Path = ""
    pid: Pid = 0
    """The agent's own process, living, of this user."""
    reply: Annotated[str, Meta(pattern="^(auto|nag|manual)?$")] = ""
    """What becomes of an answer that it does not give; empty: as it was, at first `auto`."""
    program: Pid = 0
    """With a pane: the harness that was started at its shell's prompt. Once it has ended, the agent is away."""
    session: Line = ""
    """What its harness calls its session."""
    take: bool = False
    """Take the name although a live session holds it (a person's choice)."""


class Attached(msgspec.Struct):
    gid: str
    name: str
    host: str
    token: str
    """Given once, for the agent's environment (`FLEETTRIO_TOKEN`)."""
    is_new: bool
    found: str = ""
    """What was seen in its pane, and whether it would take a message now; empty for one without a pane."""


class Detach(msgspec.Struct, forbid_unknown_fields=True):
    name: Line
    forget: bool = False


class Token(msgspec.Struct, forbid_unknown_fields=True):
    name: Line


class AgentView(msgspec.Struct, kw_only=True):
    gid: str
    name: str
    host: str
    address: str
    role: str
    takes: str
    groups: list[str]
    status: str
    since: int
    harness: str
    path: str
    """The ways into it, best first: `hook, tmux`, `http, tmux`."""
    wakes: bool
    waiting: int
    """Messages that wait for it here (0 for agents of other hosts)."""
    full: bool = False
    paused: str = ""
    """Who paused what lands in it; empty when nobody did."""
    inbox: str = ""
    """State of its broker queue: `open`, `opening`, `waiting-for-lock`, `owned-elsewhere`, `local`."""
    profile: str = ""
    """The profile that it was started by here; empty for one that was attached."""
    attach: str = ""
    """The command by which a person at this host looks at it, for one that was started in a pane."""
    session: str = ""
    """What its harness calls its session; `session:<id>` is an address on its own host."""
    pid: int = 0
    """Its own process, where that is known."""


METHODS: Methods = {
    "attach": (Attach, Attached),
    "detach": (Detach, Done),
    "token": (Token, Attached),
}
