"""The worker's pane: a tmux server that nobody else sees, with one program in it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from fleettrio.demo.narrate import Narrator, TooLate
from fleettrio.demo.workers import WorkerLog
from fleettrio.errors import FleetTrioError

__all__ = ("WorkerPane",)

_TMUX_S = 60.0
_END_S = 20.0


class WorkerPane:
    """Made, not started."""

    def __init__(self, log: WorkerLog, env: Mapping[str, str], narrator: Narrator) -> None:
        """`env` is what the worker runs in; it must hold `TMUX_TMPDIR`, as must that of the daemon that types here."""
        self._env = env
        self._narrator = narrator
        self._socket = f"fleettrio-{secrets.token_hex(4)}"
        self._log = log
        self._pids: tuple[int, ...] = ()
        self.target = ""
        """How `fleettrio attach --pane` names it."""

    def start(self) -> None:
        """Start the server with the worker in it; returns once the worker takes turns."""
        size = ["-x", "100", "-y", "30"]
        facts = "#{pid} #{pane_pid} #{pane_id}"
        answer = self._tmux("new-session", "-d", *size, "-P", "-F", facts, *self._log.command)
        server, program, pane = answer.split()
        self._pids = (int(program), int(server))
        self.target = f"{self._socket}:{pane}"
        self._narrator.until("the worker has started in its pane", lambda: self._log.events("begun"), 90.0)

    def _tmux(self, *command: str) -> str:
        try:
            done = subprocess.run(
                ["tmux", "-u", "-L", self._socket, "-f", "/dev/null", *command],
                env=self._env,
                capture_output=True,
                text=True,
                timeout=_TMUX_S,
                check=False,
            )
        except FileNotFoundError as error:
            raise FleetTrioError("tmux is not installed on this machine", hint="apt-get install tmux") from error
        if done.returncode != 0:
            raise FleetTrioError(f"tmux {command[0]}: {done.stderr.strip()}")
        return done.stdout.strip()

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", self.target.partition(":")[2])

    def close(self) -> None:
        """End the worker and the server, by their process ids; no-op when they were never started."""
        self._log.release()
        pids, self._pids = self._pids, ()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        try:
            self._narrator.until("the worker has ended", lambda: not any(map(_is_alive, pids)), _END_S)
        except TooLate:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _is_alive(pid: int) -> bool:
    """These are no children of ours; one that has ended and that nobody has collected yet counts as ended."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # ended in between, or a system without /proc
        return sys.platform != "linux"
    return stat[stat.rindex(b")") + 2 :].split()[0] != b"Z"
