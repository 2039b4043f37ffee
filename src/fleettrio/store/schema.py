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

from fleettrio.core.wallmark import BORN
from fleettrio.errors import StoreError
from fleettrio.ids import WallMs

__all__ = (
    "KEEP_UNTIL",
    "MIGRATIONS",
    "OF_AGENT",
    "OPEN",
    "PUT_IN",
    "UNANSWERED",
    "UNFINISHED",
    "Migration",
    "copy_path",
    "migrate",
    "newer_schema",
)

Migration = tuple[str, ...]
"""Statements, run in one transaction."""

# Conditions of partial and expression indexes: SQLite uses such an index only where a query repeats its words exactly.
# They are evaluated at every change of a row: of a list of more than two words SQLite makes a table each time, of ORs
# it makes none.
OPEN = "(state = 'waiting' OR state = 'injecting' OR state = 'offered')"
PUT_IN = "(state = 'injected' OR state = 'drained')"
UNANSWERED = "wants_reply = 1 AND answer = '' AND state = 'injected'"
"""Put into an agent whose turn may still go on."""
UNFINISHED = " AND ".join(f"state <> '{word}'" for word in ("drained", "expired", "recalled", "superseded", "failed"))
"""Words that may still be followed by another. `ready` and `done` are in it for the index's sake; they are few."""
KEEP_UNTIL = "max(expires_at + 60000, arrived_at + 172800000)"
"""A ledger row guards against a second delivery: until `expiresAt` + 60 s, and for 48 h at least."""

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
    "CREATE INDEX ledger_open ON ledger(gid, seq) WHERE state IN ('waiting','injecting','offered')",
    "CREATE INDEX ledger_put_in ON ledger(gid, at) WHERE state IN ('injected','drained','offered')",
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
    """CREATE INDEX outbox_unfinished ON outbox(ts)
        WHERE state NOT IN ('drained','expired','recalled','superseded','failed')""",
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

_V2: Migration = (
    *(
        f"ALTER TABLE ledger ADD COLUMN {column}"
        for column in (
            "\"to\" TEXT NOT NULL DEFAULT ''",
            "turn_id TEXT NOT NULL DEFAULT ''",
            "held TEXT NOT NULL DEFAULT ''",
            "has_causal INTEGER NOT NULL DEFAULT 0",
            "on_stale TEXT NOT NULL DEFAULT ''",
            "stale TEXT NOT NULL DEFAULT ''",
            "supersedes TEXT",
            "claim TEXT NOT NULL DEFAULT ''",
            "about TEXT NOT NULL DEFAULT ''",
            "answer TEXT NOT NULL DEFAULT ''",
        )
    ),
    *(
        f"ALTER TABLE outbox ADD COLUMN {column}"
        for column in (
            "\"to\" TEXT NOT NULL DEFAULT ''",
            "turn_id TEXT NOT NULL DEFAULT ''",
            "wants_reply INTEGER NOT NULL DEFAULT 0",
            "answer TEXT NOT NULL DEFAULT ''",
            "owes TEXT NOT NULL DEFAULT ''",
            "stale TEXT NOT NULL DEFAULT ''",
            "about TEXT NOT NULL DEFAULT ''",
            "late INTEGER NOT NULL DEFAULT 0",
        )
    ),
    f"CREATE INDEX ledger_unanswered ON ledger(gid) WHERE {UNANSWERED}",
    "CREATE INDEX outbox_owes ON outbox(to_host) WHERE owes <> ''",
    "ALTER TABLE peer ADD COLUMN has_left INTEGER NOT NULL DEFAULT 0",
    """CREATE TABLE spawn(
        spawn_id TEXT PRIMARY KEY, host TEXT NOT NULL, profile TEXT NOT NULL, state TEXT NOT NULL,
        trace_id TEXT NOT NULL, depth INTEGER NOT NULL, cwd TEXT NOT NULL, worktree INTEGER NOT NULL,
        tree TEXT NOT NULL, started INTEGER NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL,
        at INTEGER NOT NULL) WITHOUT ROWID""",
    "ALTER TABLE entity ADD COLUMN \"left\" TEXT NOT NULL DEFAULT '[]'",
    """CREATE TABLE due(
        id TEXT PRIMARY KEY, what TEXT NOT NULL, at INTEGER NOT NULL, sender TEXT NOT NULL, made_at INTEGER NOT NULL,
        request BLOB NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE claim(
        "key" TEXT PRIMARY KEY, holder TEXT NOT NULL, host TEXT NOT NULL, fence INTEGER NOT NULL, at INTEGER NOT NULL,
        lease INTEGER NOT NULL) WITHOUT ROWID""",
)

