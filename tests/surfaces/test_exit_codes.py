"""The exit codes a script can go by, and errors that say what to do next."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until
from tests.surfaces.workers import stand_in


@pytest.fixture(scope="module")
def beta_reader(fleet: Fleet) -> str:
    """Token of a pull agent on beta, known on alpha."""
    token = fleet["beta"].ok("attach", "--name", "reader", "--json").json()["token"]
    wait_until("alpha hears of the reader", lambda: fleet["alpha"].agent("reader@beta"))
    return str(token)


def test_0_is_done_and_2_is_usage(fleet: Fleet, beta_reader: str) -> None:
    alpha = fleet["alpha"]
    sent = alpha.cli("send", "reader@beta", "hello")
    assert sent.code == 0
    assert sent.text.split()[1] == "reader@beta"
    assert alpha.cli("send").code == 2
    assert alpha.cli("sned", "reader@beta", "x").code == 2
    assert "did you mean 'send'" in alpha.cli("sned", "reader@beta", "x").err


def test_the_beginning_of_an_id_does_where_it_is_the_only_one(fleet: Fleet, beta_reader: str) -> None:
    alpha = fleet["alpha"]
    sent = [alpha.ok("send", "reader@beta", "hello", "--json").json()["messages"][0] for _ in range(2)]
    assert alpha.ok("trace", sent[0]["trace_id"][:12], "--json").json()["trace_id"] == sent[0]["trace_id"]
    one, other = (message["msg_id"] for message in sent)
    shared = one[: next(at for at in range(len(one)) if one[at] != other[at])]
    for command in ("trace", "show"):
        assert sent[1]["short"] in alpha.ok(command, sent[1]["msg_id"][:-1]).text
        several = alpha.cli(command, shared)
        assert several.code == 2
        assert all(message["short"] in several.err for message in sent)


def test_an_unknown_recipient_is_3_and_names_who_is_near(fleet: Fleet, beta_reader: str) -> None:
    for name in ("raeder@beta", "reader@betta", "readr"):
        done = fleet["alpha"].cli("send", name, "hello")
        assert done.code == 3, done
        assert "reader@beta" in done.err


def test_4_is_expired_and_6_is_still_waiting(fleet: Fleet, room: TmuxRoom, beta_reader: str) -> None:
    alpha = fleet["alpha"]
    waiting = alpha.cli("send", "reader@beta", "take your time", "--wait", "--timeout", "4")
    assert waiting.code == 6
    assert "fleettrio inbox --take" in waiting.err
    busy = stand_in(room, fleet["beta"], "busy")
    wait_until("alpha hears of it", lambda: alpha.agent("busy@beta"))
    room.tmux("send-keys", "-t", busy.pane, "half", "typed")
    wait_until("the draft stands there", lambda: "half" in room.screen(busy.pane))
    late = alpha.cli("send", "busy@beta", "now or never", "--expires", "1", "--wait=delivered", "--timeout", "90")
    assert late.code == 4, late
    assert "expired" in late.err
    assert busy.turns() == []


def test_7_is_no_daemon(tmp_path: Path) -> None:
    lonely = Host("lonely", tmp_path)
    for command in (("status",), ("send", "reader@beta", "hello"), ("list",)):
        done = lonely.cli(*command)
        assert done.code == 7
        assert "fleettrio up" in done.err


def test_who_says_no_name_is_told_how_to_get_one(fleet: Fleet) -> None:
    done = fleet["alpha"].cli("send", "reader@beta", "hello", token="")
    assert done.code == 3
    assert "fleettrio token create" in done.err
