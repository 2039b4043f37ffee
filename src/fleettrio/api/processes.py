"""What the system tells of a process: who started it, where it sits, what it was started with.

From `/proc`, or by `ps` where there is none. Everything here may block.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess

from fleettrio.api.callers import Process, hash_token

__all__ = ("HARNESS_MARKS", "read_process")

HARNESS_MARKS = ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "OPENCODE_PID")
"""Variables that a harness sets for what it starts."""

_THREADS = ("CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID")
_PROC = pathlib.Path("/proc")

PS_LIMIT_S = 2.0
"""Whoever asks waits for it: a `ps` that takes longer has told nothing."""


def read_process(pid: int) -> Process | None:
    """Look one process up; None when it is gone or cannot be read."""
    return _read_proc(_PROC / str(pid), pid) if _PROC.is_dir() else _read_ps(pid)


def _read_proc(folder: pathlib.Path, pid: int) -> Process | None:
    try:
        stat = (folder / "stat").read_bytes()
    except OSError:
        return None
    # The name of the program stands in brackets and may hold anything: count from the last bracket.
    fields = stat.rpartition(b") ")[2].split()
    if len(fields) < 5:
        return None
    environment = b""
    with contextlib.suppress(OSError):  # another user's process, or one that is just ending
        environment = b"\0" + (folder / "environ").read_bytes()
    tty, session = _tty_name(int(fields[4])), int(fields[3])
    return _process(pid, int(fields[1]), tty, session, _words(folder), environment)


def _process(pid: int, ppid: int, tty: str, session: int, words: list[str], environment: bytes) -> Process:
    """A process by its command line (`words`) and its environment, with a zero byte before each variable."""
    marks = tuple(mark for mark in HARNESS_MARKS if f"\0{mark}=".encode() in environment)
    thread = next(filter(None, (_variable(environment, name) for name in _THREADS)), "")
    is_server = _is_server(words)
    token = hash_token(_variable(environment, "FLEETTRIO_TOKEN")) if is_server else b""
    return Process(pid, ppid, tty, marks, session, thread, is_server, token)


def _variable(environment: bytes, name: str) -> str:
    """The value of a variable in what /proc tells of an environment; empty without it."""
    return environment.partition(f"\0{name}=".encode())[2].partition(b"\0")[0].decode("utf-8", "replace")


def _words(folder: pathlib.Path) -> list[str]:
    try:
        return (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


def _is_server(words: list[str]) -> bool:
    """Whether this is Codex's `app-server`, which the first session starts for itself and for all that come later."""
    return "app-server" in words[1:4] and any("codex" in word.rpartition("/")[2] for word in words[:3])


def _tty_name(device: int) -> str:
    """Path of a terminal from the number in /proc/PID/stat; empty for none."""
    if device == 0:
        return ""
    major, minor = os.major(device), os.minor(device)
    if 136 <= major <= 143:  # the pseudo-terminals
        return f"/dev/pts/{minor + (major - 136) * 256}"
    return f"/dev/tty{minor}" if major == 4 else f"/dev/char/{major}:{minor}"


def _read_ps(pid: int) -> Process | None:
    facts = _run_ps("-o", "ppid=,tty=,sess=", "-p", str(pid)).split()
    if len(facts) < 3 or not facts[0].isdigit():
        return None
    words = _run_ps("eww", "-o", "command=", "-p", str(pid)).split()
    tty = "" if facts[1].startswith("?") else f"/dev/{facts[1]}"
    session = int(facts[2]) if facts[2].isdigit() else 0
    return _process(pid, int(facts[0]), tty, session, words, b"\0" + "\0".join(words).encode())


def _run_ps(*arguments: str) -> str:
    try:
        done = subprocess.run(("ps", *arguments), capture_output=True, timeout=PS_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
