"""Dead letters: what the broker set aside, and what a person does about it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fleettrio.api.schema.base import Done, Line, Methods

__all__ = ("DeadLetter", "DeadLetters", "DropLetters", "ListLetters", "RetryLetter", "ShowLetter", "ShownLetter")


class DeadLetter(msgspec.Struct, kw_only=True):
    msg_id: str
    """Empty for what cannot be read."""
    short: str
    kind: str
    sender: str
    """`name@host`, as far as this host knows."""
    queue: str
    """Where it died."""
    reason: str
    """As the broker says: `expired`, `rejected`, `maxlen`, `delivery_limit`; or why it cannot be trusted."""
    at: int
    """When it was set aside; 0 when that is not told."""
    size: int
    expires_at: int
    trace_id: str
    is_reported: bool
    """False: no reporter has taken it yet."""


class ListLetters(msgspec.Struct, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50
    coordinator: bool = False
    """Those of the coordinator's virtual host, here and below."""


class DeadLetters(msgspec.Struct):
    letters: list[DeadLetter]
    reported: int
    """All that were set aside, listed or not."""
    waiting: int
    """Those that no reporter has taken yet."""


class ShowLetter(msgspec.Struct, forbid_unknown_fields=True):
    id: Line
    coordinator: bool = False


class ShownLetter(msgspec.Struct):
    letter: DeadLetter
    body: bytes
    text: str
    """The cleaned text, for showing."""
    sentence: str


class RetryLetter(msgspec.Struct, forbid_unknown_fields=True):
    id: Line
    coordinator: bool = False


class DropLetters(msgspec.Struct, forbid_unknown_fields=True):
    id: Line = ""
    """Empty: all."""
    coordinator: bool = False


METHODS: Methods = {
    "dlq_list": (ListLetters, DeadLetters),
    "dlq_show": (ShowLetter, ShownLetter),
    "dlq_retry": (RetryLetter, Done),
    "dlq_drop": (DropLetters, Done),
}
