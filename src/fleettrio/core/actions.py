"""Everything the shell can be asked to do, in the imperative. Performed in list order; the order is the guarantee.

A list has store actions first (they are committed together, with fsync), then hand-overs that never block. The shell
stops at the first that fails and reports it (`StoreFailed`): nothing is acknowledged that was not recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import msgspec

from fleettrio.core.entity import Entity
from fleettrio.core.records import (
    RECORDED,
    Commit,
    DropBody,
    DropDue,
    DropEntity,
    ForgetPeer,
    KeepBody,
    Note,
    Record,
    RecordClaim,
    RecordDue,
    RecordEntity,
    RecordKey,
    RecordPeer,
    RecordPeerEntities,
    RecordSent,
    RecordSetting,
    RecordSpawn,
    StoreAction,
    may_wait,
)
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.core.spawned import SpawnRow
from fleettrio.core.topology import InboxQueue
from fleettrio.ids import Gid, MsgId, Tag, TraceId
from fleettrio.wire.envelope import Envelope

__all__ = (
    "RECORDED",
    "Ack",
    "Action",
    "AtCoordinator",
    "CloseInbox",
    "Commit",
    "DropBody",
    "DropDue",
    "DropEntity",
    "EndAgent",
    "EndSession",
    "Fail",
    "ForgetPeer",
    "Inject",
    "KeepBody",
    "Launch",
    "Load",
    "LoadTrace",
    "LookAtTree",
    "Note",
    "Notify",
    "Nudge",
    "OpenInbox",
    "PauseInbox",
    "ProbeStore",
    "Publish",
    "Record",
    "RecordClaim",
    "RecordDue",
    "RecordEntity",
    "RecordKey",
    "RecordPeer",
    "RecordPeerEntities",
    "RecordSent",
    "RecordSetting",
    "RecordSpawn",
    "Reject",
    "Relay",
    "Reserve",
    "Resolve",
    "StoreAction",
    "WatchEntity",
    "may_wait",
    "parted",
)


# --- broker -------------------------------------------------------------------------------------


class Ack(msgspec.Struct, frozen=True, gc=False):
    tag: Tag


class Reject(msgspec.Struct, frozen=True):
    """Reject to the dead letters."""

    tag: Tag


class Publish(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Sign, record `sent` with its signature, hand to the broker: in that order, in batches.

    `sent` has the row of each recipient that is known, all with the one header; none for what nobody waits for.

    An empty `envelope.msg_id` is minted by the publisher (notices, control, presence): nobody correlates by it.
    """

    id: int
    exchange: str
    mandatory: bool
    persistent: bool
    envelope: Envelope
    body: bytes
    sent: tuple[SentRow, ...] = ()
    keyed: RecordKey | None = None


class Relay(msgspec.Struct, frozen=True):
    """Publish bytes that another host signed, unchanged. Its verdict comes as any publish's."""

    id: int
    exchange: str
    routing_key: str
    persistent: bool
    expiration_ms: int
    headers: Mapping[str, bytes | str]
    body: bytes


class OpenInbox(msgspec.Struct, frozen=True):
    """Declare, bind and consume the broker queue of an entity (and do so again in every session)."""

    owner: InboxQueue


class PauseInbox(msgspec.Struct, frozen=True):
    """Stop consuming: `basic.cancel`, then what is in hand goes back in order."""

    gid: Gid


class CloseInbox(msgspec.Struct, frozen=True):
    """Reap: unbind, drain to the dead letters, delete when empty."""

    owner: InboxQueue


class EndSession(msgspec.Struct, frozen=True):
    """The broker sessions are useless: drop them; their supervisors open the next ones when they may."""

    reason: str


class AtCoordinator(msgspec.Struct, frozen=True):
    """Do this in the session at the coordinator's broker, not in the one at the fleet's."""

    action: Ack | Reject | Publish | Relay | OpenInbox | PauseInbox


# --- this host ----------------------------------------------------------------------------------


class WatchEntity(msgspec.Struct, frozen=True):
    """An entity came, changed or left (`present=False`): start, renew or end its delivery task."""

    entity: Entity
    present: bool


class Launch(msgspec.Struct, frozen=True):
    """Start this agent, or, with `again`, find it as the last process left it: comes back as `Launched`, then
    `SpawnReady`; or `SpawnFailed`; or, for one that was ready before, `Adopted`."""

    row: SpawnRow
    entity: Entity
    again: bool = False


class EndAgent(msgspec.Struct, frozen=True):
    """End what was started under this id, wherever its start has got to; comes back as `AgentEnded`."""

    row: SpawnRow


class Reserve(msgspec.Struct, frozen=True):
    """Ask the agent's transport whether this message could be put in now."""

    row: InboxRow


class LookAtTree(msgspec.Struct, frozen=True):
    """Look at the work tree of an entity for these messages, within a second in all; come back with `TreeLookedAt`."""

    gid: Gid
    rows: tuple[InboxRow, ...]


class Inject(msgspec.Struct, frozen=True):
    """Write: the row is committed as `injecting`. Runs to its end."""

    row: InboxRow


class Resolve(msgspec.Struct, frozen=True):
    """End a waiting call with its result, one of `core.calls`."""

    call: int
    result: object


class Fail(msgspec.Struct, frozen=True):
    """End a waiting call with an error a person can act on. `code` is the exit code (`errors`)."""

    call: int
    code: int
    reason: str
    message: str
    hint: str = ""


class Load(msgspec.Struct, frozen=True):
    """Read these rows from the store (recipient's and sender's) and come back with `Loaded`."""

    ask: int
    inbox: tuple[tuple[MsgId, Gid], ...]
    sent: tuple[tuple[MsgId, Gid], ...]


class LoadTrace(msgspec.Struct, frozen=True):
    """Read what the store has of a trace and come back with `TraceRead`."""

    ask: int
    trace_id: TraceId


class Nudge(msgspec.Struct, frozen=True):
    """Type one line into the pane of a client that fetches its mail; comes back as `nudges.Nudged`."""

    gid: Gid
    waiting: tuple[tuple[str, int], ...]
    """What waits for it: how much from whom."""


class Notify(msgspec.Struct, frozen=True, kw_only=True):
    """Tell the person at this host, by the ways that were configured (`news`)."""

    what: str
    text: str
    """One sentence; words of peers in it are not cleaned yet."""
    about: tuple[MsgId, Gid] | None = None
    """The message that came, whose body is told where that is wanted."""


class ProbeStore:
    """Try whether the store takes writes again; `StoreRecovered` when it does."""


Action = (
    StoreAction
    | Ack
    | Reject
    | Publish
    | Relay
    | OpenInbox
    | PauseInbox
    | CloseInbox
    | AtCoordinator
    | WatchEntity
    | Launch
    | EndAgent
    | Reserve
    | LookAtTree
    | Inject
    | Resolve
    | Fail
    | Load
    | LoadTrace
    | Notify
    | Nudge
    | EndSession
    | ProbeStore
)


def parted(actions: Iterable[Action]) -> tuple[list[StoreAction], list[Action]]:
    """The store actions, and the hand-overs, each in the order in which they were decided."""
    records: list[StoreAction] = []
    hand_overs: list[Action] = []
    for action in actions:
        if type(action) in RECORDED:
            records.append(cast(StoreAction, action))
        else:
            hand_overs.append(action)
    return records, hand_overs
