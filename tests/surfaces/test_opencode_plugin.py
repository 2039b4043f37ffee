"""Our plugin in opencode, under node with a stand-in for its host: what it tells, and what it puts behind a prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleettrio.clients.harnesses import opencode
from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import HOOK_PATIENCE, Host
from fleettrio.testing.waiting import wait_until
from tests.surfaces.harnessed import send

STAND_IN = Path(__file__).with_name("opencode_host.mjs")


@pytest.fixture(scope="module")
def host(room: TmuxRoom) -> Iterator[Host]:
    with Fleet(None, "alpha", env=room.env) as fleet:
        yield fleet["alpha"]


class OpenCode:
    """A host with our plugin in a pane, fed by a pipe."""

    def __init__(self, room: TmuxRoom, host: Host, name: str, folder: Path, *, up: bool = True) -> None:
        self._given, self._shown = folder / "given", folder / "shown"
        self._given.touch()
        plugin = folder / "fleettrio.js"
        plugin.write_text(opencode.plugin_text())
        env = [f"{key}={host.env[key]}" for key in ("FLEETTRIO_HOME", "PYTHONPATH", HOOK_PATIENCE)]
        line = f"tail -f {self._given} | env {' '.join(env)} node {STAND_IN} {plugin} > {self._shown} 2>&1"
        pane = room.run(["sh", "-c", line])
        if up:
            host.ok("attach", "--name", name, "--pane", f"{room.socket}:{pane}", "--harness", "opencode")
        self._count = 0
        wait_until("the plugin is loaded", lambda: len(self._lines()) > 0)

    def _lines(self) -> list[dict[str, Any]]:
        lines = self._shown.read_bytes().split(b"\n")[:-1] if self._shown.exists() else []
        return [json.loads(line) for line in lines]

    def tell(self, **event: object) -> list[dict[str, Any]]:
        """One event, or a prompt; the parts that are sent to the model."""
        self._count += 1
        with self._given.open("a") as file:
            file.write(json.dumps(event) + "\n")
        found = wait_until("the host went on", lambda: self._lines()[1:][self._count - 1 : self._count])
        parts: list[dict[str, Any]] = found[0]["parts"]
        return parts

    def happens(self, kind: str, **properties: object) -> None:
        self.tell(type=kind, properties=properties)


def status(host: Host, name: str) -> str:
    found = host.agent(f"{name}@alpha")
    return found.status if found else ""


def test_a_prompt_carries_what_waits_behind_it_and_its_turn_ends_with_last_words(
    host: Host, room: TmuxRoom, tmp_path: Path
) -> None:
    lead = host.ok("attach", "--name", "lead", "--json").json()["token"]
    agent = OpenCode(room, host, "oc", tmp_path)
    short = send(host, "oc", "look at it", token=lead)

    first, second = agent.tell(session="ses_1", prompt="what is new?")

    assert (first["text"], first["id"]) == ("what is new?", "prt_1")
    assert "look at it" in second["text"]
    assert (second["type"], second["synthetic"], second["messageID"]) == ("text", True, "msg_1")
    assert status(host, "oc") == "working"
    agent.happens("session.idle", sessionID="ses_1")
    # A person typed in that turn, so its words are not the sender's.
    wait_until("its sender knows", lambda: "typed" in host.ok("show", short).text)
    assert status(host, "oc") == "idle"


def test_permissions_interrupts_and_helpers_are_told_apart(host: Host, room: TmuxRoom, tmp_path: Path) -> None:
    agent = OpenCode(room, host, "oc-states", tmp_path)
    agent.tell(session="ses_2", prompt="begin")
    agent.happens("permission.asked", sessionID="ses_2", id="per_1")
    assert status(host, "oc-states") == "blocked"
    agent.happens("permission.replied", sessionID="ses_2")
    assert status(host, "oc-states") == "working"
    agent.happens("session.idle", sessionID="child")
    assert status(host, "oc-states") == "working"
    agent.happens("session.error", sessionID="ses_2", error={"name": "MessageAbortedError"})
    agent.happens("session.idle", sessionID="ses_2")
    assert status(host, "oc-states") == "idle"


def test_it_tells_where_its_server_is_and_which_session_it_has(host: Host, room: TmuxRoom, tmp_path: Path) -> None:
    agent = OpenCode(room, host, "oc-api", tmp_path)
    agent.happens("session.created", info={"id": "ses_3"})
    found = host.ok("send", "session:ses_3", "by its session", "--json").json()
    assert found["messages"][0]["recipient"].startswith("oc-api")
    there = host.agent("oc-api@alpha")
    assert there is not None
    assert "http" in there.path


def test_without_a_daemon_a_prompt_goes_as_it_is(host: Host, room: TmuxRoom, tmp_path: Path) -> None:
    host.stop()
    try:
        agent = OpenCode(room, host, "oc-alone", tmp_path, up=False)
        (part,) = agent.tell(session="ses_4", prompt="hello")
        agent.happens("session.idle", sessionID="ses_4")
        agent.happens("something.newer", sessionID="ses_4")
    finally:
        host.up()
    assert part["text"] == "hello"
