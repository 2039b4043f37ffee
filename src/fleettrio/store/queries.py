"""The SELECTs of the store: each function reads one thing from a connection and returns rows of `core.rows`."""

# ruff: noqa: S608  (SQL is put together from constants of this package; values are always bound)

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Sequence

from fleettrio.core.rows import Entity, InboxRow, Peer, PeerEntity, SentRow
from fleettrio.ids import Gid, MsgId, TraceId, WallMs
from fleettrio.store.schema import BORN, OPEN, PUT_IN, UNFINISHED
from fleettrio.store.tables import BUS, ENTITY, JOURNAL, LEDGER, OUTBOX, PEER, PEER_ENTITY, JournalRow, StoredMessage

__all__ = (
    "PROBE",
    "SHORTEST_ENDING",
    "Key",
    "StoreContents",
    "by_trace",
    "contents",
    "entity_by_token",
    "find",
    "inbox_rows",
    "journal",
    "key",
    "known",
    "last_in",
    "last_sent",
    "messages",
    "sent",
    "sent_rows",
)

Key = tuple[MsgId, Gid]

SHORTEST_ENDING = 4
"""Characters of an id that are enough to look for it; the indexes are over so many."""
PROBE = "probe"
"""Key in `setting` that the probe writes and removes."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoreContents:
    """What a gateway takes up at its start."""

    entities: tuple[Entity, ...]
    inbox: tuple[InboxRow, ...]
    """Rows that are open, and rows whose sender's host is owed a notice (`notified` is False); by arrival."""
    sent: tuple[SentRow, ...]
    """Rows without a last word, and `injected` or `unconfirmed` ones that have not expired; by sending."""
    peers: tuple[Peer, ...]
    peer_entities: tuple[PeerEntity, ...]
    settings: dict[str, str]
    born: WallMs
    """When this store was created: older messages that it does not know may have been delivered before."""
    next_seq: int
    """Order of the next arrival."""


_ENTITIES = f"SELECT {ENTITY.columns} FROM entity ORDER BY name"
_PEERS = f"SELECT {PEER.columns} FROM peer ORDER BY host"
_PEER_ENTITIES = f"SELECT {PEER_ENTITY.columns} FROM peer_entity ORDER BY host, name"
_SETTINGS = "SELECT key, value FROM setting WHERE key <> ?"
_NEXT_SEQ = "SELECT coalesce(max(seq), 0) + 1 FROM ledger"
_INBOX_AT_START = (
    f"SELECT {LEDGER.columns} FROM ledger WHERE {OPEN}"
    f" UNION ALL SELECT {LEDGER.columns} FROM ledger WHERE notified = 0 AND NOT ({OPEN})"
)
_SENT_AT_START = (
    f"SELECT {OUTBOX.columns} FROM outbox WHERE {UNFINISHED}"
    " AND (state NOT IN ('injected','unconfirmed') OR expires_at > ?) ORDER BY ts"
)


def contents(connection: sqlite3.Connection, now: WallMs) -> StoreContents:
    """Everything in one consistent view."""
    run = connection.execute
    run("BEGIN")
    try:
        settings = {str(name): str(value) for name, value in run(_SETTINGS, (PROBE,))}
        return StoreContents(
            entities=tuple(map(ENTITY.row, run(_ENTITIES))),
            inbox=tuple(sorted(map(LEDGER.row, run(_INBOX_AT_START)), key=lambda row: row.seq)),
            sent=tuple(map(OUTBOX.row, run(_SENT_AT_START, (now,)))),
            peers=tuple(map(PEER.row, run(_PEERS))),
            peer_entities=tuple(map(PEER_ENTITY.row, run(_PEER_ENTITIES))),
            settings=settings,
            born=WallMs(int(settings[BORN])),
            next_seq=int(run(_NEXT_SEQ).fetchone()[0]),
        )
    finally:
        run("COMMIT")


def _keyed(table: str, columns: str) -> str:
    """Rows of a JSON list of `[msgId, gid]`, in its order; all NULL where there is none."""
    return (
        f"SELECT {columns} FROM json_each(?) AS asked LEFT JOIN {table}"
        " ON msg_id = json_extract(asked.value, '$[0]') AND gid = json_extract(asked.value, '$[1]') ORDER BY asked.key"
    )


_KNOWN = _keyed("ledger", LEDGER.columns)
_SENT = _keyed("outbox", OUTBOX.columns)
_MESSAGES = _keyed("bus", BUS.columns)


def known(connection: sqlite3.Connection, keys: Sequence[Key]) -> list[InboxRow | None]:
    found = connection.execute(_KNOWN, (json.dumps(keys),))
    return [None if values[0] is None else LEDGER.row(values) for values in found]


def sent(connection: sqlite3.Connection, keys: Sequence[Key]) -> list[SentRow | None]:
    found = connection.execute(_SENT, (json.dumps(keys),))
    return [None if values[0] is None else OUTBOX.row(values) for values in found]


def messages(connection: sqlite3.Connection, keys: Sequence[Key]) -> list[StoredMessage | None]:
    found = connection.execute(_MESSAGES, (json.dumps(keys),))
    return [None if values[0] is None else BUS.row(values) for values in found]


