"""Parameters and results of every method of the local socket, as types; the reference documentation is made from them.

Bytes travel as base64. Times are milliseconds since the epoch. A client speaks first with `hello`. Every parameter has
a bound, and what is out of it is refused before anything happens.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = (
    "METHODS",
    "AgentView",
    "Attach",
    "Attached",
    "Body",
    "BodyOf",
    "Cancel",
    "Check",
    "Confirm",
    "Detach",
    "DoctorReport",
    "Done",
    "Empty",
    "Fleet",
    "Hello",
    "HostView",
    "Inbox",
    "InboxMessage",
    "InboxRows",
    "JournalLine",
    "MessageView",
    "Ping",
    "Pong",
    "Pull",
    "Pulled",
    "Reloaded",
    "Reply",
    "Retry",
    "Send",
    "SendResult",
    "Show",
    "Shown",
    "Status",
    "Token",
    "Trace",
    "Traced",
    "Wait",
    "Waited",
    "Welcome",
)


Line = Annotated[str, Meta(max_length=256)]
"""A name, an address, an id, a label: room for every good one, and none that floods a log."""
Path = Annotated[str, Meta(max_length=4096)]
Seconds = Annotated[float, Meta(ge=0)]
Pid = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Empty(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters."""


class Done(msgspec.Struct):
    """It was done; `detail` says what, in one sentence."""

    detail: str = ""


class Hello(msgspec.Struct, forbid_unknown_fields=True):
    """Who calls: the token if there is one (an agent's, the operator's), and the client's version."""

    token: Line = ""
    version: Line = ""


class Welcome(msgspec.Struct):
    host: str
    version: str
    caller: str
    """Name of the entity this connection speaks for, empty when it has no identity (see `caller_problem`)."""
    gid: str
    is_person: bool
    caller_problem: str = ""
    pid: int = 0


