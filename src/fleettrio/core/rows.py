"""The rows that outlive a process: what this host knows of each message, entity and peer host.

Plain data, shared by the core (which decides), the store (which keeps) and the surfaces (which show).
"""

from __future__ import annotations

import dataclasses
import enum

from fleettrio.ids import Gid, HostId, Leaf, MsgId, TraceId, WallMs

__all__ = ("Entity", "InboxRow", "InboxState", "Peer", "PeerEntity", "SentRow", "SentState")


class InboxState(enum.StrEnum):
    """State of `(msgId, gid)` at the recipient (`20-semantics`, One inbox, two lanes)."""

    WAITING = "waiting"
    INJECTING = "injecting"
    OFFERED = "offered"
    UNCONFIRMED = "unconfirmed"
    INJECTED = "injected"
    DRAINED = "drained"
    EXPIRED = "expired"
    RECALLED = "recalled"
    SUPERSEDED = "superseded"
    FAILED = "failed"

    @property
    def is_open(self) -> bool:
        """True while the message may still be put into its agent or handed to its client."""
        return self in _OPEN

    @property
    def is_final(self) -> bool:
        """True when no event changes the row any more."""
        return self in _FINAL


_OPEN = frozenset({InboxState.WAITING, InboxState.INJECTING, InboxState.OFFERED})
_FINAL = frozenset(
    {InboxState.DRAINED, InboxState.EXPIRED, InboxState.RECALLED, InboxState.SUPERSEDED, InboxState.FAILED}
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """The recipient's word about one message: the ledger row, without the body."""

    msg_id: MsgId
    gid: Gid
    leaf: Leaf
    state: InboxState
    kind: str
    sender: Gid
    from_host: HostId
    trace_id: TraceId
    ts: WallMs
    expires_at: WallMs
    arrived_at: WallMs
    seq: int
    """Order of arrival on this host."""
    size: int
    """Bytes of the body."""
    reason: str = ""
    detail: str = ""
    via: str = ""
    at: WallMs = WallMs(0)
    """When the state was reached."""
    re: MsgId | None = None
    when: str = "idle"
    priority: int = 4
    intent: str = "directive"
    wants_reply: bool = False
    auto: bool = False
    depth: int = 0
    repeat: bool = False
    """Offered once already and not confirmed: shown as "may be a repeat"."""
    notified: bool = True
    """False while the sender's host is owed a notice about this state."""


class SentState(enum.StrEnum):
    """State of `(msgId, gid)` at the sender (`20-semantics`, Outcomes)."""

    ACCEPTED = "accepted"
    WRITTEN = "written"
    OUTCOME_UNKNOWN = "outcome-unknown"
    CONFIRMED = "confirmed"
    UNKNOWN = "unknown"
    HELD = "held"
    INJECTED = "injected"
    UNCONFIRMED = "unconfirmed"
    DRAINED = "drained"
    EXPIRED = "expired"
    RECALLED = "recalled"
    SUPERSEDED = "superseded"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SentRow:
    """The sender's record of one message to one recipient. Never holds the body."""

    msg_id: MsgId
    gid: Gid
    """The recipient."""
    to_host: HostId
    sender: Gid
    kind: str
    leaf: Leaf
    header: bytes
    trace_id: TraceId
    ts: WallMs
    expires_at: WallMs
    state: SentState
    reason: str = ""
    detail: str = ""
    via: str = ""
    said_by: str = ""
    """`own` for this gateway, `peer` for the recipient's host, `report` for the dead-letter reporter."""
    at: WallMs = WallMs(0)
    re: MsgId | None = None
    answered_by: MsgId | None = None
    """The REPLY that came for it."""
    recalling: bool = False
    """A RECALL is due whenever the host is heard (cancelled, or past its bound)."""
    sig: bytes = b""
    proof: bytes = b""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A message-addressable entity of this host."""

    gid: Gid
    name: str
    salt: bytes
    role: str = ""
    takes: str = "pull"
    groups: tuple[str, ...] = ()
    harness: str = ""
    status: str = "idle"
    """`idle working blocked away stopping gone` (`20-semantics`, Presence)."""
    since: WallMs = WallMs(0)
    transport: str = "pull"
    target: str = ""
    """What the transport needs to find the agent: a tmux pane, a command."""
    tty: str = ""
    pid: int = 0
    cwd: str = ""
    repo: str = ""
    head: str = ""
    wakes: bool = False
    full: bool = False
    token_hash: bytes = b""
    rev: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What this host knows of another one, from its signed presence."""

    host: HostId
    epoch: int = 0
    seq: int = 0
    roster_rev: int = -1
    trust_rev: int = 0
    version: str = ""
    kinds: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    heard_at: WallMs = WallMs(0)
    """Our wall clock when its last beat came."""
    offset_ms: int = 0
    """Its wall clock minus ours at that beat."""
    refuses_us: str = ""
    """Reason of its last refusal of our messages, empty when it takes them."""
    we_refuse: str = ""
    """Reason of our last refusal of its messages."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PeerEntity:
    """An entity of another host, as that host announced it."""

    gid: Gid
    host: HostId
    name: str
    role: str = ""
    takes: str = "pull"
    groups: tuple[str, ...] = ()
    status: str = "idle"
    since: WallMs = WallMs(0)
    harness: str = ""
    wakes: bool = False
    full: bool = False
    repo: str = ""
    head: str = ""
    rev: int = 0
