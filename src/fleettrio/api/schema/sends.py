"""Messages that are to be: sending, to one or many, answering, and what came of it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fleettrio.api.schema.base import Line, Methods, Path
from fleettrio.api.schema.messages import MessageView

__all__ = (
    "METHODS",
    "Broadcast",
    "Coord",
    "NotSent",
    "Reply",
    "Retry",
    "Send",
    "SendMany",
    "SendResult",
    "Sent",
    "SentMany",
    "SentWord",
)


class Send(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    to: Annotated[list[Line], Meta(max_length=100)]
    body: bytes
    when: Annotated[str, Meta(pattern="^(idle|turn|now)$")] = "idle"
    intent: Annotated[str, Meta(pattern="^(directive|handoff|warning)$")] = "directive"
    priority: Annotated[int, Meta(ge=0, le=9)] | None = None
    expires_s: float | None = None
    wants_reply: bool | None = None
    live: bool = False
    supersedes: Line = ""
    cwd: Path = ""
    """Where the sender stands: what it sees of the repository there goes with the message. Empty: nothing does."""
    paths: Annotated[list[Path], Meta(max_length=1000)] = []
    """The files that the message is about; none: those that the body names."""
    on_stale: Annotated[str, Meta(pattern="^(note|drop)$")] = "note"
    claim: Path = ""
    """Only the recipient who gets this key is given the message; with `role:x` it goes to all who have that role."""
    key: Line = ""
    after_s: float = 0.0
    """Not before so long from now; it is made then."""
    remind_s: float = 0.0
    """So long after it was sent the sender is told when nobody has answered; 0: never."""


class Broadcast(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    group: Line = "all"
    """A group's name; `all` is everybody."""
    body: bytes
    when: Annotated[str, Meta(pattern="^(idle|turn|now)$")] = "idle"
    intent: Annotated[str, Meta(pattern="^(directive|handoff|warning)$")] = "directive"
    priority: Annotated[int, Meta(ge=0, le=9)] | None = None
    expires_s: float | None = None
    """At most a day."""
    wants_reply: bool = False
    key: Line = ""


class Coord(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Coordination for another lead, by way of the coordinator."""

    coord_id: Line
    body: bytes
    expires_s: float | None = None
    key: Line = ""


class Reply(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    re: Line
    """The message answered: a full id, a unique ending of at least 4, or `@last` (the newest to reply to)."""
    body: bytes
    key: Line = ""


class Retry(msgspec.Struct, forbid_unknown_fields=True):
    id: Line
    body: bytes


class SendResult(msgspec.Struct):
    trace_id: str
    messages: list[MessageView]


class SendMany(msgspec.Struct, forbid_unknown_fields=True):
    """Several messages at once, each as `Send`; one that cannot be sent keeps none of the others."""

    messages: Annotated[list[Send], Meta(min_length=1, max_length=256)]


class SentWord(msgspec.Struct, omit_defaults=True):
    """A message to one recipient in the fewest words; the fields mean what they mean in `MessageView`."""

    msg_id: str
    gid: str
    """Of the recipient; empty while nobody has the name that is to get it later."""
    state: str
    reason: str = ""
    detail: str = ""
    exit_code: int = 0


class NotSent(msgspec.Struct):
    """Why a message was not sent: nothing of it was kept."""

    reason: str
    message: str
    hint: str
    exit_code: int


class Sent(msgspec.Struct, omit_defaults=True):
    """What came of one of several: a message for each of its recipients, or why there is none."""

    messages: list[SentWord] = []
    error: NotSent | None = None


class SentMany(msgspec.Struct):
    results: list[Sent]
    """One for each that was asked for, in that order."""


METHODS: Methods = {
    "send": (Send, SendResult),
    "send_many": (SendMany, SentMany),
    "broadcast": (Broadcast, SendResult),
    "coord": (Coord, SendResult),
    "reply": (Reply, SendResult),
    "retry": (Retry, SendResult),
}
