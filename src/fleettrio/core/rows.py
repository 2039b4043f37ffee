"""The rows that outlive a process: what this host knows of each message, and what it must not forget beside them.

Others have a file each: `entity`, `peer`, `spawned`. Plain data, shared by the core (which decides), the store (which
keeps) and the surfaces (which show).
"""

from __future__ import annotations

import enum

import msgspec

from fleettrio.ids import Gid, HostId, Leaf, MsgId, TraceId, WallMs

__all__ = (
    "ANSWERED",
    "AUTO",
    "CALL",
    "ENDED",
    "PROMISED",
    "Claim",
    "Due",
    "InboxRow",
    "InboxState",
    "JournalRow",
    "Key",
    "Report",
    "SentRow",
    "SentState",
)

Key = tuple[MsgId, Gid]
"""A message to one recipient."""

PROMISED = "starting"
"""Why a message was accepted and does not go out yet (`spawn_orders`)."""
CALL = "call"
"""`InboxRow.when` of what only a waiting call takes: a question, the answer to one."""

ANSWERED, AUTO, ENDED = "answered", "auto", "ended"
"""What came of the answer that a message wants: its agent gave it; it is the last words of the turn; that turn is over
without one."""


class InboxState(enum.StrEnum):
    """State of `(msgId, gid)` at the recipient: what moves it is in `docs/states.md`."""

    __hash__ = str.__hash__  # an enum's own is called at each look into a set, and is Python

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
    READY = "ready"
    """A SPAWN: the agent is there and takes messages."""
    DONE = "done"
    """A control kind that acts (STOP PAUSE): what it asked for is done."""

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
    {
        InboxState.DRAINED,
        InboxState.EXPIRED,
        InboxState.RECALLED,
        InboxState.SUPERSEDED,
        InboxState.FAILED,
        InboxState.READY,
        InboxState.DONE,
    }
)


class InboxRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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
    to: str = ""
    """What it was addressed to, when that is not the gid: a broadcast key, a host, whom SPAWN and STOP mean."""
    turn_id: str = ""
    """The asking turn (ASK, ANSWER)."""
    held: str = ""
    """Why it waits although its agent could take it: `loop`, `paused`, `claim`."""
    has_causal: bool = False
    """Its header says what its sender believed of the work tree."""
    on_stale: str = ""
    stale: str = ""
    """What had moved in the work tree when it landed."""
    supersedes: MsgId | None = None
    claim: str = ""
    about: str = ""
    """Of an order: what is asked for (`orderwords`)."""
    answer: str = ""
    """What came of the answer it wants: empty, `answered`, `auto` (last words), `ended` (its turn is over)."""

    @property
    def key(self) -> Key:
        return self.msg_id, self.gid


class SentState(enum.StrEnum):
    """State of `(msgId, gid)` at the sender: what moves it is in `docs/states.md`."""

    __hash__ = str.__hash__

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
    READY = "ready"
    DONE = "done"


class SentRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The sender's record of one message to one recipient. Never holds the body, only how it begins."""

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
    """`own` for this gateway, `peer` for the recipient's host, `report` for the dead-letter reporter,
    `turn` for the turn that asked, which is over."""
    at: WallMs = WallMs(0)
    re: MsgId | None = None
    answered_by: MsgId | None = None
    """The REPLY that came for it."""
    recalling: bool = False
    """A RECALL is due whenever the host is heard (cancelled, or past its bound)."""
    sig: bytes = b""
    proof: bytes = b""
    to: str = ""
    """What it was addressed to, when that is not the gid: a broadcast key, a host."""
    turn_id: str = ""
    wants_reply: bool = False
    answer: str = ""
    """What the recipient's host said of the answer: empty, `auto`, `ended`."""
    owes: str = ""
    """The notice about it that the recipient's host has not got yet (`abandoned`)."""
    stale: str = ""
    """What had moved when it landed, as the recipient's host said."""
    about: str = ""
    """How its body begins; of an order: what is asked for (`orderwords`)."""
    late: bool = False
    """A member of a broadcast that was not known when it was sent, and reported all the same."""

    @property
    def key(self) -> Key:
        return self.msg_id, self.gid

    @property
    def is_head(self) -> bool:
        """True for the row of a broadcast itself, beside those of its members: it went to no host in particular."""
        return not self.to_host

    @property
    def is_promised(self) -> bool:
        """True while its recipient is being started: not a byte of it was sent, and its body is in memory alone."""
        return self.state is SentState.ACCEPTED and self.reason == PROMISED


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """What this host does at a time of its own (`core.dues`)."""

    id: MsgId
    """Of the (first) message that it is about."""
    what: str
    """`send` or `remind`."""
    at: WallMs
    sender: Gid
    made_at: WallMs
    request: bytes


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Who works on what, as its arbiter knows (`core.claims`)."""

    key: str
    holder: Gid
    """Empty: free again."""
    host: HostId
    """Where the holder lives."""
    fence: int
    at: WallMs
    lease: WallMs
    """Until then at least, whoever sees its holder."""


class JournalRow(msgspec.Struct, frozen=True):
    """One thing that happened. Never holds a body."""

    at: WallMs
    what: str
    """The state reached, `agent <status>` for an entity, or the word of a note."""
    msg_id: MsgId | None
    gid: Gid | None
    trace_id: TraceId | None
    peer: str
    reason: str
    detail: str
    ms: int
    """Since the message arrived here, or was sent from here; 0 where there is no such moment."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the host that signed a dead letter is told."""

    host: HostId
    msg_id: MsgId
    gid: Gid
    leaf: Leaf
    trace_id: TraceId
    reason: str
    detail: str
