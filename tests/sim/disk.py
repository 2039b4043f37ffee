"""The shipped store without its threads: what is submitted is committed at once, or the process dies instead.

The file is a connection that outlives the processes: a crash keeps what was committed and nothing else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import trio

from fleettrio.core.actions import RecordSent, StoreAction
from fleettrio.core.rows import SentRow
from fleettrio.ids import WallMs
from fleettrio.store.faults import REFUSED, store_error
from fleettrio.store.reader import Reader
from fleettrio.store.schema import MIGRATIONS, migrate
from fleettrio.store.statements import Transaction
from fleettrio.store.store import Store
from fleettrio.store.writer import Job, Ticket, Writer

__all__ = ("StraightStore", "new_disk")

T = TypeVar("T")
NOWHERE = Path("in-memory")


def new_disk(born: WallMs) -> sqlite3.Connection:
    """An empty store."""
    disk = sqlite3.connect(":memory:", isolation_level=None)
    disk.execute("PRAGMA synchronous = OFF")
    disk.execute("PRAGMA journal_mode = MEMORY")
    migrate(disk, NOWHERE, MIGRATIONS, born)
    return disk


class _Done(Ticket):
    """A ticket whose transaction is on the disk already, or was refused."""

    __slots__ = ("_step",)

    def __init__(self, work: Transaction | Job, step: Callable[[], None]) -> None:
        super().__init__(work)
        self._step = step

    async def done(self) -> object:
        self._step()
        if self._error is not None:
            raise self._error
        return self._result


class _StraightWriter(Writer):
    def __init__(self, disk: sqlite3.Connection, step: Callable[[], None]) -> None:
        super().__init__(disk, NOWHERE, trio.lowlevel.current_trio_token())
        self._step = step
        self._waiting: list[Ticket] = []

    def submit(self, work: Transaction | Job, *, may_wait: bool = False) -> Ticket:
        self._step()
        ticket = _Done(work, self._step)
        self._waiting.append(ticket)
        if not may_wait:  # or else it is lost, should the process die before
            self._commit(self._waiting)
            self._waiting = []
        return ticket

    @property
    def is_waited_with(self) -> bool:
        return bool(self._waiting)


class _StraightReader(Reader):
    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return query(self._connection)
        except REFUSED as error:
            raise store_error(error, "reading the store") from error


class StraightStore(Store):
    """One process's hold of the disk. `step` is called before and after each commit: there the process may die.
    `told` is called with what senders can read from then on."""

    def __init__(self, disk: sqlite3.Connection, step: Callable[[], None], told: Callable[[SentRow], None]) -> None:
        super().__init__(NOWHERE, _StraightWriter(disk, step), _StraightReader(disk))
        self._told = told

    def submit(self, actions: Sequence[StoreAction], at: WallMs, *, may_wait: bool = False) -> Ticket:
        ticket = super().submit(actions, at, may_wait=may_wait)
        for action in actions:
            if isinstance(action, RecordSent):
                self._told(action.row)
        return ticket
