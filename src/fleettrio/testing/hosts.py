"""Hosts on this machine, driven from outside as a person would: own homes, keys, logins, daemons; nothing is shared.

A host is seen through its command line, its local socket and its log; its store only while no daemon runs. What was
started is ended by its process id. Everything here blocks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fleettrio
from fleettrio.api.processes import HARNESS_MARKS
from fleettrio.api.schema import AgentView, Empty, Status
from fleettrio.clients.client import Client, ConnectionLost, DaemonMissing
from fleettrio.config import resolve_paths
from fleettrio.launch.launcher import server_name
from fleettrio.private_files import make_private_folder, write_private
from fleettrio.testing.waiting import BOUND_S, HostTrouble, wait_until

__all__ = (
    "COMMAND",
    "END_S",
    "HOOK_PATIENCE",
    "Host",
    "Outcome",
    "clean_environment",
    "end_process",
)

COMMAND = (sys.executable, "-P", "-m", "fleettrio")
END_S = 60.0
HOOK_PATIENCE = "FLEETTRIO_HOOK_ALIVE_S"
"""Of the hooks of a host's agents: here several hosts share a machine, and a daemon that is slow is not deaf."""


def clean_environment() -> dict[str, str]:
    """The caller's environment without what would make these hosts somebody else's: settings, identity, terminal."""
    source = str(Path(fleettrio.__file__).resolve().parent.parent)
    dropped = {"TMUX", "TMUX_PANE", *HARNESS_MARKS}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in dropped and (not name.startswith("FLEETTRIO_") or name == "FLEETTRIO_NO_EXTENSIONS")
    }
    path = [source, *filter(None, [kept.get("PYTHONPATH", "")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(path), "PYTHONUTF8": "1"}


def end_process(process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGTERM) -> int:
    """End a process we started; one that does not go is killed. Returns its exit code."""
    if process.poll() is None:
        process.send_signal(how)
    try:
        return process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended, and how long it took from start to exit."""

    command: str
    code: int
    out: bytes
    err: str
    seconds: float

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "replace")

    def json(self) -> Any:
        return json.loads(self.out)


class Host:
    """Made, not started. `env` is the environment of everything that runs on it."""

    def __init__(self, name: str, home: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        own = {"FLEETTRIO_HOME": str(home), HOOK_PATIENCE: "5"}
        self.env = {**(clean_environment() if env is None else env), **own}
        self.paths = resolve_paths(self.env)
        self._daemon: subprocess.Popen[bytes] | None = None

    def configure(self, broker: str = "", user: str = "", password: str = "", more: str = "") -> None:
        """Write its settings (`more` is TOML too) and, with a broker, the password into a file of its own."""
        make_private_folder(self.paths.config_dir)
        settings = f'[host]\nid = "{self.name}"\n'
        if broker:
            write_private(self.password_file, f"{password}\n".encode(), replace=True)
            settings += f'[broker]\nuris = ["{broker}"]\nuser = "{user}"\npassword_file = "{self.password_file}"\n'
        write_private(self.paths.config_file, f"{settings}{more}\n".encode(), replace=True)

    @property
    def password_file(self) -> Path:
        return self.paths.config_dir / "broker.password"

    # Its command line and its socket

    @property
    def operator_token(self) -> str:
        """The token with which a command speaks as this host's person."""
        return self.paths.token_file.read_text().strip() if self.paths.token_file.exists() else ""

    def popen(
        self, *arguments: str, token: str | None = None, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Any:
        """Start `fleettrio …` here with pipes; `token` None is the person, an empty one is nobody."""
        shown = self.operator_token if token is None else token
        more = {"FLEETTRIO_TOKEN": shown} if shown else {}
        return subprocess.Popen(
            [*COMMAND, *arguments],
            env={**self.env, **more, **(env or {})},
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def cli(
        self,
        *arguments: str,
        token: str | None = None,
        given: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        limit_s: float = 2 * BOUND_S,
    ) -> Outcome:
        """Run `fleettrio …` here, in `cwd`, to its end."""
        began = time.monotonic()
        process = self.popen(*arguments, token=token, env=env, cwd=cwd)
        try:
            out, err = process.communicate(given, limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise HostTrouble(f"{self.name}$ fleettrio {' '.join(arguments)}: not over within {limit_s:g} s") from None
        spent = time.monotonic() - began
        command = f"{self.name}$ fleettrio {' '.join(arguments)}"
        return Outcome(command, process.returncode, out, err.decode("utf-8", "replace").strip(), spent)

    def ok(self, *arguments: str, token: str | None = None, given: bytes = b"", cwd: Path | None = None) -> Outcome:
        """As `cli`, and it must end well."""
        done = self.cli(*arguments, token=token, given=given, cwd=cwd)
        if done.code != 0:
            raise HostTrouble(f"{done.command}: exit {done.code}\n{done.text}{done.err}")
        return done

    def client(self, token: str | None = None) -> Client:
        """A connection to its socket, as the person or with `token`. Close it."""
        return Client.connect(self.paths.socket, self.operator_token if token is None else token)

    def status(self) -> Status:
        with self.client() as client:
            status: Status = client.call("status", Empty())
        return status

    def agent(self, address: str) -> AgentView | None:
        """What this host knows of `name@host`."""
        agents = self.status().fleet.agents
        return next((agent for agent in agents if agent.address == address), None)

    # Its daemon

    @property
    def pid(self) -> int:
        assert self._daemon is not None, f"the daemon of {self.name} does not run"
        return self._daemon.pid

    @property
    def is_up(self) -> bool:
        return self._daemon is not None and self._daemon.poll() is None

    def begin(self, env: Mapping[str, str] | None = None) -> None:
        """Start the daemon with `env` added, and do not wait."""
        assert not self.is_up, f"the daemon of {self.name} runs already"
        make_private_folder(self.paths.state_dir)
        with open(self.paths.log_file, "ab") as log:
            # A session of its own, without a terminal: as a service manager starts it.
            self._daemon = subprocess.Popen(
                [*COMMAND, "up", "--foreground"],
                env={**self.env, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def up(
        self, env: Mapping[str, str] | None = None, *, broker: tuple[str, ...] = ("standalone", "connected")
    ) -> None:
        """Start the daemon; returns once it serves and its link to the broker is in one of these states."""
        self.begin(env)
        self.wait_broker(*broker)

    def wait_broker(self, *states: str, limit_s: float = BOUND_S) -> None:
        """Wait until the link to the broker is in one of these states."""
        wait_until(f"{self.name} is {' or '.join(states)}", lambda: self.broker_state() in states, limit_s)

    def broker_state(self) -> str:
        """How its link to the broker is; empty while the daemon starts. Raises `HostTrouble` when it has ended."""
        if not self.is_up:
            raise HostTrouble(f"the daemon of {self.name} ended:\n{self.last_words()}")
        try:
            return self.status().broker
        except (DaemonMissing, ConnectionLost):
            return ""

    def kill(self) -> None:
        """End the daemon as a power cut would."""
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            end_process(daemon, signal.SIGKILL)

    def stop(self) -> None:
        """End the daemon politely. No-op when it does not run. Raises `HostTrouble` when it ends with an error."""
        daemon, self._daemon = self._daemon, None
        if daemon is not None and (code := end_process(daemon)) > 0:
            raise HostTrouble(f"the daemon of {self.name} ended with {code}:\n{self.last_words()}")

    def end_panes(self) -> None:
        """End the tmux server with the agents that this host started; they outlive its daemon."""
        if shutil.which("tmux"):
            command = ["tmux", "-L", server_name(self.paths), "kill-server"]
            subprocess.run(command, env=self.env, capture_output=True, check=False, timeout=END_S)

    def wait_end(self) -> int:
        """Wait until the daemon has ended by itself; its exit code."""
        assert self._daemon is not None
        daemon = self._daemon
        try:
            code = daemon.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            raise HostTrouble(f"the daemon of {self.name} lives on after {BOUND_S:g} s\n{self.last_words()}") from None
        self._daemon = None
        return code

    def freeze(self) -> None:
        """Stop the daemon in its tracks, and return once it stands; `thaw` lets it go on."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    @property
    def log(self) -> str:
        """Everything its daemons wrote."""
        return self.paths.log_file.read_text("utf-8", "replace") if self.paths.log_file.exists() else ""

    def last_words(self) -> str:
        return "\n".join(self.log.splitlines()[-15:])

    def rows(self, query: str, values: Sequence[object] = ()) -> list[dict[str, Any]]:
        """What the store file has, read while no daemon holds it."""
        assert not self.is_up, "a running daemon's store is its own"
        with tempfile.TemporaryDirectory(prefix="ft-") as folder:
            # A copy: whoever opens the file itself carries the log of a crash over into it.
            for file in self.paths.store.parent.glob(f"{self.paths.store.name}*"):
                shutil.copy(file, folder)
            with contextlib.closing(sqlite3.connect(Path(folder) / self.paths.store.name)) as connection:
                connection.row_factory = sqlite3.Row
                return [dict(row) for row in connection.execute(query, values)]
