"""The store of one host: bus, ledger, outbox, entities, peers, settings and journal in one SQLite file.

Rules: `submit` hands over at once and in order, one transaction a call; its ticket is done when that is on the disk.
Reads see every transaction whose ticket was done, and those that may wait. One process has the file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio

from fleettrio.clock import SystemClock
from fleettrio.core.actions import StoreAction
from fleettrio.core.entity import Entity
from fleettrio.core.rows import InboxRow, JournalRow, Key, SentRow
from fleettrio.errors import StoreError
from fleettrio.ids import Gid, MsgId, TraceId, WallMs
from fleettrio.private_files import make_private_folder
from fleettrio.store import journal, meanwhile, queries
from fleettrio.store.contents import PROBE, StoreContents, contents_of
from fleettrio.store.faults import store_error
from fleettrio.store.fresh import Fresh
from fleettrio.store.inhand import InHand, hold_in_hand
from fleettrio.store.lock import hold_lock
from fleettrio.store.meanwhile import Meanwhile
from fleettrio.store.pruning import Pruned, prune_batch
from fleettrio.store.reader import Reader
from fleettrio.store.schema import MIGRATIONS, Migration, migrate
from fleettrio.store.statements import Transaction
from fleettrio.store.tables import StoredMessage
from fleettrio.store.writer import Ticket, Writer

__all__ = ("Store", "open_store")

_WRITER_PRAGMAS = (
    "PRAGMA busy_timeout = 2000",
    "PRAGMA page_size = 8192",  # of a new file: most pages have rows that were written together
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 2048",  # pages, 16 MiB; when it is idle, the writer empties it before
    "PRAGMA journal_size_limit = 33554432",  # more than that: a file that was cut has to grow again, which is dear
    "PRAGMA cache_size = -16384",
    "PRAGMA temp_store = MEMORY",  # what a savepoint or a statement may have to undo
    "PRAGMA mmap_size = 0",
    "PRAGMA trusted_schema = OFF",
)
_READER_PRAGMAS = ("PRAGMA busy_timeout = 2000", "PRAGMA query_only = ON", "PRAGMA mmap_size = 0")
_PROBE_BYTES = 16_384

T = TypeVar("T")


class Store:
    """An open store. Made by `open_store`.

    Every coroutine raises `StoreError`. A cancelled write is carried out all the same.
    """

    in_hand: InHand
    """What this process has in hand; there in an opened store."""

    def __init__(self, path: Path, writer: Writer, reader: Reader) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader
        self._fresh = Fresh()

    # --- writing --------------------------------------------------------------------------------

    def submit(self, actions: Sequence[StoreAction], at: WallMs, *, may_wait: bool = False) -> Ticket:
        """Hand over one transaction. Never blocks; the order of calls is the order of commits.

        `at` is the wall time now: the journal's for what has no time of its own, and a key's. `may_wait`: the next
        commit is soon enough for it. Raises `StoreError` (`closed`, `backlog`) when it was not taken.
        """
        ticket = self._writer.submit(Transaction(actions, at), may_wait=may_wait)
        self._fresh.took(actions)
        return ticket

    async def probe(self) -> None:
        """Write and remove a small row: returns when the store takes writes, raises `StoreError` when it does not."""
        await self._writer.submit(_write_probe).done()
        await self._writer.submit(_remove_probe).done()

    async def prune(self, now: WallMs) -> Pruned:
        """Forget what is old (`store.pruning` has the bounds). Small transactions, so deliveries pass in between."""
        total = Pruned()
        while True:
            pruned = await self._writer.submit(partial(prune_batch, now=now)).done()
            if not isinstance(pruned, Pruned) or pruned.is_empty:
                return total
            self._fresh.forget_messages()
            total += pruned

    # --- reading --------------------------------------------------------------------------------

    async def _read(self, query: Callable[[sqlite3.Connection], T], *, or_older: bool = False) -> T:
        if self._writer.is_waited_with and not or_older:
            with contextlib.suppress(StoreError):  # what could not be written is not there to be read
                await self.submit((), WallMs(0)).done()
        return await self._reader.read(query)

    async def load(self, now: WallMs | None = None) -> StoreContents:
        """What a gateway takes up at its start. `now`: judges what has expired; default: the clock."""
        moment = SystemClock().wall() if now is None else now
        return await self._read(partial(contents_of, now=moment))

    async def known(self, keys: Sequence[Key]) -> list[InboxRow | None]:
        """The recipient's rows, in the order of `keys`."""
        if not self._fresh.is_bound:
            self._fresh.found(await self._read(queries.newest))
        asked = [key for key in keys if not self._fresh.is_new(key)]
        if not asked:
            return [None] * len(keys)
        rows = dict(zip(asked, await self._read(partial(queries.known, keys=asked)), strict=True))
        return [rows.get(key) for key in keys]

    async def sent_known(self, keys: Sequence[Key]) -> list[SentRow | None]:
        """The sender's rows, in the order of `keys`."""
        return await self._read(partial(queries.sent, keys=keys))

    async def sent(self, msg_id: MsgId, gid: Gid) -> SentRow | None:
        return (await self.sent_known([(msg_id, gid)]))[0]

    async def count_inbox(self, gid: Gid, open_only: bool = False) -> int:
        """How many rows `inbox_rows` would give without a limit."""
        return await self._read(partial(queries.count_inbox, gid=gid, open_only=open_only))

    async def count_sent(self, sender: Gid) -> int:
        """How many rows `sent_rows` would give without a limit."""
        return await self._read(partial(queries.count_sent, sender=sender))

    async def inbox_rows(self, gid: Gid | None, open_only: bool = False, limit: int = 50) -> list[InboxRow]:
        """Of one entity, or of all (None): newest arrival first."""
        return await self._read(partial(queries.inbox_rows, gid=gid, open_only=open_only, limit=limit))

    async def sent_rows(self, sender: Gid | None, limit: int = 50) -> list[SentRow]:
        """Of one sender, or of all (None): newest first."""
        return await self._read(partial(queries.sent_rows, sender=sender, limit=limit))

    async def find(self, part: str, *, or_older: bool = False) -> tuple[list[InboxRow], list[SentRow]]:
        """Rows whose msgId ends so, else those whose msgId begins so: a full id, or at least 4 characters (less finds
        nothing). At most 1 000 each.

        `or_older`: for whoever knows newer states by himself; nothing that may wait is written for it.
        """
        return await self._read(partial(queries.find, part=part), or_older=or_older)

    async def by_trace(self, part: str) -> tuple[list[InboxRow], list[SentRow]]:
        """The same by the trace id, in the order in which they were sent."""
        return await self._read(partial(queries.by_trace, part=part))

    async def message(self, msg_id: MsgId, gid: Gid) -> StoredMessage | None:
        """The bytes of a message that came to an entity here; None when they were not kept or are pruned."""
        return (await self.messages([(msg_id, gid)]))[0]

    async def messages(self, keys: Sequence[Key]) -> list[StoredMessage | None]:
        """The same for several, in the order of `keys`."""
        fresh = self._fresh.messages(keys)
        return [*fresh] if fresh is not None else await self._read(partial(queries.messages, keys=keys))

    async def last_in(self, gid: Gid) -> InboxRow | None:
        """The message put into this entity, or offered to it, most lately."""
        return await self._read(partial(queries.last_in, gid=gid))

    async def last_to_reply(self, gid: Gid) -> InboxRow | None:
        """The newest message that was put into `gid` or taken by it, and that a reply may go to."""
        return await self._read(partial(queries.last_to_reply, gid=gid))

    async def unanswered(self, gid: Gid, now: WallMs) -> list[InboxRow]:
        """Briefs that `gid` has taken, that want an answer and got none; the newest first, at most 32."""
        return await self._read(partial(meanwhile.unanswered, gid=gid, now=now))

    async def since(self, moment: WallMs, person: Gid) -> Meanwhile:
        """What happened on this host after `moment`, for `person`."""
        return await self._read(partial(meanwhile.since, moment=moment, person=person))

    async def last_sent(self, sender: Gid) -> SentRow | None:
        return await self._read(partial(queries.last_sent, sender=sender))

    async def key(self, key: str, sender: Gid) -> tuple[MsgId, ...] | None:
        """The messages that this sender's idempotency key stands for."""
        return await self._read(partial(queries.key, name=key, sender=sender))

    async def keyed(self, keys: Collection[str], sender: Gid) -> Mapping[str, tuple[SentRow, ...]]:
        """The rows of the messages that each of this sender's idempotency keys stands for."""
        return await self._read(partial(queries.keyed, names=keys, sender=sender))

    async def entity_by_token(self, token_hash: bytes) -> Entity | None:
        return await self._read(partial(queries.entity_by_token, token_hash=token_hash))

    async def gone_agents(self, limit: int = 1000) -> list[Gid]:
        """Agents of this host that are gone for good, the newest first, as far back as the journal goes."""
        return await self._read(partial(journal.gone_agents, limit=limit))

    async def journal(
        self, msg_ids: Sequence[MsgId] = (), trace_id: TraceId | None = None, limit: int = 1000
    ) -> list[JournalRow]:
        """What happened to these messages and in this trace (full ids): the newest `limit` rows, oldest first."""
        return await self._read(partial(journal.journal, msg_ids=msg_ids, trace_id=trace_id, limit=limit))

    # --- gauges ---------------------------------------------------------------------------------

    def size_bytes(self) -> int:
        """Bytes on the disk, the WAL included."""
        return os.stat(self.path).st_size + self._writer.wal_bytes()

    def wal_bytes(self) -> int:
        """Bytes of the WAL alone: it grows when checkpoints cannot finish."""
        return self._writer.wal_bytes()

    @property
    def commits(self) -> int:
        """Commits (fsyncs) since the start; fewer than the transactions submitted, under load."""
        return self._writer.commits


