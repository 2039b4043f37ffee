"""Watches the session files of agents that are in a turn: an interrupt runs no hook, and only the file tells it."""

from __future__ import annotations

import trio

from fleettrio.core.events import AgentSeen, TurnEnded
from fleettrio.ids import Gid
from fleettrio.local.port import AgentState
from fleettrio.perform import Performer

__all__ = ("run_sightings",)

LOOK_S = 0.5


async def run_sightings(performer: Performer, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Watch until cancelled; sleeps while no agent with a session file is in a turn. Cancelled, nothing is lost."""
    task_status.started()
    while True:
        gids = performer.sightings.in_turns()
        if not gids:
            await performer.sightings.told_something()
            continue
        for gid in gids:
            await _look(gid, performer)
        await trio.sleep(LOOK_S)


async def _look(gid: Gid, performer: Performer) -> None:
    sightings, entities = performer.sightings, performer.gateway.roster.entities
    if gid not in entities:
        sightings.forget(gid)
        return
    await sightings.look_at_file(gid)
    state = sightings.of_harness(gid)
    if sightings.ended_silently(gid, performer.clock.now().wall):
        await performer.handle(TurnEnded(gid, None, "interrupt"), AgentSeen(gid, "idle", looked=True))
    elif state in (AgentState.WORKING, AgentState.BLOCKED) and entities[gid].status != state:
        await performer.handle(AgentSeen(gid, str(state), looked=True))
