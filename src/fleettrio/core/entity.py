"""An entity: what can be written to on this host, and what is known of the agent behind it."""

from __future__ import annotations

import msgspec

from fleettrio.ids import Gid, WallMs

__all__ = ("Entity",)


class Entity(msgspec.Struct, frozen=True, kw_only=True):
    """A message-addressable entity of this host."""

    gid: Gid
    name: str
    salt: bytes
    role: str = ""
    takes: str = "pull"
    groups: tuple[str, ...] = ()
    harness: str = ""
    status: str = "idle"
    """`starting idle working blocked away stopping gone` (`docs/states.md`)."""
    shown: bool = False
    """It showed `status` itself, on its screen or by its harness; else that is only concluded from what was done."""
    since: WallMs = WallMs(0)
    transport: str = "pull"
    target: str = ""
    """What the transport needs to find the agent: a tmux pane, a command."""
    tty: str = ""
    pid: int = 0
    cwd: str = ""
    repo: str = ""
    head: str = ""
    wakes: bool = False
    full: bool = False
    token_hash: bytes = b""
    rev: int = 0
    left: tuple[str, ...] = ()
    """Broadcast keys of groups it left, whose bindings the broker may still have."""
    session: str = ""
    """What its harness calls its session, as last heard; empty when it is not known."""
    api: str = ""
    """URL of the server that its harness runs for this session (opencode)."""
    program: int = 0
    """The harness's own process, where that is not the first one of its pane (`pid`); 0 where it is."""
    started: int = 0
    """Start time of `program`, by which it is told from another one that has its pid (`panes.scope`)."""

    reply: str = ""
    """What becomes of an answer that it does not give: `auto` (its last words), `nag` (it is reminded once, then that
    is said), `manual` (that is said). Empty: as its profile says, else `auto`."""

    @property
    def is_let_go(self) -> bool:
        """It lived in a pane, was detached or its program ended, and only an attach brings it back."""
        return self.status == "away" and not self.wakes and self.takes == "push" and self.pid > 0

    @property
    def process(self) -> int:
        """The process whose children speak for it; 0 when none is known."""
        return self.program or self.pid
