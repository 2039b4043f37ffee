"""Transport that runs a command for each message, with the framed text on its standard input.

Rules:

1. One run at a time. While it runs the agent is working, and nothing else is put in, whatever the `when`.
2. The text lies complete in an unnamed file before the command starts: no crash of ours can hand it half a message.
3. The command runs in a session of its own, with its output in a file: neither the end of the daemon nor a terminal
   touches it. A thread waits for it, so that no zombie is left and no task is needed.
4. `submitted`: it was started and has read its message, or ended well. Started and not seen to read: `unconfirmed`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import trio

from fleettrio.errors import ConfigError
from fleettrio.local.pauses import Pauses
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text

__all__ = ("NOT_INHERITED", "ProcessTransport", "bound_output", "find_program", "open_output")

READ_BOUND_S = 10.0
"""How long a command has to read its message before that counts as not seen."""
POLL_S = 0.02
WATCH_S = 0.25
NOT_INHERITED = frozenset({"FLEETTRIO_TOKEN", "TMUX", "TMUX_PANE", "HERDR_ENV", "HERDR_PANE_ID"})
OUTPUT_LIMIT = 4 * 1024 * 1024
"""Bytes of output kept; what goes beyond starts the file anew."""


def find_program(program: str, cwd: str, path: str | None) -> str | None:
    """Where a program is that is started in `cwd`; None when it cannot be found or run. `path`: as in PATH."""
    return shutil.which(os.path.join(cwd, program) if os.sep in program else program, path=path)


class ProcessTransport:
    """Runs `argv` (no shell) in `cwd`; `env` is added to the daemon's own environment.

    `output` is a file for what the commands print, None to drop it. `FLEETTRIO_MSG_ID` is the message's short id.
    """

    name = "process"
    wakes = True

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        output: Path | None = None,
        read_bound_s: float = READ_BOUND_S,
    ) -> None:
        if not argv:
            raise ConfigError(["no command was given for a process agent"], hint="attach it with --command")
        self._argv = tuple(argv)
        # As in `open_transport`: who started the daemon is nobody else's identity.
        self._env = {key: value for key, value in os.environ.items() if key not in NOT_INHERITED} | dict(env or {})
        self._cwd = cwd or None
        self._output = output
        self._read_bound_s = read_bound_s
        self._running: subprocess.Popen[bytes] | None = None
        self._runs = 0

    async def state(self) -> AgentState:
        """Working while a command runs."""
        return AgentState.WORKING if self._is_running() else AgentState.IDLE

    async def reserve(self, when: str) -> Reserved | NotReady:
        """Ready when no command runs and the program is there to be started."""
        if self._is_running():
            return NotReady(AgentState.WORKING, "its command still runs for an earlier message")
        if find_program(self._argv[0], self._cwd or "", self._env.get("PATH")) is None:
            return NotReady(AgentState.UNKNOWN, f"its command {self._argv[0]} cannot be found or run")
        if self._cwd is not None and not await trio.Path(self._cwd).is_dir():
            return NotReady(AgentState.UNKNOWN, f"its folder {self._cwd} does not exist")
        return Reserved(str(self._runs), AgentState.IDLE)

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        """Start the command on `text`. It runs on after this returns, and after the daemon ends."""
        if self._is_running() or reserved.generation != str(self._runs):
            return Delivery.nothing("its command was started for another message meanwhile")
        data = text.framed.encode()
        with tempfile.TemporaryFile(prefix="fleettrio-") as source:
            source.write(data)
            source.seek(0)
            try:
                child = self._start(source, text.short_id)
            except OSError as error:
                return Delivery.nothing(f"{self._argv[0]} could not be started: {error.strerror}")
            return await self._watch_reading(child, source.fileno(), len(data))

    async def close(self) -> None:
        """A command that runs is left to itself."""

    def _is_running(self) -> bool:
        return self._running is not None and self._running.poll() is None

    def _start(self, source: IO[bytes], short_id: str) -> subprocess.Popen[bytes]:
        """Raises `OSError` when there is no process. The output's file is 0600: it may hold what the agent was told."""
        output = open_output(self._output) if self._output is not None else os.open(os.devnull, os.O_WRONLY)
        try:
            child = subprocess.Popen(
                self._argv,
                stdin=source,
                stdout=output,
                stderr=output,
                cwd=self._cwd,
                env={**self._env, "FLEETTRIO_MSG_ID": short_id},
                start_new_session=True,
            )
        finally:
            os.close(output)
        self._running = child
        self._runs += 1
        threading.Thread(target=_watch, args=(child, self._output), name=f"wait-{child.pid}", daemon=True).start()
        return child

    async def _watch_reading(self, child: subprocess.Popen[bytes], source: int, size: int) -> Delivery:
        """The file's offset is shared with the child: it tells how far it has read."""
        looks = Pauses(POLL_S)
        with trio.move_on_after(self._read_bound_s):
            while True:
                status = child.poll()
                if os.lseek(source, 0, os.SEEK_CUR) >= size or status == 0:
                    return Delivery(DeliveryOutcome.SUBMITTED, f"process {child.pid}", saw_work=True)
                if status is not None:
                    return Delivery.unconfirmed(f"its command ended with {status} before it had read the message")
                await looks.pause()
        return Delivery.unconfirmed(f"its command has not read the message within {self._read_bound_s:g} s")


def _watch(child: subprocess.Popen[bytes], output: Path | None) -> None:
    """Thread: wait for the child (nobody else has to), and keep its output bounded meanwhile."""
    while child.poll() is None:
        if output is not None:
            bound_output(output)
        time.sleep(WATCH_S)


def open_output(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    bound_output(path)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def bound_output(path: Path) -> None:
    """Start the file anew when it is full. It is opened for appending, so whoever writes goes on at its beginning."""
    try:
        if path.stat().st_size > OUTPUT_LIMIT:
            os.truncate(path, 0)
    except OSError:
        # Removed, or the disk is in trouble: the command's output is not worth more than the command.
        return
