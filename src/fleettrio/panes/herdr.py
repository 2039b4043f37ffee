"""Driver of herdr, a terminal multiplexer that knows of agents: what it is asked, over its socket (`herdrsocket`).

Rules, each one a way in which herdr surprises:

- An agent's pane id changes when the pane is moved to another workspace; its terminal's id does not.
- Text is passed on as it is, also what ends a paste: whoever gives it has cleaned it.
- Older servers prompt an agent that is blocked, and Enter would answer its dialog: the status is asked first.
- A prompt that was written and had no effect (`agent_prompt_stalled`), and an agent lost while it was waited for, are
  errors as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fleettrio.errors import ConfigError
from fleettrio.panes.herdrsocket import ANSWER_LIMIT_S, MOST_SENT, HerdrSocket
from fleettrio.panes.terminal import PaneFacts, Screen

__all__ = ("Herdr", "HerdrAgent", "HerdrProcess", "HerdrWorkspace", "target_of")

STATUSES = ("idle", "working", "blocked", "done", "unknown")


class _Session(msgspec.Struct):
    value: str = ""


class HerdrAgent(msgspec.Struct):
    """One agent, as far as we need to know it; what else herdr says is passed over."""

    terminal_id: str
    pane_id: str
    workspace_id: str = ""
    name: str | None = None
    agent: str | None = None
    agent_status: str = "unknown"
    agent_session: _Session | None = None
    agent_instance_id: str | None = None
    terminal_title: str | None = None
    launch_pending: bool = False
    cwd: str | None = None

    @property
    def session(self) -> str:
        """What the harness calls its session; empty when herdr does not know it."""
        return self.agent_session.value if self.agent_session else ""


class HerdrProcess(msgspec.Struct):
    """What runs in a pane: its first process and its terminal."""

    shell_pid: int | None = None
    tty: str | None = None


class _Pane(msgspec.Struct):
    pane_id: str


class HerdrWorkspace(msgspec.Struct):
    workspace_id: str
    label: str = ""


class _OneAgent(msgspec.Struct):
    agent: HerdrAgent


class _Agents(msgspec.Struct):
    agents: list[HerdrAgent]


class _Pong(msgspec.Struct):
    version: str


class _Text(msgspec.Struct):
    text: str


class _Read(msgspec.Struct):
    read: _Text


class _ProcessInfo(msgspec.Struct):
    process_info: HerdrProcess


class _Created(msgspec.Struct):
    workspace: HerdrWorkspace
    root_pane: _Pane


class _Workspaces(msgspec.Struct):
    workspaces: list[HerdrWorkspace]


class Herdr:
    """The herdr server behind `socket`. Calls are independent; each one is bounded and raises `HerdrError`.

    Cancelled, a call that changes something may have been done.
    """

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self._ask = HerdrSocket(socket).ask

    async def ping(self) -> str:
        """The server's version."""
        return (await self._ask("ping", {}, _Pong)).version

    async def agents(self) -> list[HerdrAgent]:
        return (await self._ask("agent.list", {}, _Agents)).agents

    async def agent(self, target: str) -> HerdrAgent:
        """By terminal id, pane id or name."""
        return (await self._ask("agent.get", {"target": target}, _OneAgent)).agent

    async def prompt(self, target: str, text: str, limit_s: float) -> HerdrAgent:
        """Paste and submit `text`; the agent as it was when its state had changed after that."""
        # Bounds of 5 s or less would be told as a time-out of the wait, not as a prompt without effect.
        wait = {"until": list(STATUSES), "timeout_ms": int(max(limit_s, 5.5) * 1000)}
        params = {"target": target, "text": text, "wait": wait}
        return (await self._ask("agent.prompt", params, _OneAgent, limit_s + ANSWER_LIMIT_S)).agent

    @staticmethod
    def fits(text: str) -> bool:
        """Whether `prompt` can carry `text`."""
        return len(msgspec.json.encode(text)) < MOST_SENT - 1024

    async def look(self, agent: HerdrAgent) -> Screen:
        """What is on the agent's screen, as of any pane; sizes and the cursor are not told."""
        params = {"target": agent.terminal_id, "source": "visible", "format": "text"}
        text = (await self._ask("agent.read", params, _Read)).read.text
        lines = tuple(line.rstrip(" ") for line in text.split("\n"))
        facts = PaneFacts(
            pane=agent.pane_id,
            dead=False,
            in_mode=False,
            pid=0,
            width=0,
            height=len(lines),
            cursor_x=0,
            cursor_y=0,
            alternate=False,
            tty="",
            command=agent.agent or "",
            title=agent.terminal_title or "",
        )
        return Screen(facts, lines)

    async def process(self, pane: str) -> HerdrProcess:
        return (await self._ask("pane.process_info", {"pane_id": pane}, _ProcessInfo)).process_info

    async def open_workspace(self, label: str, cwd: str, env: Mapping[str, str]) -> tuple[HerdrWorkspace, str]:
        """A workspace with one shell in it, and the id of its pane. Its programs get `env` beside the server's own."""
        params = {"label": label, "cwd": cwd, "env": dict(env), "focus": False}
        made = await self._ask("workspace.create", params, _Created)
        return made.workspace, made.root_pane.pane_id

    async def start(self, name: str, kind: str, pane: str, args: list[str], limit_s: float) -> HerdrAgent:
        """Start an agent of a kind that herdr knows in the shell of `pane`."""
        bound = min(max(limit_s, 3.5), 300.0)
        params = {"name": name, "kind": kind, "pane_id": pane, "args": args, "timeout_ms": int(bound * 1000)}
        return (await self._ask("agent.start", params, _OneAgent, bound + ANSWER_LIMIT_S)).agent

    async def workspaces(self) -> list[HerdrWorkspace]:
        return (await self._ask("workspace.list", {}, _Workspaces)).workspaces

    async def close_workspace(self, workspace: str) -> None:
        """Close it; what runs in it is hung up."""
        await self._ask("workspace.close", {"workspace_id": workspace}, dict[str, Any])


def target_of(target: str) -> tuple[str, str]:
    """`SOCKET#TERMINAL` as (socket, terminal id). Raises `ConfigError` for anything else."""
    socket, _, terminal = target.rpartition("#")
    if not socket.startswith("/") or not terminal or not terminal.isprintable():
        raise ConfigError(
            [f"{target!r} is not an agent of herdr"],
            hint="fleettrio attach --herdr TERMINAL finds it and writes the rest",
        )
    return socket, terminal
