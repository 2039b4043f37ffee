"""A session of this home's own tmux server for a program that a person starts outside tmux: shown, or left alone."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Sequence

import trio

from fleettrio.api.schema import AgentView, Empty, Fleet
from fleettrio.clients.cli.table import note
from fleettrio.clients.client import Client
from fleettrio.errors import FleetTrioError
from fleettrio.home import resolve_paths
from fleettrio.launch.launcher import NOT_INHERITED, server_name
from fleettrio.panes.scope import process_of, scope_prefix
from fleettrio.panes.server import OwnServer, Pane

__all__ = ("NewPane",)

_LAST_LINES = 12
_LOOK_S = 0.1
_END_S = 5.0
"""tmux is told of an ended program a little later than everybody can see it, on a busy machine much later."""
_TOKEN = "FLEETTRIO_TOKEN"  # noqa: S105  the variable's name


class NewPane:
    """`argv`, running in a pane with this command's environment; `title` begins the name of its session."""

    def __init__(self, title: str, argv: Sequence[str]) -> None:
        if shutil.which("tmux") is None:
            hint = "install the package tmux, or run it in a pane of another multiplexer and fleettrio attach"
            raise FleetTrioError("tmux is not installed: an agent's messages are typed into a pane of it", hint=hint)
        dropped = NOT_INHERITED - {_TOKEN}
        env = {key: value for key, value in os.environ.items() if key not in dropped}
        self._env = env
        self._server = OwnServer(server_name(resolve_paths(os.environ)), env, scope_prefix(env))
        self._pane: Pane = trio.run(self._start, f"{title}-{secrets.token_hex(2)}", argv)

    async def _start(self, name: str, argv: Sequence[str]) -> Pane:
        own = [_TOKEN] if _TOKEN in self._env else []
        return await self._server.start(name, "", argv, os.getcwd(), self._env, own)

    @property
    def attach_command(self) -> str:
        return f"tmux -L {self._server.socket} attach -t {self._pane.pane}"

    def show(self) -> int:
        """Show it in this terminal; returns its exit code, or 0 when the person left it running."""
        # A terminal that was opened from inside tmux is none of its panes, and tmux need not warn of that.
        with subprocess.Popen(self._server.watch(self._pane), env=self._env) as shown:
            self._let_go_at_its_end(shown)
        code = self._exit_code()
        if code is None:
            trio.run(self._let_be)
            note(f"it runs on; to look at it again: {self.attach_command}")
            return 0
        if code != 0:
            self._tell_last_lines()
        trio.run(self._server.end, self._pane)
        return code

    def _exit_code(self) -> int | None:
        """What its program ended with; None while it runs."""
        gone_by = time.monotonic() + _END_S
        while (code := trio.run(self._server.exit_code, self._pane.pane)) is None and self.has_ended:
            if time.monotonic() > gone_by:
                raise FleetTrioError("it has ended, and tmux does not say how", hint=f"look: {self.attach_command}")
            time.sleep(_LOOK_S)
        return code

    @property
    def has_ended(self) -> bool:
        """Whether its program has."""
        return process_of(self._pane.pid) is None

    def _let_go_at_its_end(self, shown: subprocess.Popen[bytes]) -> None:
        """Wait until nobody looks at it any more; once its program has ended there is nothing more to look at.

        tmux cannot be asked: it misses, now and then, that its child has ended (3.3a).
        """
        while True:
            try:
                shown.wait(_LOOK_S)
            except subprocess.TimeoutExpired:
                if self.has_ended:
                    trio.run(self._server.let_go, self._pane)
            else:
                return

    def wait_attached(self, client: Client, limit_s: float) -> AgentView:
        """The agent, once it is known and its program runs. Raises when it ended before, or not within `limit_s`."""
        began = time.monotonic()
        while time.monotonic() - began < limit_s:
            fleet: Fleet = client.call("list", Empty())
            agent = next((agent for agent in fleet.agents if agent.pid == self._pane.pid), None)
            if agent is not None:
                trio.run(self._let_be)
                return agent
            if trio.run(self._server.exit_code, self._pane.pane) is not None:
                self._tell_last_lines()
                trio.run(self._server.end, self._pane)
                raise FleetTrioError("it ended before it was an agent", hint="its last lines are above")
            time.sleep(_LOOK_S)
        raise FleetTrioError(f"it is not an agent after {limit_s:.0f} s", hint=f"look at it: {self.attach_command}")

    def _tell_last_lines(self) -> None:
        for line in trio.run(self._server.last_lines, self._pane.pane, _LAST_LINES):
            note(line)

    async def _let_be(self) -> None:
        """From now on the pane goes with its program."""
        await self._server.keep_screen(self._pane, keep=False)
