"""What a hook told, in words that all harnesses share, and what a dialect is.

A field that a newer harness adds is passed over; one that is missing or of another type is as if it were not there.
What goes out is built from types that hold nothing but what that harness takes at that event.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

__all__ = ("Dialect", "Fields", "Told", "Unreadable", "What")


class What(enum.StrEnum):
    """What happened."""

    SESSION_BEGAN = "session-began"
    PROMPT = "prompt"
    AT_WORK = "at-work"
    """In the middle of a turn: a tool was, or will be, used."""
    ASKS = "asks"
    """It waits for a person: a permission prompt, a dialog."""
    TURN_OVER = "turn-over"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    """The turn ended in an error of the harness or its model."""
    AT_REST = "at-rest"
    SESSION_OVER = "session-over"
    OTHER = "other"


class Unreadable(Exception):
    """What the hook was given is no object in JSON."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    what: What
    event: str
    """The harness's own name for it."""
    session: str = ""
    turn: str = ""
    """Id of the prompt or turn; empty when the harness gives none."""
    prompt: str = ""
    words: str | None = None
    """The last thing the agent said in its turn."""
    transcript: str = ""
    api: str = ""
    """URL of the harness's own server."""
    is_clear: bool = False
    """A session that ends only to begin anew in the same program."""
    is_within: bool = False
    """Of a helper that the agent started in its own session: its events are not the agent's."""


class Fields:
    """An object of JSON, read leniently."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    @classmethod
    def parse(cls, data: bytes) -> Fields:
        """Raises `Unreadable`."""
        try:
            values = json.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError) as problem:
            raise Unreadable(str(problem)) from None
        if not isinstance(values, dict):
            raise Unreadable(f"an object was expected, not {type(values).__name__}")
        return cls(values)

    def text(self, name: str) -> str:
        return self.text_or_none(name) or ""

    def text_or_none(self, name: str) -> str | None:
        """Lone surrogates become question marks: no text of ours has any."""
        value = self._values.get(name)
        return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


class Dialect(Protocol):
    """How one harness speaks with its hooks."""

    name: str
    queues: bool
    """Its prompt hook runs when a prompt is queued, too: a person may take that back."""
    begins_idle: bool
    """A session begins before its first prompt; False: with it."""

    def read(self, data: bytes) -> Told:
        """What the hook was given. Raises `Unreadable`."""

    def takes_context(self, told: Told) -> bool:
        """Whether something can be put in at this event."""

    def context(self, told: Told, text: str) -> bytes:
        """What the hook prints so that the agent gets `text`; at a turn's end it goes on with it."""
