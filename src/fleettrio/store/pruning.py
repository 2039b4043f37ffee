"""What the store forgets, and when.

- A ledger row guards against a second delivery until `expiresAt` + 60 s, and 48 h at least. Its body goes with it; its
  steps go into the journal.
  An open row is never forgotten; one whose notice is still owed is kept 31 days more.
- A sent row goes 14 days after its last word, one without a last word after 31 days, none before it expired.
- An idempotency key goes 14 days after it was used, never before its messages.
- A claim that is free goes 31 days after it was released.
- The journal has 14 days and at most `JOURNAL_LIMIT` rows.
"""

# ruff: noqa: S608  (SQL is put together from constants of this package; values are always bound)

from __future__ import annotations

import sqlite3

import msgspec

from fleettrio.ids import WallMs
from fleettrio.store.journal import STEPS
from fleettrio.store.schema import KEEP_UNTIL, OPEN

__all__ = ("BATCH", "JOURNAL_LIMIT", "Pruned", "prune_batch")

DAY_MS = 86_400_000
FINAL_MS = 14 * DAY_MS
UNKNOWN_MS = 31 * DAY_MS
JOURNAL_LIMIT = 500_000
"""Rows."""
BATCH = 256
"""Rows of a table removed in one transaction: a delivery never waits long behind it."""


class Pruned(msgspec.Struct, frozen=True):
    """Rows removed."""

    inbox: int = 0
    sent: int = 0
    keys: int = 0
    journal: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        return Pruned(
            self.inbox + other.inbox, self.sent + other.sent, self.keys + other.keys, self.journal + other.journal
        )

    @property
    def is_empty(self) -> bool:
        return self == Pruned()


_OLD_INBOX = (
    f"SELECT msg_id, gid FROM ledger WHERE {KEEP_UNTIL} < ?1 AND NOT ({OPEN})"
    f" AND (notified = 1 OR {KEEP_UNTIL} < ?1 - {UNKNOWN_MS}) LIMIT {BATCH}"
)
_KEEP_STEPS = (
    "INSERT INTO journal(at, what, msg_id, gid, trace_id, peer, reason, detail, ms)"
    f" SELECT ?, '{STEPS}', msg_id, gid, trace_id, from_host, '', steps, arrived_at FROM ledger"
    " WHERE msg_id = ? AND gid = ?"
)
_DROP_INBOX = "DELETE FROM ledger WHERE msg_id = ? AND gid = ?"
_DROP_BODY = "DELETE FROM bus WHERE msg_id = ? AND gid = ?"
_DROP_SENT = (
    "DELETE FROM outbox WHERE (msg_id, gid) IN (SELECT msg_id, gid FROM outbox"
    f" WHERE ts < ?1 - {FINAL_MS} AND expires_at < ?1 AND (at < ?1 - {UNKNOWN_MS} OR (at < ?1 - {FINAL_MS} AND state IN"
    f" ('injected','unconfirmed','drained','expired','recalled','superseded','failed','ready','done'))) LIMIT {BATCH})"
)
_DROP_KEYS = (
    "DELETE FROM idempotency WHERE (key, sender) IN (SELECT key, sender FROM idempotency AS old"
    f" WHERE at < ?1 - {FINAL_MS} AND NOT EXISTS (SELECT 1 FROM json_each(old.msg_ids) AS one"
    f" JOIN outbox ON outbox.msg_id = one.value) LIMIT {BATCH})"
)
# The newest of all stays, so that fences go on growing.
_DROP_CLAIMS = (
    f"DELETE FROM claim WHERE holder = '' AND at < ?1 - {UNKNOWN_MS} AND fence < (SELECT max(fence) FROM claim)"
)
# Rows lie in the order in which they were written: everything before the first young one is old.
_DROP_JOURNAL = (
    "DELETE FROM journal WHERE id IN (SELECT id FROM journal WHERE id < max("
    f" coalesce((SELECT id FROM journal WHERE at >= ?1 - {FINAL_MS} ORDER BY id LIMIT 1),"
    " (SELECT max(id) + 1 FROM journal), 0),"
    f" coalesce((SELECT max(id) FROM journal), 0) - {JOURNAL_LIMIT} + 1) ORDER BY id LIMIT {BATCH})"
)


def prune_batch(connection: sqlite3.Connection, now: WallMs) -> Pruned:
    """Remove up to `BATCH` rows of each table; empty when there is nothing left to remove."""
    old = connection.execute(_OLD_INBOX, (now,)).fetchall()
    connection.executemany(_KEEP_STEPS, [(now, *key) for key in old])
    connection.executemany(_DROP_INBOX, old)
    connection.executemany(_DROP_BODY, old)
    connection.execute(_DROP_CLAIMS, (now,))
    return Pruned(
        inbox=len(old),
        sent=connection.execute(_DROP_SENT, (now,)).rowcount,
        keys=connection.execute(_DROP_KEYS, (now,)).rowcount,
        journal=connection.execute(_DROP_JOURNAL, (now,)).rowcount,
    )
