"""An agent that messages are typed into takes them by a poll of its own: once, and its sender reads what came of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleettrio.api.schema import Confirm, Pull, Pulled
from fleettrio.testing.agents.room import StandIn, TmuxRoom
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until


@pytest.fixture(scope="module")
def solo(room: TmuxRoom) -> Iterator[Host]:
    with Fleet(None, "solo", env=room.env) as alone:
        yield alone["solo"]


def busy(room: TmuxRoom, solo: Host, name: str) -> tuple[StandIn, str]:
    """An agent in the middle of its turn, and its token."""
    agent = room.place("--mode", "working")
    wait_until(f"{name} is on the screen", lambda: "stand-in agent" in room.screen(agent.pane))
    attached = solo.ok("attach", "--name", name, "--pane", agent.target, "--harness", "script", "--json").json()
    return agent, str(attached["token"])


def sent(solo: Host, to: str, body: str) -> str:
    return str(solo.ok("send", to, body, "--json").json()["messages"][0]["short"])


def fate(solo: Host, short: str) -> tuple[str, str, str]:
    view = solo.ok("show", short, "--json").json()["messages"][0]
    return str(view["state"]), str(view["reason"]), str(view["via"])


def test_a_poll_of_a_busy_agent_has_its_message_and_nothing_is_typed_later(room: TmuxRoom, solo: Host) -> None:
    agent, token = busy(room, solo, "taker")
    first, second = sent(solo, "taker", "look at src"), sent(solo, "taker", "and at docs")
    taken = solo.ok("inbox", "--take", "--limit", "1", "--json", token=token).json()["messages"]
    assert [(message["short"], message["text"]) for message in taken] == [(first, "look at src")]
    assert fate(solo, first) == ("injected", "", "poll")
    agent.finish()
    wait_until("the other one is typed", lambda: fate(solo, second)[0] == "injected")
    assert [first in turn for turn in agent.turns()] == [False]


def test_a_client_that_dies_before_it_prints_leaves_it_unconfirmed_and_it_comes_to_nobody(
    room: TmuxRoom, solo: Host
) -> None:
    agent, token = busy(room, solo, "loser")
    short = sent(solo, "loser", "only once")
    with solo.client(token) as client:
        pulled: Pulled = client.call("pull", Pull())
        assert [message.short for message in pulled.messages] == [short]
        assert fate(solo, short)[0] == "waiting"
    wait_until("its end is noticed", lambda: fate(solo, short)[:2] == ("unconfirmed", "not-observed"))
    assert solo.ok("inbox", "--take", "--json", token=token).json()["messages"] == []
    agent.finish()
    after = sent(solo, "loser", "another")
    wait_until("another one is typed", lambda: fate(solo, after)[0] == "injected")
    assert all("only once" not in turn for turn in agent.turns())


def test_a_daemon_that_is_killed_with_a_poll_in_hand_never_gives_it_again(room: TmuxRoom, solo: Host) -> None:
    _, token = busy(room, solo, "survivor")
    short = sent(solo, "survivor", "in the middle")
    with solo.client(token) as client:
        pulled: Pulled = client.call("pull", Pull())
        solo.kill()
    assert len(pulled.messages) == 1
    solo.up()
    assert fate(solo, short)[:2] == ("unconfirmed", "crashed")
    with solo.client(token) as client:
        again: Pulled = client.call("pull", Pull())
        assert again.messages == []
        client.call("confirm", Confirm(pulled.cursor))
