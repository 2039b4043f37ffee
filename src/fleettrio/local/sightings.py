"""What each source says of an agent: its hooks, its session file, the title of its terminal, its screen; in that order.

Rules:
1. Between hooks and session file the newer word counts: an interrupt is silent, and only the file tells it.
2. Blocked by any of them is blocked: a paste vanishes in a dialog, and Enter there approves.
3. What the harness says of itself goes before what is read off its terminal. It can go stale in two ways only, and each
   has its bound: at work without an end, while the screen shows an idle composer for `QUIET_MS`; at rest, while the
   screen shows work for `SETTLED_MS` (commands of the program itself run no hooks).
4. A terminal that is gone is gone, whatever was said before.
"""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from pathlib import Path

import msgspec
import trio

from fleettrio.ids import Gid, WallMs
from fleettrio.local.port import AgentState, NotReady

__all__ = ("Sightings",)

QUIET_MS = 30_000
SETTLED_MS = 3_000
SILENT_MS = 2_000
"""So long after its session file became idle a turn is over, though no hook said so."""
LEFT_MS = 5_000
"""A program that said good-bye may still be on the screen for so long."""
FILE_LIMIT = 65_536

_BUSY = (AgentState.WORKING, AgentState.BLOCKED)
_FILE_STATES = {"idle": AgentState.IDLE, "busy": AgentState.WORKING, "waiting": AgentState.BLOCKED}


class _Word(msgspec.Struct, frozen=True):
    """What a source said, and when."""

    state: AgentState
    at: WallMs


@dataclasses.dataclass(slots=True)
class _Agent:
    hook: _Word | None = None
    file: _Word | None = None
    path: Path | None = None
    session: str = ""
    idle_since: WallMs | None = None
    """Since when its screen has shown nothing but an idle composer."""
    has_called: bool = False
    """A hook that waits to wake it."""


class Sightings:
    """One for the daemon, in memory: a hook or two after a restart everything is known again."""

    def __init__(self) -> None:
        self._agents: dict[Gid, _Agent] = {}
        self._told = trio.Event()

    def told(self, gid: Gid, state: AgentState, at: WallMs) -> None:
        """A hook said so."""
        self._agent(gid).hook = _Word(state, at)
        self._told.set()
        self._told = trio.Event()

    def called(self, gid: Gid) -> None:
        """A hook of it waits to wake it, which says nothing of what it does."""
        self._agent(gid).has_called = True

    def has_hooks(self, gid: Gid) -> bool:
        """Whether anything was heard of its hooks: only such an agent takes messages by them."""
        agent = self._agents.get(gid)
        return agent is not None and (agent.has_called or _newest(agent) is not None)

    async def told_something(self) -> None:
        """Return when the next hook says something. Cancellation changes nothing."""
        await self._told.wait()

    def in_turns(self) -> list[Gid]:
        """Agents in a turn by their hooks, whose session file may know better."""
        found = self._agents.items()
        return [gid for gid, one in found if one.path is not None and one.hook is not None and one.hook.state in _BUSY]

    def follow(self, gid: Gid, session: str, path: Path | None) -> None:
        """Where the harness keeps the state of this session; None: it keeps none, or nobody knows where."""
        agent = self._agent(gid)
        if (agent.session, agent.path) != (session, path):
            agent.session, agent.path, agent.file = session, path, None

    def is_told_by_file(self, gid: Gid) -> bool:
        """True for an agent whose harness keeps its state in a file: that has to be read before it is known."""
        agent = self._agents.get(gid)
        return agent is not None and agent.path is not None

    async def look_at_file(self, gid: Gid) -> None:
        """`read_file` in a thread; at once for an agent whose harness keeps none. Cancelled, it may be read later."""
        if self.is_told_by_file(gid):
            await trio.to_thread.run_sync(self.read_file, gid)

    def read_file(self, gid: Gid) -> None:
        """Read the session file again. Blocks; a file that is missing or of another session says nothing."""
        agent = self._agents.get(gid)
        if agent is not None and agent.path is not None:
            agent.file = _read(agent.path, agent.session)

    def of_harness(self, gid: Gid) -> AgentState | None:
        """What the harness last said of itself, by hook or file; None when it has said nothing."""
        agent = self._agents.get(gid)
        word = _newest(agent) if agent else None
        return word.state if word else None

    def judge(self, gid: Gid, seen: AgentState, now: WallMs) -> AgentState:
        """What it is doing, all sources together; `seen` is what its transport has just read off its terminal."""
        agent = self._agents.get(gid)
        if agent is None or seen is AgentState.GONE:
            return seen
        agent.idle_since = (agent.idle_since or now) if seen is AgentState.IDLE else None
        word = _newest(agent)
        if word is None:
            return seen
        age = now - word.at
        match word.state:
            case AgentState.BLOCKED:
                return seen if seen is AgentState.WORKING and age > SETTLED_MS else AgentState.BLOCKED
            case _ if seen is AgentState.BLOCKED:
                return seen
            case AgentState.GONE:
                return AgentState.GONE if age < LEFT_MS else seen
            case AgentState.WORKING:
                quiet = agent.idle_since is not None and now - max(agent.idle_since, word.at) >= QUIET_MS
                return seen if quiet else AgentState.WORKING
            case _:
                return seen if seen is AgentState.WORKING and age > SETTLED_MS else word.state

    def objection(self, gid: Gid, when: str) -> NotReady | None:
        """Why nothing may be put in although the terminal looks ready; None: nothing is known against it."""
        match self.of_harness(gid):
            case AgentState.BLOCKED:
                return NotReady(AgentState.BLOCKED, "it is at a dialog or a permission prompt")
            case AgentState.WORKING if when != "now":
                return NotReady(AgentState.WORKING, "it is working")
        return None

    def ended_silently(self, gid: Gid, now: WallMs) -> bool:
        """True once when a turn is over by the session file and no hook said so: it was interrupted."""
        agent = self._agents.get(gid)
        if agent is None or agent.hook is None or agent.file is None:
            return False
        open_turn = agent.hook.state in _BUSY
        is_over = agent.file.state is AgentState.IDLE and agent.file.at > agent.hook.at
        if not open_turn or not is_over or now - agent.file.at < SILENT_MS:
            return False
        agent.hook = _Word(AgentState.IDLE, agent.file.at)
        return True

    def forget(self, gid: Gid) -> None:
        self._agents.pop(gid, None)

    def _agent(self, gid: Gid) -> _Agent:
        return self._agents.setdefault(gid, _Agent())


def _newest(agent: _Agent) -> _Word | None:
    words = [word for word in (agent.hook, agent.file) if word is not None]
    return max(words, key=lambda word: word.at, default=None)


def _read(path: Path, session: str) -> _Word | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            data = os.read(file, FILE_LIMIT) if stat.S_ISREG(os.fstat(file).st_mode) else b""
        finally:
            os.close(file)
        facts = json.loads(data)
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(facts, dict) or (session and facts.get("sessionId") != session):
        return None
    state, at = _FILE_STATES.get(str(facts.get("status"))), facts.get("statusUpdatedAt")
    return _Word(state, WallMs(at)) if state and isinstance(at, int) else None
