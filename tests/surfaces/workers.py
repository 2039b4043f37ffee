"""The demo's worker in a pane of a host: a real program that reads each brief by the command line and answers."""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
from pathlib import Path
from typing import Any

from fleettrio.testing.agents.room import StandIn, TmuxRoom
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until

BRIEF = (
    "請檢查 src/core 的改動，特別是重試。\n🙂 and tell me in one line what you think;\nlast line ends with a semicolon;"
)


def coder(work: Path) -> str:
    """Configuration of a host: fast beats, and the profile `coder`, by which the demo's worker is started in `work`."""
    program = [sys.executable, "-P", "-m", "fleettrio.demo.worker"]
    command = json.dumps([*program, "--log", f"{work}/log.jsonl", "--hold", f"{work}/hold"])
    return f"""
[timers]
beat_s = 0.5
[[profile]]
name = "coder"
command = {command}
cwd = "{work}"
harness = "script"
"""


class Worker:
    """One worker; its log says what it did with each brief. While the hold file is there it sits on its answers."""

    def __init__(self, room: TmuxRoom, host: Host, name: str = "worker") -> None:
        self._log = room.folder / f"{secrets.token_hex(4)}.jsonl"
        self._hold = room.folder / f"{secrets.token_hex(4)}.hold"
        own = [f"{key}={host.env[key]}" for key in ("FLEETTRIO_HOME", "PYTHONPATH")]
        program = [sys.executable, "-P", "-m", "fleettrio.demo.worker"]
        self.pane = room.run(["env", *own, *program, "--log", str(self._log), "--hold", str(self._hold)])
        wait_until(f"{name} has begun", lambda: self.events("begun"))
        host.ok("attach", "--name", name, "--pane", f"{room.socket}:{self.pane}", "--harness", "script")

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = self._log.read_bytes().split(b"\n")[:-1] if self._log.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def find(self, name: str, short: str) -> dict[str, Any] | None:
        return next((event for event in self.events(name) if event["id"] == short), None)

    def wait_event(self, name: str, short: str) -> dict[str, Any]:
        return wait_until(f"the worker: {name} {short}", lambda: self.find(name, short))

    def hold(self) -> None:
        self._hold.touch()

    def release(self) -> None:
        self._hold.unlink(missing_ok=True)


def stand_in(room: TmuxRoom, host: Host, name: str, *options: str) -> StandIn:
    """A composer that only writes down its turns, in a pane, attached to the host."""
    agent = room.place(*options)
    wait_until(f"{name} is on the screen", lambda: "stand-in agent" in room.screen(agent.pane))
    host.ok("attach", "--name", name, "--pane", agent.target, "--harness", "script")
    return agent


def tcp_sockets(pid: int) -> list[str]:
    """The open TCP sockets of a process, as /proc names them."""
    net = Path(f"/proc/{pid}/net")
    inodes = {line.split()[9] for table in ("tcp", "tcp6") for line in (net / table).read_text().splitlines()[1:]}
    links = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            links.append(file.readlink().name)
    return [link for link in links if link.startswith("socket:[") and link[8:-1] in inodes]
