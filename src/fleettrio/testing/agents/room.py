"""A tmux server of its own with stand-in agents in its panes: for tests and demonstrations.

The server is reached by its own name below a temporary folder, reads no configuration, and ends with the room.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import trio

import fleettrio

__all__ = ("StandIn", "TmuxRoom", "composer", "until")

BOUND_S = 30.0
SOURCE = str(Path(fleettrio.__file__).resolve().parent.parent)

T = TypeVar("T")


async def until(what: str, find: Callable[[], T]) -> T:
    """The first true value of `find`. Raises `AssertionError` that says `what` was waited for, after a bound."""
    with trio.move_on_after(BOUND_S):
        while True:
            if found := find():
                return found
            await trio.sleep(0.01)
    raise AssertionError(f"not within {BOUND_S:.0f} s: {what}")


def composer(log: Path, *options: str) -> list[str]:
    """The command line of a composer that writes its events to `log`."""
    argv = ["env", f"PYTHONPATH={SOURCE}", sys.executable, "-m", "fleettrio.testing.agents.composer"]
    return [*argv, "--log", str(log), *options]


@dataclasses.dataclass(frozen=True, slots=True)
class StandIn:
    """One composer in a pane (`fleettrio.testing.agents.composer`)."""

    pane: str
    target: str
    log: Path

    def events(self, name: str = "") -> list[dict[str, Any]]:
        """What it wrote down so far: all events, or those called `name`."""
        lines = self.log.read_bytes().split(b"\n")[:-1] if self.log.exists() else []
        events = [json.loads(line) for line in lines]
        return [event for event in events if name in ("", event["event"])]

    def turns(self) -> list[str]:
        """The exact texts of its turns."""
        return [event["text"] for event in self.events("turn")]

    def open_dialog(self) -> None:
        os.kill(self.pid, signal.SIGUSR1)

    def finish(self) -> None:
        """End its work, or its dialog."""
        os.kill(self.pid, signal.SIGUSR2)

    @property
    def pid(self) -> int:
        pid: int = self.events("begun")[0]["pid"]
        return pid


class TmuxRoom:
    """`with TmuxRoom() as room:` — a server that nobody else sees, gone at the end."""

    def __init__(self) -> None:
        self.socket = f"fleettrio-{secrets.token_hex(4)}"
        # A short path: sockets below it must fit into 100 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="ft-"))
        self.env = {"TMUX_TMPDIR": str(self.folder)}

    def __enter__(self) -> Self:
        self.tmux("new-session", "-d", "-x", "110", "-y", "40", "cat")
        self.tmux("set-option", "-g", "remain-on-exit", "on")
        return self

    def __exit__(self, *_: object) -> None:
        self.tmux("kill-server", check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def tmux(self, *command: str, check: bool = True) -> str:
        """Run one tmux command on this server; its output."""
        own = {key: value for key, value in os.environ.items() if key not in ("TMUX", "TMUX_PANE")}
        done = subprocess.run(
            ["tmux", "-u", "-L", self.socket, "-f", "/dev/null", *command],
            env={**own, **self.env},
            capture_output=True,
            text=True,
            check=check,
            timeout=BOUND_S,
        )
        return done.stdout.strip()

    def run(self, argv: Sequence[str]) -> str:
        """Start a program in a pane of its own (110 by 40); the pane's id."""
        return self.tmux("new-window", "-d", "-P", "-F", "#{pane_id}", shlex.join(argv))

    def place(self, *options: str) -> StandIn:
        """A composer with these options, not on the screen yet."""
        log = self.folder / f"{secrets.token_hex(4)}.jsonl"
        pane = self.run(composer(log, *options))
        return StandIn(pane, f"{self.socket}:{pane}", log)

    async def start(self, *options: str) -> StandIn:
        """A composer with these options, once it is on the screen."""
        agent = self.place(*options)
        pane = agent.pane
        await until("the stand-in agent is on the screen", lambda: "stand-in agent" in self.screen(pane))
        return agent

    def screen(self, pane: str) -> str:
        return self.tmux("capture-pane", "-p", "-t", pane)

    def fact(self, pane: str, name: str) -> str:
        """One of tmux's formats of a pane: `pane_dead`, `pane_in_mode`…"""
        return self.tmux("display-message", "-p", "-t", pane, f"#{{{name}}}")
