"""Reads, on a connection of their own that cannot write: they never wait for the writer, nor it for them.

Every query is short and bounded. They run one after the other in a worker thread and see every transaction whose
ticket was done before they began.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

import trio

from fleettrio.errors import StoreError
from fleettrio.store.faults import REFUSED, store_error

__all__ = ("Reader",)

T = TypeVar("T")


class Reader:
    """Owns the reading connection until `close`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._turn = trio.CapacityLimiter(1)
        self._closed = False

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run `query` in the thread. Raises `StoreError`. A cancelled caller leaves when it has run."""
        return await trio.to_thread.run_sync(self._run, query, limiter=self._turn)

    def _run(self, query: Callable[[sqlite3.Connection], T]) -> T:
        if self._closed:
            raise StoreError("the store is closed", reason="closed")
        try:
            return query(self._connection)
        except REFUSED as error:
            raise store_error(error, "reading the store") from error

    async def close(self) -> None:
        """Waits for the query that runs, though cancelled: the longest takes well under a second."""
        with trio.move_on_after(5) as scope:
            scope.shield = True
            await trio.to_thread.run_sync(self._close, limiter=self._turn)

    def _close(self) -> None:
        self._closed = True
        self._connection.close()
