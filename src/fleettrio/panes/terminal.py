"""What a terminal multiplexer says of one terminal, whichever it is, and what can go wrong in asking it."""

from __future__ import annotations

from typing import Literal

import msgspec

from fleettrio.errors import FleetTrioError

__all__ = ("EnterForm", "PaneFacts", "Screen", "TerminalError")

EnterForm = Literal["Enter", "C-m"]
"""By the key's name, or as the control key that is the same: some programs know only one of them."""


class TerminalError(FleetTrioError):
    """A multiplexer could not be asked. `may_have_run` is False when it is certain that nothing was done."""

    def __init__(self, message: str, *, may_have_run: bool = False, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.may_have_run = may_have_run


class PaneFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one terminal. What a multiplexer cannot tell is left as it is."""

    pane: str
    pid: int
    """The process that was started in it."""
    tty: str
    width: int
    height: int
    cursor_x: int
    cursor_y: int
    dead: bool = False
    in_mode: bool = False
    """Copy mode or another one in which keys go to the multiplexer."""
    alternate: bool = False
    takes_brackets: bool | None = None
    """Whether the program asked for paste brackets; None where nobody tells (tmux 3.3)."""
    command: str = ""
    title: str = ""


class Screen(msgspec.Struct, frozen=True):
    """A terminal and its visible lines at one moment; blanks at the ends of lines are off."""

    facts: PaneFacts
    lines: tuple[str, ...]
