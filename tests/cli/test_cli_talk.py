"""`send` and `reply`: bodies byte for byte, exit codes, and waiting that never loses an answer."""

from __future__ import annotations

import os
import pathlib
import pty
import signal
from typing import Any

import pytest

from fleettrio.api import schema
from fleettrio.api.rpc import CallError
from tests.cli.canned import MSG, answered, message, not_yet, sent, view
from tests.cli.fake_daemon import Cli, FakeDaemon

BYTES = bytes(range(256)) + "日本語 🙂 trailing;".encode() + b"\r\n\r\n"


def test_send_prints_the_short_id_and_ends_well_while_it_waits(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["send"] = sent()
    ran = cli("send", "worker@beta", "please review")
    assert ran.code == 0
    assert ran.text.startswith("9f31c2d4  worker@beta")
    assert daemon.params_of("send") == [schema.Send(to=["worker@beta"], body=b"please review", cwd=os.getcwd())]


def test_every_option_reaches_the_daemon(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["send"] = sent()
    options = "--when turn --intent handoff --priority 7 --expires 2h --no-reply --live --supersedes 1234 --key k1"
    options += " --path a.rs --path src/b.rs --on-stale drop"
    ran = cli("send", "a", "b@beta", "text", *options.split())
    assert ran.code == 0, ran.err
    assert daemon.params_of("send") == [
        schema.Send(
            to=["a", "b@beta"],
            body=b"text",
            when="turn",
            intent="handoff",
            priority=7,
            expires_s=7200.0,
            wants_reply=False,
            live=True,
            supersedes="1234",
            cwd=os.getcwd(),
            paths=["a.rs", "src/b.rs"],
            on_stale="drop",
            key="k1",
        )
    ]


def test_without_causal_nothing_is_said_of_the_folder(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["send"] = sent()
    assert cli("send", "a", "text", "--no-causal").code == 0
    assert daemon.params_of("send")[0].cwd == ""
    assert cli("send", "a", "text", "--no-causal", "--path", "a.rs").code == 2


@pytest.mark.parametrize("words", [("send", "a"), ("send", "a", "-"), ("send", "a", "b", "-")])
def test_a_body_on_standard_input_is_sent_byte_for_byte(cli: Cli, daemon: FakeDaemon, words: tuple[str, ...]) -> None:
    daemon.answers["send"] = sent()
    assert cli(*words, stdin=BYTES).code == 0
    [params] = daemon.params_of("send")
    assert params.body == BYTES
    assert params.to == [word for word in words[1:] if word != "-"]


def test_a_file_is_sent_byte_for_byte(cli: Cli, daemon: FakeDaemon, tmp_path: pathlib.Path) -> None:
    daemon.answers["send"] = sent()
    file = tmp_path / "brief"
    file.write_bytes(BYTES)
    assert cli("send", "a", "b", "--file", str(file)).code == 0
    [params] = daemon.params_of("send")
    assert (params.to, params.body) == (["a", "b"], BYTES)


def test_a_body_argument_is_sent_as_the_bytes_it_was_typed_in(cli: Cli, daemon: FakeDaemon) -> None:
    """Also a process of its own: the bytes pass the operating system's argument list."""
    daemon.answers["send"] = sent()
    body = "日本語 é\n".encode() + b"\xff not UTF-8;"
    with cli.start("send", "a", os.fsdecode(body)) as process:
        process.communicate(timeout=90)
    assert process.returncode == 0
    assert daemon.params_of("send")[0].body == body


@pytest.mark.parametrize("bare", [["--wait", "a", "text"], ["a", "--wait", "text"], ["a", "text", "--wait"]])
def test_wait_alone_takes_no_word_for_its_value(cli: Cli, daemon: FakeDaemon, bare: list[str]) -> None:
    daemon.answers |= {"send": sent(), "wait": answered(), "confirm": schema.Done()}
    assert cli("send", *bare).out == b"all done"
    assert daemon.params_of("send")[0].body == b"text"


@pytest.mark.parametrize("words", [("send", "a", "b", "--wait", "5s"), ("broadcast", "x", "--wait", "2m")])
def test_a_time_behind_wait_is_no_body_and_the_option_for_it_is_named(
    cli: Cli, daemon: FakeDaemon, words: tuple[str, ...]
) -> None:
    ran = cli(*words)
    assert (ran.code, f"write --wait --timeout {words[-1]}" in " ".join(ran.err.split())) == (2, True)
    assert not daemon.params_of(words[0])
    daemon.answers |= {"send": sent(), "wait": answered(), "confirm": schema.Done()}
    assert cli("send", "a", "--wait", "--", "5s").code == 0
    assert daemon.params_of("send")[0].body == b"5s"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("human@beta", "hi", "there"), "put a text of several words into quotes"),
        (("human@beta", "hi", "--file", "brief"), "the text is in the file"),
        (("hi", "there"), "`fleettrio list` shows who is there"),
    ],
)
def test_a_text_without_quotes_is_told_what_it_was_taken_for(
    cli: Cli, daemon: FakeDaemon, tmp_path: pathlib.Path, words: tuple[str, ...], hint: str
) -> None:
    (tmp_path / "brief").write_text("look")
    text = "no agent 'hi' is known here"
    daemon.answers["send"] = CallError(3, "no-such-recipient", text, "`fleettrio list` shows who is there")
    ran = cli("send", *(str(tmp_path / word) if word == "brief" else word for word in words))
    assert (ran.code, hint in " ".join(ran.err.split())) == (3, True)


