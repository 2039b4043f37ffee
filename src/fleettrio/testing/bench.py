"""What the contract of transports asks of whoever brings one: stand-in agents, and ways to bring them into trouble.

What types into a terminal brings all of `TERMINAL`: an agent in a terminal can always be at a dialog.
"""

from __future__ import annotations

import enum
from typing import Protocol

from fleettrio.local.port import Transport

__all__ = ("TERMINAL", "Agent", "Bench", "Situation")


class Situation(enum.StrEnum):
    """What an agent is in when a message comes."""

    IDLE = "idle"
    WORKING = "working"
    DRAFT = "draft"
    """Something is half typed in its composer."""
    DIALOG = "dialog"
    """A dialog with a default: a paste vanishes there and Enter approves."""
    HIDDEN = "hidden"
    """What is typed does not reach it (copy mode)."""
    DEAF = "deaf"
    """It takes text, and no turn begins."""
    LINES = "lines"
    """A program that reads lines and never asked for bracketed paste."""
    DEAD = "dead"
    REPLACED = "replaced"
    """Another program is where it was."""


class Agent(Protocol):
    """A stand-in agent that runs."""

    def open(self) -> Transport:
        """Another transport into it."""

    def turns(self) -> list[str]:
        """The exact texts of the turns that it, or who came in its place, took."""

    def trace(self) -> object:
        """All that a delivery could change: turns, draft, answers to dialogs. Two looks at a quiet agent are equal."""

    async def become(self, situation: Situation) -> None:
        """Bring it, idle, into `situation`; returns once it is."""


class Bench(Protocol):
    """Starts agents, and knows what they can be brought into."""

    starts: frozenset[Situation]
    """What an agent can be in from its start. `IDLE` is one of them."""
    becomes: frozenset[Situation]
    """What it can become afterwards."""

    async def start(self, situation: Situation) -> Agent:
        """A new agent, in `situation` already."""


TERMINAL = frozenset(Situation)
