"""Agents in workspaces of herdr: started by their kind, found again by their workspace's label, ended with it.

herdr starts what it knows (`claude`, `codex`, `opencode` and more) by name, in a shell that it opens; there is no
program in front of it, so no sandbox. What the agent is told by its environment goes there with the workspace.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import trio

from fleettrio.launch.errors import LaunchError
from fleettrio.panes.herdr import Herdr, HerdrAgent
from fleettrio.panes.herdrsocket import HerdrError, socket_of
from fleettrio.panes.terminal import Screen
from fleettrio.profiles import Profile

__all__ = ("HerdrPane", "HerdrRuntime")

_GONE = ("agent_not_found", "agent_not_running", "server_unavailable")
_BUSY = ("agent_pane_busy", "agent_pane_unavailable")
_MOST_NAME, _ENDING = 32, 9
SHELL_S, POLL_S = 10.0, 0.2


def _name(label: str) -> str:
    """A name of an agent there: at most 32 characters, a letter first. The end of a label tells it apart."""
    name = f"a-{label}" if label[0].isdigit() else label
    return name if len(name) <= _MOST_NAME else name[: _MOST_NAME - _ENDING] + name[-_ENDING:]


class HerdrPane(msgspec.Struct, frozen=True):
    """An agent that was started: where it is found, and by what its processes are recognised (0 and empty: unknown)."""

    target: str
    pid: int
    tty: str


class HerdrRuntime:
    """The herdr that `env` names. All of it raises `LaunchError`."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._herdr = Herdr(socket_of(env))

    async def start(self, label: str, profile: Profile, cwd: str, env: Mapping[str, str]) -> HerdrPane:
        """Start the profile's command in a workspace `label` with `env` beside herdr's own.

        Failed or cancelled, `end` takes away what was made.
        """
        try:
            _, pane = await self._herdr.open_workspace(label, cwd, env)
            agent = await self._start(_name(label), pane, profile)
            process = await self._herdr.process(agent.pane_id)
        except HerdrError as error:
            raise LaunchError("runtime", str(error)) from error
        return HerdrPane(f"{self._herdr.socket}#{agent.terminal_id}", process.shell_pid or 0, process.tty or "")

    async def _start(self, name: str, pane: str, profile: Profile) -> HerdrAgent:
        """The shell may still be busy with its own start; then nothing was started, and it is asked again."""
        program, *args = profile.command
        bound = trio.current_time() + SHELL_S
        while True:
            try:
                return await self._herdr.start(name, Path(program).name, pane, args, profile.limit_s)
            except HerdrError as error:
                if error.code not in _BUSY or trio.current_time() > bound:
                    raise
            await trio.sleep(POLL_S)

    async def look(self, terminal: str) -> Screen | None:
        """Its screen; None once it is gone."""
        agent = await self._agent(terminal)
        return await self._herdr.look(agent) if agent else None

    async def end(self, ending: str) -> None:
        """Close the workspaces whose labels end so. No herdr, no such workspace: nothing is to be ended."""
        try:
            for workspace in await self._herdr.workspaces():
                if workspace.label.endswith(ending):
                    await self._herdr.close_workspace(workspace.workspace_id)
        except HerdrError as error:
            if error.code not in (*_GONE, "workspace_not_found"):
                raise LaunchError("runtime", str(error)) from error

    async def _agent(self, terminal: str) -> HerdrAgent | None:
        try:
            return await self._herdr.agent(terminal)
        except HerdrError as error:
            if error.code in _GONE:
                return None
            raise LaunchError("runtime", str(error)) from error
