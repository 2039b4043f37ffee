"""`doctor --probe`: one marked message on the real way, and one of three honest outcomes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from tests.surfaces.harnessed import Harnessed, state


@pytest.fixture
def host(room: TmuxRoom) -> Iterator[Host]:
    with Fleet(None, "alpha", env=room.env) as fleet:
        yield fleet["alpha"]


def test_an_agent_that_takes_it_was_seen_to(host: Host, room: TmuxRoom) -> None:
    agent = Harnessed.start(room, host, "seen")

    done = host.cli("doctor", "--probe", "claude", "--json")

    found = done.json()
    assert (done.code, found["outcome"], found["agent"]) == (0, "seen", "seen")
    assert len(agent.saw("only tests the way to you")) == 1


def test_what_nobody_saw_become_a_turn_is_not_known(host: Host, room: TmuxRoom) -> None:
    Harnessed.start(room, host, "deaf", "--swallow", "9")

    done = host.cli("doctor", "--probe", "claude", "--json")

    assert (done.code, done.json()["outcome"]) == (5, "not-known")


def test_what_waits_is_called_back_and_says_why(host: Host, room: TmuxRoom) -> None:
    agent = Harnessed.start(room, host, "drafting", kind="codex")
    agent.draft("half a thought")

    done = host.cli("doctor", "--probe", "codex", "--limit", "8s", "--json")

    found = done.json()
    assert (done.code, found["outcome"]) == (3, "not-delivered")
    assert "draft" in found["detail"]
    assert state(host, found["id"]) == "recalled"
    assert agent.turns() == []


def test_without_an_agent_of_that_harness_it_says_how_to_start_one(host: Host) -> None:
    done = host.cli("doctor", "--probe", "opencode")
    assert done.code == 3
    assert "fleettrio opencode" in " ".join(done.text.split())


def test_a_harness_that_nobody_knows_is_a_usage_error_that_names_the_known(host: Host) -> None:
    done = host.cli("doctor", "--probe", "vim")
    assert done.code == 2
    assert "'vim' is known here: claude, codex, opencode" in " ".join(done.err.split())


def test_only_a_person_probes(host: Host, room: TmuxRoom) -> None:
    Harnessed.start(room, host, "victim")
    token = host.ok("attach", "--name", "prober", "--json").json()["token"]
    assert host.cli("doctor", "--probe", "claude", token=token).code == 3
