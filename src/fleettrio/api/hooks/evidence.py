"""Looks for what hooks handed out in the transcript of its session: what stands there went into the model.

A prompt that another hook stops, or that its person takes back, loses the context that was printed for it, and nothing
says so; the transcript has only what went in.
"""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Iterable

import trio

from fleettrio.api.handing import Handing
from fleettrio.errors import FleetTrioError
from fleettrio.ids import Gid
from fleettrio.observe import get_logger

__all__ = ("Evidence", "run_evidence")

WAITING = 256
BOUND_S = 30.0
"""Evidence that comes late still counts; later than that the next hook tells."""
LOOK_S = 0.25
TAIL = 1024 * 1024
"""Bytes at the end of a transcript that are looked at."""

log = get_logger("hooks")


@dataclasses.dataclass(slots=True)
class _Search:
    gid: Gid
    path: str
    nonces: set[str]
    until: float


class Evidence:
    """What is looked for. Full, it takes nothing more: then the next hook tells."""

    def __init__(self, handing: Handing) -> None:
        self.handing = handing
        self._send, self._receive = trio.open_memory_channel[_Search](WAITING)

    def look_for(self, gid: Gid, transcript: str, nonces: Iterable[str]) -> None:
        search = _Search(gid, transcript, set(nonces), trio.current_time() + BOUND_S)
        try:
            self._send.send_nowait(search)
        except trio.WouldBlock:
            log.warning("too many transcripts to look at", gid=gid)

    async def next(self) -> _Search:
        return await self._receive.receive()

    def more(self) -> list[_Search]:
        """What else was asked for meanwhile."""
        found = []
        while True:
            try:
                found.append(self._receive.receive_nowait())
            except trio.WouldBlock:
                return found


async def run_evidence(evidence: Evidence, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Look until cancelled; while nothing is looked for, sleep. Cancelled, nothing is lost: other evidence may come."""
    task_status.started()
    open_searches: list[_Search] = []
    while True:
        if not open_searches:
            open_searches.append(await evidence.next())
        open_searches += evidence.more()
        for search in open_searches:
            found = await trio.to_thread.run_sync(_find, search.path, frozenset(search.nonces))
            if found:
                search.nonces -= found
                try:
                    await evidence.handing.seen(search.gid, nonces=found)
                except FleetTrioError as problem:
                    log.error("evidence not taken", gid=search.gid, reason=str(problem))
        now = trio.current_time()
        open_searches = [search for search in open_searches if search.nonces and search.until > now]
        await trio.sleep(LOOK_S)


def _find(path: str, nonces: frozenset[str]) -> set[str]:
    """Those nonces that stand in a context of a hook, in the last part of a transcript."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode):
                return set()
            os.lseek(file, max(0, facts.st_size - TAIL), os.SEEK_SET)
            data = os.read(file, TAIL)
        finally:
            os.close(file)
    except OSError:
        return set()
    lines = [line for line in data.split(b"\n") if b"hook_additional_context" in line]
    return {nonce for nonce in nonces if any(nonce.encode() in line for line in lines)}
