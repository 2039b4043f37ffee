"""Transports of other packages: found by name, held behind a wall, and their accidents cost one agent."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fleettrio.core.entity import Entity
from fleettrio.errors import ConfigError
from fleettrio.ids import Gid
from fleettrio.local import plugins
from fleettrio.local.harness import load_harness
from fleettrio.local.plugins import open_plugin, plugin_names
from fleettrio.local.port import AgentState, DeliveryOutcome, NotReady, Reserved, Text, Transport
from fleettrio.local.transports import open_transport, open_way

GID = Gid("00000000-0000-4000-8000-000000000001")
TEXT = Text("a framed text", "a notice", "9c41d2aa", "5f1c77e2")
ENV: Mapping[str, str] = {}
MODULE = """
import trio
from fleettrio.errors import ConfigError
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, Reserved

class Good:
    name, wakes = "good", True
    def __init__(self, target, harness, env):
        if target == "refused":
            raise ConfigError(["refused is no target of ours"])
        if target == "bug":
            raise KeyError("bug")
    async def state(self): return AgentState.IDLE
    async def reserve(self, when): return Reserved("1", AgentState.IDLE)
    async def deliver(self, reserved, text): return Delivery(DeliveryOutcome.SUBMITTED)
    async def close(self): pass

class Raises(Good):
    async def state(self): raise RuntimeError("no\\x1b[2Jstate")
    async def reserve(self, when): raise RuntimeError("no look")
    async def deliver(self, reserved, text): raise RuntimeError("broke midway")
    async def close(self): raise RuntimeError("does not let go")

class Lies(Good):
    wakes = property(lambda self: 1 / 0)
    async def state(self): return "asleep"
    async def reserve(self, when): return None
    async def deliver(self, reserved, text): return "sure"

class Hangs(Good):
    async def state(self): await trio.sleep_forever()
    async def reserve(self, when): await trio.sleep_forever()
    async def close(self): await trio.sleep_forever()
"""
POINTS = """[fleettrio.transports]
good = pigeons:Good
raises = pigeons:Raises
lies = pigeons:Lies
hangs = pigeons:Hangs
absent = pigeons_that_never_were:Good
exits = pigeons_that_exit:Good
none = pigeons:None_
tmux = pigeons:Good
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with transports, as pip would have left it."""
    info = tmp_path / "pigeons-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeons\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    (tmp_path / "pigeons.py").write_text(MODULE)
    (tmp_path / "pigeons_that_exit.py").write_text("raise SystemExit('never mind')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("pigeons", None)


def opened(name: str, target: str = "somewhere") -> Transport:
    return open_plugin(name, target, load_harness("script"), ENV)


@pytest.mark.usefixtures("installed")
async def test_a_transport_of_another_package_is_one_of_ours() -> None:
    assert "good" in plugin_names()
    via = opened("good")
    assert (via.name, via.wakes, await via.state()) == ("good", True, AgentState.IDLE)
    reserved = await via.reserve("idle")
    assert isinstance(reserved, Reserved)
    assert (await via.deliver(reserved, TEXT)).outcome is DeliveryOutcome.SUBMITTED


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "target", "complaint"),
    [
        ("never-was", "x", "no transport 'never-was' is installed"),
        ("absent", "x", "No module named 'pigeons_that_never_were'"),
        ("exits", "x", "never mind"),
        ("none", "x", "None_"),
        ("good", "refused", "refused is no target of ours"),
        ("good", "bug", "KeyError"),
    ],
)
def test_what_cannot_be_opened_is_told_with_its_reason(name: str, target: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        opened(name, target)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("raises", "the transport raises failed: RuntimeError: no look"),
        ("lies", "the transport lies answered a look with None"),
        ("hangs", "the transport hangs did not answer within 0.05 s"),
    ],
)
async def test_a_broken_look_is_not_ready_and_says_why(name: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "LOOK_LIMIT_S", 0.05)
    monkeypatch.setattr(plugins, "CLOSE_LIMIT_S", 0.05)
    via = opened(name)
    assert await via.state() is AgentState.UNKNOWN
    assert await via.reserve("idle") == NotReady(AgentState.UNKNOWN, why)
    await via.close()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("name", "detail"), [("raises", "broke midway"), ("lies", "told of a write with sure")])
async def test_a_broken_write_is_unconfirmed_never_repeated(name: str, detail: str) -> None:
    done = await opened(name).deliver(Reserved("1", AgentState.IDLE), TEXT)
    assert done.outcome is DeliveryOutcome.UNCONFIRMED
    assert detail in done.detail


@pytest.mark.usefixtures("installed")
def test_a_transport_that_cannot_say_whether_it_wakes_does_not() -> None:
    assert not opened("lies").wakes


@pytest.mark.usefixtures("installed")
async def test_no_package_takes_the_place_of_a_transport_of_ours(tmp_path: Path) -> None:
    entity = Entity(gid=GID, name="worker", salt=b"", transport="tmux", target="nothing")
    with pytest.raises(ConfigError, match="not a tmux pane"):
        open_transport(entity, {"FLEETTRIO_HOME": str(tmp_path)})


async def test_an_agent_without_a_way_says_why_its_messages_wait(tmp_path: Path) -> None:
    entity = Entity(gid=GID, name="worker", salt=b"", transport="uninstalled", target="somewhere")
    via = open_way(entity, {"FLEETTRIO_HOME": str(tmp_path)})
    assert (via.name, await via.state()) == ("uninstalled", AgentState.UNKNOWN)
    answer = await via.reserve("now")
    assert isinstance(answer, NotReady)
    assert "no transport 'uninstalled' is installed" in answer.why
    assert not answer.gone
    assert (await via.deliver(Reserved("", AgentState.IDLE), TEXT)).outcome is DeliveryOutcome.NOTHING_WRITTEN