_INBOX = {
    (has_gid, open_only): f"SELECT {LEDGER.columns} FROM ledger WHERE "
    + " AND ".join((["gid = ?1"] if has_gid else ["?1 IS NULL"]) + ([OPEN] if open_only else []))
    + " ORDER BY seq DESC LIMIT ?2"
    for has_gid in (False, True)
    for open_only in (False, True)
}


def inbox_rows(connection: sqlite3.Connection, gid: Gid | None, open_only: bool, limit: int) -> list[InboxRow]:
    """Newest arrival first."""
    return [*map(LEDGER.row, connection.execute(_INBOX[gid is not None, open_only], (gid, limit)))]


_SENT_BY = f"SELECT {OUTBOX.columns} FROM outbox WHERE sender = ? ORDER BY ts DESC, msg_id DESC LIMIT ?"
_SENT_ALL = f"SELECT {OUTBOX.columns} FROM outbox ORDER BY ts DESC, msg_id DESC LIMIT ?"


def sent_rows(connection: sqlite3.Connection, sender: Gid | None, limit: int) -> list[SentRow]:
    """Newest first."""
    found = connection.execute(_SENT_ALL, (limit,)) if sender is None else connection.execute(_SENT_BY, (sender, limit))
    return [*map(OUTBOX.row, found)]


def last_sent(connection: sqlite3.Connection, sender: Gid) -> SentRow | None:
    return next(iter(sent_rows(connection, sender, 1)), None)


_LAST_IN = f"SELECT {LEDGER.columns} FROM ledger WHERE gid = ? AND {PUT_IN} ORDER BY at DESC, seq DESC LIMIT 1"


def last_in(connection: sqlite3.Connection, gid: Gid) -> InboxRow | None:
    values = connection.execute(_LAST_IN, (gid,)).fetchone()
    return None if values is None else LEDGER.row(values)


def _ending(table: str, columns: str, column: str) -> str:
    return (
        f"SELECT {columns} FROM {table} WHERE substr({column}, -{SHORTEST_ENDING}) = substr(?1, -{SHORTEST_ENDING})"
        f" AND substr({column}, -length(?1)) = ?1 ORDER BY ts, msg_id, gid LIMIT 1000"
    )


_IN_ENDING = _ending("ledger", LEDGER.columns, "msg_id")
_OUT_ENDING = _ending("outbox", OUTBOX.columns, "msg_id")
_IN_TRACE = _ending("ledger", LEDGER.columns, "trace_id")
_OUT_TRACE = _ending("outbox", OUTBOX.columns, "trace_id")


def find(connection: sqlite3.Connection, ending: str) -> tuple[list[InboxRow], list[SentRow]]:
    return _both(connection, _IN_ENDING, _OUT_ENDING, ending)


def by_trace(connection: sqlite3.Connection, ending: str) -> tuple[list[InboxRow], list[SentRow]]:
    return _both(connection, _IN_TRACE, _OUT_TRACE, ending)


def _both(
    connection: sqlite3.Connection, inbox_sql: str, outbox_sql: str, ending: str
) -> tuple[list[InboxRow], list[SentRow]]:
    ending = ending.lower()
    if len(ending) < SHORTEST_ENDING:
        return [], []
    return (
        [*map(LEDGER.row, connection.execute(inbox_sql, (ending,)))],
        [*map(OUTBOX.row, connection.execute(outbox_sql, (ending,)))],
    )


_KEY = "SELECT msg_ids FROM idempotency WHERE key = ? AND sender = ?"


def key(connection: sqlite3.Connection, name: str, sender: Gid) -> tuple[MsgId, ...] | None:
    values = connection.execute(_KEY, (name, sender)).fetchone()
    return None if values is None else tuple(MsgId(msg_id) for msg_id in json.loads(values[0]))


_BY_TOKEN = f"SELECT {ENTITY.columns} FROM entity WHERE token_hash = ? AND length(token_hash) > 0"


def entity_by_token(connection: sqlite3.Connection, token_hash: bytes) -> Entity | None:
    values = connection.execute(_BY_TOKEN, (token_hash,)).fetchone()
    return None if values is None else ENTITY.row(values)


_JOURNAL_ALL = f"SELECT {JOURNAL.columns} FROM journal ORDER BY id DESC LIMIT ?"
_JOURNAL_OF = (
    f"SELECT {JOURNAL.columns} FROM journal WHERE id IN ("
    " SELECT id FROM journal WHERE msg_id IN (SELECT value FROM json_each(?))"
    " UNION SELECT id FROM journal WHERE trace_id = ?) ORDER BY id DESC LIMIT ?"
)


def journal(
    connection: sqlite3.Connection, msg_ids: Sequence[MsgId], trace_id: TraceId | None, limit: int
) -> list[JournalRow]:
    """The newest `limit`, oldest first."""
    if msg_ids or trace_id is not None:
        found = connection.execute(_JOURNAL_OF, (json.dumps(list(msg_ids)), trace_id, limit))
    else:
        found = connection.execute(_JOURNAL_ALL, (limit,))
    return [*map(JOURNAL.row, found)][::-1]
