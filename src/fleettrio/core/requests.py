"""What local clients ask of the gateway: one event a request, each with the call that waits for its result.

Part of `core.events`, which has the rest of what can happen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fleettrio.core.depth import Step
from fleettrio.core.drift import Belief
from fleettrio.core.rows import InboxRow, Report, SentRow
from fleettrio.core.rules import Event
from fleettrio.ids import Gid, HostId, MsgId, TraceId, TurnId

__all__ = (
    "AnswerAsked",
    "AskAsked",
    "BroadcastAgainAsked",
    "BroadcastAsked",
    "CallAgain",
    "CallEnded",
    "CallId",
    "CallTimedOut",
    "CancelAsked",
    "Confirmed",
    "CoordAsked",
    "DueCancelled",
    "LaterAsked",
    "PauseAsked",
    "PingAsked",
    "PullAsked",
    "RelayAsked",
    "ReplyAsked",
    "ReportAsked",
    "Request",
    "RetryAsked",
    "RpcAsked",
    "SendAsked",
    "SpawnAsked",
    "StopAsked",
    "TraceAsked",
    "WaitAsked",
)

CallId = int


class Request(Event, frozen=True):
    """Something that a local client asks; its call waits for the result."""

    call: CallId
    needs_store: ClassVar[bool] = True
    """Refused while the store takes no writes."""


class SendAsked(Request, frozen=True, kw_only=True):
    sender: Gid
    to: tuple[str, ...]
    body: bytes
    msg_ids: tuple[MsgId, ...]
    trace_id: TraceId
    kind: str = "SEND"
    when: str = "idle"
    intent: str = "directive"
    priority: int | None = None
    expires_in_ms: int | None = None
    wants_reply: bool | None = None
    live: bool = False
    supersedes: MsgId | None = None
    on_stale: str | None = None
    belief: Belief | None = None
    """What the sender sees in its work tree; None: the message says nothing about it."""
    shared: frozenset[Gid] = frozenset()
    """Entities here that work in that very tree."""
    claim: str = ""
    remind_ms: int | None = None
    """Say so to the sender when it is not answered by then."""
    step: Step | None = None
    """How deep it is, when it was told to be sent in an earlier turn."""
    key: str = ""
    """Idempotency key; kept with the messages. `known`: the rows that the store has under it already."""
    known: tuple[SentRow, ...] = ()


class BroadcastAsked(Request, frozen=True, kw_only=True):
    """`group` is a name, or `all`. `key` and `known` as in `SendAsked`."""

    sender: Gid
    group: str
    body: bytes
    msg_id: MsgId
    trace_id: TraceId
    when: str = "idle"
    intent: str = "directive"
    priority: int | None = None
    expires_in_ms: int | None = None
    wants_reply: bool | None = None
    key: str = ""
    known: tuple[SentRow, ...] = ()


class BroadcastAgainAsked(Request, frozen=True):
    """The same header and body to the same group; `rows` are all that the broadcast has, its head among them."""

    rows: tuple[SentRow, ...]
    body: bytes


class LaterAsked(Request, frozen=True):
    """Send this, but not before `after_ms` from now."""

    send: SendAsked
    after_ms: int


class DueCancelled(Request, frozen=True):
    """What is due later is not to happen; the result is what was called off, None when it is over."""

    id: MsgId


class ReplyAsked(Request, frozen=True, kw_only=True):
    sender: Gid
    original: InboxRow
    body: bytes
    msg_id: MsgId
    key: str = ""
    known: tuple[SentRow, ...] = ()


class AskAsked(Request, frozen=True, kw_only=True):
    """A question, live only. `has_call`: a call of its client waits for the answer; else it is put into the asker."""

    sender: Gid
    to: str
    body: bytes
    msg_id: MsgId
    trace_id: TraceId
    turn_id: TurnId
    session: str = ""
    expires_in_ms: int | None = None
    has_call: bool = True


class AnswerAsked(Request, frozen=True, kw_only=True):
    sender: Gid
    question: InboxRow
    body: bytes
    msg_id: MsgId


class CoordAsked(Request, frozen=True, kw_only=True):
    """Coordination for the lead with this coordId. `key` and `known` as in `SendAsked`."""

    sender: Gid
    coord_id: str
    body: bytes
    msg_id: MsgId
    trace_id: TraceId
    expires_in_ms: int | None = None
    key: str = ""
    known: tuple[SentRow, ...] = ()


class RetryAsked(Request, frozen=True):
    """The same header and body once more; the shell has checked the body's leaf."""

    row: SentRow
    body: bytes