_V3: Migration = (
    "ALTER TABLE entity ADD COLUMN session TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE entity ADD COLUMN api TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE entity ADD COLUMN program INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE entity ADD COLUMN started INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE entity ADD COLUMN reply TEXT NOT NULL DEFAULT ''",
)

_V4: Migration = ("ALTER TABLE entity ADD COLUMN shown INTEGER NOT NULL DEFAULT 0",)

# The steps of a message lie in its row (`store.journal`). An index over what is random makes every message write a page
# of its own: endings and traces are looked for along the time, at a tenth of a microsecond a row.
_V5: Migration = (
    "ALTER TABLE ledger ADD COLUMN steps TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE outbox ADD COLUMN steps TEXT NOT NULL DEFAULT ''",
    *(
        f"DROP INDEX {index}"
        for index in (
            *("ledger_open", "ledger_put_in", "ledger_ending", "ledger_trace", "ledger_keep"),
            *("outbox_unfinished", "outbox_ending", "outbox_trace", "outbox_ts"),
        )
    ),
    f"CREATE INDEX ledger_open ON ledger(gid, seq) WHERE {OPEN}",
    f"CREATE INDEX ledger_put_in ON ledger(gid, at) WHERE {PUT_IN}",
    f"CREATE INDEX outbox_unfinished ON outbox(ts) WHERE {UNFINISHED}",
    f"CREATE INDEX ledger_keep ON ledger({KEEP_UNTIL}, trace_id)",
    "CREATE INDEX outbox_ts ON outbox(ts, trace_id)",
)

# An index that begins with the agent makes what comes together for many agents write a page for each, and split it in
# the middle: what is an agent's is looked for along the time, too.
_V6: Migration = (
    "DROP INDEX ledger_gid",
    "DROP INDEX ledger_put_in",
    "CREATE INDEX ledger_came ON ledger(seq)",
    f"CREATE INDEX ledger_put_in ON ledger(at, seq, state) WHERE {PUT_IN}",
)

MIGRATIONS: tuple[Migration, ...] = (_V1, _V2, _V3, _V4, _V5, _V6)

OF_AGENT = "(msg_id, gid) IN (SELECT msg_id, gid FROM ledger WHERE gid = ?1)"
"""The rows of one agent, found by an index that has the ids, and no row but theirs is read."""


def copy_path(path: Path, version: int) -> Path:
    """Where the copy of a store of schema `version` is kept before it is migrated."""
    return path.with_name(f"{path.name}.v{version}")


def newer_schema(path: Path, version: int, newest: int) -> StoreError:
    """For a file of a later version than the `newest` that is known here."""
    return StoreError(
        f"{path} was written by a newer fleettrio (schema {version}, this one knows {newest})",
        reason="newer-schema",
        hint="run the newer fleettrio, or put back the copy that it made beside the file before it migrated",
    )


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration], at: WallMs) -> None:
    """Bring the file to the newest schema, all steps in one transaction: they happen together or not at all.

    Raises `StoreError` (`newer-schema`, `foreign`), having changed nothing, and `sqlite3.Error`, having rolled back.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    newest = len(migrations)
    if version > newest:
        raise newer_schema(path, version, newest)
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
