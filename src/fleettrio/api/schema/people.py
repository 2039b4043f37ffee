"""The person beside the agents: what happened meanwhile, what waits, how the person is told."""

from __future__ import annotations

import msgspec

from fleettrio.api.schema.base import Empty, Methods
from fleettrio.api.schema.messages import MessageView

__all__ = ("Beside", "Notified", "Notify", "Way")


class Beside(msgspec.Struct, kw_only=True):
    """What the caller finds on coming back."""

    away_since: int = 0
    """When the person was last at a terminal here, if that was more than 15 minutes ago and this call is from one."""
    meanwhile: list[str] = []
    """What happened since then, a line each."""
    mail: list[MessageView] = []
    """What waits for the caller: questions first, then the newest."""
    waiting: int = 0
    """So many wait, listed or not."""


class Notify(msgspec.Struct, forbid_unknown_fields=True):
    test: bool = False
    """Tell something now."""


class Way(msgspec.Struct):
    """`command`, `bell` or `url`."""

    name: str
    problem: str
    """What went wrong the last time; empty when nothing did."""


class Notified(msgspec.Struct):
    on: list[str]
    """What is told of; nothing without a way."""
    ways: list[Way]


METHODS: Methods = {
    "beside": (Empty, Beside),
    "notify": (Notify, Notified),
}
