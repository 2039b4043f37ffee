"""SQLite's errors in the words of fleettrio."""

from __future__ import annotations

import sqlite3

from fleettrio.errors import StoreError

__all__ = ("REFUSED", "is_fatal", "store_error")

REFUSED = (sqlite3.Error, OverflowError, UnicodeError)
"""What a statement may raise: SQLite's own, and Python's for values that SQLite cannot hold."""

_SPACE = "free disk space; fleettrio goes on by itself once there is room"
_DISK = "look at the disk and its kernel log (dmesg)"
_DAMAGED = "stop the daemon, keep the file, check it with `sqlite3 FILE 'PRAGMA integrity_check'`, then put back a copy"

_WORDS: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: ("disk-full", _SPACE),
    sqlite3.SQLITE_IOERR: ("io", _DISK),
    sqlite3.SQLITE_CANTOPEN: ("io", "check that the folder exists and belongs to you"),
    sqlite3.SQLITE_NOMEM: ("io", "the machine is out of memory"),
    sqlite3.SQLITE_CORRUPT: ("corrupt", _DAMAGED),
    sqlite3.SQLITE_NOTADB: ("corrupt", _DAMAGED),
    sqlite3.SQLITE_READONLY: ("read-only", "check owner and mode of the store and of its folder"),
    sqlite3.SQLITE_PERM: ("read-only", "check owner and mode of the store and of its folder"),
    sqlite3.SQLITE_BUSY: ("locked", "close other programs that have the store open"),
    sqlite3.SQLITE_LOCKED: ("locked", "close other programs that have the store open"),
}
"""Primary result codes that say something about the disk, not about the rows."""


def _code(error: BaseException) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_fatal(error: BaseException) -> bool:
    """True when the whole transaction is lost, not only the rows of one statement."""
    return _code(error) in _WORDS


def store_error(error: BaseException, doing: str) -> StoreError:
    """A `StoreError` that says what was being done ("writing", "reading", "opening PATH") and what came of it."""
    reason, hint = _WORDS.get(_code(error) or -1, ("refused", ""))
    return StoreError(f"{doing} failed ({reason}): {error}", reason=reason, hint=hint)
