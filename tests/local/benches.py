"""Stand-in agents that are no terminals, for the contract of transports: commands, opencode's server."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import signal
import sys
import tempfile
from pathlib import Path

from fleettrio.local.dialects import LINES, STREAM_JSON
from fleettrio.local.http import HttpTransport
from fleettrio.local.port import DeliveryOutcome, Reserved, Text
from fleettrio.local.process import ProcessTransport
from fleettrio.local.stream import StreamTransport
from fleettrio.testing.agents.room import SOURCE, StandIn, until
from fleettrio.testing.bench import Situation
from fleettrio.testing.opencode_server import OpencodeServer

__all__ = ("HttpBench", "ProcessBench", "TalkerBench")


class CommandAgent:
    """A command that keeps each message in a file of its own; while `busy` is there a run does not end."""

    def __init__(self, folder: Path, situation: Situation) -> None:
        self.folder, self.situation = folder, situation
        self.busy, self._via = folder / "busy", self._made()

    def _made(self) -> ProcessTransport:
        place = shlex.quote(str(self.folder))
        keep = f"cat >{place}/new.$$ && n=$(ls {place} | grep -c turn); mv {place}/new.$$ {place}/turn-$n"
        wait = f"while [ -e {place}/busy ]; do sleep 0.01; done"
        script = "exec tail -f /dev/null" if self.situation is Situation.DEAF else f"{keep}; {wait}"
        bound_s = 0.3 if self.situation is Situation.DEAF else 30.0
        return ProcessTransport(["sh", "-c", script], cwd=str(self.folder), read_bound_s=bound_s)

    def open(self) -> ProcessTransport:
        """The daemon has one of them for an agent: its run is known by it alone."""
        return self._via

    def turns(self) -> list[str]:
        return [file.read_text() for file in sorted(self.folder.glob("turn-*"))]

    def trace(self) -> object:
        return [turn for turn in self.turns() if turn]

    async def become(self, situation: Situation) -> None:
        assert situation is Situation.WORKING
        self.busy.touch()
        with tempfile.TemporaryFile() as nothing:
            self._via._start(nothing, "busy")
        await until("the command runs", lambda: self.turns() == [""])

    def end(self) -> None:
        self.busy.unlink(missing_ok=True)
        child = self._via._running
        if child is not None and child.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # the thread that waits for it was quicker
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


class ProcessBench:
    """A command for each message. It has no composer and no dialog, and is nobody's heir: each run is a new program."""

    starts = frozenset({Situation.IDLE, Situation.DEAF})
    becomes = frozenset({Situation.WORKING})

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.agents: list[CommandAgent] = []

    async def start(self, situation: Situation) -> CommandAgent:
        folder = self._folder / secrets.token_hex(4)
        folder.mkdir()
        self.agents.append(CommandAgent(folder, situation))
        return self.agents[-1]


class SessionAgent:
    """A session of the stand-in for opencode's server."""

    def __init__(self, server: OpencodeServer, situation: Situation) -> None:
        self.server = server
        self._turn_s = 0.3 if situation is not Situation.IDLE else 30.0

    def open(self) -> HttpTransport:
        return HttpTransport(self.server.url, "ses_1", turn_s=self._turn_s)

    def turns(self) -> list[str]:
        return list(self.server.turns)

    def trace(self) -> object:
        return list(self.server.turns), list(self.server.queue)

    async def become(self, situation: Situation) -> None:
        match situation:
            case Situation.WORKING:
                self.server.hold, self.server.busy = True, {"ses_1": False}
            case Situation.DIALOG:
                self.server.asking = ["per_1"]
            case Situation.DEAD:
                self.server.close()
            case Situation.REPLACED:
                self.server.sessions = {"ses_2"}
            case _:
                raise ValueError(f"a session cannot become {situation}")


class HttpBench:
    """Sessions of opencode. A draft in its terminal is no concern of its server: nothing is typed."""

    starts = frozenset({Situation.IDLE, Situation.WORKING, Situation.DIALOG, Situation.DEAF})
    becomes = frozenset({Situation.WORKING, Situation.DIALOG, Situation.DEAD, Situation.REPLACED})

    def __init__(self) -> None:
        self.servers: list[OpencodeServer] = []

    async def start(self, situation: Situation) -> SessionAgent:
        server = OpencodeServer("ses_1", deaf=situation is Situation.DEAF)
        self.servers.append(server.__enter__())
        agent = SessionAgent(server, situation)
        if situation in self.becomes:
            await agent.become(situation)
        return agent


class TalkerAgent:
    """A program that stays, in a folder of its own."""

    def __init__(self, folder: Path, situation: Situation) -> None:
        self._folder, self._log = folder, folder / "log.jsonl"
        options = {Situation.DEAF: ["--deaf"], Situation.WORKING: ["--hold"]}.get(situation, [])
        self._argv = [sys.executable, "-m", "fleettrio.testing.agents.talker", "--log", str(self._log), *options]
        self._dialect = STREAM_JSON if situation is Situation.DEAF else LINES
        self._turn_s = 0.4 if situation is Situation.DEAF else 30.0

    def open(self) -> StreamTransport:
        return StreamTransport(
            self._argv,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": SOURCE},
            cwd=str(self._folder),
            folder=self._folder / "stream",
            dialect=self._dialect,
            turn_s=self._turn_s,
        )

    def turns(self) -> list[str]:
        return [turn for turn in StandIn("", "", self._log).turns() if turn != "begin"]

    def trace(self) -> object:
        return self.turns()

    async def become(self, situation: Situation) -> None:
        via = self.open()
        match situation:
            case Situation.DEAD:
                os.kill(self._pid(), signal.SIGKILL)
                await until("it has ended", lambda: not via._resident.is_alive)
            case Situation.REPLACED:
                await via._resident.end()
                via._resident.start()
            case _:
                raise ValueError(f"a program that stays cannot become {situation}")

    async def ready(self) -> None:
        via = self.open()
        assert isinstance(await via.reserve("idle"), Reserved)
        await until("it has begun", lambda: StandIn("", "", self._log).events("begun"))

    async def work(self) -> None:
        """Let it be in a turn that goes on."""
        via = self.open()
        reserved = await via.reserve("idle")
        assert isinstance(reserved, Reserved)
        assert (await via.deliver(reserved, Text("begin", "", "", ""))).outcome is DeliveryOutcome.SUBMITTED

    async def end(self) -> None:
        await self.open().end()

    def _pid(self) -> int:
        pid: int = StandIn("", "", self._log).events("begun")[-1]["pid"]
        return pid


class TalkerBench:
    """A program that stays. It has no composer and no dialog."""

    starts = frozenset({Situation.IDLE, Situation.WORKING, Situation.DEAF})
    becomes = frozenset({Situation.DEAD, Situation.REPLACED})

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.agents: list[TalkerAgent] = []

    async def start(self, situation: Situation) -> TalkerAgent:
        folder = self._folder / secrets.token_hex(4)
        folder.mkdir()
        agent = TalkerAgent(folder, situation)
        self.agents.append(agent)
        await agent.ready()
        if situation is Situation.WORKING:
            await agent.work()
        return agent
