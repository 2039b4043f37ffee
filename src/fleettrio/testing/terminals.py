"""Stand-in agents in terminals, for the contract of transports that type: the composer in a pane of tmux.

`TerminalAgent` is what another terminal multiplexer brings its own of: how keys are pressed, what is on the screen, how
its program ends or is replaced.
"""

from __future__ import annotations

import abc
import os
import secrets
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from fleettrio.local.harness import Harness, load_harness
from fleettrio.local.port import Transport
from fleettrio.local.tmux import TmuxTransport
from fleettrio.testing.agents.room import StandIn, TmuxRoom, composer, until
from fleettrio.testing.bench import TERMINAL, Situation

__all__ = ("OPTIONS", "TerminalAgent", "TmuxBench", "harness_for")

OPTIONS: dict[Situation, tuple[str, ...]] = {
    Situation.IDLE: (),
    Situation.WORKING: ("--mode", "working", "--hold"),
    Situation.DRAFT: ("--draft", "half typed"),
    Situation.DIALOG: ("--mode", "dialog"),
    Situation.DEAF: ("--swallow", "99"),
    Situation.LINES: ("--no-paste",),
}
"""How the composer starts (`fleettrio.testing.agents.composer`)."""
PATIENCE_S = 60.0


def harness_for(situation: Situation, known: Harness | None = None) -> Harness:
    """The data of the composer (or `known`): short pauses, for it is never slow, and the patience of a busy machine."""
    known = known or load_harness("line" if situation is Situation.LINES else "script")
    turn_s = 0.4 if situation is Situation.DEAF else PATIENCE_S
    return msgspec.structs.replace(known, settle_s=0.06, echo_s=PATIENCE_S, turn_s=turn_s)


class TerminalAgent(abc.ABC):
    """A composer in a terminal, which writes its events to `log`."""

    def __init__(self, log: Path) -> None:
        self._logs = [log]

    @abc.abstractmethod
    def open(self) -> Transport:
        """Another transport into it."""

    @abc.abstractmethod
    def press(self, keys: str) -> None:
        """Type these keys at its terminal, as a person would."""

    @abc.abstractmethod
    def screen(self) -> str:
        """What its terminal shows."""

    @abc.abstractmethod
    async def hide(self) -> None:
        """Let keys go elsewhere than to the program."""

    @abc.abstractmethod
    async def end(self) -> None:
        """End its program; its terminal stays, if it can."""

    @abc.abstractmethod
    async def replace(self, log: Path) -> None:
        """Another composer, which writes to `log`, in the same place."""

    def turns(self) -> list[str]:
        return [turn for log in self._logs for turn in StandIn("", "", log).turns()]

    def trace(self) -> object:
        return [StandIn("", "", log).events() for log in self._logs], self.screen()

    async def become(self, situation: Situation) -> None:
        match situation:
            case Situation.DRAFT:
                self.press("wait")
                await self._shows("❯ wait")
            case Situation.DIALOG:
                self._signal(signal.SIGUSR1)
                await self._shows("1. Yes")
            case Situation.WORKING:
                self._signal(signal.SIGURG)
                await self._shows("Working")
            case Situation.HIDDEN:
                await self.hide()
            case Situation.DEAD:
                await self.end()
            case Situation.REPLACED:
                heir = self._logs[-1].with_suffix(f".{secrets.token_hex(4)}.jsonl")
                await self.replace(heir)
                self._logs.append(heir)
                await until("the other program has begun", lambda: StandIn("", "", heir).events("begun"))
                await self._shows("stand-in agent")
            case _:
                raise ValueError(f"a terminal agent cannot become {situation}")

    async def is_up(self) -> None:
        """Wait until it is on the screen."""
        await self._shows("stand-in agent")

    def _signal(self, number: signal.Signals) -> None:
        os.kill(StandIn("", "", self._logs[-1]).pid, number)

    async def _shows(self, words: str) -> None:
        await until(f"{words!r} on the screen", lambda: words in self.screen())


class TmuxAgent(TerminalAgent):
    """A composer in a pane of `room`."""

    def __init__(self, room: TmuxRoom, agent: StandIn, harness: Harness, *, wrap: Callable[[Any], Transport]) -> None:
        super().__init__(agent.log)
        self._room, self._agent, self._harness, self._wrap = room, agent, harness, wrap

    def open(self) -> Transport:
        return self._wrap(TmuxTransport(self._agent.target, self._harness, env=self._room.env))

    def press(self, keys: str) -> None:
        self._room.tmux("send-keys", "-l", "-t", self._agent.pane, keys)

    def screen(self) -> str:
        return self._room.screen(self._agent.pane)

    async def hide(self) -> None:
        self._room.tmux("copy-mode", "-t", self._agent.pane)

    async def end(self) -> None:
        self._signal(signal.SIGKILL)
        await until("the pane is dead", lambda: self._room.fact(self._agent.pane, "pane_dead") == "1")

    async def replace(self, log: Path) -> None:
        self._room.tmux("respawn-pane", "-k", "-t", self._agent.pane, *composer(log))


class TmuxBench:
    """Agents in panes of `room`. `wrap` makes another transport around the one into the pane."""

    starts = frozenset(OPTIONS)
    becomes = TERMINAL - frozenset({Situation.IDLE, Situation.DEAF, Situation.LINES})

    def __init__(self, room: TmuxRoom, wrap: Callable[[Any], Transport] = lambda via: via) -> None:
        self._room, self._wrap = room, wrap

    async def start(self, situation: Situation) -> TmuxAgent:
        agent = TmuxAgent(self._room, self._room.place(*OPTIONS[situation]), harness_for(situation), wrap=self._wrap)
        await agent.is_up()
        return agent
