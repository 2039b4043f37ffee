"""Group commit, order, and what fails alone."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from fleettrio.core.actions import Note, Record, RecordSetting, StoreAction
from fleettrio.errors import StoreError
from fleettrio.store import Store, open_store
from fleettrio.store.schema import MIGRATIONS, migrate
from fleettrio.store.statements import Transaction
from fleettrio.store.writer import GROUP_LIMIT, Writer
from tests.store.store_rows import NOW, commit, inbox_row, msg_id

BOUND_S = 90.0


class Gate:
    """A job that holds the writer until it is opened, so that the next ones wait together."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, _connection: sqlite3.Connection) -> bool:
        self.reached.set()
        return self.opened.wait(BOUND_S)


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[Writer]:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    migrate(connection, path, MIGRATIONS, NOW)
    writer = Writer(connection, path, trio.lowlevel.current_trio_token())
    writer.start()
    yield writer
    await writer.close()


@contextlib.asynccontextmanager
async def held(writer: Writer) -> AsyncIterator[None]:
    gate = Gate()
    ticket = writer.submit(gate)
    assert await trio.to_thread.run_sync(gate.reached.wait, BOUND_S)
    try:
        yield
    finally:
        gate.opened.set()
    assert await ticket.done() is True


def stored(path: Path, sql: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


async def test_what_waits_together_is_one_commit(writer: Writer) -> None:
    async with held(writer):
        tickets = [writer.submit(Transaction([commit(n)], NOW)) for n in range(100)]
    for ticket in tickets:
        await ticket.done()
    assert (writer.transactions, writer.commits) == (101, 2)


async def test_what_may_wait_goes_with_the_next_commit_in_its_order(writer: Writer, tmp_path: Path) -> None:
    first = writer.submit(Transaction([RecordSetting("order", "1")], NOW), may_wait=True)
    second = writer.submit(Transaction([RecordSetting("order", "2")], NOW), may_wait=True)
    await writer.submit(Transaction([commit(1)], NOW)).done()
    assert (first.is_over, second.is_over, writer.commits) == (True, True, 1)
    assert stored(tmp_path / "store.db", "SELECT value FROM setting WHERE key = 'order'") == [("2",)]


async def test_what_may_wait_is_written_alone_when_nothing_comes(writer: Writer) -> None:
    with trio.fail_after(10):
        await writer.submit(Transaction([commit(1)], NOW), may_wait=True).done()
    assert not writer.is_waited_with


async def test_what_may_wait_is_there_for_whoever_reads(store: Store) -> None:
    store.submit([commit(1)], NOW, may_wait=True)
    assert [row.msg_id for row in await store.inbox_rows(None)] == [msg_id(1)]


async def test_nothing_that_may_wait_is_written_for_whoever_knows_newer_states(store: Store) -> None:
    store.submit([commit(1)], NOW, may_wait=True)
    commits = store.commits
    await store.find(msg_id(2), or_older=True)
    assert store.commits == commits


async def test_a_group_is_bounded(writer: Writer) -> None:
    async with held(writer):
        tickets = [writer.submit(Transaction([commit(n)], NOW)) for n in range(GROUP_LIMIT + 1)]
    for ticket in tickets:
        await ticket.done()
    assert writer.commits == 3


async def test_a_bad_transaction_takes_no_other_with_it(writer: Writer, tmp_path: Path) -> None:
    note = Note("seen", None, None, None, "alpha", "a bad list is written in no part")
    async with held(writer):
        before = writer.submit(Transaction([commit(1)], NOW))
        bad = writer.submit(Transaction([note, Record(inbox_row(2, depth=2**70))], NOW))
        worse = writer.submit(Transaction([commit(3), RecordSetting("key", "\ud800")], NOW))
        after = writer.submit(Transaction([commit(4)], NOW))
    await before.done()
    await after.done()
    for ticket in (bad, worse):
        with pytest.raises(StoreError) as caught:
            await ticket.done()
        assert caught.value.reason == "refused"
    assert writer.commits == 2
    assert stored(tmp_path / "store.db", "SELECT seq FROM ledger ORDER BY seq") == [(1,), (4,)]
    assert stored(tmp_path / "store.db", "SELECT count(*) FROM journal WHERE what = 'seen'") == [(0,)]
    assert stored(tmp_path / "store.db", "SELECT count(*) FROM bus") == [(2,)]


@pytest.mark.parametrize("sizes", [(1,) * 50, (10, 1, 7, 32)])
async def test_order_of_submit_is_order_of_commit(writer: Writer, tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """The last one stands, whatever groups they fell into, and the journal has them in their order."""
    number, ticket = 0, None
    for size in sizes:
        for _ in range(size):
            number += 1
            actions: list[StoreAction] = [
                RecordSetting("n", str(number)),
                Note(f"n{number}", msg_id(1), None, None, "", ""),
            ]
            ticket = writer.submit(Transaction(actions, NOW))
        assert ticket is not None
        await ticket.done()
    assert stored(tmp_path / "store.db", "SELECT value FROM setting WHERE key = 'n'") == [(str(number),)]
    journal = stored(tmp_path / "store.db", "SELECT what FROM journal ORDER BY id")
    assert journal == [(f"n{n}",) for n in range(1, number + 1)]


async def test_a_cancelled_waiter_does_not_stop_the_write(store: Store) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.submit([commit(1)], NOW).done()
    assert scope.cancelled_caught
    await store.probe()  # submitted later, so done later
    assert await store.known([(msg_id(1), inbox_row(1).gid)]) == [inbox_row(1)]


async def test_leaving_writes_what_was_submitted(path: Path) -> None:
    with trio.CancelScope() as scope:
        async with open_store(path) as store:
            for number in range(500):
                store.submit([commit(number)], NOW)
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert stored(path, "SELECT count(*) FROM ledger") == [(500,)]


async def test_a_closed_store_says_so(path: Path) -> None:
    async with open_store(path) as store:
        pass
    with pytest.raises(StoreError) as caught:
        store.submit([commit(1)], NOW)
    assert caught.value.reason == "closed"
    with pytest.raises(StoreError):
        await store.find("abcd")


async def test_the_wal_is_emptied_when_idle(store: Store) -> None:
    await store.submit([commit(n) for n in range(200)], NOW).done()
    assert store.wal_bytes() > 0
    with trio.fail_after(BOUND_S):
        while store.wal_bytes():
            await trio.to_thread.run_sync(threading.Event().wait, 0.02)
    assert store.size_bytes() > 0