class WaitAsked(Request, frozen=True):
    """A client waits for the answer to its messages (`until="answer"`), for their receipts (`"delivered"`), or until
    nothing is called back any more (`"final"`)."""

    needs_store: ClassVar[bool] = False
    session: str
    gid: Gid
    rows: tuple[SentRow, ...]
    until: str


class PullAsked(Request, frozen=True):
    """A client takes what waits for `gid`; `wait` leaves the call open until something is there."""

    needs_store: ClassVar[bool] = False
    session: str
    gid: Gid
    limit: int
    wait: bool
    sender: Gid | None = None


class Confirmed(Request, frozen=True):
    """A client says that it has what was offered to it up to and including `cursor`."""

    needs_store: ClassVar[bool] = False
    session: str
    cursor: int


class CallEnded(Event, frozen=True):
    """The client stopped waiting. `gone` when its connection died: what it was offered goes back."""

    call: CallId | None
    session: str
    gone: bool


class CallTimedOut(Event, frozen=True):
    """A waiting call has waited its time: it is over, without a result if none is on its way to it already."""

    call: CallId
    session: str


class CallAgain(Event, frozen=True):
    """A call of `gid` that waited ended with "nothing yet, call again": its client is about to."""

    session: str
    gid: Gid


class CancelAsked(Request, frozen=True):
    row: SentRow


class SpawnAsked(Request, frozen=True, kw_only=True):
    """Start an agent by a profile of `host`. `brief` (if any) is sent to it under `brief_id` once it is ready."""

    sender: Gid
    host: HostId
    profile: str
    salt: bytes
    msg_id: MsgId
    trace_id: TraceId
    brief_id: MsgId
    name: str = ""
    cwd: str = ""
    worktree: bool = False
    groups: tuple[str, ...] = ()
    brief: bytes | None = None


class StopAsked(Request, frozen=True, kw_only=True):
    """End the agent `gid` of `host`."""

    sender: Gid
    host: HostId
    gid: Gid
    msg_id: MsgId
    trace_id: TraceId
    reason: str = ""


class RpcAsked(Request, frozen=True, kw_only=True):
    """Have the gateway of `host` do something by name; `args` are plain values."""

    host: HostId
    name: str
    args: Mapping[str, Any]
    msg_id: MsgId
    trace_id: TraceId
    limit_s: float = 30.0


class CopyEnded(Request, frozen=True):
    """A person says that no other machine uses this host's key any more."""


class ForgetAsked(Request, frozen=True):
    """A person does not want to see another host any more."""

    host: HostId


class PauseAsked(Request, frozen=True, kw_only=True):
    """Hold what would land (`on`), or let it go on: here, or at `host`. `target`: a gid, a host, a trace, `all`."""

    sender: Gid
    host: HostId
    target: str
    on: bool
    msg_id: MsgId
    trace_id: TraceId


class PingAsked(Request, frozen=True):
    needs_store: ClassVar[bool] = False
    host: HostId
    msg_id: MsgId


class TraceAsked(Request, frozen=True):
    """What do the other hosts know of this trace?"""

    needs_store: ClassVar[bool] = False
    trace_id: TraceId


class ReportAsked(Request, frozen=True):
    """A dead letter was found whose sender's host is to be told; the call ends with the verdict of that."""

    report: Report


class RelayAsked(Request, frozen=True):
    """Bytes that another host signed go to another place, unchanged; the call ends with the verdict."""

    exchange: str
    routing_key: str
    persistent: bool
    expiration_ms: int
    headers: Mapping[str, bytes | str]
    body: bytes