class Send(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    to: Annotated[list[Line], Meta(max_length=100)]
    body: bytes
    when: Annotated[str, Meta(pattern="^(idle|turn|now)$")] = "idle"
    intent: Annotated[str, Meta(pattern="^(directive|handoff|warning)$")] = "directive"
    priority: Annotated[int, Meta(ge=0, le=9)] | None = None
    expires_s: Annotated[float, Meta(le=1e9)] | None = None
    """More than 0."""
    wants_reply: bool | None = None
    live: bool = False
    supersedes: Line = ""
    key: Line = ""


class Reply(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    re: Line
    """The message answered: a full id, a unique ending of at least 4, or `@last` (the newest that came)."""
    body: bytes
    key: Line = ""


class Retry(msgspec.Struct, forbid_unknown_fields=True):
    id: Line
    body: bytes


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
    """In the words of `20-semantics`; `waiting` for a confirmed one without a word of its recipient yet."""
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
    preview: str = ""
    """First line of the body, cleaned and cut; only for messages whose body is on this host."""


class SendResult(msgspec.Struct):
    trace_id: str
    messages: list[MessageView]


class Wait(msgspec.Struct, forbid_unknown_fields=True):
    """Wait up to `limit_s` (at most 50) for the answer to, or the receipt for, these messages of the caller."""

    ids: Annotated[list[Line], Meta(max_length=1000)]
    until: Line = "answer"
    limit_s: Seconds = 50.0


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
    body: bytes
    text: str
    """The cleaned text, for showing."""


class Waited(msgspec.Struct):
    done: bool
    """False: nothing yet, call again."""
    messages: list[MessageView]
    answers: list[InboxMessage]
    cursor: int


class Pull(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    sender: Line = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 20
    wait_s: Seconds = 0.0


class Pulled(msgspec.Struct):
    messages: list[InboxMessage]
    cursor: int


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


class Shown(msgspec.Struct):
    messages: list[MessageView]
    journal: list[JournalLine]


class BodyOf(msgspec.Struct, forbid_unknown_fields=True):
    id: Line


class Body(msgspec.Struct):
    msg_id: str
    body: bytes
    text: str


class Cancel(msgspec.Struct, forbid_unknown_fields=True):
    id: Line


class Trace(msgspec.Struct, forbid_unknown_fields=True):
    id: Line
    """A trace id, a message id, or an ending of one."""
    local: bool = True


class Traced(msgspec.Struct):
    trace_id: str
    messages: list[MessageView]
    journal: list[JournalLine]
    silent: list[str]
    others: int = 0
    """Messages of this trace between others, which an agent is not shown."""


class Attach(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: Line = ""
    role: Line = ""
    """A label of at most 64 printable characters."""
    takes: Line = ""
    """`push`, `pull`, or empty: push with a pane or a command, else pull."""
    groups: Annotated[list[Line], Meta(max_length=32)] = []
    pane: Line = ""
    """A tmux pane id (`%3`); with a socket name: `socket:%3`."""
    command: Annotated[list[Path], Meta(max_length=64)] = []
    """A headless command that takes each message on its standard input."""
    harness: Line = ""
    cwd: Path = ""
    pid: Pid = 0
    """The agent's own process, living, of this user."""
    take: bool = False
    """Take the name although a live session holds it (a person's choice)."""


class Attached(msgspec.Struct):
    gid: str
    name: str
    host: str
    token: str
    """Given once, for the agent's environment (`FLEETTRIO_TOKEN`)."""
    is_new: bool


class Detach(msgspec.Struct, forbid_unknown_fields=True):
    name: Line
    forget: bool = False


class Token(msgspec.Struct, forbid_unknown_fields=True):
    name: Line


class AgentView(msgspec.Struct, kw_only=True):
    gid: str
    name: str
    host: str
    address: str
    role: str
    takes: str
    groups: list[str]
    status: str
    since: int
    harness: str
    path: str
    """The transport that reaches it."""
    wakes: bool
    waiting: int
    """Messages that wait for it here (0 for agents of other hosts)."""
    full: bool = False
    inbox: str = ""
    """State of its broker queue: `open`, `opening`, `waiting-for-lock`, `owned-elsewhere`, `local`."""


class HostView(msgspec.Struct, kw_only=True):
    host: str
    is_self: bool
    status: str
    """`up`, `unknown` (not heard for 3 beats), `never-heard`, `revoked`."""
    heard_at: int
    offset_ms: int
    version: str
    trusted: bool
    refuses_us: str
    we_refuse: str
    agents: int
    profiles: list[str] = []


class Fleet(msgspec.Struct):
    host: str
    fleet_id: str
    hosts: list[HostView]
    agents: list[AgentView]


class Status(msgspec.Struct, kw_only=True):
    host: str
    fleet_id: str
    version: str
    pid: int
    started_at: int
    home: str
    implementation: str
    """`compiled` or `pure`."""
    broker: str
    """`standalone`, `connected`, `connecting`, `suspect`, `blocked`, `refused-login`."""
    broker_detail: str
    broker_since: int
    waiting: int
    outstanding: int
    refused: dict[str, int]
    """Refused deliveries by reason, since the start."""
    problems: list[str]
    next_step: str
    fleet: Fleet


class Ping(msgspec.Struct, forbid_unknown_fields=True):
    target: Line
    """A host, or an agent (`name@host`)."""


class Pong(msgspec.Struct):
    host: str
    rtt_ms: float
    version: str
    offset_ms: int
    trusts_us: bool
    agent: str = ""
    agent_status: str = ""


class Check(msgspec.Struct):
    name: str
    ok: bool
    detail: str
    fix: str = ""
    """The command or step that mends it."""


class DoctorReport(msgspec.Struct):
    checks: list[Check]


class Reloaded(msgspec.Struct):
    fleet_id: str
    rev: int
    hosts: list[str]


METHODS: dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct]]] = {
    "hello": (Hello, Welcome),
    "status": (Empty, Status),
    "list": (Empty, Fleet),
    "send": (Send, SendResult),
    "reply": (Reply, SendResult),
    "retry": (Retry, SendResult),
    "wait": (Wait, Waited),
    "pull": (Pull, Pulled),
    "confirm": (Confirm, Done),
    "inbox": (Inbox, InboxRows),
    "show": (Show, Shown),
    "body": (BodyOf, Body),
    "cancel": (Cancel, Shown),
    "trace": (Trace, Traced),
    "attach": (Attach, Attached),
    "detach": (Detach, Done),
    "token": (Token, Attached),
    "ping": (Ping, Pong),
    "doctor": (Empty, DoctorReport),
    "reload": (Empty, Reloaded),
    "accept_clock": (Empty, Done),
    "down": (Empty, Done),
}
