"""Who is calling on the local socket. Rules, first that applies:

1. The nearest ancestor of the peer process that is a registered agent, or that sits on a registered agent's terminal:
   that agent, whatever token it shows or hides. An agent that is away keeps its terminal for as long as its pane
   lives: who calls from there is refused, and may only attach it again. A terminal is its agent's only in the session
   of its pane's process: the system gives a closed pane's terminal to the next pane.
   Codex may run all sessions in one background server: what that inherited, ancestors and token, is of whoever came
   first, and counts for nobody. Behind it the session counts that it started the caller for.
2. A token: the entity it was given to; the operator's token is the person. A token nobody knows is refused, never
   passed over: an agent whose token was taken away must not turn into the person at its terminal.
3. A harness mark in its or an ancestor's environment, and not registered: refused.
4. A controlling terminal: the person.
5. Else a token is required.

Another user's process is refused before all of them. Nothing here looks at the system: that is for `processes`.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from fleettrio.api.registered import Registered
from fleettrio.core.entity import Entity
from fleettrio.ids import Gid

__all__ = (
    "Caller",
    "CallerRules",
    "Process",
    "ProcessTable",
    "TokenUse",
    "below_server",
    "hash_token",
    "is_terminal",
    "lineage",
)

_MOST_ANCESTORS = 64


class Process(msgspec.Struct, frozen=True):
    """What the rules need to know of one process."""

    pid: int
    ppid: int
    tty: str = ""
    """Path of its controlling terminal, empty without one."""
    marks: tuple[str, ...] = ()
    """The harness marks in the environment it was started with."""
    session: int = 0
    """Its session: the pid of the process that began it, as a pane's first one does; 0 when it cannot be told."""
    thread: str = ""
    """What its harness calls the session that started it, by its environment."""
    is_server: bool = False
    """It works for several sessions of a harness: nothing that it inherited says for which one."""
    token: bytes = b""
    """Of such a server: hash of the token in its environment, which is that of whoever happened to start it."""


ProcessTable = Callable[[int], Process | None]
"""Looks one process up by pid; None when it is gone or cannot be read."""


class Caller(msgspec.Struct, frozen=True):
    """The identity a request speaks for. With a `problem` it has none, and `hint` says how to get one."""

    gid: str = ""
    name: str = ""
    is_person: bool = False
    problem: str = ""
    hint: str = ""
    rule: str = ""
    """Which rule decided: `process`, `session`, `token`, `terminal`; with a problem `away`, `mark`, `nobody` (the last
    one, a token is required), or empty."""
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
    stored with their agents. `uid` is the user this daemon runs as; `read` looks a process up; `uses` is told of every
    agent's token shown.
    """

    def __init__(
        self,
        *,
        uid: int,
        human: str,
        entities: Callable[[], Iterable[Entity]],
        read: ProcessTable,
        operator_hash: bytes = b"",
        extra_tokens: Callable[[], Mapping[bytes, Gid]] = dict,
        uses: TokenUse | None = None,
    ) -> None:
        self._uses = TokenUse() if uses is None else uses
        self._uid = uid
        self._human = human
        self._entities = entities
        self._operator_hash = operator_hash
        self._extra_tokens = extra_tokens
        self._read = read
        self._registered = Registered()

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
        agents = self._agents()
        own = below_server(ancestors)
        is_inherited = len(own) < len(ancestors) and hash_token(token) == ancestors[len(own)].token
        return (
            _by_process(own, agents)
            or (_by_thread(own, agents) if len(own) < len(ancestors) else None)
            or self._by_token("" if is_inherited else token, agents)
            or _by_mark(ancestors)
            or self._by_terminal(ancestors)
            or Caller(
                problem="no terminal and no token: nobody says who is calling",
                hint="at a terminal, `fleettrio token create --name ci` prints the FLEETTRIO_TOKEN to export here",
                rule="nobody",
            )
        )

    def _agents(self) -> Registered:
        entities = tuple(self._entities())
        if entities != self._registered.entities:
            self._registered = Registered(entities)
        return self._registered

    def _by_token(self, token: str, agents: Registered) -> Caller | None:
        if not token:
            return None
        shown = hash_token(token)
        if self._operator_hash and hmac.compare_digest(shown, self._operator_hash):
            return Caller(self._human, "human", True, rule="token")
        entity = agents.of_token(shown) or agents.of_gid(self._extra_tokens().get(shown))
        if entity is not None:
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


def _by_process(ancestors: tuple[Process, ...], agents: Registered) -> Caller | None:
    for process in ancestors:
        for entity in agents.at(process.pid, process.tty):
            if entity.process == process.pid or is_terminal(entity.tty, entity.pid, process):
                return Caller(entity.gid, entity.name, rule="process")
        for entity in agents.away_from(process.tty):
            if is_terminal(entity.tty, entity.pid, process):
                return Caller(
                    problem=f"this is the terminal of {entity.name}, which is away",
                    hint=f"fleettrio attach --name {entity.name} --here",
                    rule="away",
                    terminal_of=entity.name,
                )
    return None


def below_server(ancestors: tuple[Process, ...]) -> tuple[Process, ...]:
    """The caller and its ancestors up to a server that a harness shares between sessions, without that."""
    return tuple(itertools.takewhile(lambda process: not process.is_server, ancestors))


def _by_thread(own: tuple[Process, ...], agents: Registered) -> Caller | None:
    """By the session that the server itself started this for: the outermost process cannot have set its own."""
    entity = agents.of_session(own[-1].thread if own else "")
    return Caller(entity.gid, entity.name, rule="session") if entity else None


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
