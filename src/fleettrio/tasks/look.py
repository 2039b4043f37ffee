"""Looking at the work trees of this host's agents: for the messages that are about to land, and to say where they are.

What a look takes is bounded (`panes.git`). A look that fails, for whatever reason, costs a note and nothing else.
"""

from __future__ import annotations

import trio

from fleettrio.core.actions import LookAtTree
from fleettrio.core.drift import Drift, drift
from fleettrio.core.events import TreeLookedAt, TreeMoved
from fleettrio.core.rows import InboxRow
from fleettrio.errors import StoreError
from fleettrio.ids import Gid, WallMs
from fleettrio.observe import get_logger
from fleettrio.panes.git import LIMIT_S, look, place_of
from fleettrio.perform import Performer
from fleettrio.wire.causal import Causal, read_causal
from fleettrio.wire.envelope import decode_envelope

__all__ = ("announce_place", "drift_of", "run_looks")

CAPACITY = 256
"""Entities that can wait for a look at once; beyond that messages go without a note."""

log = get_logger("look")


async def run_looks(performer: Performer, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Look for what is to be offered to clients, one entity after the other, until cancelled."""
    send, receive = trio.open_memory_channel[LookAtTree](CAPACITY)
    performer.looks = send
    task_status.started()
    try:
        async for request in receive:
            await performer.handle(await _look(request, performer))
    finally:
        performer.looks = None


async def _look(request: LookAtTree, performer: Performer) -> TreeLookedAt:
    """All of a request within one bound; what there was no time for goes without a note."""
    found: dict[tuple[str, str], Drift | None] = {}
    with trio.move_on_after(LIMIT_S):
        for row in request.rows:
            found[row.key] = await drift_of(row, performer)
    return TreeLookedAt(request.gid, tuple((row.key, found.get(row.key)) for row in request.rows))


async def drift_of(row: InboxRow, performer: Performer) -> Drift | None:
    """What has moved since a message was written; None: nothing, or it is not known. Cancelled, nothing has changed."""
    entity = performer.gateway.roster.entities.get(row.gid)
    if entity is None or not entity.cwd or not row.has_causal:
        return None
    causal = await _causal_of(row, performer)
    seen = await look(entity.cwd, causal, entity.repo) if causal else None
    if causal is None or seen is None:
        return None
    await performer.handle(TreeMoved(row.gid, seen.repo, seen.head))
    found = drift(causal, seen, _written(row, performer))
    if found:
        log.info("drift", msg_id=row.msg_id, agent=entity.name, note=found.note, stale=found.is_stale)
    return found


async def announce_place(gid: Gid, performer: Performer) -> None:
    """Look where the work tree of an entity is, and tell it when it has moved. Cancelled, nothing has changed."""
    entity = performer.gateway.roster.entities.get(gid)
    if entity is None or not entity.cwd:
        return
    if place := await place_of(entity.cwd, entity.repo):
        await performer.handle(TreeMoved(gid, place.repo, place.head))


async def _causal_of(row: InboxRow, performer: Performer) -> Causal | None:
    try:
        stored = await performer.store.message(row.msg_id, row.gid)
    except StoreError as error:
        log.error("not looked at", msg_id=row.msg_id, reason=str(error))
        return None
    return read_causal(decode_envelope(stored.header).causal) if stored else None


def _written(row: InboxRow, performer: Performer) -> WallMs:
    """When it was written, by this host's clock."""
    peer = performer.gateway.roster.peers.get(row.from_host)
    return WallMs(row.ts - (peer.offset_ms if peer else 0))
