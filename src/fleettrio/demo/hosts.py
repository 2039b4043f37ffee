"""One host of the demo: as the tests drive theirs, and what takes long is told on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fleettrio.demo.narrate import Narrator
from fleettrio.errors import FleetTrioError
from fleettrio.testing import hosts
from fleettrio.testing.hosts import Outcome

__all__ = ("CommandFailed", "Host")

START_S = 120.0


class CommandFailed(FleetTrioError):
    """A command of the demo ended with another exit code than it should have."""


class Host(hosts.Host):
    """Made, not started. `env` is the environment of everything that runs on it."""

    def __init__(self, name: str, home: Path, env: Mapping[str, str], narrator: Narrator) -> None:
        super().__init__(name, home, env)
        self._narrator = narrator

    def settle(self, broker: str, password: str, more: str = "") -> None:
        """Its settings (`more` is TOML too), and the password of its broker login in a file for this user alone."""
        # A beat a second instead of every five: what the roster is judged by should not be waited for in a demo.
        self.configure(broker, self.name, password, f"[timers]\nbeat_s = 1.0\n{more}")

    def call(self, *arguments: str, token: str | None = None, given: bytes = b"", cwd: Path | None = None) -> Outcome:
        """As `cli`, and raises `CommandFailed` with the command's own words unless it ended well."""
        done = self.cli(*arguments, token=token, given=given, cwd=cwd)
        if done.code != 0:
            raise CommandFailed(f"{done.command}: exit {done.code}\n{done.err}")
        return done

    def start(self) -> None:
        """Start the daemon and return once it serves and has reached the broker."""
        self.begin()
        self.wait_ready()

    def wait_ready(self) -> None:
        what = f"the daemon of {self.name} is connected to the broker"
        self._narrator.until(what, lambda: self.broker_state() == "connected", START_S)
