"""The harness of a push agent that runs hooks: they take what may land, show it to the agent, and say so the next time.

Whatever it is given in one result goes into the agent, or nothing of it does: a hook that is killed before it prints.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from fleettrio.core import requests as ask
from fleettrio.core.calls import Offered
from fleettrio.core.handouts import POLL, REWAKE
from fleettrio.core.harness import HandoutAsked, HandoutSeen
from fleettrio.ids import MsgId
from fleettrio.local.port import AgentState
from tests.sim.agent import Agent

if TYPE_CHECKING:
    from tests.sim.host import Host
    from tests.sim.process import Process

__all__ = ("TAKEN", "Hooks")

TAKEN = "taken-by-a-hook"
WHENS = frozenset({"idle", "turn", "now"})


class Hooks:
    def __init__(self, host: Host, agent: Agent, rng: random.Random) -> None:
        self._host = host
        self._world = host.world
        self._agent = agent
        self._rng = rng
        """Its own: a world without hooks is what it was."""
        self._shown: list[MsgId] = []
        """What the agent has, and nobody said so yet."""
        self._waiting: tuple[Process, int] | None = None
        """The call that waits to wake it."""
        self._calls = 0

    async def go_on(self) -> None:
        """One hook after the other, for ever."""
        is_quiet = self._world.is_quiet
        self._world.after(self._rng.uniform(5.0, 9.0) if is_quiet else self._rng.uniform(0.5, 5.0), self.go_on)
        process = self._host.process
        if process is None or self._agent.state is AgentState.BLOCKED:
            return
        shown, self._shown = self._shown, []
        if shown and self._rng.random() < 0.8:
            await process.enter(lambda: process.performer.handle(HandoutSeen(self._agent.party.gid, tuple(shown))))
        if self._host.process is process and not (is_quiet and self._waiting):
            await process.enter(lambda: self._ask(process))

    async def _ask(self, process: Process) -> None:
        via = self._rng.choice(("hook", "hook", REWAKE, POLL))
        if via == REWAKE and self._waiting and self._waiting[0] is process:
            if self._rng.random() < 0.3:
                await self._give_up(process)
            return
        self._calls += 1
        call, gid = process.calls.new(), self._agent.party.gid
        session = f"{self._agent.party.address}-{self._calls}"

        async def then(result: object) -> None:
            assert isinstance(result, Offered)
            if self._waiting == (process, call):
                self._waiting = None
            await self._show(process, result, session, via)

        process.calls.then[call] = then
        if via == POLL:
            await process.performer.handle(ask.PullAsked(call, session, gid, 20, wait=False))
            return
        if via == REWAKE:
            self._waiting = (process, call)
        asked = HandoutAsked(
            call=call, session=session, gid=gid, whens=WHENS, room=9_000, most=3, via=via, wait=via == REWAKE
        )
        await process.performer.handle(asked)

    async def _give_up(self, process: Process) -> None:
        """A newer call takes its place."""
        assert self._waiting is not None
        _, call = self._waiting
        self._waiting = None
        if process.calls.then.pop(call, None):
            await process.performer.handle(ask.CallEnded(call, "", gone=False))

    async def _show(self, process: Process, taken: Offered, session: str, via: str) -> None:
        rows = await process.store.known(taken.keys)
        stored = await process.store.messages(taken.keys)
        process.step()
        is_killed = self._rng.random() < 0.15
        if is_killed and via == POLL:
            await process.performer.handle(ask.CallEnded(None, session, gone=True))
        if is_killed:
            return
        for row, message in zip(rows, stored, strict=True):
            assert row is not None
            assert message is not None
            self._world.faults.struck[TAKEN] += 1
            text = message.body.decode()
            self._world.history.was_typed(text, self._agent.party, self._host.store_number, is_polled=via == POLL)
            self._agent.take(text)
            self._shown.append(row.msg_id)
        if via == POLL and taken.keys and self._rng.random() < 0.8:
            await process.performer.handle(ask.Confirmed(process.calls.new(), session, taken.cursor))
