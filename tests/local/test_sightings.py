"""What an agent is doing, by several sources: the newer word of its harness goes before its screen; blocked wins."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from fleettrio.ids import Gid, WallMs
from fleettrio.local.port import AgentState
from fleettrio.local.sightings import Sightings

if TYPE_CHECKING:
    from pathlib import Path

GID = Gid("beta.w1")
IDLE, WORKING, BLOCKED, GONE, UNKNOWN = (
    AgentState.IDLE,
    AgentState.WORKING,
    AgentState.BLOCKED,
    AgentState.GONE,
    AgentState.UNKNOWN,
)


def at(ms: int) -> WallMs:
    return WallMs(ms)


class Agent:
    """Sightings of one agent with a session file."""

    def __init__(self, folder: Path) -> None:
        self.all = Sightings()
        self._file = folder / "77.json"
        self.all.follow(GID, "s1", self._file)

    def file(self, status: str, ms: int, session: str = "s1") -> None:
        facts = {"pid": 77, "sessionId": session, "status": status, "statusUpdatedAt": ms, "newer": [1]}
        self._file.write_text(json.dumps(facts))
        self.all.read_file(GID)

    def hook(self, state: AgentState, ms: int) -> None:
        self.all.told(GID, state, at(ms))

    def judge(self, seen: AgentState, ms: int) -> AgentState:
        return self.all.judge(GID, seen, at(ms))


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def test_without_a_word_of_the_harness_the_screen_counts(agent: Agent) -> None:
    assert [agent.judge(seen, 0) for seen in AgentState] == list(AgentState)
    assert agent.all.objection(GID, "idle") is None


def test_the_newer_of_hook_and_session_file_counts(agent: Agent) -> None:
    agent.hook(WORKING, 1000)
    agent.file("idle", 500)
    assert agent.judge(IDLE, 1100) is WORKING

    agent.file("idle", 2000)
    assert agent.judge(IDLE, 2100) is IDLE


@pytest.mark.parametrize("seen", [IDLE, UNKNOWN, BLOCKED])
def test_blocked_by_any_source_is_blocked_and_forbids_typing(agent: Agent, seen: AgentState) -> None:
    agent.hook(BLOCKED, 1000)
    assert agent.judge(seen, 60_000) is BLOCKED
    objection = agent.all.objection(GID, "now")
    assert objection is not None
    assert objection.state is BLOCKED

    agent.hook(IDLE, 70_000)
    assert agent.judge(BLOCKED, 70_100) is BLOCKED
    agent.file("waiting", 71_000)
    assert agent.judge(IDLE, 71_100) is BLOCKED


def test_a_working_agent_takes_only_what_is_for_now(agent: Agent) -> None:
    agent.hook(WORKING, 1000)

    assert agent.all.objection(GID, "idle") is not None
    assert agent.all.objection(GID, "turn") is not None
    assert agent.all.objection(GID, "now") is None


def test_a_turn_that_the_session_file_ends_without_a_hook_was_interrupted_once(agent: Agent) -> None:
    agent.hook(WORKING, 1000)
    agent.file("busy", 1100)
    assert not agent.all.ended_silently(GID, at(5000))
    agent.file("idle", 5000)
    assert not agent.all.ended_silently(GID, at(5500))  # its stop hook may be just about to speak
    assert agent.all.in_turns() == [GID]

    assert agent.all.ended_silently(GID, at(7100))
    assert not agent.all.ended_silently(GID, at(7200))
    assert agent.all.in_turns() == []


def test_a_turn_that_a_hook_ended_was_not_interrupted(agent: Agent) -> None:
    agent.hook(WORKING, 1000)
    agent.hook(IDLE, 4000)
    agent.file("idle", 4100)

    assert not agent.all.ended_silently(GID, at(60_000))


def test_work_that_never_ends_yields_to_a_screen_that_stays_idle(agent: Agent) -> None:
    agent.hook(WORKING, 0)
    for ms in range(0, 30_000, 500):
        assert agent.judge(IDLE, ms) is WORKING
    assert agent.judge(IDLE, 31_000) is IDLE
    assert agent.judge(UNKNOWN, 31_500) is WORKING


def test_a_program_that_said_good_bye_is_gone_though_its_screen_is_still_there(agent: Agent) -> None:
    agent.hook(GONE, 1000)
    assert agent.judge(IDLE, 2000) is GONE
    assert agent.judge(IDLE, 7000) is IDLE
    agent.hook(WORKING, 8000)
    assert agent.judge(GONE, 8100) is GONE


def test_a_session_file_that_cannot_be_read_says_nothing(agent: Agent, tmp_path: Path) -> None:
    agent.hook(IDLE, 1000)
    for text in ("", "[", "[1]", '{"status": "busy"}', '{"status": 3, "statusUpdatedAt": 9000}', "[" * 100_000):
        (tmp_path / "77.json").write_text(text)
        agent.all.read_file(GID)
        assert agent.judge(IDLE, 9100) is IDLE
    agent.file("busy", 9000, session="another")
    assert agent.judge(IDLE, 9100) is IDLE
    (tmp_path / "77.json").unlink()
    os.mkfifo(tmp_path / "77.json")
    agent.all.read_file(GID)
    assert agent.judge(IDLE, 9100) is IDLE
