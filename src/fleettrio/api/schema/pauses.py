"""The red button: what is held, and let go."""

from __future__ import annotations

import msgspec

from fleettrio.api.schema.base import Line, Methods

__all__ = ("Pause", "Paused", "PausedAt")


class Pause(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    target: Line = ""
    """An agent (`name`, `name@host`), a host, a trace, or a message (its trace)."""
    all: bool = False
    """Everything, on every host of the fleet, instead of a target."""


class PausedAt(msgspec.Struct):
    """What one host made of it."""

    host: str
    state: str
    """`done`, `failed`, `waiting` for its word, or `refused`: asked with all hosts, and never granted it."""
    sentence: str


class Paused(msgspec.Struct):
    target: str
    """In words."""
    hosts: list[PausedAt]


METHODS: Methods = {
    "pause": (Pause, Paused),
    "resume": (Pause, Paused),
}
