"""Agents that already run, in a pane of tmux or in herdr, as a person on one host meets them: attached, written to."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleettrio.testing.agents.composer import PASTE_BEGIN
from fleettrio.testing.agents.room import SOURCE, StandIn, TmuxRoom
from fleettrio.testing.herdr_server import HerdrAgentStandIn, HerdrServer
from fleettrio.testing.hosts import Host, clean_environment
from fleettrio.testing.waiting import wait_until
from tests.surfaces.harnessed import final

PROFILE = """
[[profile]]
name = "coder"
command = ["claude"]
roots = ["{work}"]
runtime = "herdr"
harness = "claude"
"""


@pytest.fixture(scope="module")
def server(room: TmuxRoom) -> Iterator[HerdrServer]:
    with HerdrServer() as server:
        # What its panes began with: none of the processes that run these tests.
        server.process = (int(room.fact(room.run(["cat"]), "pane_pid")), "/dev/pts/none")
        yield server


@pytest.fixture(scope="module")
def host(room: TmuxRoom, server: HerdrServer) -> Iterator[Host]:
    """One host without a broker."""
    folder = Path(tempfile.mkdtemp(prefix="ft-")).resolve()
    (folder / "work").mkdir()
    env = {**clean_environment(), **room.env, "HERDR_SOCKET_PATH": server.socket}
    host = Host("alpha", folder / "home", env)
    host.configure(more=PROFILE.format(work=folder / "work"))
    host.up()
    yield host
    host.stop()
    shutil.rmtree(folder, ignore_errors=True)


def send(host: Host, name: str, body: str) -> str:
    short: str = host.ok("send", name, body, "--json").json()["messages"][0]["short"]
    return short


def state(host: Host, short: str) -> str:
    found: str = host.ok("show", short, "--json").json()["messages"][0]["state"]
    return found


def adopted(host: Host, server: HerdrServer, name: str, **changes: Any) -> HerdrAgentStandIn:
    agent = server.add(session=f"of-{name}", **changes)
    host.ok("attach", "--name", name, "--herdr", agent.terminal)
    return agent


def test_an_agent_in_herdr_takes_a_message_when_it_may_and_the_sender_is_told_why_it_waits(
    host: Host, server: HerdrServer
) -> None:
    agent = adopted(host, server, "herded", mode="working", hold=True)
    view = host.agent("herded@alpha")
    assert view is not None
    assert (view.path, view.wakes, view.takes, view.harness) == ("herdr", True, "push", "claude")
    short = send(host, "herded", "please read it\nall of it")
    wait_until("the reason", lambda: "working" in host.ok("show", short).text)
    agent.composer.mode = "dialog"
    wait_until("the reason", lambda: "dialog" in host.ok("show", short).text)
    assert agent.raw == b""
    server.move(agent)
    agent.composer.mode = "idle"
    final(host, short, "injected")
    (turn,) = agent.turns()
    assert "\n│ please read it\n│ all of it\n" in turn


def test_what_had_no_effect_in_herdr_is_unconfirmed_and_never_sent_again(host: Host, server: HerdrServer) -> None:
    agent = adopted(host, server, "deaf", swallow=99)
    short = send(host, "deaf", "do you hear?")
    wait_until("it is unconfirmed", lambda: state(host, short) == "unconfirmed")
    agent.composer.swallow, agent.composer.draft = 0, b""
    host.stop()
    host.up()
    other = send(host, "deaf", "and this?")
    final(host, other, "injected")
    assert (state(host, short), agent.raw.count(PASTE_BEGIN)) == ("unconfirmed", 2)


def test_what_had_no_effect_in_a_pane_is_unconfirmed_and_never_sent_again(host: Host, room: TmuxRoom) -> None:
    agent = room.place("--dialog-on-paste")
    wait_until("it is on the screen", lambda: "stand-in agent" in room.screen(agent.pane))
    host.ok("attach", "--name", "asked", "--pane", agent.target, "--harness", "script")
    short = send(host, "asked", "do you hear?")
    wait_until("it is unconfirmed", lambda: state(host, short) == "unconfirmed")
    host.stop()
    host.up()
    agent.finish()
    wait_until("the dialog is closed", lambda: "1. Yes" not in room.screen(agent.pane))
    assert (state(host, short), agent.raw().count(PASTE_BEGIN), agent.events("allowed")) == ("unconfirmed", 1, [])


def test_a_profile_starts_an_agent_in_herdr_and_its_end_closes_the_workspace(host: Host, server: HerdrServer) -> None:
    done = host.ok("spawn", "coder@alpha", "your first brief", "--name", "herdling", "--json")
    assert json.loads(done.out)
    agent = next(one for one in server.agents if one.name and one.name.startswith("herdling"))
    assert agent.env["FLEETTRIO_NAME"] == "herdling"
    wait_until("its brief", agent.turns)
    view = host.agent("herdling@alpha")
    assert view is not None
    assert (view.path, view.attach) == ("herdr", "")
    host.ok("stop", "herdling")
    wait_until("it is gone", lambda: agent not in server.agents)
    assert not server.workspaces


def test_a_running_harness_is_adopted_from_another_terminal_and_what_it_starts_speaks_for_it(
    host: Host, room: TmuxRoom
) -> None:
    log = room.folder / "adopted.jsonl"
    program = f"{sys.executable} -m fleettrio.testing.agents.harness claude --log {log}"
    inner = f"env PYTHONPATH={SOURCE} bash -c 'exec -a claude {program}'"
    pane = room.run(["bash", "-c", f"exec {inner}"])
    wait_until("it has begun", lambda: StandIn("", "", log).events("begun"))
    wait_until("its composer", lambda: "❯" in room.screen(pane))
    done = host.ok("attach", "--name", "adopted", "--pane", f"{room.socket}:{pane}")
    assert "found: claude in pane" in " ".join(done.err.split())
    short = send(host, "adopted", "welcome")
    final(host, short, "injected")
    wrong = host.cli("attach", "--name", "adopted", "--pane", f"{room.socket}:{pane}", "--harness", "codex")
    assert wrong.code == 3
    assert "claude runs in pane" in wrong.err
    view = host.agent("adopted@alpha")
    assert view is not None
    assert view.harness == "claude", "a refused attach changes nothing"


def test_from_the_shell_of_a_pane_that_was_attached_words_are_the_agent_s_without_any_token(
    host: Host, room: TmuxRoom
) -> None:
    own = [f"{key}={host.env[key]}" for key in ("FLEETTRIO_HOME", "PYTHONPATH")]
    pane = room.run(["env", "-u", "FLEETTRIO_TOKEN", *own, "PS1=$ ", "bash", "--norc", "--noprofile", "-i"])
    wait_until("its prompt", lambda: "$" in room.screen(pane))
    host.ok("attach", "--name", "shelled", "--pane", f"{room.socket}:{pane}")
    command = f"env -u FLEETTRIO_TOKEN {sys.executable} -m fleettrio send human 'I am here'"
    room.tmux("send-keys", "-l", "-t", pane, command)
    room.tmux("send-keys", "-t", pane, "Enter")
    wait_until("its words", lambda: "I am here" in host.ok("inbox", "--json").out.decode())
    (mail,) = [one for one in host.ok("inbox", "--json").json()["messages"] if "I am here" in json.dumps(one)]
    assert "shelled" in json.dumps(mail)
