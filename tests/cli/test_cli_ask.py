"""`ask`, `answer`, and questions that come while something else is waited for."""

from __future__ import annotations

import signal
import subprocess

import pytest

from fleettrio.api import schema
from fleettrio.api.rpc import CallError
from fleettrio.api.schema.asks import Answer, Ask
from tests.cli.canned import HOSTILE, MSG, answered, message, not_yet, sent, view
from tests.cli.fake_daemon import Cli, FakeDaemon

QUESTION = "0190a000-0000-7000-8000-0000bbbb2222"


def asked() -> schema.Waited:
    return schema.Waited(False, [view(kind="ASK", exit_code=0)], [], 0)


def test_ask_prints_the_answer_and_nothing_else_on_standard_output(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {"ask": asked(), "wait": [not_yet(), answered(b"4711")], "confirm": schema.Done()}
    ran = cli("ask", "lead@alpha", "which port?", "--timeout", "2m")
    assert (ran.code, ran.out) == (0, b"4711")
    assert daemon.params_of("ask") == [Ask(to="lead@alpha", body=b"which port?", timeout_s=120.0, limit_s=0.0)]
    assert daemon.params_of("confirm") == [schema.Confirm(5)]


@pytest.mark.parametrize(("reason", "state", "code"), [("no-waiter", "failed", 3), ("", "expired", 4)])
def test_a_question_that_ends_without_an_answer_says_why(
    cli: Cli, daemon: FakeDaemon, reason: str, state: str, code: int
) -> None:
    over = view(kind="ASK", state=state, reason=reason, exit_code=code, sentence="failed: lead does not listen")
    daemon.answers |= {"ask": asked(), "wait": schema.Waited(True, [over], [], 0)}
    ran = cli("ask", "lead@alpha", "anybody?")
    assert ran.code == code
    assert "lead does not listen" in ran.err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_stopped_takes_its_question_back_and_says_so(
    cli: Cli, daemon: FakeDaemon, how: signal.Signals
) -> None:
    daemon.answers |= {"ask": asked(), "wait": daemon.hang}
    with cli.start("ask", "lead@alpha", "may I?", stderr=subprocess.PIPE) as process:
        while daemon.called.get(timeout=90) != "wait":
            pass
        process.send_signal(how)
        _, err = process.communicate(timeout=90)
    assert process.returncode == 130
    assert b"taken back" in err


def test_ask_without_waiting_returns_at_once(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["ask"] = schema.Waited(True, [view(kind="ASK", exit_code=0)], [], 0)
    ran = cli("ask", "lead@alpha", "when you can", "--no-wait")
    assert ran.code == 0
    assert daemon.params_of("ask")[0].wait is False
    assert not daemon.params_of("wait")


def test_a_question_that_comes_while_an_answer_is_waited_for_is_shown_beside_it(cli: Cli, daemon: FakeDaemon) -> None:
    question = message(
        b"which port?\n\x1b]0;owned\x07", QUESTION, kind="ASK", re=None, sender=HOSTILE, expires_at=2_100_000_600_000
    )
    shown = schema.Waited(False, [view()], [], 7, [question])
    daemon.answers |= {"send": sent(), "wait": [shown, answered(b"done")], "confirm": schema.Done()}
    ran = cli("send", "worker@beta", "do it", "--wait")
    assert (ran.code, ran.out) == (0, b"done")
    assert "│ which port?" in ran.err
    assert "fleettrio answer bbbb2222 'TEXT'" in ran.err
    assert "\x1b" not in ran.err
    assert daemon.params_of("confirm") == [schema.Confirm(7), schema.Confirm(5)]


def test_answer_waits_for_the_word_that_it_was_in_time(cli: Cli, daemon: FakeDaemon) -> None:
    has_it = view(kind="ANSWER", state="drained", exit_code=0, sentence="worker@beta has the answer")
    daemon.answers |= {
        "answer": sent(view(kind="ANSWER", exit_code=0)),
        "wait": schema.Waited(True, [has_it], [], 0),
    }
    ran = cli("answer", "bbbb2222", "4711")
    assert ran.code == 0
    assert "has the answer" in ran.text
    assert daemon.params_of("answer") == [Answer("bbbb2222", b"4711")]
    assert daemon.params_of("wait")[0].until == "delivered"


def test_an_answer_that_is_too_late_says_so(cli: Cli, daemon: FakeDaemon) -> None:
    late = view(
        kind="ANSWER", state="failed", reason="too-late", exit_code=3, sentence="failed: does not wait any more"
    )
    daemon.answers |= {
        "answer": sent(view(kind="ANSWER", exit_code=0)),
        "wait": schema.Waited(True, [late], [], 0),
    }
    ran = cli("answer", "bbbb2222", "4711")
    assert ran.code == 3
    assert "does not wait any more" in ran.err


def test_what_the_daemon_refuses_is_said_with_its_reason(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["answer"] = CallError(3, "not-yours", "it was asked of lead@alpha", "")
    ran = cli("answer", "bbbb2222", "I know")
    assert ran.code == 3
    assert "it was asked of lead@alpha" in ran.err


def test_the_inbox_lists_open_questions_first_with_the_command_that_answers_them(cli: Cli, daemon: FakeDaemon) -> None:
    question = view(QUESTION, kind="ASK", direction="in", state="offered", sender="worker@beta", preview="which port?")
    daemon.answers["inbox"] = schema.InboxRows("lead@alpha", [question, view(MSG, direction="in")])
    ran = cli("inbox")
    assert ran.text.splitlines()[:2] == ["worker@beta asks: which port?", "  fleettrio answer bbbb2222 'TEXT'"]


def test_a_question_that_was_taken_is_printed_with_the_command_that_answers_it(cli: Cli, daemon: FakeDaemon) -> None:
    question = message(b"which port?", QUESTION, kind="ASK", re=None, expires_at=2_100_000_600_000)
    daemon.answers |= {"pull": schema.Pulled([question], 3), "confirm": schema.Done()}
    ran = cli("inbox", "--take", "--wait", "5")
    assert "question · bbbb2222" in ran.text
    assert "answer: fleettrio answer bbbb2222 'TEXT'" in ran.text


def test_a_send_whose_agent_ended_its_turn_without_answering_fails(cli: Cli, daemon: FakeDaemon) -> None:
    ended = view(
        state="ended", reason="no answer", exit_code=3, sentence="worker@beta ended its turn without answering"
    )
    daemon.answers |= {"send": sent(), "wait": schema.Waited(True, [ended], [], 0)}
    ran = cli("send", "worker@beta", "do it", "--wait")
    assert ran.code == 3
    assert "ended its turn without answering" in ran.err
