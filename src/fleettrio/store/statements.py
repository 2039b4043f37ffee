"""From store actions to SQL: what one commit writes.

Rules:
1. A row that changes twice in one commit is written once, as it is at the end; its steps are all there.
2. A row that is known is changed where rows change; one that is new, or is about another message than before, is
   written whole.
3. Statements on one table keep their order; those on different tables do not depend on each other (there are no
   triggers and no foreign keys), so those of a whole group are brought together by table, and neighbours of one kind
   go in one call.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from itertools import compress, groupby
from operator import itemgetter, ne
from typing import Generic, NamedTuple, TypeVar, assert_never

from fleettrio.core.actions import (
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
)
from fleettrio.core.nudges import NUDGE
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.ids import Gid, MsgId, WallMs, short_id
from fleettrio.store.journal import step
from fleettrio.store.tables import CLAIM, DUE, ENTITY, LEDGER, OUTBOX, PEER, PEER_ENTITY, SPAWN, MessageTable

__all__ = ("Statements", "Transaction")

_RowAction = (
    RecordEntity
    | DropEntity
    | RecordSpawn
    | RecordClaim
    | RecordDue
    | DropDue
    | RecordPeer
    | RecordPeerEntities
    | ForgetPeer
)
_Values = tuple[object, ...]
_Key = tuple[MsgId, Gid]
M = TypeVar("M", bound=InboxRow | SentRow)

_BUS = "INSERT OR REPLACE INTO bus(msg_id, gid, header, sig, proof, body) VALUES (?, ?, ?, ?, ?, ?)"
_DROP_BODY = "DELETE FROM bus WHERE msg_id = ? AND gid = ?"
_KEY = "INSERT INTO idempotency(key, sender, msg_ids, at) VALUES (?, ?, ?, ?) ON CONFLICT(key, sender) DO NOTHING"
_ENTITY = ENTITY.replacing()
_DROP_ENTITY = "DELETE FROM entity WHERE gid = ?"
_SPAWN = SPAWN.replacing()
_CLAIM = CLAIM.replacing()
_DUE = DUE.replacing()
_DROP_DUE = "DELETE FROM due WHERE id = ?"
_PEER = PEER.replacing()
_FORGET_PEER = "DELETE FROM peer WHERE host = ?"
_PEER_ENTITY = PEER_ENTITY.replacing()
_CLEAR_PEER_ENTITIES = "DELETE FROM peer_entity WHERE host = ?"
_SETTING = "INSERT OR REPLACE INTO setting(key, value) VALUES (?, ?)"
_JOURNAL = (
    "INSERT INTO journal(at, what, msg_id, gid, trace_id, peer, reason, detail, ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Transaction(NamedTuple):
    """One submitted list. `at`: when, for what has no time of its own."""

    actions: Sequence[StoreAction]
    at: WallMs


class Statements:
    """All that one commit writes."""

    def __init__(self) -> None:
        self._inbox = _MessageRows(LEDGER)
        self._sent = _MessageRows(OUTBOX)
        self._others: dict[str, list[tuple[str, _Values]]] = {}

    def add(self, transaction: Transaction) -> None:
        at = transaction.at
        for action in transaction.actions:  # by far the most are of messages: those are not matched one by one
            if type(action) is RecordSent:
                self._sent.put(action.row, action.before, _sent_steps(action.row, action.before, at))
            elif type(action) is Record:
                self._inbox.put(action.row, action.before, _inbox_steps(action.row, action.before, at))
            elif type(action) is Commit:
                row = action.row
                self._add("bus", _BUS, (row.msg_id, row.gid, action.header, action.sig, action.proof, action.body))
                self._inbox.put(row, None, _inbox_steps(row, None, at))
            elif type(action) is Note:
                subject = (action.msg_id, action.gid, action.trace_id)
                self._add_journal(at, action.what, subject, action.peer, action.reason, action.detail)
            else:
                self._add_other(action, at)

    def run(self, connection: sqlite3.Connection) -> None:
        self._inbox.write(connection)
        self._sent.write(connection)
        for statements in self._others.values():
            _run_in_order(connection, statements)

    # --- rows that are no message's

    def _add_other(self, action: _RowAction | KeepBody | DropBody | RecordKey | RecordSetting, at: WallMs) -> None:
        match action:
            case KeepBody(msg_id=msg_id, gid=gid, body=body):
                self._add("bus", _BUS, (msg_id, gid, b"", b"", b"", body))
            case DropBody(msg_id=msg_id, gid=gid):
                self._add("bus", _DROP_BODY, (msg_id, gid))
            case RecordKey(key=key, sender=sender, msg_ids=msg_ids):
                self._add("idempotency", _KEY, (key, sender, json.dumps(msg_ids), at))
            case RecordSetting(key=key, value=value):
                self._add("setting", _SETTING, (key, value))
            case _:
                self._add_row(action, at)

    def _add_row(self, action: _RowAction, at: WallMs) -> None:
        match action:
            case RecordEntity(entity=entity):
                self._add("entity", _ENTITY, ENTITY.values(entity))
                self._add_journal(at, f"agent {entity.status}", (None, entity.gid, None), detail=entity.name)
            case DropEntity(gid=gid):
                self._add("entity", _DROP_ENTITY, (gid,))
                self._add_journal(at, "agent gone", (None, gid, None))
            case RecordSpawn(row=spawn):
                self._add("spawn", _SPAWN, SPAWN.values(spawn))
                subject = (None, spawn.spawn_id, spawn.trace_id)
                self._add_journal(at, f"spawn {spawn.state}", subject, spawn.host, spawn.reason, spawn.detail)
            case RecordClaim(claim=claim):
                self._add("claim", _CLAIM, CLAIM.values(claim))
                what, who = "claimed" if claim.holder else "released", (None, claim.holder or None, None)
                self._add_journal(at, what, who, claim.host, claim.key[:64], f"fence {claim.fence}")
            case RecordDue(row=due):
                self._add("due", _DUE, DUE.values(due))
                of_agent = due.what == NUDGE
                subject_due = (None if of_agent else due.id, due.sender if of_agent else None, None)
                self._add_journal(at, f"due {due.what}", subject_due, detail=f"at {due.at}")
            case DropDue(row=due):
                self._add("due", _DROP_DUE, (due.id,))
            case RecordPeer(peer=peer):
                self._add("peer", _PEER, PEER.values(peer))
            case RecordPeerEntities(host=host, entities=entities, replace=replace):
                if replace:
                    self._add("peer_entity", _CLEAR_PEER_ENTITIES, (host,))
                for peer_entity in entities:
                    self._add("peer_entity", _PEER_ENTITY, PEER_ENTITY.values(peer_entity))
            case ForgetPeer(host=host):
                self._add("peer", _FORGET_PEER, (host,))
                self._add("peer_entity", _CLEAR_PEER_ENTITIES, (host,))
            case _:
                assert_never(action)

    def _add_journal(
        self,
        at: int,
        what: str,
        subject: tuple[str | None, str | None, str | None],
        peer: str = "",
        reason: str = "",
        detail: str = "",
    ) -> None:
        """`subject`: message, entity, trace."""
        self._add("journal", _JOURNAL, (at, what, *subject, peer, reason, detail, 0))

    def _add(self, table: str, sql: str, values: _Values) -> None:
        self._others.setdefault(table, []).append((sql, values))


class _MessageRows(Generic[M]):
    """What one commit writes of the rows of messages, sent or received."""

    def __init__(self, table: MessageTable[M]) -> None:
        self._table = table
        self._whole: dict[_Key, tuple[M, str]] = {}
        self._changed: dict[_Key, tuple[M, M, str]] = {}

    def put(self, row: M, before: M | None, steps: str) -> None:
        """`before`: what the row was, as in `Record`; without it, nobody knows."""
        key = (row.msg_id, row.gid)
        if whole := self._whole.get(key):
            self._whole[key] = self._table.over(whole[0], row), _joined(whole[1], steps)
            return
        changed = self._changed.pop(key, None)
        if changed is not None:
            steps = _joined(changed[2], steps)
            before = before and changed[1]
        if before is not None and before.leaf == row.leaf:
            self._changed[key] = row, before, steps
        else:
            self._whole[key] = row, steps

    def write(self, connection: sqlite3.Connection) -> None:
        table = self._table
        if self._whole:
            connection.executemany(table.whole, [(*table.values(row), steps) for row, steps in self._whole.values()])
        if self._changed:
            self._write_changes(connection)

    def _write_changes(self, connection: sqlite3.Connection) -> None:
        table = self._table
        by_fields: dict[tuple[bool, ...], list[_Values]] = defaultdict(list)
        for key, (row, before, steps) in self._changed.items():
            now = table.changing_values(row)
            is_other = tuple(map(ne, now, table.changing_values(before)))
            by_fields[is_other].append((*compress(now, is_other), steps, *key))
        written = [connection.executemany(table.change(which), rows).rowcount for which, rows in by_fields.items()]
        if sum(written) < len(self._changed):  # one was forgotten meanwhile
            missing = [(*table.values(row), steps) for row, _, steps in self._changed.values()]
            connection.executemany(table.whole_if_missing, missing)


def _joined(steps: str, more: str) -> str:
    """What was said last is not said again."""
    return steps if steps.endswith(more) else steps + more


def _run_in_order(connection: sqlite3.Connection, statements: Sequence[tuple[str, _Values]]) -> None:
    """Neighbours of one kind in one call."""
    for sql, neighbours in groupby(statements, key=itemgetter(0)):
        connection.executemany(sql, [values for _, values in neighbours])


def _inbox_steps(row: InboxRow, before: InboxRow | None, at: WallMs) -> str:
    """A row is written again for other things than its state (told, asked to recall): it has each state once."""
    if before is None or row.at != before.at or row.state is not before.state or row.reason != before.reason:
        return step(row.at or at, row.state, row.reason, row.detail)
    if row.notified and not before.notified:
        return step(at, "told", row.state, ms=at - row.at)
    return ""


def _sent_steps(row: SentRow, before: SentRow | None, at: WallMs) -> str:
    steps = ""
    if before is None or row.at != before.at or row.state is not before.state or row.reason != before.reason:
        steps = step(row.at or at, row.state, row.reason, row.detail)
    if row.recalling and not (before and before.recalling):
        steps += step(at, "recall")
    if row.answered_by and not (before and before.answered_by):
        steps += step(at, "answered", "", f"by {short_id(row.answered_by)}")
    if row.answer and row.answer != (before.answer if before else ""):
        steps += step(at, row.answer)
    return steps
