"""What was left behind by agents that are gone: panes, git worktrees, inbox queues at the broker.

Ends leave nothing behind as a rule. A daemon that died in the middle of one, a broker that was away, work that was not
committed: for these there is `prune`. It looks first and takes nothing away unless it is told to.
"""

from __future__ import annotations

import trio

from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.rpc import CallError, Connection, Handler
from fleettrio.core import actions as do
from fleettrio.core.spawned import SpawnState
from fleettrio.core.topology import InboxQueue, inbox_queue
from fleettrio.errors import FAILED, FleetTrioError
from fleettrio.ids import Gid
from fleettrio.launch.launcher import Launcher
from fleettrio.perform import Performer
from fleettrio.ports import SessionPorts

__all__ = ("Orphans",)

REAP_S = 15.0
LOOK_AGAIN_S = 0.1


class Orphans:
    def __init__(self, performer: Performer, launcher: Launcher) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._launcher = launcher

    def methods(self) -> dict[str, Handler]:
        return {"prune": self.prune}

    async def prune(self, params: schema.Prune, caller: Caller, _connection: Connection) -> schema.Pruned:
        if not caller.is_person:
            raise CallError(FAILED, "not-a-person", "only a person takes away what is left", "run it at a terminal")
        orphans = [*await self._panes(params.take), *await self._worktrees(params.take)]
        if session := self._performer.session:
            orphans += await self._inboxes(session, params.take)
        return schema.Pruned(orphans)

    async def _panes(self, take: bool) -> list[schema.Orphan]:
        found = []
        for spawn_id, pane in (await self._launcher.running()).items():
            if self._gateway.spawns.started(spawn_id) is not None:
                continue
            orphan = schema.Orphan("pane", pane.pane, f"process {pane.pid}, of {spawn_id}")
            if take:
                await self._launcher.end_pane(pane)
                orphan.gone = True
            found.append(orphan)
        return found

    async def _worktrees(self, take: bool) -> list[schema.Orphan]:
        alive = {row.spawn_id[:8] for row in self._gateway.spawns.rows.values() if row.state is not SpawnState.ENDED}
        found = []
        for path in await trio.to_thread.run_sync(self._launcher.worktrees):
            if path.name.rpartition("-")[2] in alive:
                continue
            orphan = schema.Orphan("worktree", str(path), "its agent is gone")
            if take:
                orphan.detail = await self._launcher.drop_worktree(path) or "removed"
                orphan.gone = not await trio.Path(path).exists()
            found.append(orphan)
        return found

    async def _inboxes(self, session: SessionPorts, take: bool) -> list[schema.Orphan]:
        """Queues of agents that this host once had. What lies in them is refused and told, as when an agent goes."""
        host, entities = self._gateway.settings.me.host, self._gateway.roster.entities
        gone = {*await self._performer.store.gone_agents(), *self._gateway.spawns.rows}
        found = []
        for gid in sorted(gone - entities.keys() - self._gateway.roster.starting.keys()):
            owner = InboxQueue(Gid(gid), broadcast=True)
            queue = inbox_queue(host, owner)[0].name
            count = await session.broker.message_count(queue)
            if count is None:
                continue
            orphan = schema.Orphan("inbox", queue, f"{count} messages wait in it")
            if take:
                session.inboxes.send_nowait(do.CloseInbox(owner))
                orphan.gone = await _is_reaped(session, queue)
                orphan.detail = "taken away" if orphan.gone else "it could not be emptied in time; try again"
            found.append(orphan)
        return found


async def _is_reaped(session: SessionPorts, queue: str) -> bool:
    try:
        with trio.move_on_after(REAP_S):
            while await session.broker.message_count(queue) is not None:  # noqa: ASYNC110 - the broker tells nobody
                await trio.sleep(LOOK_AGAIN_S)
            return True
    except FleetTrioError:
        return False  # the session ended
    return False
