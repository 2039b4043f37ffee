"""Everything the shell can be asked to do, in the imperative. Performed in list order; the order is the guarantee.

A list has store actions first (they are committed together, with fsync), then hand-overs that never block. The shell
stops at the first that fails and reports it (`StoreFailed`): nothing is acknowledged that was not recorded.
"""

from __future__ import annotations

import dataclasses

from fleettrio.core.rows import Entity, InboxRow, Peer, PeerEntity, SentRow
from fleettrio.core.topology import InboxQueue
from fleettrio.ids import Gid, HostId, MsgId, Tag, TraceId
from fleettrio.wire.envelope import Envelope

__all__ = (
    "RECORDED",
    "Ack",
    "Action",
    "CloseInbox",
    "Commit",
    "DropEntity",
    "EndSession",
    "Fail",
    "ForgetPeer",
    "Inject",
    "Load",
    "Note",
    "OpenInbox",
    "PauseInbox",
    "ProbeStore",
    "Publish",
    "Record",
    "RecordEntity",
    "RecordKey",
    "RecordPeer",
    "RecordPeerEntities",
    "RecordSent",
    "RecordSetting",
    "Reject",
    "Requeue",
    "Reserve",
    "Resolve",
    "StoreAction",
    "WatchEntity",
)


# --- store: recorded before anything that follows in the list -----------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Commit:
    """Write the message into the bus and its row into the ledger, in one transaction."""

    row: InboxRow
    header: bytes
    body: bytes
    sig: bytes
    proof: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """Write the row as it is now (insert or replace); the body, if any, stays.

    `before` is what the row was: the core goes back to it when the store cannot record the change.
    """

    row: InboxRow
    before: InboxRow | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class RecordSent:
    """Write the sender's row as it is now. `before` as in `Record`."""

    row: SentRow
    before: SentRow | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class RecordKey:
    """Remember which messages an idempotency key stands for."""

    key: str
    sender: Gid
    msg_ids: tuple[MsgId, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class RecordEntity:
    entity: Entity


@dataclasses.dataclass(frozen=True, slots=True)
class DropEntity:
    gid: Gid


@dataclasses.dataclass(frozen=True, slots=True)
class RecordPeer:
    peer: Peer


@dataclasses.dataclass(frozen=True, slots=True)
class RecordPeerEntities:
    """Write these entities of `host`; with `replace` the others of that host are removed."""

    host: HostId
    entities: tuple[PeerEntity, ...]
    replace: bool


@dataclasses.dataclass(frozen=True, slots=True)
class ForgetPeer:
    host: HostId


@dataclasses.dataclass(frozen=True, slots=True)
class RecordSetting:
    key: str
    value: str


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """A journal row about something that has no row of its own: a refusal, a contradiction."""

    what: str
    msg_id: MsgId | None
    gid: Gid | None
    trace_id: TraceId | None
    peer: str
    reason: str
    detail: str = ""
    alarm: bool = False


StoreAction = (
    Commit
    | Record
    | RecordSent
    | RecordKey
    | RecordEntity
    | DropEntity
    | RecordPeer
    | RecordPeerEntities
    | ForgetPeer
    | RecordSetting
    | Note
)
RECORDED = tuple(StoreAction.__args__)
"""The store actions as types, for `isinstance`."""


# --- broker -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Ack:
    tag: Tag


@dataclasses.dataclass(frozen=True, slots=True)
class Reject:
    """Reject to the dead letters."""

    tag: Tag


@dataclasses.dataclass(frozen=True, slots=True)
class Requeue:
    """Give a delivery back to its queue: it could not be recorded."""

    tag: Tag


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Sign, record `sent` (if any) with its signature, hand to the broker: in that order, in batches.

    An empty `envelope.msg_id` is minted by the publisher (notices, control, presence): nobody correlates by it.
    """

    id: int
    exchange: str
    mandatory: bool
    persistent: bool
    envelope: Envelope
    body: bytes
    sent: SentRow | None = None
    keyed: RecordKey | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class OpenInbox:
    """Declare, bind and consume the broker queue of an entity (and do so again in every session)."""

    owner: InboxQueue


@dataclasses.dataclass(frozen=True, slots=True)
class PauseInbox:
    """Stop consuming: `basic.cancel`, then what is in hand goes back in order."""

    gid: Gid


@dataclasses.dataclass(frozen=True, slots=True)
class CloseInbox:
    """Reap: unbind, drain to the dead letters, delete when empty."""

    owner: InboxQueue


# --- this host ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class WatchEntity:
    """An entity came, changed or left (`present=False`): start, renew or end its delivery task."""

    entity: Entity
    present: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Reserve:
    """Ask the agent's transport whether this message could be put in now."""

    row: InboxRow


@dataclasses.dataclass(frozen=True, slots=True)
class Inject:
    """Write: the row is committed as `injecting`. Runs to its end."""

    row: InboxRow


@dataclasses.dataclass(frozen=True, slots=True)
class Resolve:
    """End a waiting call with its result, one of `core.calls`."""

    call: int
    result: object


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """End a waiting call with an error a person can act on. `code` is the CLI's exit code."""

    call: int
    code: int
    reason: str
    message: str
    hint: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """Read these rows from the store (recipient's and sender's) and come back with `Loaded`."""

    ask: int
    inbox: tuple[tuple[MsgId, Gid], ...]
    sent: tuple[tuple[MsgId, Gid], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class EndSession:
    """This broker session is useless: drop it; the supervisor opens the next one when it may."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class ProbeStore:
    """Try whether the store takes writes again; `StoreRecovered` when it does."""


Action = (
    StoreAction
    | Ack
    | Reject
    | Requeue
    | Publish
    | OpenInbox
    | PauseInbox
    | CloseInbox
    | WatchEntity
    | Reserve
    | Inject
    | Resolve
    | Fail
    | Load
    | EndSession
    | ProbeStore
)
