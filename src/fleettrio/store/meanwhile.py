"""What people and agents are told when they come back: what happened meanwhile, and which briefs are open still."""

# ruff: noqa: S608  (SQL is put together from constants of this package; values are always bound)

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable

import msgspec

from fleettrio.core.rows import InboxRow
from fleettrio.ids import Gid, WallMs
from fleettrio.store.schema import OF_AGENT
from fleettrio.store.tables import LEDGER

__all__ = ("Meanwhile", "since", "unanswered")

_LONGEST_MS = 14 * 86_400_000
_SENT = "SELECT state, coalesce(answered_by, '') <> '', count(*) FROM outbox WHERE ts > ?1 AND at > ?2 GROUP BY 1, 2"
_CAME = f"SELECT count(*) FROM ledger WHERE {OF_AGENT} AND arrived_at > ?2"
_JOURNAL_FROM = "SELECT coalesce(max(id), 0) FROM journal WHERE at <= ?"
_AGENTS = "SELECT DISTINCT detail FROM journal WHERE id > ? AND what = 'agent blocked' ORDER BY detail"
_LOOPS = "SELECT count(*) FROM journal WHERE id > ? AND what = 'loop'"
_UNANSWERED = (
    f"SELECT {LEDGER.columns} FROM ledger WHERE {OF_AGENT} AND state IN ('injected','unconfirmed','drained')"
    " AND wants_reply = 1 AND answer IN ('','ended') AND expires_at > ?2 AND msg_id NOT IN"
    " (SELECT re FROM outbox WHERE sender = ?1 AND re IS NOT NULL) ORDER BY seq DESC LIMIT 32"
)
_HOSTS = "SELECT peer, reason FROM journal WHERE id > ? AND what = 'host' ORDER BY id"


class Meanwhile(msgspec.Struct, frozen=True, kw_only=True):
    sent: Counter[str]
    """Messages of this host that came to rest, by `delivered answered failed expired unknown unconfirmed`."""
    came: int
    """Messages for the person."""
    blocked: tuple[str, ...]
    """Names of agents that waited at a dialog at some time."""
    loops: int
    hosts: dict[str, str]
    """Other hosts by what was last seen of them: `silent`, `left`, `back`."""


_STATES = {
    "injected": "delivered",
    "drained": "delivered",
    "held": "delivered",
    "done": "delivered",
    "ready": "delivered",
    "failed": "failed",
    "expired": "expired",
    "unknown": "unknown",
    "unconfirmed": "unconfirmed",
}


def since(connection: sqlite3.Connection, moment: WallMs, person: str) -> Meanwhile:
    """What happened after `moment`; at most 14 days count."""
    run = connection.execute
    (first,) = run(_JOURNAL_FROM, (moment,)).fetchone()
    return Meanwhile(
        sent=_counted(run(_SENT, (moment - _LONGEST_MS, moment))),
        came=run(_CAME, (person, moment)).fetchone()[0],
        blocked=tuple(name for (name,) in run(_AGENTS, (first,))),
        loops=run(_LOOPS, (first,)).fetchone()[0],
        hosts=dict(run(_HOSTS, (first,))),
    )


def unanswered(connection: sqlite3.Connection, gid: Gid, now: WallMs) -> list[InboxRow]:
    """Briefs that `gid` has taken, that want an answer and got none; the newest first."""
    return [*map(LEDGER.row, connection.execute(_UNANSWERED, (gid, now)))]


def _counted(rows: Iterable[tuple[str, int, int]]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for state, is_answered, count in rows:
        word = "answered" if is_answered else _STATES.get(state)
        if word:
            counted[word] += count
    return counted
