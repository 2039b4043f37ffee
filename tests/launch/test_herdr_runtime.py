"""Agents in workspaces of herdr: started by their kind, ready or not, ended with their workspace."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from fleettrio.launch.errors import LaunchError
from fleettrio.launch.launcher import Launcher
from fleettrio.testing.herdr_server import HerdrServer
from tests.launch.conftest import Room


@pytest.fixture
def server() -> Iterator[HerdrServer]:
    with HerdrServer() as server:
        yield server


@pytest.fixture
def launcher(room: Room, server: HerdrServer) -> Launcher:
    room.env["HERDR_SOCKET_PATH"] = server.socket
    return room.again()


async def always() -> bool:
    return True


async def never() -> bool:
    return False


async def test_an_agent_starts_in_a_workspace_of_its_own_with_its_token_in_its_environment(
    room: Room, server: HerdrServer, launcher: Launcher
) -> None:
    profile = room.profile("claude", "--model", "large", runtime="herdr", harness="claude", env={"COLOUR": "blue"})
    order = room.order(profile, token="secret")
    launched = await launcher.launch(order)
    (agent,) = server.agents
    assert (agent.kind, agent.args) == ("claude", ["--model", "large"])
    assert {"FLEETTRIO_TOKEN": "secret", "FLEETTRIO_NAME": "worker", "COLOUR": "blue"}.items() <= agent.env.items()
    assert "PATH" not in agent.env, "herdr has an environment of its own"
    assert (launched.transport, launched.target) == ("herdr", server.target(agent))
    assert (launched.pid, launched.tty) == server.process
    (workspace,) = server.workspaces.values()
    assert (workspace["label"], workspace["cwd"]) == (f"worker-{order.spawn_id[:8]}", str(room.work))
    await launcher.until_ready(profile, launched, always)
    assert await room.again().adopt(launched)
    await launcher.end(order.spawn_id)
    assert not server.agents
    assert not server.workspaces


@pytest.mark.parametrize(("gate", "pattern"), [("pattern", "for shortcuts"), ("quiet", "")])
async def test_its_screen_says_when_it_is_ready(room: Room, launcher: Launcher, gate: str, pattern: str) -> None:
    profile = room.profile("claude", runtime="herdr", ready=gate, pattern=pattern, quiet_s=0.2)
    launched = await launcher.launch(room.order(profile))
    await launcher.until_ready(profile, launched, never)


async def test_an_agent_that_ended_is_never_ready(room: Room, server: HerdrServer, launcher: Launcher) -> None:
    profile = room.profile("claude", runtime="herdr")
    launched = await launcher.launch(room.order(profile))
    server.agents.clear()
    with pytest.raises(LaunchError, match="it ended before it was ready"):
        await launcher.until_ready(profile, launched, never)


@pytest.mark.parametrize("name", ["worker", "9-lives", "a-name-that-is-thirty-two-letters"[:32]])
async def test_a_shell_that_is_still_busy_is_waited_for_whatever_the_name(
    room: Room, server: HerdrServer, launcher: Launcher, name: str
) -> None:
    server.busy_shells = 2
    order = msgspec.structs.replace(room.order(room.profile("claude", runtime="herdr")), name=name)
    await launcher.launch(order)
    (agent,) = server.agents
    assert agent.name is not None
    assert agent.name.endswith(f"-{order.spawn_id[:8]}")
    assert agent.env["FLEETTRIO_NAME"] == name


async def test_a_kind_that_herdr_does_not_know_is_told_and_leaves_nothing(
    room: Room, server: HerdrServer, launcher: Launcher
) -> None:
    with pytest.raises(LaunchError, match="no agent kind mine"):
        await launcher.launch(room.order(room.profile("mine", runtime="herdr")))
    assert not server.workspaces


async def test_without_a_herdr_it_is_said_that_none_answers(room: Room) -> None:
    room.env["HERDR_SOCKET_PATH"] = str(room.work / "none.sock")
    launcher = room.again()
    order = room.order(room.profile("claude", runtime="herdr"))
    with pytest.raises(LaunchError, match="no herdr server answers"):
        await launcher.launch(order)
    assert await launcher.end(order.spawn_id) == ""


async def test_only_its_own_workspace_is_closed(room: Room, server: HerdrServer, launcher: Launcher) -> None:
    profile = room.profile("claude", runtime="herdr")
    first, second = room.order(profile), room.order(profile)
    await launcher.launch(first)
    await launcher.launch(second)
    await launcher.end(first.spawn_id)
    assert [one["label"] for one in server.workspaces.values()] == [f"worker-{second.spawn_id[:8]}"]
