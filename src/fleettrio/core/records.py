"""What is recorded, in the imperative: the actions that a list begins with. They are committed together, with fsync,
before anything that follows them (`actions`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import msgspec

from fleettrio.core.entity import Entity
from fleettrio.core.peer import Peer, PeerEntity
from fleettrio.core.rows import Claim, Due, InboxRow, SentRow
from fleettrio.core.spawned import SpawnRow
from fleettrio.ids import Gid, HostId, MsgId, TraceId

__all__ = (
    "RECORDED",
    "Commit",
    "DropBody",
    "DropDue",
    "DropEntity",
    "ForgetPeer",
    "KeepBody",
    "Note",
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
    "StoreAction",
    "may_wait",
)


@final
class Commit(msgspec.Struct, frozen=True, gc=False):
    """Write the message into the bus and its row into the ledger, in one transaction."""

    row: InboxRow
    header: bytes
    body: bytes
    sig: bytes
    proof: bytes


@final
class Record(msgspec.Struct, frozen=True, gc=False):
    """Write the row as it is now (insert or replace); the body, if any, stays.

    `before` is what the row was: the core goes back to it when the store cannot record the change. `may_wait`: it needs
    no commit of its own and holds nothing up, for what a process that dies loses with it is found out, or told, again.
    """

    row: InboxRow
    before: InboxRow | None = None
    may_wait: bool = False


@final
class RecordSent(msgspec.Struct, frozen=True, gc=False):
    """Write the sender's row as it is now. `before` and `may_wait` as in `Record`."""

    row: SentRow
    before: SentRow | None = None
    may_wait: bool = False


class KeepBody(msgspec.Struct, frozen=True):
    """Keep the body of a message of ours, to send it again."""

    msg_id: MsgId
    gid: Gid
    body: bytes


class DropBody(msgspec.Struct, frozen=True):
    """It need not be sent again."""

    msg_id: MsgId
    gid: Gid


class RecordKey(msgspec.Struct, frozen=True):
    """Remember which messages an idempotency key stands for."""

    key: str
    sender: Gid
    msg_ids: tuple[MsgId, ...]


class RecordEntity(msgspec.Struct, frozen=True):
    entity: Entity


class DropEntity(msgspec.Struct, frozen=True):
    gid: Gid


class RecordSpawn(msgspec.Struct, frozen=True):
    """Write the row of an agent that this host starts. `before` as in `Record`."""

    row: SpawnRow
    before: SpawnRow | None = None


class RecordClaim(msgspec.Struct, frozen=True):
    claim: Claim
    before: Claim | None = None


class RecordDue(msgspec.Struct, frozen=True):
    row: Due


class DropDue(msgspec.Struct, frozen=True):
    """It is done, or called off."""

    row: Due


class RecordPeer(msgspec.Struct, frozen=True):
    peer: Peer


class RecordPeerEntities(msgspec.Struct, frozen=True):
    """Write these entities of `host`; with `replace` the others of that host are removed."""

    host: HostId
    entities: tuple[PeerEntity, ...]
    replace: bool


class ForgetPeer(msgspec.Struct, frozen=True):
    host: HostId


class RecordSetting(msgspec.Struct, frozen=True):
    key: str
    value: str


@final
class Note(msgspec.Struct, frozen=True):
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
    | KeepBody
    | DropBody
    | RecordKey
    | RecordEntity
    | DropEntity
    | RecordSpawn
    | RecordClaim
    | RecordDue
    | DropDue
    | RecordPeer
    | RecordPeerEntities
    | ForgetPeer
    | RecordSetting
    | Note
)
RECORDED = frozenset(StoreAction.__args__)
"""The types of the store actions."""


def may_wait(actions: Iterable[StoreAction]) -> bool:
    """True when none of these needs a commit of its own."""
    return all((type(action) is RecordSent or type(action) is Record) and action.may_wait for action in actions)
