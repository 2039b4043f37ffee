"""Starting and ending agents: slow work, each piece of it apart from everything else. What is to be is decided by the
core; here it is done and reported.

One agent's start and end never run at the same time: an end waits until the start that it ended has let go.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import trio

from fleettrio.core.actions import EndAgent, Launch
from fleettrio.core.entity import Entity
from fleettrio.core.events import Adopted, AgentEnded, SpawnFailed, SpawnReady
from fleettrio.core.events import Launched as LaunchedEvent
from fleettrio.core.spawned import SpawnRow, SpawnState
from fleettrio.core.spawns import CRASHED
from fleettrio.errors import ConfigError, FleetTrioError
from fleettrio.ids import Gid
from fleettrio.launch.errors import LaunchError
from fleettrio.launch.launcher import Launched, Launcher, Order
from fleettrio.local.port import AgentState
from fleettrio.local.sanitise import clean, one_line
from fleettrio.local.transports import open_transport
from fleettrio.local.worker_token import worker_token
from fleettrio.observe import failpoint, get_logger
from fleettrio.perform import Performer
from fleettrio.profiles import Profile

__all__ = ("Launches", "detail_of")

DETAIL_MOST = 900
"""Characters: a notice carries 1 024."""

log = get_logger("launch")


class Launches:
    """The starts and ends of this host's agents; `run` one action at a time, each in a task of its own."""

    def __init__(
        self,
        launcher: Launcher,
        profiles: Mapping[str, Profile],
        performer: Performer,
        env: Mapping[str, str],
        operator_token: str,
    ) -> None:
        self._launcher = launcher
        self._profiles = profiles
        self._performer = performer
        self._env = env
        self._operator_token = operator_token
        self._under_way: dict[Gid, tuple[trio.CancelScope, trio.Event]] = {}

    async def run(self, action: Launch | EndAgent) -> None:
        """Do it and report. Cancelled, what was started runs on; the next process finds it by its spawn id."""
        if isinstance(action, EndAgent):
            await self._end(action.row)
            return
        scope, over = trio.CancelScope(), trio.Event()
        self._under_way[action.row.spawn_id] = scope, over
        try:
            with scope:
                await self._launch(action)
        finally:
            del self._under_way[action.row.spawn_id]
            over.set()

    # --- starting

    async def _launch(self, action: Launch) -> None:
        row, gid = action.row, action.row.spawn_id
        if self._performer.gateway.spawns.rows[gid].state is not row.state:
            return  # stopped meanwhile, and its end may be over already
        failpoint("P2-acked")
        try:
            if row.state is SpawnState.READY:
                alive = await self._launcher.adopt(_as_left(row, action.entity))
                await self._performer.handle(Adopted(gid, alive))
                return
            profile = self._profile(row)
            entity = await (
                self._find(row, action.entity) if action.again else self._start(row, action.entity, profile)
            )
            await self._until_ready(row, entity, profile)
        except LaunchError as error:
            await self._give_up(row, error)
            return
        log.info("agent started", agent=entity.name, profile=row.profile, asked_by=row.host)
        await self._performer.handle(SpawnReady(gid))
        failpoint("P4-ready")

    async def _start(self, row: SpawnRow, entity: Entity, profile: Profile) -> Entity:
        launched = await self._launcher.launch(
            Order(
                spawn_id=row.spawn_id,
                name=entity.name,
                profile=profile,
                cwd=row.cwd,
                worktree=row.worktree,
                token=worker_token(self._operator_token, entity, started=True),
            )
        )
        failpoint("P3-launched")
        await self._performer.handle(
            LaunchedEvent(
                spawn_id=row.spawn_id,
                target=launched.target,
                cwd=launched.cwd,
                tree=launched.worktree,
                tty=launched.tty,
                pid=launched.pid,
                started=launched.started,
            )
        )
        return msgspec.structs.replace(entity, target=launched.target, cwd=launched.cwd, pid=launched.pid)

    async def _find(self, row: SpawnRow, entity: Entity) -> Entity:
        """What an earlier process began: it goes on only if all of it was recorded and it is the very same process."""
        if entity.target and await self._launcher.adopt(_as_left(row, entity)):
            return entity
        raise LaunchError(CRASHED, "the daemon ended while it was being started")

    async def _until_ready(self, row: SpawnRow, entity: Entity, profile: Profile) -> None:
        try:
            transport = open_transport(entity, self._env)
        except ConfigError as error:
            raise LaunchError("runtime", str(error)) from error
        seen = self._performer.gateway.roster.seen_starting

        async def has_state() -> bool:
            state = await transport.state()
            return entity.gid in seen or state not in (AgentState.UNKNOWN, AgentState.GONE)

        try:
            await self._launcher.until_ready(profile, _as_left(row, entity), has_state)
        finally:
            seen.discard(entity.gid)
            await transport.close()

    def _profile(self, row: SpawnRow) -> Profile:
        profile = self._profiles.get(row.profile)
        if profile is None:
            raise LaunchError("no-such-profile", f"the profile {row.profile} is not in the configuration any more")
        return profile

    async def _give_up(self, row: SpawnRow, error: LaunchError) -> None:
        note = await self._end_quietly(row)
        log.warning("agent not started", profile=row.profile, asked_by=row.host, reason=error.reason, detail=str(error))
        await self._performer.handle(SpawnFailed(row.spawn_id, error.reason, detail_of(error, note)))

    # --- ending

    async def _end(self, row: SpawnRow) -> None:
        if under_way := self._under_way.get(row.spawn_id):
            scope, over = under_way
            scope.cancel()
            await over.wait()
        note = await self._end_quietly(row)
        log.info("agent ended", profile=row.profile, spawn_id=row.spawn_id, note=note)
        await self._performer.handle(AgentEnded(row.spawn_id, note))

    async def _end_quietly(self, row: SpawnRow) -> str:
        """What is to be said of its end; also that it could not be ended, which is no reason to lose the rest."""
        try:
            return await self._launcher.end(row.spawn_id, worktree=row.tree)
        except (FleetTrioError, OSError) as error:
            log.error("agent not ended", spawn_id=row.spawn_id, problem=str(error))
            return f"its program could not be ended: {error}"


def _as_left(row: SpawnRow, entity: Entity) -> Launched:
    return Launched(
        transport=entity.transport,
        target=entity.target,
        cwd=entity.cwd,
        worktree=row.tree,
        tty=entity.tty,
        pid=entity.pid,
        started=row.started,
    )


def detail_of(error: LaunchError, note: str) -> str:
    """Fit to be shown: what a program wrote on its screen is no more to be trusted than a peer's words."""
    said = [one_line(clean(line.encode()).encode(), 120) for line in error.screen]
    parts = [str(error), *(["on its screen: " + " / ".join(said)] if said else []), *([note] if note else [])]
    return "; ".join(parts)[:DETAIL_MOST]
