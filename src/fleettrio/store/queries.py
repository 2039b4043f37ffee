"""The SELECTs of the store: each function reads one thing from a connection and returns rows of `core.rows`."""

# ruff: noqa: S608  (SQL is put together from constants of this package; values are always bound)

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

from fleettrio.core.entity import Entity
from fleettrio.core.rows import InboxRow, Key, SentRow
from fleettrio.ids import Gid, MsgId
from fleettrio.store.schema import OPEN, PUT_IN
from fleettrio.store.tables import BUS, ENTITY, LEDGER, OUTBOX, StoredMessage
from fleettrio.wire.envelope import Kind
from fleettrio.wire.gids import is_msg_id

__all__ = (
    "SHORTEST_PART",
    "by_trace",
    "entity_by_token",
    "find",
    "inbox_rows",
    "key",
    "known",
    "last_in",
    "last_sent",
    "last_to_reply",
    "messages",
    "newest",
    "sent",
    "sent_rows",
)

SHORTEST_PART = 4
"""Characters of an id that are enough to look for it."""


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


def newest(connection: sqlite3.Connection) -> MsgId:
    """The greatest msgId of the ledger; empty when there is none."""
    return MsgId(connection.execute("SELECT coalesce(max(msg_id), '') FROM ledger").fetchone()[0])


def sent(connection: sqlite3.Connection, keys: Sequence[Key]) -> list[SentRow | None]:
    found = connection.execute(_SENT, (json.dumps(keys),))
    return [None if values[0] is None else OUTBOX.row(values) for values in found]


def messages(connection: sqlite3.Connection, keys: Sequence[Key]) -> list[StoredMessage | None]:
    found = connection.execute(_MESSAGES, (json.dumps(keys),))
    return [None if values[0] is None else BUS.row(values) for values in found]


_INBOX = {
    (False, False): f"SELECT {LEDGER.columns} FROM ledger WHERE ?1 IS NULL ORDER BY seq DESC LIMIT ?2",
    (False, True): f"SELECT {LEDGER.columns} FROM ledger WHERE ?1 IS NULL AND {OPEN} ORDER BY seq DESC LIMIT ?2",
    (True, False): f"SELECT {LEDGER.columns} FROM ledger WHERE (msg_id, gid) IN"
    " (SELECT msg_id, gid FROM ledger WHERE gid = ?1 ORDER BY seq DESC LIMIT ?2) ORDER BY seq DESC",
    (True, True): f"SELECT {LEDGER.columns} FROM ledger WHERE gid = ?1 AND {OPEN} ORDER BY seq DESC LIMIT ?2",
}


_INBOX_COUNT = {
    open_only: "SELECT count(*) FROM ledger WHERE gid = ?" + (f" AND {OPEN}" if open_only else "")
    for open_only in (False, True)
}
_SENT_COUNT = "SELECT count(*) FROM outbox WHERE sender = ?"


def count_inbox(connection: sqlite3.Connection, gid: Gid, open_only: bool) -> int:
    return int(connection.execute(_INBOX_COUNT[open_only], (gid,)).fetchone()[0])


def count_sent(connection: sqlite3.Connection, sender: Gid) -> int:
    return int(connection.execute(_SENT_COUNT, (sender,)).fetchone()[0])


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


# What was put in has its word, or is offered just now.
_PUT_IN = (
    f"SELECT {LEDGER.columns} FROM ledger WHERE (msg_id, gid) IN"
    f" (SELECT msg_id, gid FROM ledger WHERE {PUT_IN} AND gid = ?1 ORDER BY at DESC, seq DESC LIMIT {{}})"
)
_OFFERED = f" UNION ALL SELECT {LEDGER.columns} FROM ledger WHERE gid = ?1 AND {OPEN} AND state = 'offered'"
_LAST_IN = f"{_PUT_IN.format(1)}{_OFFERED} ORDER BY at DESC, seq DESC LIMIT 1"
_LAST_TO_REPLY = (
    f"SELECT {LEDGER.columns} FROM ({_PUT_IN.format(-1)}{_OFFERED}) WHERE kind NOT IN ('{Kind.ASK}','{Kind.ANSWER}')"
    f" ORDER BY wants_reply = 1 OR kind = '{Kind.REPLY}' DESC, at DESC, seq DESC LIMIT 1"
)


