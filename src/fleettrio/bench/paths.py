"""The ways into an agent, each with a stand-in that notes when it read: what a message is timed by at its end."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from fleettrio.api.schema import Attach, Attached, Detach
from fleettrio.bench.programs import CountsDiffer, program, wait_ready
from fleettrio.clients.harnesses import claude
from fleettrio.local.harness import load_harness
from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.agents.room import composer as composer_command
from fleettrio.testing.agents.room import harness as harness_command
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until

__all__ = ("PATHS", "Agent", "Path", "agent_on")

_LOOK_S = 0.0005
_LIMIT_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    """`fixed_ms` is what its transport waits whatever happens, so that what it types arrives whole.

    `is_told`: its agent tells when a turn is over.
    """

    name: str
    start: Callable[[Start], contextlib.AbstractContextManager[None]]
    fixed_ms: float = 0.0
    is_told: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """What a stand-in is started with."""

    host: Host
    name: str
    log: pathlib.Path
    room: TmuxRoom | None
    options: tuple[str, ...]

    def attach(self, **params: Any) -> Attached:
        """Make it known."""
        with self.host.client() as client:
            attached: Attached = client.call("attach", Attach(name=self.name, **params))
        return attached

    def reader(self, way: str) -> list[str]:
        return [sys.executable, "-P", "-m", "fleettrio.bench.readers", way, str(self.log), *self.options]


@dataclasses.dataclass(frozen=True, slots=True)
class Agent:
    address: str
    log: pathlib.Path
    host: Host
    is_told: bool

    def wait_rest(self) -> None:
        """Wait until its turn is over, if it tells."""
        if self.is_told:
            wait_until(f"{self.address} is idle", self._is_idle)

    def _is_idle(self) -> bool:
        found = self.host.agent(self.address)
        return found is not None and found.status == "idle"

    def turns(self) -> list[float]:
        """When it read something, by the wall clock."""
        lines = self.log.read_bytes().splitlines() if self.log.exists() else []
        found = [json.loads(line) for line in lines if line.endswith(b"}")]
        return [event["at"] for event in found if event["event"] == "turn"]

    def wait_turn(self, number: int) -> float:
        """When it read for the time `number` (from 0). Raises `CountsDiffer` when it does not within half a minute."""
        deadline = time.monotonic() + _LIMIT_S
        while len(found := self.turns()) <= number:
            if time.monotonic() > deadline:
                raise CountsDiffer(f"{self.address} did not read its message within {_LIMIT_S:g} s")
            time.sleep(_LOOK_S)
        if len(found) > number + 1:
            raise CountsDiffer(f"{self.address} read more than it was sent")
        return found[number]


@contextlib.contextmanager
def agent_on(
    host: Host, path: Path, folder: pathlib.Path, *, room: TmuxRoom | None = None, answers: bool = False
) -> Iterator[Agent]:
    """A stand-in on `host` that is reached by `path`; let go and ended behind the body."""
    name = f"{path.name}-{secrets.token_hex(2)}"
    start = Start(host, name, folder / f"{name}.jsonl", room, ("--answer",) if answers else ())
    with path.start(start):
        try:
            yield Agent(f"{name}@{host.name}", start.log, host, path.is_told)
        finally:
            with host.client() as client:
                client.call("detach", Detach(name=name, forget=True))


# --- how each is started


@contextlib.contextmanager
def _client(start: Start, way: str) -> Iterator[None]:
    token = start.attach(takes="pull").token
    with program(start.reader(way), b"", {**start.host.env, "FLEETTRIO_TOKEN": token}) as process:
        wait_ready(process)
        yield


@contextlib.contextmanager
def _pull(start: Start) -> Iterator[None]:
    with _client(start, "pull"):
        yield


@contextlib.contextmanager
def _mcp(start: Start) -> Iterator[None]:
    with _client(start, "mcp"):
        yield


@contextlib.contextmanager
def _stream(start: Start) -> Iterator[None]:
    """It outlives its daemon, so that is not to be killed before it has ended the program."""
    gid = start.attach(command=start.reader("stream"), stream=True).gid
    yield
    programs = start.host.paths.state_dir / "streams"
    wait_until(f"the program of {start.name} has ended", lambda: not any(programs.glob(f"{gid}-*")))


@contextlib.contextmanager
def _process(start: Start) -> Iterator[None]:
    """A shell is the lightest that can tell the time: what a heavier command takes to start is its own."""
    note = f"""printf '{{"event":"turn","at":%s}}\\n' "$(date +%s.%N)" >> {shlex.quote(str(start.log))}"""
    start.attach(command=["/bin/sh", "-c", f"cat > /dev/null; {note}"])
    yield


@contextlib.contextmanager
def _tmux(start: Start) -> Iterator[None]:
    with _pane(start, composer_command(start.log), "script"):
        yield


@contextlib.contextmanager
def _hook(start: Start) -> Iterator[None]:
    """A stand-in for Claude Code that does nothing, with our hooks: the one that waits wakes it."""
    own = {name: start.host.env[name] for name in ("FLEETTRIO_HOME", "PYTHONPATH")}
    home = start.log.with_suffix("")
    home.mkdir()
    words = [f"{name}={value}" for name, value in {**own, "HOME": str(home)}.items()]
    command = harness_command("claude", start.log, "--settings", json.dumps(claude.settings()))
    with _pane(start, ["env", *words, *command], "claude"):
        yield


@contextlib.contextmanager
def _pane(start: Start, command: list[str], harness: str) -> Iterator[None]:
    assert start.room is not None
    pane = start.room.run(command)
    try:
        room = start.room
        wait_until(f"{start.name} is on the screen", lambda: "stand-in agent" in room.screen(pane))
        start.attach(pane=f"{start.room.socket}:{pane}", harness=harness)
        yield
    finally:
        start.room.tmux("kill-pane", "-t", pane, check=False)


PATHS = {
    path.name: path
    for path in (
        Path("pull", _pull),
        Path("mcp", _mcp),
        Path("stream", _stream),
        Path("process", _process),
        Path("tmux", _tmux, 1e3 * load_harness("script").settle_s),
        Path("hook", _hook, 1e3 * load_harness("claude").settle_s, is_told=True),
    )
}
