"""What a gateway takes up at its start: all that is open in the store, in one consistent view."""

# ruff: noqa: S608  (SQL is put together from constants of this package; values are always bound)

from __future__ import annotations

import sqlite3

import msgspec

from fleettrio.core.entity import Entity
from fleettrio.core.failures import TOLD
from fleettrio.core.peer import Peer, PeerEntity
from fleettrio.core.rows import Claim, Due, InboxRow, Key, SentRow
from fleettrio.core.spawned import SpawnRow
from fleettrio.core.wallmark import BORN
from fleettrio.ids import WallMs
from fleettrio.store.schema import OPEN, PUT_IN, UNANSWERED, UNFINISHED
from fleettrio.store.tables import CLAIM, DUE, ENTITY, LEDGER, OUTBOX, PEER, PEER_ENTITY, SPAWN

__all__ = ("PROBE", "StoreContents", "contents_of")

UNTOLD_MS = 2 * 86_400_000
"""What is older is not told any more."""
PROBE = "probe"
"""Key in `setting` that the probe writes and removes."""


class StoreContents(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway takes up at its start."""

    entities: tuple[Entity, ...]
    inbox: tuple[InboxRow, ...]
    """Rows that are open, rows whose sender's host is owed a notice (`notified` is False), and rows put into an agent
    that has not answered yet; by arrival."""
    landed: tuple[InboxRow, ...]
    """The newest two that were put into each entity, or handed to it, oldest first."""
    sent: tuple[SentRow, ...]
    """Rows without a last word, and `injected` or `unconfirmed` ones that have not expired, and rows
    that owe their recipient's host a notice; by sending."""
    peers: tuple[Peer, ...]
    peer_entities: tuple[PeerEntity, ...]
    spawns: tuple[SpawnRow, ...]
    """Every agent that was ever started here: their ids are never used again."""
    claims: tuple[Claim, ...]
    dues: tuple[Due, ...]
    untold: tuple[SentRow, ...]
    """What failed within two days and its sender was not told of, oldest first."""
    owed: dict[Key, bytes]
    """Bodies of messages of ours that are to be sent again."""
    settings: dict[str, str]
    born: WallMs
    """When this store was created: older messages that it does not know may have been delivered before."""
    next_seq: int
    """Order of the next arrival."""


_ENTITIES = f"SELECT {ENTITY.columns} FROM entity ORDER BY name"
_PEERS = f"SELECT {PEER.columns} FROM peer ORDER BY host"
_PEER_ENTITIES = f"SELECT {PEER_ENTITY.columns} FROM peer_entity ORDER BY host, name"
_SPAWNS = f"SELECT {SPAWN.columns} FROM spawn ORDER BY at"
_DUES = f"SELECT {DUE.columns} FROM due ORDER BY at"
_CLAIMS = f"SELECT {CLAIM.columns} FROM claim ORDER BY fence"
_SETTINGS = "SELECT key, value FROM setting WHERE key <> ?"
_NEXT_SEQ = "SELECT coalesce(max(seq), 0) + 1 FROM ledger"
_INBOX_AT_START = (
    f"SELECT {LEDGER.columns} FROM ledger WHERE {OPEN}"
    f" UNION ALL SELECT {LEDGER.columns} FROM ledger WHERE notified = 0 AND NOT ({OPEN})"
    f" UNION ALL SELECT {LEDGER.columns} FROM ledger WHERE {UNANSWERED} AND notified = 1"
)
_SENT_AT_START = (
    f"SELECT {OUTBOX.columns} FROM outbox WHERE {UNFINISHED}"
    " AND (state NOT IN ('injected','unconfirmed') OR expires_at > ?)"
    f" UNION SELECT {OUTBOX.columns} FROM outbox WHERE owes <> '' ORDER BY ts"
)
_LAST_TWO = (
    f"SELECT {LEDGER.columns} FROM ledger WHERE (msg_id, gid) IN (SELECT msg_id, gid FROM ("
    " SELECT msg_id, gid, row_number() OVER (PARTITION BY gid ORDER BY at DESC, seq DESC) AS number FROM ("
    f"  SELECT msg_id, gid, at, seq FROM ledger WHERE {PUT_IN} UNION ALL"
    f"  SELECT msg_id, gid, at, seq FROM ledger WHERE {OPEN} AND state = 'offered')"
    " ) WHERE number <= 2) ORDER BY at, seq"
)
_UNTOLD = (
    f"SELECT {OUTBOX.columns} FROM outbox WHERE ts > ? AND state IN ('failed','expired') AND at > coalesce("
    "(SELECT CAST(value AS INTEGER) FROM setting WHERE key = ? || outbox.sender), 0) ORDER BY at"
)
_OWED = "SELECT bus.msg_id, bus.gid, bus.body FROM outbox JOIN bus USING (msg_id, gid) WHERE outbox.owes <> ''"


def contents_of(connection: sqlite3.Connection, now: WallMs) -> StoreContents:
    """Everything in one consistent view."""
    run = connection.execute
    run("BEGIN")
    try:
        entities = tuple(map(ENTITY.row, run(_ENTITIES)))
        gids = {entity.gid for entity in entities}
        settings = {str(name): str(value) for name, value in run(_SETTINGS, (PROBE,))}
        return StoreContents(
            entities=entities,
            landed=tuple(row for row in map(LEDGER.row, run(_LAST_TWO)) if row.gid in gids),
            inbox=tuple(sorted(map(LEDGER.row, run(_INBOX_AT_START)), key=lambda row: row.seq)),
            sent=tuple(map(OUTBOX.row, run(_SENT_AT_START, (now,)))),
            peers=tuple(map(PEER.row, run(_PEERS))),
            peer_entities=tuple(map(PEER_ENTITY.row, run(_PEER_ENTITIES))),
            spawns=tuple(map(SPAWN.row, run(_SPAWNS))),
            dues=tuple(map(DUE.row, run(_DUES))),
            claims=tuple(map(CLAIM.row, run(_CLAIMS))),
            untold=tuple(map(OUTBOX.row, run(_UNTOLD, (now - UNTOLD_MS, TOLD)))),
            owed={(msg_id, gid): body for msg_id, gid, body in run(_OWED)},
            settings=settings,
            born=WallMs(int(settings[BORN])),
            next_seq=int(run(_NEXT_SEQ).fetchone()[0]),
        )
    finally:
        run("COMMIT")
