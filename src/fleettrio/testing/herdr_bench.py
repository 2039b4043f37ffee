"""Stand-in agents in herdr, for the contract of transports; all but hidden ones: herdr tells of no copy mode."""

from __future__ import annotations

from typing import Any

from fleettrio.local.harness import load_harness
from fleettrio.local.herdr import HerdrTransport
from fleettrio.local.port import Transport
from fleettrio.testing.bench import TERMINAL, Situation
from fleettrio.testing.herdr_server import HerdrAgentStandIn, HerdrServer

__all__ = ("HerdrBench",)

_STARTS: dict[Situation, dict[str, Any]] = {
    Situation.IDLE: {},
    Situation.WORKING: {"mode": "working", "hold": True},
    Situation.DRAFT: {"draft": "half typed"},
    Situation.DIALOG: {"mode": "dialog"},
    Situation.DEAF: {"swallow": 99},
    Situation.LINES: {"paste": False},
}


class HerdrAgent:
    """An agent of `server`, and whoever came in its place."""

    def __init__(self, server: HerdrServer, agent: HerdrAgentStandIn) -> None:
        self._server, self._agents = server, [agent]
        self._target = server.target(agent)

    def open(self) -> Transport:
        return HerdrTransport(self._target, load_harness("line" if self._agents[0].kind == "pi" else "claude"))

    def turns(self) -> list[str]:
        return [turn for agent in self._agents for turn in agent.turns()]

    def trace(self) -> object:
        return [(agent.raw, agent.composer.draft, agent.turns(), agent.events("allowed")) for agent in self._agents]

    async def become(self, situation: Situation) -> None:
        agent = self._agents[-1]
        match situation:
            case Situation.DRAFT:
                agent.feed(b"wait")
            case Situation.DIALOG | Situation.WORKING:
                agent.composer.mode = str(situation)
            case Situation.DEAD:
                self._server.agents.remove(agent)
            case Situation.REPLACED:
                heir = self._server.add(agent.kind, "another session")
                heir.terminal, heir.pane = agent.terminal, agent.pane
                self._server.agents.remove(agent)
                self._agents.append(heir)
            case _:
                raise ValueError(f"an agent of herdr cannot become {situation}")


class HerdrBench:
    """Agents of `server`."""

    starts = frozenset(_STARTS)
    becomes = TERMINAL - {Situation.IDLE, Situation.DEAF, Situation.LINES, Situation.HIDDEN}

    def __init__(self, server: HerdrServer) -> None:
        self._server = server

    async def start(self, situation: Situation) -> HerdrAgent:
        kind = "pi" if situation is Situation.LINES else "claude"
        return HerdrAgent(self._server, self._server.add(kind, **_STARTS[situation]))
