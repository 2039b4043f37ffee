"""A push agent: a line buffer that keeps every text typed into it, and a mood. It outlives the gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from fleettrio.local.frame import unframe
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text
from tests.sim.history import Party, number_in

if TYPE_CHECKING:
    from tests.sim.process import Process
    from tests.sim.world import World

__all__ = ("Agent", "Hand")


class Agent:
    def __init__(self, world: World, party: Party) -> None:
        self._world = world
        self.party = party
        self.lines: list[str] = []
        self.state = AgentState.IDLE
        self.has_draft = False
        self.answers: Callable[[Party, int], Awaitable[None]]
        """Sends a reply to the message with this number."""

    def take(self, text: str) -> None:
        """A whole text came in: it takes a turn."""
        self.lines.append(text)
        self.state = AgentState.WORKING
        self._world.after(self._world.rng.uniform(0.5, 4.0), lambda: self._turn_over(number_in(text)))

    async def _turn_over(self, number: int) -> None:
        self.state = AgentState.IDLE
        if self._world.rng.random() < 0.25 and not self._world.is_quiet:
            await self.answers(self.party, number)

    async def _rest(self) -> None:
        self.state = AgentState.IDLE

    async def change_mood(self) -> None:
        """A person comes and goes: a draft in the composer, a dialog that waits for an answer."""
        rng = self._world.rng
        if self._world.faults.is_healed:
            return
        mood = rng.random()
        self.has_draft = mood < 0.2
        if self.state is AgentState.IDLE and mood > 0.8:
            self.state = AgentState.BLOCKED
            self._world.after(rng.uniform(1.0, 8.0), self._rest)
        self._world.after(rng.uniform(4.0, 15.0), self.change_mood)


class Hand:
    """How one process reaches the agent; a `local.port.Transport`."""

    name = "tmux"
    wakes = True

    def __init__(self, agent: Agent, process: Process) -> None:
        self._agent = agent
        self._process = process
        self._world = process.world

    async def state(self) -> AgentState:
        return self._agent.state

    async def reserve(self, when: str) -> Reserved | NotReady:
        agent = self._agent
        self._process.step()
        if agent.state is AgentState.BLOCKED or agent.has_draft:
            return NotReady(agent.state, "a draft is in its composer" if agent.has_draft else "a dialog is open")
        if agent.state is not AgentState.IDLE and when == "idle":
            return NotReady(agent.state, "it works")
        return Reserved("1", agent.state)

    def glance(self) -> Reserved | None:
        """Every other time it is not to be known so fast."""
        agent = self._agent
        is_ready = agent.state is AgentState.IDLE and not agent.has_draft
        return Reserved("1", agent.state) if is_ready and self._world.events % 2 else None

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        """Half of it, the world goes on, the other half. Whoever dies in between has typed it."""
        rng, body = self._world.rng, unframe(text.framed)
        self._process.step()
        if rng.random() < 0.1:
            return Delivery(DeliveryOutcome.NOTHING_WRITTEN, "the pane was in copy mode")
        self._world.history.was_typed(body, self._agent.party, self._process.host.store_number)
        self._process.step()
        await self._world.pass_time(rng.uniform(0.05, 0.5))
        self._process.step()
        self._agent.take(body)
        if rng.random() < 0.15:
            return Delivery(DeliveryOutcome.UNCONFIRMED, "no turn was seen to begin")
        return Delivery(DeliveryOutcome.SUBMITTED)

    async def close(self) -> None:
        """The agent lives on."""
