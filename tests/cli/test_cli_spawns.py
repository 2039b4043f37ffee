"""`spawn` and `stop`: the end is told in a sentence, once, and what is said to work later does."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from fleettrio.api import schema
from tests.cli.canned import MSG, view
from tests.cli.fake_daemon import Cli, FakeDaemon

BRIEF = "0190a000-0000-7000-8000-0000bbbb2222"


def order(kind: str, **changes: Any) -> schema.MessageView:
    facts: dict[str, Any] = {
        "recipient": "beta",
        "gid": "gid-beta",
        "exit_code": 0,
        "sentence": "beta is at it",
        "size": 0,
    }
    return view(kind=kind, **(facts | changes))


def ordered(message: schema.MessageView, gid: str = "gid-w9", brief: str = "") -> schema.Ordered:
    return schema.Ordered(message, gid, "beta", brief)


def test_stop_says_what_became_of_the_program(cli: Cli, daemon: FakeDaemon) -> None:
    done = order("STOP", state="done", sentence="ended at 12:00:00; its program runs on")
    daemon.answers |= {"stop": ordered(order("STOP")), "wait": schema.Waited(True, [done], [], 0)}
    assert cli("stop", "w9@beta").text == "9f31c2d4  beta: ended at 12:00:00; its program runs on\n"


def test_whoever_stops_itself_waits_for_nothing_that_its_token_could_not_ask_for(cli: Cli, daemon: FakeDaemon) -> None:
    done = order("STOP", state="done", sentence="ended at 12:00:00", sender_gid="gid-w9")
    daemon.answers["stop"] = ordered(done)
    ran = cli("stop", "w9")
    assert (ran.code, ran.text, ran.err) == (0, "9f31c2d4  beta: ended at 12:00:00\n", "")


@pytest.mark.parametrize("kind", ["SPAWN", "STOP"])
def test_what_is_asked_of_a_host_has_no_answer_to_fetch_later(cli: Cli, daemon: FakeDaemon, kind: str) -> None:
    waiting = order(kind)
    daemon.answers |= {
        "spawn": ordered(waiting),
        "stop": ordered(waiting),
        "wait": lambda _params: schema.Waited(False, [waiting], [], 0),
    }
    ran = cli(kind.lower(), "coder@beta", "--timeout", "0.2")
    assert ran.code == 6
    assert "hint: fleettrio show 9f31c2d4\n" in ran.err
    assert "inbox --take" not in ran.err


def test_a_start_that_fails_at_once_is_told_once(cli: Cli, daemon: FakeDaemon) -> None:
    failed = order("SPAWN", state="failed", reason="spawn: no-such-profile", sentence="failed: none", exit_code=3)
    daemon.answers["spawn"] = ordered(failed)
    ran = cli("spawn", "codr")
    assert (ran.code, ran.out) == (3, b"")
    assert ran.err == "error: 9f31c2d4 to beta: failed: none\nhint: fleettrio show 9f31c2d4\n"


def test_a_spawn_that_is_interrupted_says_where_its_brief_is(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {"spawn": ordered(order("SPAWN"), brief=BRIEF), "wait": daemon.hang}
    with cli.start("spawn", "coder@beta", "a brief") as process:
        while daemon.called.get(timeout=90) != "wait":
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=90)
    assert process.returncode == 6
    told = b" ".join(err.split())
    assert b"stopped waiting; what was sent goes on" in told
    assert b"its brief goes out when it is ready, if this daemon still runs then: fleettrio show bbbb2222" in told


def test_a_failed_send_is_told_once_too(cli: Cli, daemon: FakeDaemon) -> None:
    failed = view(state="failed", reason="inbox-full", sentence="failed: full", exit_code=3)
    daemon.answers["send"] = schema.SendResult("", [failed])
    ran = cli("send", "worker@beta", "text")
    assert (ran.code, ran.out) == (3, b"")
    assert ran.err == "error: 9f31c2d4 to worker@beta: failed: full\nhint: fleettrio show 9f31c2d4\n"


def test_a_broadcast_that_nobody_hears_is_told_once(cli: Cli, daemon: FakeDaemon) -> None:
    head = view(MSG, kind="BROADCAST", recipient="group none", sentence="nobody", is_head=True, to="g", exit_code=0)
    daemon.answers |= {"broadcast": schema.SendResult("", [head]), "wait": schema.Waited(True, [head], [], 0)}
    ran = cli("broadcast", "--group", "none", "text", "--wait")
    assert (ran.code, ran.err.count("nobody")) == (0, 1)
