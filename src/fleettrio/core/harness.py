"""What the harness of an agent asks and tells: its hooks, a call that it leaves waiting to be woken, its own polls.

Part of `core.events`, which has the rest of what can happen.
"""

from __future__ import annotations

from typing import ClassVar

from fleettrio.core.requests import Request
from fleettrio.core.rules import Event
from fleettrio.ids import Gid, MsgId

__all__ = ("HandoutAsked", "HandoutSeen", "NagAsked", "PromptTyped")


class HandoutAsked(Request, frozen=True, kw_only=True):
    """A call of an agent takes what may land in it now: at most `most` messages in about `room` characters.

    `via` is `hook`, `rewake` or `poll`; `whens` are those that may land at this moment of its turn. `wait` leaves the
    call open until something is there. The result is `calls.Offered`.
    """

    needs_store: ClassVar[bool] = False
    session: str
    gid: Gid
    whens: frozenset[str]
    room: int
    most: int
    via: str
    wait: bool = False


class HandoutSeen(Event, frozen=True):
    """An agent has these messages: its harness showed that they went in."""

    gid: Gid
    ids: tuple[MsgId, ...]


class PromptTyped(Event, frozen=True):
    """A person typed a prompt into the harness of this agent: a turn begins with it, or goes on."""

    gid: Gid


class NagAsked(Request, frozen=True):
    """A turn is about to end: which messages it took shall its agent be reminded of? Result: `calls.Unanswered`."""

    needs_store: ClassVar[bool] = False
    gid: Gid
