"""Settings as `setup` wrote them, in a stand-in that reads them: nothing happens in a session that nobody attached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleettrio.testing.agents.room import StandIn, TmuxRoom, harness
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import HOOK_PATIENCE, Host
from fleettrio.testing.waiting import wait_until


@pytest.fixture
def host(room: TmuxRoom) -> Iterator[Host]:
    with Fleet(None, "alpha", env={**room.env, "HOME": str(room.folder)}) as fleet:
        yield fleet["alpha"]


def start(room: TmuxRoom, host: Host) -> StandIn:
    """A session that somebody began as usual, with what stands in the person's settings."""
    log = room.folder / "claude.jsonl"
    own = [f"{key}={host.env[key]}" for key in ("HOME", "FLEETTRIO_HOME", "PYTHONPATH", HOOK_PATIENCE)]
    settings = Path(host.env["HOME"]) / ".claude" / "settings.json"
    pane = room.run(["env", *own, *harness("claude", log, "--settings", str(settings))], cwd=room.folder)
    wait_until("it is on the screen", lambda: "stand-in agent" in room.screen(pane))
    return StandIn(pane, f"{room.socket}:{pane}", log)


def hooks(agent: StandIn, name: str) -> list[dict[str, object]]:
    return [event for event in agent.events("hook") if event["name"] == name]


def test_a_session_is_dormant_until_somebody_attaches_it(room: TmuxRoom, host: Host) -> None:
    host.ok("setup", "claude", "--yes")
    agent = start(room, host)
    room.tmux("send-keys", "-t", agent.pane, "-l", "hello")
    room.tmux("send-keys", "-t", agent.pane, "Enter")
    wait_until("its hooks were run", lambda: hooks(agent, "UserPromptSubmit") and hooks(agent, "Stop"))
    assert {event["out"] for event in agent.events("hook")} == {""}
    assert agent.events("context") == []
    assert [found.name for found in host.status().fleet.agents] == ["human"]
    assert "hooks claude" not in host.cli("doctor", "--json").text

    host.ok("attach", "--name", "worker", "--pane", agent.target, "--harness", "claude")
    host.ok("send", "worker", "please look", "--wait=delivered")
    wait_until("it saw it", lambda: any("please look" in one["text"] for one in agent.events() if "text" in one))
    wait_until("its hooks are seen", lambda: "last called" in host.cli("doctor", "--json").text)
    checks = {check["name"]: check["detail"] for check in host.cli("doctor", "--json").json()["checks"]}
    assert "set up for every session" in checks["claude"]
    assert "none around worker" in checks["sandbox"]


def test_uninstall_ends_the_daemon_and_purge_leaves_nothing(room: TmuxRoom, host: Host) -> None:
    host.ok("setup", "codex", "--yes")
    told = " ".join(host.ok("uninstall", "--yes").text.split())
    assert "the daemon" in told
    assert "uninstall --purge" in told
    assert host.wait_end() == 0
    assert not (Path(host.env["HOME"]) / ".codex").exists()
    assert host.paths.key_file.exists()
    host.ok("uninstall", "--purge", "--yes")
    assert not host.paths.config_dir.exists()


@pytest.mark.parametrize("daemon", ["up", "down"])
def test_purge_says_who_runs_and_what_waits_before_it_asks(host: Host, daemon: str) -> None:
    for name, takes in (("lead", "pull"), ("worker", "pull"), ("left", "pull")):
        host.ok("attach", "--name", name, "--takes", takes)
    host.ok("detach", "left")
    token = host.ok("token", "create", "--name", "worker", "--json").json()["token"]
    host.ok("send", "lead,left", "one")
    host.ok("send", "lead", "two")
    host.ok("send", "human", "three", token=token)
    host.ok("send", "lead", "four", "--after", "1h")
    if daemon == "down":
        host.stop()
    asked = host.cli("uninstall", "--purge")
    told = " ".join(asked.text.split())
    assert asked.code == 2
    assert "--yes" in asked.err
    assert "nobody reaches then: lead, worker" in told
    assert "2 messages wait for lead, and would be lost" in told
    assert "1 message waits for left" in told
    assert "1 message waits for you" in told
    assert "to be sent later, and would be lost: 1" in told
    assert host.is_up is (daemon == "up")
    assert host.paths.store.exists()
    host.ok("uninstall", "--purge", "--yes")
    assert not host.paths.store.exists()
