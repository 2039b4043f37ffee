"""A person at terminals of one host, with `claude`, `codex` and `opencode` on PATH that stand in; all else is real."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from fleettrio.api.schema import AgentView
from fleettrio.clients.client import ConnectionLost, DaemonMissing
from fleettrio.testing.agents.room import SOURCE, TmuxRoom
from fleettrio.testing.hosts import COMMAND, Host, clean_environment
from fleettrio.testing.waiting import wait_until

__all__ = ("Desk",)

FLEETTRIO = shlex.join(COMMAND)
_STAND_IN = f"""#!/bin/sh
[ "$1" = --help ] && exec echo "  --no-daemon"
[ "$1" = --version ] && exec echo "KIND 1.2.3"
export PYTHONPATH={SOURCE}
exec {sys.executable} -m fleettrio.testing.agents.harness KIND --log "$STANDIN_LOGS/$$.jsonl" "$@"
"""
_ENDS = """#!/bin/sh
echo "opencode is here"
while read -r line; do
  case $line in quit*) exit "${line#quit }";; esac
done
"""


class Desk:
    """A context manager. Nothing runs at first, not even the daemon."""

    def __init__(self, room: TmuxRoom) -> None:
        self.room = room
        self.folder = Path(tempfile.mkdtemp(prefix="ft-"))
        self.bin, self.logs, self.home, self.work = (self.folder / name for name in ("bin", "logs", "user", "work"))
        for folder in (self.bin, self.logs, self.home, self.work):
            folder.mkdir()
        for kind in ("claude", "codex"):
            self.program(kind, _STAND_IN.replace("KIND", kind))
        self.program("opencode", _ENDS)
        # What the model is told behind `run`, its shell does; messages to it are only read.
        self.program("obey", "#!/bin/sh\nsed -n 's/^run //p' | sh 2>&1\n")
        own = {
            **room.env,
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "PYTHONPATH": SOURCE,
            "STANDIN_LOGS": str(self.logs),
            "STANDIN_OPTIONS": f"--on-turn {self.bin}/obey",
            "SHELL": "/bin/sh",
        }
        self.host = Host("alpha", self.folder / "home", {**clean_environment(), **own})

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def __enter__(self) -> Self:
        self.host.configure()
        self.host.ok("init", "--new-fleet", "test")
        return self

    def __exit__(self, *_: object) -> None:
        self.host.end_panes()
        self.host.kill()
        with contextlib.suppress(DaemonMissing, ConnectionLost, ProcessLookupError), self.host.client() as client:
            os.kill(client.welcome.pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- terminals

    def terminal(self) -> str:
        """A shell of the person's in a pane of its own; the pane's id."""
        own = {key: value for key, value in self.host.env.items() if key not in ("TMUX", "TMUX_PANE")}
        argv = ["env", *(f"{key}={value}" for key, value in own.items()), "PS1=prompt> ", "sh"]
        pane = self.room.run(argv, cwd=self.work)
        self.wait_screen(pane, "prompt>")
        return pane

    def type(self, pane: str, text: str) -> None:
        self.room.tmux("send-keys", "-t", pane, "-l", text)
        self.room.tmux("send-keys", "-t", pane, "Enter")

    def start(self, pane: str, words: str) -> None:
        self.type(pane, f"{FLEETTRIO} {words}")

    def wait_screen(self, pane: str, text: str) -> None:
        def shown() -> bool:
            return text in self.room.tmux("capture-pane", "-p", "-J", "-S", "-200", "-t", pane)

        try:
            wait_until(f"{text!r} is on the screen", shown)
        except AssertionError as trouble:
            raise AssertionError(f"{trouble}\n{self.room.screen(pane)}") from None

    # --- agents

    def agents(self) -> dict[str, AgentView]:
        """The agents of this host by name, without the person; empty without a daemon."""
        try:
            agents = self.host.status().fleet.agents
        except (DaemonMissing, ConnectionLost):
            return {}
        return {agent.name: agent for agent in agents if agent.name != "human"}

    def wait_agent(self, name: str, *statuses: str, is_so: Callable[[AgentView], bool] = bool) -> AgentView:
        wanted = statuses or ("idle", "working")

        def find() -> AgentView | None:
            agent = self.agents().get(name)
            return agent if agent is not None and agent.status in wanted and is_so(agent) else None

        return wait_until(f"{name} is {' or '.join(wanted)}", find)

    def wait_up(self, agent: AgentView) -> None:
        """Wait until its program is on its screen and takes input."""
        wait_until(f"{agent.name} has begun", lambda: self.events(agent, "begun"))

    def events(self, agent: AgentView, name: str) -> list[dict[str, Any]]:
        """What its stand-in wrote down under `name`."""
        log = self.logs / f"{agent.pid}.jsonl"
        lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def saw(self, agent: AgentView, text: str) -> list[dict[str, Any]]:
        """Turns and contexts in which its model saw `text`."""
        return [event for name in ("turn", "context") for event in self.events(agent, name) if text in event["text"]]

    def wait_saw(self, agent: AgentView, text: str) -> None:
        wait_until(f"{agent.name} saw {text!r}", lambda: self.saw(agent, text))

    def kill_daemon(self) -> None:
        """End the daemon and its whole process group, as a careless restart would."""
        with self.host.client() as client:
            pid = client.welcome.pid
        os.killpg(os.getpgid(pid), signal.SIGKILL)
        wait_until("the daemon has ended", lambda: not self.agents())
