"""What the last hop is to the rest of fleettrio: a small port that every transport implements.

A transport only knows how to look at one agent and how to put text into it. When it may, what the text is and what is
recorded are decided elsewhere. The order is: `reserve` (all checks) → the row is committed as `injecting` →
`deliver` (the first byte) → the outcome is recorded.
"""

from __future__ import annotations

import enum
from typing import Protocol, runtime_checkable

import msgspec

__all__ = ("AgentState", "Delivery", "DeliveryOutcome", "Keeper", "NotReady", "Reserved", "Text", "Transport", "Turn")


class AgentState(enum.StrEnum):
    """What an agent can be seen to be doing."""

    IDLE = "idle"
    WORKING = "working"
    BLOCKED = "blocked"
    """At a dialog or a permission prompt: a paste vanishes there and Enter approves."""
    GONE = "gone"
    """The pane or process is dead, or another program sits there now."""
    UNKNOWN = "unknown"


class Text(msgspec.Struct, frozen=True):
    """A framed message, ready to be put into an agent."""

    framed: str
    """Sanitised and framed, lines separated by LF (`local.frame`)."""
    notice: str
    """One fixed line that names the inbox, for programs that cannot take a paste."""
    short_id: str
    nonce: str


class Reserved(msgspec.Struct, frozen=True):
    """All checks passed. `generation` names the very agent that was looked at."""

    generation: str
    state: AgentState


class NotReady(msgspec.Struct, frozen=True):
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


class Delivery(msgspec.Struct, frozen=True):
    outcome: DeliveryOutcome
    detail: str = ""
    saw_work: bool = False
    """It was seen at work: once it is idle again, that turn is over."""
    via: str = ""
    """The way it went, when that is not the transport's own name."""

    @classmethod
    def nothing(cls, why: str) -> Delivery:
        """Not one byte went in."""
        return cls(DeliveryOutcome.NOTHING_WRITTEN, why)

    @classmethod
    def unconfirmed(cls, why: str) -> Delivery:
        """Bytes went in, or may have, and nobody saw what came of it."""
        return cls(DeliveryOutcome.UNCONFIRMED, why)


class Transport(Protocol):
    """One way into one agent."""

    @property
    def name(self) -> str:
        """The way it takes, as people read it: `tmux`."""

    @property
    def wakes(self) -> bool:
        """True when an idle agent takes a turn by this transport alone."""

    async def state(self) -> AgentState:
        """Look, change nothing. Cancellation leaves the agent as it was."""

    async def reserve(self, when: str) -> Reserved | NotReady:
        """All checks for a delivery with `when` (`idle turn now`). Writes nothing."""

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        """Put `text` in as one turn. Cancelled after the first byte, the caller calls the outcome unconfirmed."""

    async def close(self) -> None:
        """Let go of the agent; it lives on."""


class Turn(msgspec.Struct, frozen=True):
    """A turn that is over: its last words, if they are known, and how it ended (`done`, `error`)."""

    words: bytes | None
    how: str


@runtime_checkable
class Keeper(Transport, Protocol):
    """A transport that keeps its agent running itself: it hears when a turn is over, and ends what it started."""

    def glance(self) -> Reserved | None:
        """As `reserve`, without waiting for anything; None: not ready, or not to be known so fast."""

    def turns_over(self) -> list[Turn]:
        """The turns that `state` and `deliver` saw end since the last call, each once."""

    async def end(self) -> None:
        """End the program: nobody speaks to it any more. Bounded; cancelled, it may still run."""
