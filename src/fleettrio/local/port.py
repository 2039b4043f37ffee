"""What the last hop is to the rest of fleettrio: a small port that every transport implements.

A transport only knows how to look at one agent and how to put text into it. When it may, what the text is and what is
recorded are decided elsewhere. The order is: `reserve` (all checks) → the row is committed as `injecting` →
`deliver` (the first byte) → the outcome is recorded.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Protocol

__all__ = ("AgentState", "Delivery", "DeliveryOutcome", "NotReady", "Reserved", "Text", "Transport")


class AgentState(enum.StrEnum):
    """What an agent can be seen to be doing."""

    IDLE = "idle"
    WORKING = "working"
    BLOCKED = "blocked"
    """At a dialog or a permission prompt: a paste vanishes there and Enter approves."""
    GONE = "gone"
    """The pane or process is dead, or another program sits there now."""
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """A framed message, ready to be put into an agent."""

    framed: str
    """Sanitised and framed, lines separated by LF (`local.frame`)."""
    notice: str
    """One fixed line that names the inbox, for programs that cannot take a paste."""
    short_id: str
    nonce: str


@dataclasses.dataclass(frozen=True, slots=True)
class Reserved:
    """All checks passed. `generation` names the very agent that was looked at."""

    generation: str
    state: AgentState


@dataclasses.dataclass(frozen=True, slots=True)
class NotReady:
    """Not now. `why` is shown to the sender: "a draft is in its composer", "pane is in copy mode"."""

    state: AgentState
    why: str
    gone: bool = False


class DeliveryOutcome(enum.StrEnum):
    SUBMITTED = "submitted"
    """Bytes went in and a turn was seen to begin."""
    UNCONFIRMED = "unconfirmed"
    """Bytes went in, or may have; no turn was seen to begin. Never repeated."""
    NOTHING_WRITTEN = "nothing-written"
    """Proof that not one byte went in: it may be tried again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Delivery:
    outcome: DeliveryOutcome
    detail: str = ""


class Transport(Protocol):
    """One way into one agent."""

    name: str
    wakes: bool
    """True when an idle agent takes a turn by this transport alone."""

    async def state(self) -> AgentState:
        """Look, change nothing. Cancellation leaves the agent as it was."""

    async def reserve(self, when: str) -> Reserved | NotReady:
        """All checks for a delivery with `when` (`idle turn now`). Writes nothing."""

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        """Put `text` in as one turn. Cancelled after the first byte, the caller calls the outcome unconfirmed."""

    async def close(self) -> None:
        """Let go of the agent; it lives on."""
