"""Everything that can happen to a gateway, in the past tense. Frozen, without behaviour.

Ids, salts and nonces are minted by the shell and come in here. An event that a peer can cause is legal in every state.
"""

from __future__ import annotations

import dataclasses

from fleettrio.core.rows import Entity, InboxRow, SentRow
from fleettrio.core.topology import QueueOwner
from fleettrio.ids import Gid, HostId, MsgId, Seconds, Tag, TraceId
from fleettrio.wire.fleetfile import Fleet
from fleettrio.wire.signing import Refusal, VerifiedEnvelope

__all__ = (
    "AgentNotReady",
    "AgentReserved",
    "AgentSeen",
    "Arrived",
    "Attached",
    "BeatDue",
    "CallEnded",
    "CancelAsked",
    "ClockAccepted",
    "Confirmed",
    "Detached",
    "DuplicateArrived",
    "Event",
    "InboxBound",
    "InboxTrouble",
    "Injected",
    "LinkBlocked",
    "LinkHeard",
    "LinkUnblocked",
    "LoadFailed",
    "Loaded",
    "PingAsked",
    "PublishHanded",
    "PublishNotHanded",
    "PullAsked",
    "RefusedArrival",
    "ReplyAsked",
    "RetryAsked",
    "SendAsked",
    "SessionClosed",
    "SessionOpened",
    "StoreFailed",
    "StoreRecovered",
    "TrustChanged",
    "VerdictGiven",
    "WaitAsked",
)

CallId = int


# --- the broker ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class SessionOpened:
    """Control and roster are consumed; inboxes follow one by one."""

    epoch: int


@dataclasses.dataclass(frozen=True, slots=True)
class SessionClosed:
    epoch: int
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class LinkBlocked:
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class LinkUnblocked:
    pass


@dataclasses.dataclass(frozen=True, slots=True)
class LinkHeard:
    """The last moment bytes came from the broker; given before time is judged."""

    at: Seconds


@dataclasses.dataclass(frozen=True, slots=True)
class InboxBound:
    """The broker queue of an entity exists, is bound and is consumed."""

    gid: Gid


@dataclasses.dataclass(frozen=True, slots=True)
class InboxTrouble:
    """The broker queue of an entity is locked by another gateway, or cannot be used as it is."""

    gid: Gid
    trouble: str
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Arrived:
    """A delivery passed every check of `wire.signing`; `known` is what the store has of `(msgId, gid)`."""

    tag: Tag
    owner: QueueOwner
    message: VerifiedEnvelope
    known: InboxRow | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class DuplicateArrived:
    """A known message with the same leaf came again."""

    tag: Tag


@dataclasses.dataclass(frozen=True, slots=True)
class RefusedArrival:
    tag: Tag
    owner: QueueOwner
    refusal: Refusal


@dataclasses.dataclass(frozen=True, slots=True)
class PublishHanded:
    """The publish was written to the socket's buffer: from now on it may arrive."""

    ids: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PublishNotHanded:
    """Not a byte of it went out."""

    id: int
    reason: str
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class VerdictGiven:
    id: int
    verdict: str
    detail: str = ""


# --- trust and time -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class TrustChanged:
    fleet: Fleet


@dataclasses.dataclass(frozen=True, slots=True)
class ClockAccepted:
    """A person says that the wall clock is right as it is, though it was ahead once."""


@dataclasses.dataclass(frozen=True, slots=True)
class BeatDue:
    """It is time to say that this host is alive."""


# --- this host's agents -------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Attached:
    """An agent was made known: new, or back under its name. `entity` is complete."""

    call: CallId
    entity: Entity


@dataclasses.dataclass(frozen=True, slots=True)
class Detached:
    call: CallId
    gid: Gid
    forget: bool


@dataclasses.dataclass(frozen=True, slots=True)
class AgentSeen:
    """An agent's state was reported or looked at."""

    gid: Gid
    status: str


@dataclasses.dataclass(frozen=True, slots=True)
class AgentReserved:
    """The transport checked everything and would write now."""

    gid: Gid
    msg_id: MsgId


@dataclasses.dataclass(frozen=True, slots=True)
class AgentNotReady:
    gid: Gid
    msg_id: MsgId
    why: str
    status: str
    gone: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Injected:
    """What came of the write: `outcome` is a `local.port.DeliveryOutcome`."""

    gid: Gid
    msg_id: MsgId
    outcome: str
    via: str
    detail: str = ""


# --- calls of local clients ---------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SendAsked:
    call: CallId
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
    key: str = ""
    """Idempotency key; kept with the messages. `known`: the rows that the store has under it already."""
    known: tuple[SentRow, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplyAsked:
    call: CallId
    sender: Gid
    original: InboxRow
    body: bytes
    msg_id: MsgId
    key: str = ""
    known: tuple[SentRow, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class RetryAsked:
    """The same header and body once more; the shell has checked the body's leaf."""

    call: CallId
    row: SentRow
    body: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class WaitAsked:
    """A client waits for the answer to its messages (`until="answer"`), for their receipts (`"delivered"`), or until
    nothing is called back any more (`"final"`)."""

    call: CallId
    session: str
    gid: Gid
    rows: tuple[SentRow, ...]
    until: str


@dataclasses.dataclass(frozen=True, slots=True)
class PullAsked:
    """A client takes what waits for `gid`; `wait` leaves the call open until something is there."""

    call: CallId
    session: str
    gid: Gid
    limit: int
    wait: bool
    sender: Gid | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Confirmed:
    """A client says that it has what was offered to it up to and including `cursor`."""

    call: CallId
    session: str
    cursor: int


@dataclasses.dataclass(frozen=True, slots=True)
class CallEnded:
    """The client stopped waiting. `gone` when its connection died: what it was offered goes back."""

    call: CallId | None
    session: str
    gone: bool


@dataclasses.dataclass(frozen=True, slots=True)
class CancelAsked:
    call: CallId
    row: SentRow


@dataclasses.dataclass(frozen=True, slots=True)
class PingAsked:
    call: CallId
    host: HostId
    msg_id: MsgId


# --- the store ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """What the store knows of rows that the core does not hold open; answers `actions.Load`, in its order."""

    ask: int
    inbox: tuple[InboxRow | None, ...]
    sent: tuple[SentRow | None, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class LoadFailed:
    """The rows of `actions.Load` could not be read: what was to go on with them does not."""

    ask: int
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class StoreFailed:
    """A list of actions could not be recorded, so nothing else of it was performed.

    `undo` and `undo_sent` have each row that was to be written, last one first, and what it was before (None: it was
    not there).
    """

    undo: tuple[tuple[InboxRow, InboxRow | None], ...]
    calls: tuple[CallId, ...]
    reason: str
    undo_sent: tuple[tuple[SentRow, SentRow | None], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class StoreRecovered:
    pass


Event = (
    SessionOpened
    | SessionClosed
    | LinkBlocked
    | LinkUnblocked
    | LinkHeard
    | InboxBound
    | InboxTrouble
    | Arrived
    | DuplicateArrived
    | RefusedArrival
    | PublishHanded
    | PublishNotHanded
    | VerdictGiven
    | TrustChanged
    | ClockAccepted
    | BeatDue
    | Attached
    | Detached
    | AgentSeen
    | AgentReserved
    | AgentNotReady
    | Injected
    | SendAsked
    | ReplyAsked
    | RetryAsked
    | WaitAsked
    | PullAsked
    | Confirmed
    | CallEnded
    | CancelAsked
    | PingAsked
    | Loaded
    | LoadFailed
    | StoreFailed
    | StoreRecovered
)
