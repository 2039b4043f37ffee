"""The example of a transport by another package, held to the contract: agents in GNU screen."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleettrio.errors import ConfigError
from fleettrio.local.harness import Harness, load_harness, parse_harness
from fleettrio.local.plugins import Contained
from fleettrio.local.port import Transport
from fleettrio.testing.agents.room import composer, until
from fleettrio.testing.bench import TERMINAL, Situation
from fleettrio.testing.terminals import OPTIONS, TerminalAgent, harness_for
from fleettrio.testing.transport_contract import Case, cases
from fleettrio.testing.waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "transports" / "screen"
spec = importlib.util.spec_from_file_location("fleettrio_screen", EXAMPLE / "fleettrio_screen.py")
assert spec is not None
assert spec.loader is not None
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)


class ScreenAgent(TerminalAgent):
    """A composer alone in a session."""

    def __init__(self, env: dict[str, str], situation: Situation) -> None:
        self.session = f"ft-{secrets.token_hex(4)}"
        self._env = env
        self._harness = _described(situation)
        self._options = (*OPTIONS[situation], "--glyph", ">")
        super().__init__(Path(env["SCREENDIR"]) / f"{self.session}.jsonl")
        self._start(self._logs[0])

    def open(self) -> Transport:
        return Contained("screen", example.open_screen(self.session, self._harness, self._env))

    def press(self, keys: str) -> None:
        self._screen("-X", "stuff", keys)

    def screen(self) -> str:
        with tempfile.NamedTemporaryFile() as copy:
            self._screen("-X", "hardcopy", copy.name)
            self._screen("-Q", "info")  # answered once the copy is written
            return Path(copy.name).read_bytes().decode("latin-1").replace("\0", "─")

    async def hide(self) -> None:
        raise AssertionError("nobody is attached who could")

    async def end(self) -> None:
        self._screen("-X", "quit")
        await until("the session is over", lambda: self.session not in self._screen("-ls"))

    async def replace(self, log: Path) -> None:
        await self.end()
        self._start(log)

    async def become(self, situation: Situation) -> None:
        if situation is Situation.DRAFT:
            self.press("wait")
            await self._shows("> wait")
        else:
            await super().become(situation)

    def _start(self, log: Path) -> None:
        self._screen("-U", "-c", "/dev/null", "-h", "0", "-dm", *composer(log, *self._options))

    def _screen(self, *words: str) -> str:
        command = ["screen", "-S", self.session, *words]
        return subprocess.run(command, env=self._env, capture_output=True, text=True, check=False, timeout=90).stdout


def _described(situation: Situation) -> Harness:
    if situation is Situation.LINES:
        return harness_for(situation)
    known = parse_harness("ascii", (EXAMPLE / "ascii.toml").read_bytes())
    return harness_for(situation, known)


class ScreenBench:
    starts = frozenset(OPTIONS)
    becomes = TERMINAL - frozenset({Situation.IDLE, Situation.DEAF, Situation.LINES, Situation.HIDDEN})

    def __init__(self, env: dict[str, str]) -> None:
        self._env = env
        self.agents: list[ScreenAgent] = []

    async def start(self, situation: Situation) -> ScreenAgent:
        agent = ScreenAgent(self._env, situation)
        self.agents.append(agent)
        await agent.is_up()
        return agent


@pytest.fixture
def screens() -> Iterator[ScreenBench]:
    folder = tempfile.mkdtemp(prefix="ft-")
    bench = ScreenBench({**os.environ, "SCREENDIR": folder, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
    yield bench
    for agent in bench.agents:
        agent._screen("-X", "quit")
    wait_until("every session is over", lambda: not any(path.is_socket() for path in Path(folder).iterdir()))
    shutil.rmtree(folder)


@pytest.mark.parametrize("case", cases(ScreenBench), ids=str)
async def test_screen(case: Case, screens: ScreenBench) -> None:
    await case.run(screens)


def test_it_is_no_longer_than_it_says_and_its_entry_point_is_there() -> None:
    assert len((EXAMPLE / "fleettrio_screen.py").read_text().splitlines()) <= 60
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["fleettrio.transports"]["screen"].partition(":")
    assert module == "fleettrio_screen"
    assert callable(getattr(example, name))


@pytest.mark.parametrize("target", ["", "a b", "x;quit", "../x"])
def test_a_target_that_names_no_session_is_refused(target: str) -> None:
    with pytest.raises(ConfigError, match="not a screen session"):
        example.open_screen(target, load_harness("script"), {})
