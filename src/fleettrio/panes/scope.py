"""Processes that outlive the daemon: started in a scope of their own, known by pid and start time, ended whole.

A process is named by its pid *and* the moment it started: pids are used again, and nothing here ever signals or adopts
a process that is not the very one that was started.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import trio

__all__ = ("Process", "end_process", "process_of", "scope_prefix")

POLITE_S = 5.0
"""From the hang-up to the kill."""
POLL_S = 0.05
_PROC = Path("/proc")


class Process(msgspec.Struct, frozen=True):
    """One process; `started` is field 22 of /proc/PID/stat, in ticks since boot (0 where there is no /proc)."""

    pid: int
    started: int

    @property
    def is_alive(self) -> bool:
        """Whether it, and not another one with its pid, still runs. Reads one small file."""
        stat = _stat(self.pid)
        return stat is not None and stat.started == self.started and not stat.is_zombie


class _Stat(msgspec.Struct, frozen=True):
    started: int
    session: int
    is_zombie: bool


def process_of(pid: int) -> Process | None:
    """The process that has `pid` now; None when there is none."""
    stat = _stat(pid) if pid > 1 else None
    return Process(pid, stat.started) if stat is not None and not stat.is_zombie else None


def scope_prefix(env: Mapping[str, str]) -> tuple[str, ...]:
    """What to put in front of a command so that systemd keeps it in a scope of its own; empty where none runs.

    Without it the service manager would end agents together with the daemon's unit.
    """
    runtime = env.get("XDG_RUNTIME_DIR", "")
    if not runtime or not (Path(runtime) / "systemd" / "private").exists():
        return ()
    program = shutil.which("systemd-run", path=env.get("PATH"))
    if program is None:
        return ()
    return (program, "--user", "--scope", "--quiet", "--collect", "--")


async def end_process(process: Process) -> None:
    """End `process` and all of its session: hang up, then, after a bound, kill. Cancelled, it may still run."""
    _signal_session(process, signal.SIGHUP)
    _signal_session(process, signal.SIGTERM)
    with trio.move_on_after(POLITE_S):
        while process.is_alive or any(_members(process)):  # noqa: ASYNC110 - a process that is no child tells nobody
            await trio.sleep(POLL_S)
        return
    _signal_session(process, signal.SIGKILL)


def _signal_session(process: Process, number: signal.Signals) -> None:
    for pid in {process.pid, *_members(process)} if process.is_alive else set(_members(process)):
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _members(process: Process) -> Iterator[int]:
    """Processes of the session that `process` leads. A session's id is no new process's pid while it has members."""
    leader = _stat(process.pid)
    if leader is not None and leader.started != process.started:
        return
    for folder in _PROC.glob("[0-9]*"):
        stat = _stat(int(folder.name))
        if stat is not None and stat.session == process.pid and stat.started >= process.started and not stat.is_zombie:
            yield int(folder.name)


def _stat(pid: int) -> _Stat | None:
    if not _PROC.is_dir():
        return _stat_without_proc(pid)
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
        # The program's name in field 2 may hold blanks and brackets: count from its end.
        fields = text.rpartition(b")")[2].split()
        return _Stat(int(fields[19]), int(fields[3]), fields[0] == b"Z")
    except (OSError, ValueError, IndexError):
        return None


def _stat_without_proc(pid: int) -> _Stat | None:
    """Elsewhere than on Linux a start time cannot be read without another program: the pid alone has to do."""
    try:
        return _Stat(0, os.getsid(pid), False)
    except OSError:
        return None