@contextlib.asynccontextmanager
async def open_store(
    path: Path, *, at: WallMs | None = None, migrations: Sequence[Migration] = MIGRATIONS, deaths: int = 0
) -> AsyncIterator[Store]:
    """Open the store at `path`; file (0600) and folder are made when missing. `at`: the time now, the birth of a new
    one. `deaths`: so many within a minute make the process safe (`in_hand.safe`); 0: none do.

    Raises `StoreError`: another daemon has it, a newer schema, a damaged file, no room. It rebuilds none.
    Leaving writes what was submitted and closes the file, though cancelled (at most 30 s).
    """
    make_private_folder(path.parent)
    born = SystemClock().wall() if at is None else at
    with hold_lock(path), hold_in_hand(path, born, deaths) as in_hand:
        writing, reading = await trio.to_thread.run_sync(_connect, path, migrations, born)
        writer = Writer(writing, path, trio.lowlevel.current_trio_token())
        reader = Reader(reading)
        writer.start()
        try:
            store = Store(path, writer, reader)
            store.in_hand = in_hand
            yield store
        finally:
            await reader.close()
            await writer.close()


def _connect(
    path: Path, migrations: Sequence[Migration], born: WallMs
) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    opened: list[sqlite3.Connection] = []
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        for pragmas, mode in ((_WRITER_PRAGMAS, "rw"), (_READER_PRAGMAS, "ro")):
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
            )
            opened.append(connection)
            for pragma in pragmas:
                connection.execute(pragma).fetchall()
            if connection is opened[0]:
                migrate(connection, path, migrations, born)
        return opened[0], opened[1]
    except (sqlite3.Error, OSError, StoreError) as error:
        for connection in opened:
            connection.close()
        if isinstance(error, StoreError):
            raise
        raise store_error(error, f"opening {path}") from error


def _write_probe(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT OR REPLACE INTO setting(key, value) VALUES (?, zeroblob(?))", (PROBE, _PROBE_BYTES))


def _remove_probe(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM setting WHERE key = ?", (PROBE,))
