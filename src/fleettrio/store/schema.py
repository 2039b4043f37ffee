"""The tables, and how a file made by an older fleettrio becomes a newer one.

Rules: a migration only goes forward and is never edited once released; step *n* of `MIGRATIONS` takes a file from
version *n* to *n + 1*; a file with rows in it is copied before it is changed; a file of a newer fleettrio is refused.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from fleettrio.errors import StoreError
from fleettrio.ids import WallMs

__all__ = ("BORN", "KEEP_UNTIL", "MIGRATIONS", "OPEN", "PUT_IN", "UNFINISHED", "Migration", "copy_path", "migrate")

Migration = tuple[str, ...]
"""Statements, run in one transaction."""

BORN = "born"
"""Key in `setting`: wall time, ms, at which this store was created."""

# Conditions of partial and expression indexes: SQLite uses such an index only where a query repeats its words exactly.
OPEN = "state IN ('waiting','injecting','offered')"
PUT_IN = "state IN ('injected','drained','offered')"
UNFINISHED = "state NOT IN ('drained','expired','recalled','superseded','failed')"
KEEP_UNTIL = "max(expires_at + 60000, arrived_at + 172800000)"
"""A ledger row guards against a second delivery until `expiresAt` + 2 × skew, and 48 h at least (`20-semantics`)."""

_V1: Migration = (
    "CREATE TABLE setting(key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE entity(
        gid TEXT PRIMARY KEY, name TEXT NOT NULL, salt BLOB NOT NULL, role TEXT NOT NULL, takes TEXT NOT NULL,
        "groups" TEXT NOT NULL, harness TEXT NOT NULL, status TEXT NOT NULL, since INTEGER NOT NULL,
        transport TEXT NOT NULL, target TEXT NOT NULL, tty TEXT NOT NULL, pid INTEGER NOT NULL, cwd TEXT NOT NULL,
        repo TEXT NOT NULL, head TEXT NOT NULL, wakes INTEGER NOT NULL, "full" INTEGER NOT NULL,
        token_hash BLOB NOT NULL, rev INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE bus(
        msg_id TEXT NOT NULL, gid TEXT NOT NULL, header BLOB NOT NULL, sig BLOB NOT NULL, proof BLOB NOT NULL,
        body BLOB NOT NULL, PRIMARY KEY(msg_id, gid))""",
    """CREATE TABLE ledger(
        msg_id TEXT NOT NULL, gid TEXT NOT NULL, leaf BLOB NOT NULL, state TEXT NOT NULL, kind TEXT NOT NULL,
        sender TEXT NOT NULL, from_host TEXT NOT NULL, trace_id TEXT NOT NULL, ts INTEGER NOT NULL,
        expires_at INTEGER NOT NULL, arrived_at INTEGER NOT NULL, seq INTEGER NOT NULL, size INTEGER NOT NULL,
        reason TEXT NOT NULL, detail TEXT NOT NULL, via TEXT NOT NULL, at INTEGER NOT NULL, re TEXT,
        "when" TEXT NOT NULL, priority INTEGER NOT NULL, intent TEXT NOT NULL, wants_reply INTEGER NOT NULL,
        auto INTEGER NOT NULL, depth INTEGER NOT NULL, repeat INTEGER NOT NULL, notified INTEGER NOT NULL,
        PRIMARY KEY(msg_id, gid)) WITHOUT ROWID""",
    "CREATE INDEX ledger_gid ON ledger(gid, seq)",
    f"CREATE INDEX ledger_open ON ledger(gid, seq) WHERE {OPEN}",
    f"CREATE INDEX ledger_put_in ON ledger(gid, at) WHERE {PUT_IN}",
    "CREATE INDEX ledger_owed ON ledger(from_host) WHERE notified = 0",
    "CREATE INDEX ledger_ending ON ledger(substr(msg_id, -4))",
    "CREATE INDEX ledger_trace ON ledger(substr(trace_id, -4))",
    f"CREATE INDEX ledger_keep ON ledger({KEEP_UNTIL})",
    """CREATE TABLE outbox(
        msg_id TEXT NOT NULL, gid TEXT NOT NULL, to_host TEXT NOT NULL, sender TEXT NOT NULL, kind TEXT NOT NULL,
        leaf BLOB NOT NULL, header BLOB NOT NULL, trace_id TEXT NOT NULL, ts INTEGER NOT NULL,
        expires_at INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL, via TEXT NOT NULL,
        said_by TEXT NOT NULL, at INTEGER NOT NULL, re TEXT, answered_by TEXT, recalling INTEGER NOT NULL,
        sig BLOB NOT NULL, proof BLOB NOT NULL, PRIMARY KEY(msg_id, gid)) WITHOUT ROWID""",
    "CREATE INDEX outbox_sender ON outbox(sender, ts)",
    f"CREATE INDEX outbox_unfinished ON outbox(ts) WHERE {UNFINISHED}",
    "CREATE INDEX outbox_ending ON outbox(substr(msg_id, -4))",
    "CREATE INDEX outbox_trace ON outbox(substr(trace_id, -4))",
    "CREATE INDEX outbox_ts ON outbox(ts)",
    """CREATE TABLE idempotency(
        key TEXT NOT NULL, sender TEXT NOT NULL, msg_ids TEXT NOT NULL, at INTEGER NOT NULL,
        PRIMARY KEY(key, sender)) WITHOUT ROWID""",
    """CREATE TABLE peer(
        host TEXT PRIMARY KEY, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, roster_rev INTEGER NOT NULL,
        trust_rev INTEGER NOT NULL, version TEXT NOT NULL, kinds TEXT NOT NULL, profiles TEXT NOT NULL,
        heard_at INTEGER NOT NULL, offset_ms INTEGER NOT NULL, refuses_us TEXT NOT NULL,
        we_refuse TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE peer_entity(
        gid TEXT PRIMARY KEY, host TEXT NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL, takes TEXT NOT NULL,
        "groups" TEXT NOT NULL, status TEXT NOT NULL, since INTEGER NOT NULL, harness TEXT NOT NULL,
        wakes INTEGER NOT NULL, "full" INTEGER NOT NULL, repo TEXT NOT NULL, head TEXT NOT NULL,
        rev INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX peer_entity_host ON peer_entity(host)",
    """CREATE TABLE journal(
        id INTEGER PRIMARY KEY, at INTEGER NOT NULL, what TEXT NOT NULL, msg_id TEXT, gid TEXT, trace_id TEXT,
        peer TEXT NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL, ms INTEGER NOT NULL)""",
    "CREATE INDEX journal_message ON journal(msg_id) WHERE msg_id IS NOT NULL",
    "CREATE INDEX journal_trace ON journal(trace_id) WHERE trace_id IS NOT NULL",
)

MIGRATIONS: tuple[Migration, ...] = (_V1,)


def copy_path(path: Path, version: int) -> Path:
    """Where the copy of a store of schema `version` is kept before it is migrated."""
    return path.with_name(f"{path.name}.v{version}")


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration], at: WallMs) -> None:
    """Bring the file to the newest schema, all steps in one transaction: they happen together or not at all.

    Raises `StoreError` (`newer-schema`, `foreign`), having changed nothing, and `sqlite3.Error`, having rolled back.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    newest = len(migrations)
    if version > newest:
        raise StoreError(
            f"{path} was written by a newer fleettrio (schema {version}, this one knows {newest})",
            reason="newer-schema",
            hint="run the newer fleettrio, or put back the copy that it made beside the file before it migrated",
        )
    if version == newest:
        return
    if version > 0:
        _copy(connection, copy_path(path, version))
    elif connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise StoreError(
            f"{path} is a database of another program",
            reason="foreign",
            hint="move it away, or use another FLEETTRIO_HOME",
        )
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in migrations[version:]:
            for statement in step:
                connection.execute(statement)
        if version == 0:
            connection.execute("INSERT INTO setting(key, value) VALUES (?, ?)", (BORN, str(at)))
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _copy(connection: sqlite3.Connection, target: Path) -> None:
    """A whole and durable copy, or none: written under another name first."""
    draft = target.with_name(f"{target.name}.draft")
    os.close(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
    with contextlib.closing(sqlite3.connect(draft)) as copy:
        copy.execute("PRAGMA synchronous = FULL")
        connection.backup(copy)
    os.replace(draft, target)
