"""The one thread that writes the store.

Rules:
- Its connection is the only one that writes and checkpoints: two that do can corrupt a WAL file (SQLite before 3.51.3).
- What is handed in is carried out in that order, whether or not anybody still waits for it.
- All that waits, up to `GROUP_LIMIT`, becomes one commit and one fsync; nobody waits for a group to fill. What may wait
  goes with the next commit, or after `WAIT_S` alone.
- A transaction that cannot be written fails alone; what fails the commit or the disk fails its whole group.
- Waiters are woken after the commit, never before.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import trio

from fleettrio.errors import StoreError
from fleettrio.store.faults import REFUSED, is_fatal, store_error
from fleettrio.store.statements import Statements, Transaction

__all__ = ("GROUP_LIMIT", "Ticket", "Writer")

GROUP_LIMIT = 256
"""Transactions in one commit."""
BACKLOG_LIMIT = 16_384
"""Transactions that may wait; the disk is stuck long before."""
IDLE_S = 1.0
"""Without work for so long, the writer empties the WAL. While it is busy SQLite begins it anew when it is long: writing
over it is cheaper than making it longer."""
WAIT_S = 0.25
"""For how long what may wait is waited with."""
CLOSE_S = 30.0
"""How long closing waits for the backlog to be written."""

Job = Callable[[sqlite3.Connection], object]


class Ticket:
    """The promise of one submitted transaction."""

    __slots__ = ("_error", "_event", "_result", "may_wait", "work")

    def __init__(self, work: Transaction | Job, *, may_wait: bool = False) -> None:
        self.work = work
        self.may_wait = may_wait
        self._event = trio.Event()
        self._error: StoreError | None = None
        self._result: object = None

    async def done(self) -> object:
        """Wait until it is on the disk; returns what a job returned. Raises `StoreError`: nothing of it was written.

        Cancelling only stops the waiting: the transaction is carried out all the same.
        """
        await self._event.wait()
        if self._error is not None:
            raise self._error
        return self._result

    @property
    def is_over(self) -> bool:
        return self._event.is_set()

    def fail(self, error: StoreError) -> None:
        self._error = error

    def keep(self, result: object) -> None:
        self._result = result

    def wake(self) -> None:
        self._event.set()


class Writer:
    """Owns the writing connection from `start` to `close`."""

    def __init__(self, connection: sqlite3.Connection, path: Path, token: trio.lowlevel.TrioToken) -> None:
        self._connection = connection
        self._wal = path.with_name(f"{path.name}-wal")
        self._token = token
        self._queue: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="fleettrio-store")
        self._closed = False
        self._waits: Ticket | None = None
        self._is_in_wal = True
        self.commits = 0
        """Commits so far."""
        self.transactions = 0
        """Transactions so far, failed ones too."""

    def start(self) -> None:
        self._thread.start()

    @property
    def is_waited_with(self) -> bool:
        """True while something that may wait is not written yet."""
        return self._waits is not None and not self._waits.is_over

    def submit(self, work: Transaction | Job, *, may_wait: bool = False) -> Ticket:
        """Hand over one transaction; never blocks. Raises `StoreError` (`closed`, `backlog`), having taken nothing."""
        if self._closed:
            raise StoreError("the store is closed", reason="closed")
        if self._queue.qsize() >= BACKLOG_LIMIT:
            raise StoreError(
                f"{BACKLOG_LIMIT} transactions wait for the disk", reason="backlog", hint="look at the load of the disk"
            )
        ticket = Ticket(work, may_wait=may_wait)
        if may_wait:
            self._waits = ticket
        self._queue.put(ticket)
        return ticket

    async def close(self) -> None:
        """Write what was submitted, then close the connection. Runs to its end (at most `CLOSE_S`) though cancelled."""
        self._closed = True
        self._queue.put(None)
        with trio.move_on_after(CLOSE_S) as scope:
            scope.shield = True
            await trio.to_thread.run_sync(self._thread.join, abandon_on_cancel=True)

    # --- in the writer's thread -----------------------------------------------------------------

    def _run(self) -> None:
        group: list[Ticket] = []
        try:
            closing = False
            while not closing:
                group, closing = self._next_group()
                if group:
                    self._commit(group)
                    self._wake(group)
                    group = []
                else:
                    self._checkpoint()
        finally:
            self._closed = True
            self._connection.close()
            self._fail_the_rest(group)

    def _next_group(self) -> tuple[list[Ticket], bool]:
        """What waits now, and whether that was the last. Empty after `IDLE_S` without work, once."""
        group: list[Ticket] = []
        until, patience_s = math.inf, IDLE_S if self._is_in_wal else None
        try:
            while (ticket := self._queue.get(timeout=patience_s)) is not None:
                group.append(ticket)
                if len(group) == GROUP_LIMIT:
                    return group, False
                now = time.monotonic()
                until = min(until, now + WAIT_S if ticket.may_wait else now)
                patience_s = max(0.0, until - now)
        except queue.Empty:
            return group, False
        return group, True

    def _commit(self, group: list[Ticket]) -> None:
        self.transactions += len(group)
        try:
            if self._connection.in_transaction:  # the last roll-back failed with the disk
                self._connection.execute("ROLLBACK")
            self._connection.execute("BEGIN IMMEDIATE")
            if not self._write_together(group):
                for ticket in group:
                    self._write_alone(ticket)
            self._connection.execute("COMMIT")
            self.commits += 1
            self._is_in_wal = True
        except sqlite3.Error as error:
            for ticket in group:
                ticket.fail(store_error(error, "writing the store"))
            self._roll_back()

    def _write_together(self, group: list[Ticket]) -> bool:
        """The quick way, by table and in few calls. False, with nothing written, when one of them cannot be written.

        Without a savepoint: from there on SQLite would keep a copy of each page that changes, in a file of its own.
        """
        statements = Statements()
        for ticket in group:
            if not isinstance(ticket.work, Transaction):
                return False
            statements.add(ticket.work)
        try:
            statements.run(self._connection)
        except REFUSED as error:
            if is_fatal(error):
                raise
            self._connection.execute("ROLLBACK")
            self._connection.execute("BEGIN IMMEDIATE")
            return False
        return True

    def _write_alone(self, ticket: Ticket) -> None:
        work = ticket.work
        if isinstance(work, Transaction):
            statements = Statements()
            statements.add(work)
            error = self._write(statements.run)
        else:
            error = self._write(lambda connection: ticket.keep(work(connection)))
        if error:
            ticket.fail(store_error(error, "writing rows"))

    def _write(self, work: Job) -> Exception | None:
        """All of it or, with the error returned, nothing. Raises what fails the whole commit."""
        self._connection.execute("SAVEPOINT work")
        try:
            work(self._connection)
        except REFUSED as error:
            if is_fatal(error):
                raise
            self._connection.execute("ROLLBACK TO work")
            self._connection.execute("RELEASE work")
            return error
        self._connection.execute("RELEASE work")
        return None

    def _roll_back(self) -> None:
        # SQLite has often rolled back already when the disk is full. When even this fails, closing the file does it.
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _checkpoint(self) -> None:
        # A full disk or a reader in the middle: the WAL stays as it is, and valid, until the next time.
        with contextlib.suppress(sqlite3.Error):
            (is_held_up, *_), *_ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._is_in_wal = bool(is_held_up)

    def wal_bytes(self) -> int:
        """Size of the WAL file now."""
        try:
            return os.stat(self._wal).st_size
        except FileNotFoundError:
            return 0

    def _wake(self, group: list[Ticket]) -> None:
        # Without a Trio run there is nobody left to wake.
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(_wake_all, group)

    def _fail_the_rest(self, rest: list[Ticket]) -> None:
        """Only after a bug in this thread, or for what was submitted while it ended: nobody waits for ever."""
        with contextlib.suppress(queue.Empty):
            while True:
                ticket = self._queue.get_nowait()
                if ticket is not None:
                    rest.append(ticket)
        for ticket in rest:
            ticket.fail(StoreError("the store was closed before this was written", reason="closed"))
        if rest:
            self._wake(rest)


def _wake_all(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.wake()
