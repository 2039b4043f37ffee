"""The delivery of one process to one agent: what `tasks.deliver` loops over, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleettrio.core import actions as do
from fleettrio.core.entity import Entity
from fleettrio.core.events import AgentSeen
from fleettrio.local.port import Reserved
from fleettrio.ports import LaneWork
from fleettrio.tasks.deliver import reserve, write
from tests.sim.agent import Agent, Hand

if TYPE_CHECKING:
    from tests.sim.process import Process

__all__ = ("Desk",)


class Desk:
    def __init__(self, process: Process, entity: Entity, agent: Agent) -> None:
        self._process = process
        self._entity = entity
        self._agent = agent
        self._hand = Hand(agent, process)
        self._reserved: Reserved | None = None
        self._work: list[do.Reserve | do.Inject] = []
        self._is_busy = False
        self._is_closed = False
        process.soon(process.world.a_moment(), self._look)

    def close(self) -> None:
        self._is_closed = True

    def glance(self) -> bool:
        if self._is_busy or self._work:
            return False
        found = self._hand.glance()
        self._reserved = found or self._reserved
        return found is not None

    def send_nowait(self, request: LaneWork) -> None:
        self._process.step()
        assert not isinstance(request, do.Nudge), "nobody who fetches has a pane here"
        self._work.append(request)
        if len(self._work) == 1 and not self._is_busy:
            self._process.soon(self._process.world.a_moment(), self._serve)

    async def _serve(self) -> None:
        if self._is_busy or not self._work:
            return
        self._is_busy = True
        request = self._work.pop(0)
        if isinstance(request, do.Reserve):
            self._reserved = await reserve(request.row, self._hand, self._process.performer)
        else:
            assert self._reserved is not None
            await write(request.row, self._reserved, self._hand, self._process.performer)
        self._is_busy = False
        if self._work:
            self._process.soon(self._process.world.a_moment(), self._serve)

    async def _look(self) -> None:
        """As often as the shipped task looks: while it works or is blocked, and when it may be back."""
        if self._is_closed:
            return
        if not self._is_busy:
            state = await self._hand.state()
            status = {"gone": "away", "unknown": "idle"}.get(str(state), str(state))
            await self._process.performer.handle(AgentSeen(self._entity.gid, status))
        current = self._process.performer.gateway.roster.entities.get(self._entity.gid)
        is_quiet = current is None or current.status not in ("working", "blocked", "away")
        self._process.soon(20.0 if is_quiet else 1.0, self._look)
