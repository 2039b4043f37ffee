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

__all__ = ("StandIn", "TmuxRoom", "composer", "harness", "until")

BOUND_S = 90.0
"""Catches what hangs; a machine that is busy with other things takes its time."""
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


def composer(log: Path, *options: str, program: str = "composer") -> list[str]:
    """The command line of a composer, or another program beside it, that writes its events to `log`."""
    argv = ["env", f"PYTHONPATH={SOURCE}", sys.executable, "-m", f"fleettrio.testing.agents.{program}"]
    return [*argv, "--log", str(log), *options]


def harness(name: str, log: Path, *options: str) -> list[str]:
    """The command line of a stand-in for the harness `name` (`claude`, `codex`), with hooks."""
    argv = ["env", f"PYTHONPATH={SOURCE}", sys.executable, "-m", "fleettrio.testing.agents.harness", name]
    return [*argv, "--log", str(log), *options]


@dataclasses.dataclass(frozen=True, slots=True)
class StandIn:
    """A composer in a pane (`fleettrio.testing.agents.composer`), or a harness (`….harness`)."""

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

    def raw(self) -> bytes:
        """Every byte that its terminal gave it."""
        file = self.log.with_name(f"{self.log.name}.raw")
        return file.read_bytes() if file.exists() else b""

    def open_dialog(self) -> None:
        os.kill(self.pid, signal.SIGUSR1)

    def finish(self) -> None:
        """End its work, or its dialog."""
        os.kill(self.pid, signal.SIGUSR2)

    def use_tool(self) -> None:
        """A harness only: its hooks before and after a tool run."""
        os.kill(self.pid, signal.SIGRTMIN)

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

    def run(self, argv: Sequence[str], cwd: Path | None = None) -> str:
        """Start a program in a pane of its own (110 by 40); the pane's id."""
        place = ("-c", str(cwd)) if cwd else ()
        return self.tmux("new-window", "-d", "-P", "-F", "#{pane_id}", *place, shlex.join(argv))

    def place(self, *options: str, program: str = "composer") -> StandIn:
        """A composer (or `program`) with these options, not on the screen yet."""
        log = self.folder / f"{secrets.token_hex(4)}.jsonl"
        pane = self.run(composer(log, *options, program=program))
        return StandIn(pane, f"{self.socket}:{pane}", log)

    async def start(self, *options: str, program: str = "composer") -> StandIn:
        """A composer (or `program`) with these options, once it is on the screen."""
        agent = self.place(*options, program=program)
        pane = agent.pane
        await until("the stand-in agent is on the screen", lambda: "stand-in agent" in self.screen(pane))
        return agent

    async def start_harness(self, name: str, *options: str, home: Path, **env: str) -> StandIn:
        """A stand-in for the harness `name` with these options and its files below `home`, once it is on the screen."""
        log = self.folder / f"{secrets.token_hex(4)}.jsonl"
        more = [f"{key}={value}" for key, value in {"HOME": str(home), **env}.items()]
        pane = self.run(["env", *more, *harness(name, log, *options)])
        await until("the stand-in agent is on the screen", lambda: "stand-in agent" in self.screen(pane))
        return StandIn(pane, f"{self.socket}:{pane}", log)

    def screen(self, pane: str) -> str:
        return self.tmux("capture-pane", "-p", "-t", pane)

    def fact(self, pane: str, name: str) -> str:
        """One of tmux's formats of a pane: `pane_dead`, `pane_in_mode`…"""
        return self.tmux("display-message", "-p", "-t", pane, f"#{{{name}}}")
