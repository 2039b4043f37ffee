"""Messages that there are: waiting for them, pulling, looking, calling back."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fleettrio.api.schema.base import Done, Line, Methods, Seconds

__all__ = (
    "Body",
    "BodyOf",
    "Cancel",
    "Confirm",
    "Framed",
    "Inbox",
    "InboxMessage",
    "InboxRows",
    "JournalLine",
    "MessageView",
    "Pull",
    "Pulled",
    "Show",
    "Shown",
    "Trace",
    "Traced",
    "Wait",
    "Waited",
)


class MessageView(msgspec.Struct, kw_only=True):
    """One message to one recipient, as one side knows it."""

    msg_id: str
    short: str
    kind: str
    direction: str
    """`out` (we sent it) or `in` (it came to an entity here)."""
    sender: str
    """`name@host`."""
    recipient: str
    gid: str
    state: str
    """In the words of `docs/states.md`; `waiting` for a confirmed one without a word of its recipient yet."""
    reason: str
    detail: str
    sentence: str
    """Where it is, why, and what to do."""
    trace_id: str
    ts: int
    expires_at: int
    at: int
    via: str
    size: int
    re: str | None
    answered_by: str | None
    exit_code: int
    """What the CLI exits with for this state."""
    stale: str = ""
    """What had moved in the recipient's work tree when it landed."""
    to: str = ""
    """The key of a broadcast, else empty."""
    is_head: bool = False
    """The broadcast itself; its members follow as messages of their own, with the same id."""
    late: bool = False
    """A member that was not known when the broadcast went out."""
    host: str = ""
    """Who tells it: this host, or another one in a trace."""
    sender_gid: str = ""
    preview: str = ""
    """First line of the body, cleaned and cut; only for messages whose body is on this host."""


class Wait(msgspec.Struct, forbid_unknown_fields=True):
    """Wait up to `limit_s` (at most 50) for the answer to, or the receipt for, these messages of the caller."""

    ids: Annotated[list[Line], Meta(max_length=1000)]
    until: Line = "answer"
    limit_s: Seconds = 50.0
    framed: bool = False
    """What comes is shown as it is: an agent is to read it in a frame."""


class InboxMessage(msgspec.Struct, kw_only=True):
    """A message handed to a client."""

    msg_id: str
    short: str
    kind: str
    sender: str
    gid: str
    trace_id: str
    ts: int
    re: str | None
    intent: str
    auto: bool
    repeat: bool
    wants_reply: bool
    stale: str = ""
    """What had moved in the work tree since it was written."""
    body: bytes
    text: str = ""
    """The cleaned text, put there by the client that shows it: many take the bytes."""
    framed: str = ""
    """All of it, cleaned and in a frame, where an agent asked for that."""
    sender_gid: str = ""
    expires_at: int = 0


class Waited(msgspec.Struct):
    done: bool
    """False: nothing yet, call again."""
    messages: list[MessageView]
    answers: list[InboxMessage]
    cursor: int
    questions: list[InboxMessage] = []
    """Asked of the caller meanwhile: to be shown, confirmed with `cursor`, and answered; then call again."""


class Pull(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    sender: Line = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 20
    wait_s: Seconds = 0.0


class Pulled(msgspec.Struct):
    messages: list[InboxMessage]
    cursor: int
    failed: list[str] = []
    """A line for each message of the caller's own that failed and that it was not told of yet."""


class Confirm(msgspec.Struct, forbid_unknown_fields=True):
    cursor: Annotated[int, Meta(ge=0)]


class Inbox(msgspec.Struct, forbid_unknown_fields=True):
    sent: bool = False
    all: bool = False
    """With final rows too."""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class InboxRows(msgspec.Struct):
    owner: str
    messages: list[MessageView]
    """The newest ones, at most as many as were asked for."""
    total: int = 0
    """So many there are."""


class Show(msgspec.Struct, forbid_unknown_fields=True):
    id: Line


class JournalLine(msgspec.Struct):
    at: int
    what: str
    msg_id: str
    gid: str
    trace_id: str
    peer: str
    reason: str
    detail: str
    host: str
    who: str = ""
    """Address of the agent that it is about, where that is known."""
    ms: int = 0
    """Since the message came to that host, or was sent from it; 0 where there is no such moment."""


class Shown(msgspec.Struct):
    messages: list[MessageView]
    journal: list[JournalLine]


class BodyOf(msgspec.Struct, forbid_unknown_fields=True):
    id: Line


class Body(msgspec.Struct):
    msg_id: str
    body: bytes
    text: str


class Framed(msgspec.Struct):
    msg_id: str
    text: str
    """The whole message, cleaned, in a frame with a nonce of its own."""


class Cancel(msgspec.Struct, forbid_unknown_fields=True):
    id: Line


class Trace(msgspec.Struct, forbid_unknown_fields=True):
    id: Line
    """A trace id, a message id, or an ending or beginning of one."""
    local: bool = True
    """Only what this host knows; else the others are asked, for up to 2 s."""


class Traced(msgspec.Struct):
    """In one order over all hosts; times are by this host's clock."""

    trace_id: str
    messages: list[MessageView]
    journal: list[JournalLine]
    silent: list[str]
    """Hosts of the fleet that did not answer."""
    others: int = 0
    """Messages of this trace between others, which an agent is not shown."""
    cut: list[str] = []
    """Hosts that know more of it than they told."""


METHODS: Methods = {
    "wait": (Wait, Waited),
    "pull": (Pull, Pulled),
    "confirm": (Confirm, Done),
    "inbox": (Inbox, InboxRows),
    "show": (Show, Shown),
    "body": (BodyOf, Body),
    "framed": (BodyOf, Framed),
    "cancel": (Cancel, Shown),
    "trace": (Trace, Traced),
}