def last_in(connection: sqlite3.Connection, gid: Gid) -> InboxRow | None:
    values = connection.execute(_LAST_IN, (gid,)).fetchone()
    return None if values is None else LEDGER.row(values)


def last_to_reply(connection: sqlite3.Connection, gid: Gid) -> InboxRow | None:
    """The newest that a reply may go to: one that wants it, or is itself a reply, before what was only to be read."""
    values = connection.execute(_LAST_TO_REPLY, (gid,)).fetchone()
    return None if values is None else LEDGER.row(values)


def _part(table: str, columns: str, condition: str) -> str:
    """Along an index over the time that has the ids, too: by endings, every message would write a page of its own."""
    return (
        f"SELECT {columns} FROM {table} WHERE (msg_id, gid) IN"
        f" (SELECT msg_id, gid FROM {table} WHERE {condition} LIMIT {_MOST_FOUND}) ORDER BY ts, msg_id, gid"
    )


def _ways(column: str) -> tuple[tuple[str, str], ...]:
    """By an ending, else by a beginning: the beginning of a msgId is the clock, which many share."""
    conditions = (f"substr({column}, -length(?1)) = ?1", f"{column} >= ?1 AND {column} < ?1 || 'g'")
    return tuple(
        (_part("ledger", LEDGER.columns, condition), _part("outbox", OUTBOX.columns, condition))
        for condition in conditions
    )


def _whole(table: str, columns: str) -> str:
    return f"SELECT {columns} FROM {table} WHERE msg_id = ?1 ORDER BY ts, gid LIMIT {_MOST_FOUND}"


_MOST_FOUND = 1000
_WHOLE = (_whole("ledger", LEDGER.columns), _whole("outbox", OUTBOX.columns))
_OF_MESSAGE, _OF_TRACE = _ways("msg_id"), _ways("trace_id")


def find(connection: sqlite3.Connection, part: str) -> tuple[list[InboxRow], list[SentRow]]:
    return _found(connection, part.lower(), (_WHOLE,) if is_msg_id(part.lower()) else _OF_MESSAGE)


def by_trace(connection: sqlite3.Connection, part: str) -> tuple[list[InboxRow], list[SentRow]]:
    return _found(connection, part.lower(), _OF_TRACE)


def _found(
    connection: sqlite3.Connection, part: str, ways: Sequence[tuple[str, str]]
) -> tuple[list[InboxRow], list[SentRow]]:
    """What the first of these ways finds that finds any."""
    for inbox_sql, outbox_sql in ways if len(part) >= SHORTEST_PART else ():
        inbox = [*map(LEDGER.row, connection.execute(inbox_sql, (part,)))]
        sent = [*map(OUTBOX.row, connection.execute(outbox_sql, (part,)))]
        if inbox or sent:
            return inbox, sent
    return [], []


_KEY = "SELECT msg_ids FROM idempotency WHERE key = ? AND sender = ?"


def key(connection: sqlite3.Connection, name: str, sender: Gid) -> tuple[MsgId, ...] | None:
    values = connection.execute(_KEY, (name, sender)).fetchone()
    return None if values is None else tuple(MsgId(msg_id) for msg_id in json.loads(values[0]))


def keyed(connection: sqlite3.Connection, names: Iterable[str], sender: Gid) -> dict[str, tuple[SentRow, ...]]:
    """The rows of the messages that each of this sender's idempotency keys stands for; a new one has none."""
    found = {}
    for name in names:
        ids = key(connection, name, sender) or ()
        found[name] = tuple(row for msg_id in ids for row in find(connection, msg_id)[1])
    return found


_BY_TOKEN = f"SELECT {ENTITY.columns} FROM entity WHERE token_hash = ? AND length(token_hash) > 0"


def entity_by_token(connection: sqlite3.Connection, token_hash: bytes) -> Entity | None:
    values = connection.execute(_BY_TOKEN, (token_hash,)).fetchone()
    return None if values is None else ENTITY.row(values)
