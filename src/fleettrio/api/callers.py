"""Who is calling on the local socket. Rules, first that applies:

1. The nearest ancestor of the peer process that is a registered agent, or that sits on a registered agent's terminal:
   that agent, whatever token it shows or hides.
2. A token: the entity it was given to; the operator's token is the person. A token nobody knows is refused, never
   passed over: an agent whose token was taken away must not turn into the person at its terminal.
3. A harness mark in its or an ancestor's environment, and not registered: refused.
4. A controlling terminal: the person.
5. Else a token is required.

Another user's process is refused before all of them. Deciding is pure; only `read_process` looks at the system.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import hmac
import os
import pathlib
import subprocess
from collections.abc import Callable, Iterable

from fleettrio.core.rows import Entity

__all__ = ("HARNESS_MARKS", "Caller", "CallerRules", "Process", "ProcessTable", "hash_token", "lineage", "read_process")

HARNESS_MARKS = ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "OPENCODE_PID")
"""Variables that a harness sets for what it starts."""

_MOST_ANCESTORS = 64
_PROC = pathlib.Path("/proc")
_ABSENT = frozenset({"away", "gone"})
"""States in which an entity's process has ended: its pid and its terminal may be somebody else's by now."""


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """What the rules need to know of one process."""

    pid: int
    ppid: int
    tty: str = ""
    """Path of its controlling terminal, empty without one."""
    marks: tuple[str, ...] = ()
    """The harness marks in the environment it was started with."""


ProcessTable = Callable[[int], Process | None]
"""Looks one process up by pid; None when it is gone or cannot be read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """The identity a request speaks for. With a `problem` it has none, and `hint` says how to get one."""

    gid: str = ""
    name: str = ""
    is_person: bool = False
    problem: str = ""
    hint: str = ""
    rule: str = ""
    """Which rule decided: `process`, `token`, `terminal`, or empty."""


def hash_token(token: str) -> bytes:
    """What is stored of a token: BLAKE2b-256. The token itself is 32 random bytes, so no salt is needed."""
    return hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=32).digest()


def lineage(pid: int, read: ProcessTable) -> tuple[Process, ...]:
    """The process `pid` and its ancestors, nearest first; empty when it is gone. Reads, so may block."""
    found: list[Process] = []
    seen: set[int] = set()
    while pid > 0 and pid not in seen and len(found) < _MOST_ANCESTORS:
        seen.add(pid)
        process = read(pid)
        if process is None:
            break
        found.append(process)
        pid = process.ppid
    return tuple(found)


class CallerRules:
    """The rules with what they are judged by.

    `entities` gives the entities of this host as they are now. `human` is the gid of the person; `operator_hash` is the
    `hash_token` of the operator's token, empty when there is none. `uid` is the user this daemon runs as.
    """

    def __init__(
        self,
        *,
        uid: int,
        human: str,
        entities: Callable[[], Iterable[Entity]],
        operator_hash: bytes = b"",
        read: ProcessTable | None = None,
    ) -> None:
        self._uid = uid
        self._human = human
        self._entities = entities
        self._operator_hash = operator_hash
        self._read = read_process if read is None else read

    def lineage(self, pid: int) -> tuple[Process, ...]:
        """The caller's process and its ancestors. May block: call it in a thread."""
        return lineage(pid, self._read)

    def decide(self, ancestors: tuple[Process, ...], uid: int, token: str) -> Caller:
        """Apply the rules to one request."""
        if uid != self._uid:
            return Caller(
                problem=f"user {uid} may not use the daemon of user {self._uid}",
                hint="run the command as the user who started the daemon",
            )
        entities = tuple(self._entities())
        return (
            _by_process(ancestors, entities)
            or self._by_token(token, entities)
            or _by_mark(ancestors)
            or self._by_terminal(ancestors)
            or Caller(
                problem="no terminal and no token: nobody says who is calling",
                hint="export FLEETTRIO_TOKEN, as printed by `fleettrio token create --name ci`",
            )
        )

    def _by_token(self, token: str, entities: tuple[Entity, ...]) -> Caller | None:
        if not token:
            return None
        shown = hash_token(token)
        if self._operator_hash and hmac.compare_digest(shown, self._operator_hash):
            return Caller(self._human, "human", True, rule="token")
        for entity in entities:
            if entity.token_hash and hmac.compare_digest(shown, entity.token_hash):
                return Caller(entity.gid, entity.name, rule="token")
        return Caller(
            problem="the token in FLEETTRIO_TOKEN is not known here",
            hint="unset FLEETTRIO_TOKEN, or get a new one with `fleettrio attach --name NAME`",
        )

    def _by_terminal(self, ancestors: tuple[Process, ...]) -> Caller | None:
        if ancestors and ancestors[0].tty:
            return Caller(self._human, "human", True, rule="terminal")
        return None


def _by_process(ancestors: tuple[Process, ...], entities: tuple[Entity, ...]) -> Caller | None:
    present = [entity for entity in entities if entity.status not in _ABSENT]
    by_pid = {entity.pid: entity for entity in present if entity.pid > 0}
    by_tty = {entity.tty: entity for entity in present if entity.tty}
    for process in ancestors:
        entity = by_pid.get(process.pid) or by_tty.get(process.tty)
        if entity is not None:
            return Caller(entity.gid, entity.name, rule="process")
    return None


def _by_mark(ancestors: tuple[Process, ...]) -> Caller | None:
    for process in ancestors:
        if process.marks:
            return Caller(
                problem=f"an agent's harness started this ({process.marks[0]} in process {process.pid}), "
                "and the agent is not attached",
                hint="fleettrio attach --name NAME",
            )
    return None


def read_process(pid: int) -> Process | None:
    """Look one process up in /proc, or by `ps` where there is none. Blocks."""
    return _read_proc(_PROC / str(pid), pid) if _PROC.is_dir() else _read_ps(pid)


def _read_proc(folder: pathlib.Path, pid: int) -> Process | None:
    try:
        stat = (folder / "stat").read_bytes()
    except OSError:
        return None
    # The name of the program stands in brackets and may hold anything: count from the last bracket.
    fields = stat[stat.rindex(b")") + 2 :].split()
    environment = b""
    with contextlib.suppress(OSError):  # another user's process, or one that is just ending
        environment = b"\0" + (folder / "environ").read_bytes()
    marks = tuple(mark for mark in HARNESS_MARKS if f"\0{mark}=".encode() in environment)
    return Process(pid, int(fields[1]), _tty_name(int(fields[4])), marks)


def _tty_name(device: int) -> str:
    """Path of a terminal from the number in /proc/PID/stat; empty for none."""
    if device == 0:
        return ""
    major, minor = os.major(device), os.minor(device)
    if 136 <= major <= 143:  # the pseudo-terminals
        return f"/dev/pts/{minor + (major - 136) * 256}"
    return f"/dev/tty{minor}" if major == 4 else f"/dev/char/{major}:{minor}"


def _read_ps(pid: int) -> Process | None:
    facts = _run_ps("-o", "ppid=,tty=", "-p", str(pid)).split()
    if len(facts) < 2 or not facts[0].isdigit():
        return None
    words = _run_ps("eww", "-o", "command=", "-p", str(pid)).split()
    marks = tuple(mark for mark in HARNESS_MARKS if any(word.startswith(f"{mark}=") for word in words))
    return Process(pid, int(facts[0]), "" if facts[1].startswith("?") else f"/dev/{facts[1]}", marks)


def _run_ps(*arguments: str) -> str:
    try:
        done = subprocess.run(("ps", *arguments), capture_output=True, timeout=2, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