def test_a_body_after_two_dashes_may_look_like_an_option(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["send"] = sent()
    assert cli("send", "a", "--", "--wait").code == 0
    assert daemon.params_of("send")[0].body == b"--wait"


def test_retry_gives_the_body_again(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["retry"] = sent()
    assert cli("send", "--retry", "9f31c2d4", "text").code == 0
    assert daemon.params_of("retry") == [schema.Retry("9f31c2d4", b"text")]
    assert cli("send", "--retry", "9f31c2d4", "worker", "text").code == 2


def test_reply_goes_to_the_message_named(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["reply"] = sent()
    ran = cli("reply", "@last", "-", "--key", "k", stdin=BYTES)
    assert ran.code == 0
    assert daemon.params_of("reply") == [schema.Reply(re="@last", body=BYTES, key="k")]


def test_json_is_the_result_of_the_contract(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {"send": sent(), "reply": sent(), "wait": answered(BYTES), "confirm": schema.Done()}
    assert cli("send", "a", "text", "--json").decoded(schema.SendResult) == sent()
    assert cli("reply", "@last", "text", "--json").decoded(schema.SendResult) == sent()
    waited = cli("send", "a", "text", "--wait", "--json").decoded(schema.Waited)
    assert waited.done
    assert [answer.body for answer in waited.answers] == [BYTES]
    assert daemon.calls[-1] == ("confirm", schema.Confirm(5))


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (CallError(8, "broker-unreachable", "the broker is not reached", "fleettrio doctor"), 8),
        (CallError(3, "unroutable", "nobody has that inbox", "fleettrio list"), 3),
        (CallError(4, "expired", "it expired", "send it again"), 4),
        (CallError(5, "unknown", "no word from beta", "fleettrio show"), 5),
        (CallError(3, "no-such-recipient", "no agent workr", "did you mean worker@beta?"), 3),
    ],
)
def test_a_failed_send_says_what_and_what_next_and_exits_by_kind(
    cli: Cli, daemon: FakeDaemon, problem: Any, code: int
) -> None:
    daemon.answers["send"] = problem
    ran = cli("send", "workr", "text")
    assert ran.code == code
    assert ran.out == b""
    assert f"error: {problem}" in ran.err
    assert f"hint: {problem.hint}" in ran.err


@pytest.mark.parametrize("code", [3, 4, 5, 8])
def test_the_worst_of_several_outcomes_is_the_exit_code(cli: Cli, daemon: FakeDaemon, code: int) -> None:
    bad = view(msg_id=MSG[:-1] + "5", state="failed", reason="unroutable", sentence="nobody has it", exit_code=code)
    daemon.answers["send"] = sent(view(), bad)
    ran = cli("send", "a", "b", "text")
    assert ran.code == code
    assert "nobody has it" in ran.err
    assert "hint: fleettrio show 9f31c2d5" in ran.err


def test_the_answer_goes_to_a_pipe_byte_for_byte_and_is_confirmed_after(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {"send": sent(), "wait": [not_yet(), answered(BYTES)], "confirm": schema.Done()}
    with cli.start("send", "a", "text", "--wait") as process:
        out, err = process.communicate(timeout=90)
    assert process.returncode == 0
    assert out == BYTES
    assert b"9f31c2d4 to worker@beta" in err
    assert [method for method, _ in daemon.calls][-3:] == ["wait", "wait", "confirm"]
    assert all(params.limit_s <= 50 for params in daemon.params_of("wait"))


FRAMED = "[fleettrio 5f1c77e2] reply aaaa1111 from worker@beta\n│ b?[2J\n[fleettrio 5f1c77e2] end of aaaa1111"


def test_an_agent_gets_the_answer_in_its_frame_and_never_as_raw_bytes(cli: Cli, daemon: FakeDaemon) -> None:
    waited = answered(BYTES)
    waited.answers[0].framed = FRAMED
    daemon.answers |= {"send": sent(), "wait": waited, "confirm": schema.Done()}
    assert cli("send", "a", "text", "--wait").text == FRAMED + "\n"


def test_an_agent_gets_each_of_several_answers_in_a_frame_of_its_own(cli: Cli, daemon: FakeDaemon) -> None:
    one, two = view(), view(recipient="tester@beta", gid="gid-tester")
    waited = answered(BYTES)
    waited.messages.append(two)
    waited.answers.append(message(BYTES, msg_id=MSG[:-1] + "7"))
    for answer in waited.answers:
        answer.framed = FRAMED
    daemon.answers |= {"send": sent(one, two), "wait": waited, "confirm": schema.Done()}
    assert cli("send", "a", "b", "text", "--wait").text == f"{FRAMED}\n\n" * 2


def test_an_agent_that_waits_is_asked_in_a_frame(cli: Cli, daemon: FakeDaemon) -> None:
    question = message(b"raw\x1b[2J", kind="ASK", re=None, framed=FRAMED, expires_at=2_100_000_600_000)
    asked = schema.Waited(False, [view()], [], 4, [question])
    daemon.answers |= {"send": sent(), "wait": [asked, answered(b"done")], "confirm": schema.Done()}
    ran = cli("send", "a", "text", "--wait")
    assert FRAMED in ran.err
    assert "raw" not in ran.err
    assert ran.text == "done"


def test_a_terminal_gets_the_cleaned_text(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {"send": sent(), "wait": answered(b"a\x1b[2Jb\x07c"), "confirm": schema.Done()}
    ours, theirs = pty.openpty()
    with cli.start("send", "a", "text", "--wait", stdout=theirs) as process:
        process.wait(90)
        os.close(theirs)
        shown = os.read(ours, 10_000)
        assert process.stderr is not None
        process.stderr.read()
    os.close(ours)
    assert b"\x1b" not in shown
    assert b"\x07" not in shown
    assert shown.startswith(b"a")


def test_an_answer_that_could_not_be_written_is_not_confirmed(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {"send": sent(), "wait": answered(b"x" * 300_000), "confirm": schema.Done()}
    read, write = os.pipe()
    os.close(read)
    with cli.start("send", "a", "text", "--wait", stdout=write) as process:
        os.close(write)
        process.communicate(timeout=90)
    assert process.returncode != 0
    assert daemon.params_of("wait")
    assert not daemon.params_of("confirm")


def test_waiting_ends_with_the_time_and_says_how_to_look_later(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {"send": sent(), "wait": lambda _params: not_yet()}
    ran = cli("send", "a", "text", "--wait", "--timeout", "0.2")
    assert ran.code == 6
    assert ran.out == b""
    assert "still waiting" in ran.err
    assert "fleettrio show 9f31c2d4" in ran.err
    assert "fleettrio inbox --take --from worker@beta" in " ".join(ran.err.split())


def test_ctrl_c_stops_the_waiting_and_never_the_message(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {"send": sent(), "wait": daemon.hang}
    with cli.start("send", "a", "text", "--wait") as process:
        while daemon.called.get(timeout=90) != "wait":
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=90)
    assert process.returncode == 6
    assert out == b""
    assert b"stopped waiting; what was sent goes on" in err
    assert b"fleettrio show 9f31c2d4" in err
    assert b"Traceback" not in err
    assert {method for method, _ in daemon.calls} == {"hello", "send", "wait"}


def test_ctrl_c_before_the_daemon_took_it_is_unknown(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["send"] = daemon.hang
    with cli.start("send", "a", "text") as process:
        while daemon.called.get(timeout=90) != "send":
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=90)
    assert process.returncode == 5
    assert b"may or may not have been sent" in err
    assert b"fleettrio inbox --sent" in err


def test_a_daemon_that_dies_under_a_wait_is_told_with_the_way_to_the_answer(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {"send": sent(), "wait": daemon.hang}
    with cli.start("send", "a", "text", "--wait") as process:
        while daemon.called.get(timeout=90) != "wait":
            pass
        daemon.stop()
        _, err = process.communicate(timeout=90)
    assert process.returncode == 7
    assert b"error: the daemon ended" in err
    assert b"fleettrio show 9f31c2d4" in err


def test_a_failure_ends_the_wait_with_its_exit_code(cli: Cli, daemon: FakeDaemon) -> None:
    failed = view(state="expired", sentence="it expired before worker@beta took it", exit_code=4)
    daemon.answers |= {"send": sent(), "wait": schema.Waited(True, [failed], [], 0)}
    ran = cli("send", "a", "text", "--wait")
    assert ran.code == 4
    assert "error: 9f31c2d4 to worker@beta: it expired" in ran.err


def test_a_state_that_may_still_change_does_not_end_the_wait(cli: Cli, daemon: FakeDaemon) -> None:
    unconfirmed = view(state="unconfirmed", sentence="put in, no turn was seen to begin", exit_code=5)
    daemon.answers |= {
        "send": sent(),
        "wait": [schema.Waited(False, [unconfirmed], [], 0), schema.Waited(True, [unconfirmed], [message()], 1)],
        "confirm": schema.Done(),
    }
    ran = cli("send", "a", "text", "--wait")
    assert (ran.code, ran.out) == (0, b"all done")


def test_an_unknown_outcome_is_exit_5_once_the_daemon_ends_the_wait(cli: Cli, daemon: FakeDaemon) -> None:
    unknown = view(state="unknown", sentence="no word from beta since 14:02", exit_code=5)
    daemon.answers |= {"send": sent(), "wait": schema.Waited(True, [unknown], [], 0)}
    ran = cli("send", "a", "text", "--wait")
    assert ran.code == 5
    assert "no word from beta" in ran.err


def test_wait_delivered_ends_with_the_receipt(cli: Cli, daemon: FakeDaemon) -> None:
    put_in = view(state="injected", sentence="worker@beta took it", exit_code=0)
    daemon.answers |= {"send": sent(), "wait": [not_yet(), schema.Waited(True, [put_in], [], 0)]}
    ran = cli("send", "a", "text", "--wait=delivered")
    assert ran.code == 0
    assert ran.text == "9f31c2d4  worker@beta  injected\n"
    assert daemon.params_of("wait")[0].until == "delivered"


def test_several_answers_are_waited_for_and_each_stands_under_its_author(cli: Cli, daemon: FakeDaemon) -> None:
    other = MSG[:-1] + "5"
    daemon.answers |= {
        "send": sent(view(), view(msg_id=other, recipient="b@beta")),
        "wait": [
            schema.Waited(False, [view(msg_id=other)], [message(b"one")], 1),
            schema.Waited(True, [], [message(b"two", re=other)], 2),
        ],
        "confirm": schema.Done(),
    }
    ran = cli("send", "a", "b", "text", "--wait")
    assert ran.code == 0
    assert ran.text.splitlines() == ["── worker@beta (aaaa1111)", "│ one", "", "── worker@beta (aaaa1111)", "│ two", ""]
    assert [params.ids for params in daemon.params_of("wait")] == [[MSG, other], [other]]
    assert [params.cursor for params in daemon.params_of("confirm")] == [1, 2]


def test_an_answer_that_another_call_got_is_named_by_the_one_that_waited(cli: Cli, daemon: FakeDaemon) -> None:
    elsewhere = view(state="answered", exit_code=0, answered_by="0190a000-0000-7000-8000-0000aaaa1111")
    daemon.answers |= {"send": sent(), "wait": schema.Waited(False, [elsewhere], [], 0)}
    ran = cli("send", "a", "text", "--wait")
    assert (ran.code, ran.out) == (0, b"")
    assert "worker@beta answered, not to this command: fleettrio show aaaa1111" in ran.err


def test_a_wait_that_is_done_without_an_answer_ends(cli: Cli, daemon: FakeDaemon) -> None:
    ended = view(state="ended", sentence="its turn ended without an answer", exit_code=0)
    daemon.answers |= {"send": sent(), "wait": schema.Waited(True, [ended], [], 0)}
    assert cli("send", "a", "text", "--wait").code == 0


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("send",), "to whom"),
        (("send", "a", "b", "--file", "/dev/null", "--wait=later"), "later"),
        (("send", "a", "text", "--timeout", "soon"), "not a duration"),
        (("send", "a", "text", "--priority", "12"), "12"),
        (("reply", "@last", "text", "--file", "/dev/null"), "one is enough"),
        (("reply",), "ID"),
    ],
)
def test_wrong_use_is_exit_2_with_the_help_to_read(cli: Cli, words: tuple[str, ...], what: str) -> None:
    ran = cli(*words)
    assert ran.code == 2
    assert ran.err.startswith("error: ")
    assert what in ran.err
    assert f"hint: fleettrio {words[0]} --help" in ran.err


def test_names_are_the_same_two_with_and_without_a_space_behind_the_comma(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["send"] = sent()
    for words in (("a,b",), ("a, b",), ("a", "b"), (" a ,", "b,")):
        assert cli("send", *words, "text").code == 0
    assert [params.to for params in daemon.params_of("send")] == [["a", "b"]] * 4


def test_a_body_over_one_mebibyte_is_refused_before_it_is_read_to_its_end(cli: Cli) -> None:
    ran = cli("send", "a", "--file", "/dev/zero")
    assert ran.code == 2
    assert "over 1 MiB" in ran.err


def test_without_a_daemon_every_command_says_how_to_start_it(cli: Cli) -> None:
    for words in (
        ["send", "a", "text"],
        ["reply", "@last", "x"],
        ["inbox"],
        ["show", "1234"],
        ["list"],
        ["status"],
        [],
    ):
        ran = cli(*words)
        assert ran.code == 7
        assert ran.err == "error: no fleettrio daemon runs here\nhint: start it: fleettrio up\n"


def test_the_token_in_the_environment_is_shown_to_the_daemon(
    cli: Cli, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answers["send"] = sent()
    monkeypatch.setenv("FLEETTRIO_TOKEN", "secret")
    cli("send", "a", "text")
    assert daemon.params_of("hello")[0].token == "secret"
