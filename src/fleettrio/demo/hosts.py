"""One host of the demo: a home of its own, a daemon of its own, and the command line a person would use on it.

The two hosts share the port of the broker and nothing else. What was started is ended by its process id.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fleettrio
from fleettrio.api.callers import HARNESS_MARKS
from fleettrio.api.schema import Empty, Status
from fleettrio.clients.client import Client, ConnectionLost, DaemonMissing
from fleettrio.config import resolve_paths
from fleettrio.demo.narrate import Narrator
from fleettrio.errors import FleetTrioError
from fleettrio.private_files import make_private_folder, write_private

__all__ = ("COMMAND", "CommandFailed", "Done", "Host", "clean_environment")

COMMAND = (sys.executable, "-P", "-m", "fleettrio")
START_S, STOP_S, COMMAND_S = 30.0, 15.0, 60.0


class CommandFailed(FleetTrioError):
    """A command of the demo ended with another exit code than it should have."""


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    command: str
    code: int
    output: bytes
    complaint: str

    def json(self) -> Any:
        return json.loads(self.output)


def clean_environment() -> dict[str, str]:
    """The caller's environment without what would make these hosts somebody else's: settings, identity, terminal."""
    source = str(Path(fleettrio.__file__).resolve().parent.parent)
    dropped = {"TMUX", "TMUX_PANE", *HARNESS_MARKS}
    kept = {
        name: value for name, value in os.environ.items() if name not in dropped and not name.startswith("FLEETTRIO_")
    }
    path = [source, *filter(None, [kept.get("PYTHONPATH", "")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(path), "PYTHONUTF8": "1"}


class Host:
    """Made, not started. `env` is the environment of everything that runs on it."""

    def __init__(self, name: str, home: Path, env: Mapping[str, str], narrator: Narrator) -> None:
        self.name = name
        self.env = {**env, "FLEETTRIO_HOME": str(home)}
        self.paths = resolve_paths(self.env)
        self._narrator = narrator
        self._daemon: subprocess.Popen[bytes] | None = None

    def configure(self, broker: str, password: str) -> None:
        """Its settings, and the password of its broker login in a file that only this user can read."""
        make_private_folder(self.paths.config_dir)
        secret = self.paths.config_dir / "broker.password"
        write_private(secret, f"{password}\n".encode(), replace=True)
        # A beat a second instead of every five: what the roster is judged by should not be waited for in a demo.
        settings = (
            f'[host]\nid = "{self.name}"\n\n'
            f'[broker]\nuris = ["{broker}"]\nuser = "{self.name}"\npassword_file = "{secret}"\n\n'
            "[timers]\nbeat_s = 1.0\n"
        )
        write_private(self.paths.config_file, settings.encode(), replace=True)

    # Its command line

    def run(self, *arguments: str, token: str = "", given: bytes = b"", limit_s: float = COMMAND_S) -> Done:
        """Run `fleettrio …` here, as the entity of `token` or as the person (the operator's token)."""
        token = token or self._operator_token()
        env = {**self.env, **({"FLEETTRIO_TOKEN": token} if token else {})}
        command = f"{self.name}$ fleettrio {' '.join(arguments)}"
        try:
            done = subprocess.run(
                [*COMMAND, *arguments], env=env, input=given, capture_output=True, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise CommandFailed(f"{command}: not over within {limit_s:g} s") from error
        return Done(command, done.returncode, done.stdout, done.stderr.decode("utf-8", "replace").strip())

    def call(self, *arguments: str, token: str = "", given: bytes = b"") -> Done:
        """As `run`, and raises `CommandFailed` with the command's own words unless it ended well."""
        done = self.run(*arguments, token=token, given=given)
        if done.code != 0:
            raise CommandFailed(f"{done.command}: exit {done.code}\n{done.complaint}")
        return done

    def _operator_token(self) -> str:
        file = self.paths.token_file
        return file.read_text().strip() if file.exists() else ""

    # Its daemon

    @property
    def is_up(self) -> bool:
        return self._daemon is not None and self._daemon.poll() is None

    def start(self) -> None:
        """Start the daemon and return once it serves and has reached the broker."""
        self.begin()
        self.wait_ready()

    def begin(self) -> None:
        """Start the daemon, and do not wait."""
        make_private_folder(self.paths.state_dir)
        with open(self.paths.log_file, "ab") as log:
            # A session of its own: Ctrl-C at the terminal is for the demo, which then ends its daemons in order.
            self._daemon = subprocess.Popen(
                [*COMMAND, "up", "--foreground"],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        self._narrator.until(f"the daemon of {self.name} is connected to the broker", self._is_ready, START_S)

    def _is_ready(self) -> bool:
        if self._daemon is None or self._daemon.poll() is not None:
            raise CommandFailed(f"the daemon of {self.name} ended while starting:\n{self.last_words()}")
        try:
            # Without a command's start each time: this is asked again and again.
            with Client.connect(self.paths.socket, self._operator_token()) as client:
                status: Status = client.call("status", Empty())
        except (DaemonMissing, ConnectionLost):
            return False
        return status.broker == "connected"

    def last_words(self) -> str:
        """The end of its log."""
        if not self.paths.log_file.exists():
            return ""
        return "\n".join(self.paths.log_file.read_text("utf-8", "replace").splitlines()[-8:])

    def kill(self) -> None:
        """End the daemon as a power cut would."""
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()

    def stop(self) -> None:
        """End the daemon politely; no-op when it does not run."""
        daemon, self._daemon = self._daemon, None
        if daemon is None:
            return
        daemon.terminate()
        try:
            daemon.wait(STOP_S)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
