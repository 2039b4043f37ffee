"""From store actions to SQL: what one submitted list writes, and its journal rows, in the same transaction.

Statements on one table keep their order; those on different tables do not depend on each other (there are no triggers
and no foreign keys), so the writer may bring the ones of a whole group together by table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple, assert_never

from fleettrio.core.actions import (
    Commit,
    DropEntity,
    ForgetPeer,
    Note,
    Record,
    RecordEntity,
    RecordKey,
    RecordPeer,
    RecordPeerEntities,
    RecordSent,
    RecordSetting,
    StoreAction,
)
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.ids import WallMs
from fleettrio.store.tables import ENTITY, LEDGER, OUTBOX, PEER, PEER_ENTITY

__all__ = ("Statement", "statements")


_PartyAction = RecordEntity | DropEntity | RecordPeer | RecordPeerEntities | ForgetPeer


class Statement(NamedTuple):
    table: str
    sql: str
    values: tuple[object, ...]


_BUS = "INSERT OR REPLACE INTO bus(msg_id, gid, header, sig, proof, body) VALUES (?, ?, ?, ?, ?, ?)"
_LEDGER = LEDGER.upsert(("msg_id", "gid"))
_OUTBOX = OUTBOX.upsert(("msg_id", "gid"), kept_if_empty=("leaf", "header", "sig", "proof"))
_KEY = "INSERT INTO idempotency(key, sender, msg_ids, at) VALUES (?, ?, ?, ?) ON CONFLICT(key, sender) DO NOTHING"
_ENTITY = ENTITY.replacing()
_DROP_ENTITY = "DELETE FROM entity WHERE gid = ?"
_PEER = PEER.replacing()
_FORGET_PEER = "DELETE FROM peer WHERE host = ?"
_PEER_ENTITY = PEER_ENTITY.replacing()
_CLEAR_PEER_ENTITIES = "DELETE FROM peer_entity WHERE host = ?"
_SETTING = "INSERT OR REPLACE INTO setting(key, value) VALUES (?, ?)"
# A row is written again for other things than its state (told, asked to recall): the journal has each state once.
_JOURNAL = (
    "INSERT INTO journal(at, what, msg_id, gid, trace_id, peer, reason, detail, ms)"
    " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE ?3 IS NULL OR NOT EXISTS"
    " (SELECT 1 FROM journal WHERE msg_id = ?3 AND gid IS ?4 AND what = ?2 AND reason = ?7 AND at = ?1)"
)


def statements(actions: Sequence[StoreAction], at: WallMs) -> list[Statement]:
    """All statements of one transaction. `at`: when it was submitted, for what has no time of its own."""
    found: list[Statement] = []
    for action in actions:
        _add(found, action, at)
    return found


def _add(found: list[Statement], action: StoreAction, at: WallMs) -> None:
    match action:
        case Commit(row=row, header=header, body=body, sig=sig, proof=proof):
            found.append(Statement("bus", _BUS, (row.msg_id, row.gid, header, sig, proof, body)))
            _add_inbox(found, row, at)
        case Record(row=row):
            _add_inbox(found, row, at)
        case RecordSent(row=sent):
            _add_sent(found, sent, at)
        case RecordKey(key=key, sender=sender, msg_ids=msg_ids):
            found.append(Statement("idempotency", _KEY, (key, sender, json.dumps(msg_ids), at)))
        case RecordSetting(key=key, value=value):
            found.append(Statement("setting", _SETTING, (key, value)))
        case Note() as note:
            subject = (note.msg_id, note.gid, note.trace_id)
            _add_journal(found, at, note.what, subject, note.peer, note.reason, note.detail)
        case _:
            _add_party(found, action, at)


def _add_party(found: list[Statement], action: _PartyAction, at: WallMs) -> None:
    match action:
        case RecordEntity(entity=entity):
            found.append(Statement("entity", _ENTITY, ENTITY.values(entity)))
            _add_journal(found, at, f"agent {entity.status}", (None, entity.gid, None), detail=entity.name)
        case DropEntity(gid=gid):
            found.append(Statement("entity", _DROP_ENTITY, (gid,)))
            _add_journal(found, at, "agent gone", (None, gid, None))
        case RecordPeer(peer=peer):
            found.append(Statement("peer", _PEER, PEER.values(peer)))
        case RecordPeerEntities(host=host, entities=entities, replace=replace):
            if replace:
                found.append(Statement("peer_entity", _CLEAR_PEER_ENTITIES, (host,)))
            found.extend(Statement("peer_entity", _PEER_ENTITY, PEER_ENTITY.values(entity)) for entity in entities)
        case ForgetPeer(host=host):
            found.append(Statement("peer", _FORGET_PEER, (host,)))
            found.append(Statement("peer_entity", _CLEAR_PEER_ENTITIES, (host,)))
        case _:
            assert_never(action)


def _add_inbox(found: list[Statement], row: InboxRow, at: WallMs) -> None:
    found.append(Statement("ledger", _LEDGER, LEDGER.values(row)))
    when, subject = row.at or at, (row.msg_id, row.gid, row.trace_id)
    _add_journal(found, when, row.state, subject, row.from_host, row.reason, row.detail, when - row.arrived_at)


def _add_sent(found: list[Statement], row: SentRow, at: WallMs) -> None:
    found.append(Statement("outbox", _OUTBOX, OUTBOX.values(row)))
    when, subject = row.at or at, (row.msg_id, row.gid, row.trace_id)
    _add_journal(found, when, row.state, subject, row.to_host, row.reason, row.detail, when - row.ts)


def _add_journal(
    found: list[Statement],
    at: int,
    what: str,
    subject: tuple[str | None, str | None, str | None],
    peer: str = "",
    reason: str = "",
    detail: str = "",
    ms: int = 0,
) -> None:
    """`subject`: message, entity, trace."""
    found.append(Statement("journal", _JOURNAL, (at, what, *subject, peer, reason, detail, max(0, ms))))
