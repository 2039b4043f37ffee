"""Who is calling on the local socket. Rules, first that applies:

1. The nearest ancestor of the peer process that is a registered agent, or that sits on a registered agent's terminal:
   that agent, whatever token it shows or hides. An agent that is away keeps its terminal for as long as its pane
   lives: who calls from there is refused, and may only attach it again. A terminal is its agent's only in the session
   of its pane's process: the system gives a closed pane's terminal to the next pane.
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
import time
from collections.abc import Callable, Iterable, Mapping

from fleettrio.core.rows import Entity
from fleettrio.ids import Gid

__all__ = (
    "HARNESS_MARKS",
    "Caller",
    "CallerRules",
    "Process",
    "ProcessTable",
    "TokenUse",
    "hash_token",
    "is_terminal",
    "lineage",
    "read_process",
)

HARNESS_MARKS = ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "OPENCODE_PID")
"""Variables that a harness sets for what it starts."""

_MOST_ANCESTORS = 64
_PROC = pathlib.Path("/proc")
_ABSENT = frozenset({"away", "gone"})
"""States in which an entity's process has ended: its pid may be somebody else's by now."""


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """What the rules need to know of one process."""

    pid: int
    ppid: int
    tty: str = ""
    """Path of its controlling terminal, empty without one."""
    marks: tuple[str, ...] = ()
    """The harness marks in the environment it was started with."""
    session: int = 0
    """Its session: the pid of the process that began it, as a pane's first one does; 0 when it cannot be told."""


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
    """Which rule decided: `process`, `token`, `terminal`; with a problem `away`, `mark`, or empty."""
    terminal_of: str = ""
    """With the rule `away`: the agent whose terminal it calls from."""


def hash_token(token: str) -> bytes:
    """What is stored of a token: BLAKE2b-256. The token itself is 32 random bytes, so no salt is needed."""
    return hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=32).digest()


class TokenUse:
    """When each agent last showed its token, since this daemon's start: all there is to see of one without a place."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._at: dict[str, float] = {}

    def note(self, gid: str) -> None:
        self._at[gid] = self._now()

    def idle_s(self, gid: str) -> float:
        """Seconds since then; endless for one that never did."""
        return self._now() - self._at.get(gid, float("-inf"))


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
    `hash_token` of the operator's token, empty when there is none; `extra_tokens` gives hashes of tokens that are not
    stored with their agents. `uid` is the user this daemon runs as; `uses` is told of every agent's token shown.
    """

    def __init__(
        self,
        *,
        uid: int,
        human: str,
        entities: Callable[[], Iterable[Entity]],
        operator_hash: bytes = b"",
        extra_tokens: Callable[[], Mapping[bytes, Gid]] = dict,
        read: ProcessTable | None = None,
        uses: TokenUse | None = None,
    ) -> None:
        self._uses = TokenUse() if uses is None else uses
        self._uid = uid
        self._human = human
        self._entities = entities
        self._operator_hash = operator_hash
        self._extra_tokens = extra_tokens
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
        # By its hash: how long looking it up takes says nothing about the token.
        owner = self._extra_tokens().get(shown)
        for entity in entities:
            if entity.gid == owner or (entity.token_hash and hmac.compare_digest(shown, entity.token_hash)):
                self._uses.note(entity.gid)
                return Caller(entity.gid, entity.name, rule="token")
        return Caller(
            problem="the token in FLEETTRIO_TOKEN is not known here",
            hint="unset FLEETTRIO_TOKEN, then `fleettrio attach --name NAME` gives a new one",
        )

    def _by_terminal(self, ancestors: tuple[Process, ...]) -> Caller | None:
        if ancestors and ancestors[0].tty:
            return Caller(self._human, "human", True, rule="terminal")
        return None


def _by_process(ancestors: tuple[Process, ...], entities: tuple[Entity, ...]) -> Caller | None:
    for process in ancestors:
        for entity in entities:
            is_it = 0 < entity.pid == process.pid or is_terminal(entity.tty, entity.pid, process)
            if is_it and entity.status not in _ABSENT:
                return Caller(entity.gid, entity.name, rule="process")
        for entity in entities:
            if entity.status == "away" and is_terminal(entity.tty, entity.pid, process):
                return Caller(
                    problem=f"this is the terminal of {entity.name}, which is away",
                    hint=f"fleettrio attach --name {entity.name} --here",
                    rule="away",
                    terminal_of=entity.name,
                )
    return None


def is_terminal(tty: str, pid: int, process: Process) -> bool:
    """Whether `process` sits on the terminal `tty` in the session that the process `pid` began (0: in any)."""
    return bool(tty) and process.tty == tty and (not pid or process.session in (0, pid))


def _by_mark(ancestors: tuple[Process, ...]) -> Caller | None:
    for process in ancestors:
        if process.marks:
            return Caller(
                problem=f"an agent's harness started this ({process.marks[0]} in process {process.pid}), "
                "and the agent is not attached",
                hint="fleettrio attach --name NAME",
                rule="mark",
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
    fields = stat.rpartition(b") ")[2].split()
    if len(fields) < 5:
        return None
    environment = b""
    with contextlib.suppress(OSError):  # another user's process, or one that is just ending
        environment = b"\0" + (folder / "environ").read_bytes()
    marks = tuple(mark for mark in HARNESS_MARKS if f"\0{mark}=".encode() in environment)
    return Process(pid, int(fields[1]), _tty_name(int(fields[4])), marks, int(fields[3]))


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
    marks = tuple(mark for mark in HARNESS_MARKS if any(word.startswith(f"{mark}=") for word in words))
    tty = "" if facts[1].startswith("?") else f"/dev/{facts[1]}"
    return Process(pid, int(facts[0]), tty, marks, int(facts[2]) if facts[2].isdigit() else 0)


def _run_ps(*arguments: str) -> str:
    try:
        done = subprocess.run(("ps", *arguments), capture_output=True, timeout=2, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
