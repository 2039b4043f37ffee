"""What would be lost with a store, for whoever is about to throw it away: read beside its daemon, or without one."""

# ruff: noqa: S608  (SQL is put together from constants of this package; values are always bound)
from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from urllib.parse import quote

import msgspec

from fleettrio.store.faults import REFUSED, store_error
from fleettrio.store.schema import MIGRATIONS, OPEN, newer_schema

__all__ = ("Holdings", "holdings_of", "look_at_store")


class Holdings(msgspec.Struct, frozen=True):
    agents: tuple[str, ...] = ()
    """Names of those that are here, not away."""
    waiting: tuple[tuple[str, int], ...] = ()
    """Whose messages wait, and how many; the name of the person is empty."""
    later: int = 0
    """Messages that were to be sent at a time to come."""


_AGENTS = "SELECT name FROM entity WHERE status NOT IN ('away', 'stopping', 'gone') ORDER BY name"
_WAITING = (
    f"SELECT coalesce(entity.name, ''), count(*) FROM ledger LEFT JOIN entity USING (gid) WHERE {OPEN}"
    " GROUP BY ledger.gid ORDER BY 1"
)
_LATER = "SELECT count(*) FROM due WHERE what = 'send'"


def look_at_store(path: Path) -> None:
    """Return when a daemon could open the store at `path`, or make it. Raises `StoreError` that says why not."""
    if not path.exists():
        return
    try:
        with _opened(path) as connection:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except REFUSED as error:
        raise store_error(error, f"opening {path}") from error
    if version > len(MIGRATIONS):
        raise newer_schema(path, version, len(MIGRATIONS))


def _opened(path: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True))


def holdings_of(path: Path) -> Holdings:
    """What the store at `path` holds; nothing where there is no such file. Raises `StoreError`."""
    if not path.exists():
        return Holdings()
    try:
        with _opened(path) as connection:
            return Holdings(
                tuple(name for (name,) in connection.execute(_AGENTS)),
                tuple(connection.execute(_WAITING)),
                int(connection.execute(_LATER).fetchone()[0]),
            )
    except REFUSED as error:
        raise store_error(error, "reading the store") from error
