"""What is shown: at most 80 columns, cleaned, exact where exactness counts, confirmed only when it was seen."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len

from fleettrio.api import schema
from fleettrio.api.rpc import CallError
from fleettrio.clients.cli.fleetview import trust_of
from tests.cli.canned import HOSTILE, MSG, TRACE, fleet, host, journal, message, status, view
from tests.cli.fake_daemon import Cli, FakeDaemon, Ran

HOSTILE_VIEW = view(
    sender=HOSTILE, recipient=HOSTILE * 5, sentence=HOSTILE * 8, detail=HOSTILE, preview=HOSTILE, reason="unroutable"
)
SHOWN = schema.Shown([HOSTILE_VIEW], [journal(), journal(peer=HOSTILE, detail=HOSTILE * 9)])
RECALLED = schema.Shown([msgspec.structs.replace(HOSTILE_VIEW, state="recalled")], SHOWN.journal)
TRACED = schema.Traced("ab" * 16, [HOSTILE_VIEW, view()], [journal()], ["gamma"])


def assert_is_fit_to_show(ran: Ran, columns: int = 80) -> None:
    """At most 80 columns, and nothing of a peer's that steers a terminal or opens a line of its own."""
    for line in ran.text.splitlines() + ran.err.splitlines():
        assert cell_len(line) <= columns, line
        assert not line.startswith("next: rm"), line
    for forbidden in "\x1b\x07\u202e\r":
        assert forbidden not in ran.text + ran.err


@pytest.mark.parametrize(
    ("words", "method", "answer"),
    [
        ((), "status", status()),
        (("status",), "status", status()),
        (("inbox",), "inbox", schema.InboxRows("human", [view(), HOSTILE_VIEW])),
        (("inbox", "--sent", "--all"), "inbox", schema.InboxRows("human", [HOSTILE_VIEW])),
        (("show", "9f31c2d4"), "show", SHOWN),
        (("cancel", "9f31c2d4"), "cancel", RECALLED),
        (("trace", "9f31c2d4", "--local"), "trace", TRACED),
        (("ping", "beta"), "ping", schema.Pong("beta", 12.34, "0.1.0", -1500, False, "worker", HOSTILE)),
    ],
)
def test_facts_fit_a_terminal_and_obey_no_peer(
    cli: Cli, daemon: FakeDaemon, words: tuple[str, ...], method: str, answer: Any
) -> None:
    daemon.answers[method] = answer
    ran = cli(*words)
    assert ran.code == 0, ran.err
    assert ran.out
    assert_is_fit_to_show(ran)
    if words:
        as_json = cli(*words, "--json")
        assert as_json.decoded(schema.METHODS[method][1]) == answer
        assert as_json.err == ""


def test_a_list_in_a_pipe_cuts_nothing_and_obeys_no_peer(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["list"] = fleet()
    ran = cli("list")
    assert_is_fit_to_show(ran, columns=1000)
    assert "a-worker-with-quite-a-long-name1@alpha " in ran.text
    assert "worker · groups: one-group-with-a-name, another-one\n" in ran.text
    assert "…" not in ran.text
    assert cli("list", "--json").decoded(schema.Fleet) == fleet()


def _messages() -> schema.InboxRows:
    rows = [view(preview="please look at all of this " * 8), HOSTILE_VIEW, view(is_head=True, sentence="7 of 8 " * 20)]
    return schema.InboxRows("human", rows, 3)


@pytest.mark.parametrize("words", [("inbox",), ("inbox", "--sent")])
def test_each_message_is_one_line_with_its_whole_id_and_time(
    cli: Cli, daemon: FakeDaemon, words: tuple[str, ...]
) -> None:
    daemon.answers["inbox"] = _messages()
    for lines in (cli(*words).text.splitlines(), cli.on_terminal(*words)):
        assert len(lines) == 4
        assert max(map(cell_len, lines)) <= 80
        for line in lines[1:]:
            assert re.match(r"9f31c2d4  20[0-9-]{8}  ", line)
            assert line.endswith("…")


def test_messages_on_a_narrow_terminal_are_blocks(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["inbox"] = _messages()
    lines = cli.on_terminal("inbox", "--sent", columns=40)
    assert lines.count("9f31c2d4") == 3
    assert max(map(cell_len, lines)) <= 40
    assert "  TO     worker@beta" in lines


@pytest.mark.parametrize(("offset_ms", "shown"), [(-4, "+0.0 s"), (-1500, "-1.5 s"), (90, "+0.1 s")])
def test_a_clock_that_is_right_has_no_minus(cli: Cli, daemon: FakeDaemon, offset_ms: int, shown: str) -> None:
    known = fleet()
    known.hosts[1] = msgspec.structs.replace(known.hosts[1], offset_ms=offset_ms)
    daemon.answers |= {"list": known, "ping": schema.Pong("beta", 12.34, "0.1.0", offset_ms, True)}
    assert f"clock {shown}" in cli("ping", "beta").text
    assert shown in cli("list").text


def test_an_inbox_says_how_many_it_did_not_show(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["inbox"] = schema.InboxRows("human", [view()], 73)
    assert "the newest 1 of 73; --limit shows more" in cli("inbox", "--sent").err
    assert cli("inbox", "--json").decoded(schema.InboxRows).total == 73
    daemon.answers["inbox"] = schema.InboxRows("human", [view()], 1)
    assert cli("inbox").err == ""


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (["recalled"], 0),
        (["superseded"], 0),
        (["expired"], 0),
        (["held", "recalled"], 0),
        (["injected"], 3),
        (["held", "injected"], 3),
        (["drained"], 3),
        (["unconfirmed"], 3),
        (["failed"], 3),
        (["waiting"], 6),
        (["unknown"], 6),
    ],
)
def test_cancel_is_done_only_when_the_message_will_not_be_delivered(
    cli: Cli, daemon: FakeDaemon, states: list[str], code: int
) -> None:
    daemon.answers["cancel"] = schema.Shown([view(state=state) for state in states], [])
    assert cli("cancel", "9f31c2d4").code == code


def test_the_fleet_view_has_all_a_person_asks_for(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["status"] = status()
    shown = cli().text
    for fact in (
        "alpha",
        "fleet prod-fleet",
        "connected",
        "3 waiting",
        "lead",
        "working",
        "beta · unknown",
        "it refuses us",
    ):
        assert fact in shown
    assert "problem: beta refuses our messages" in shown
    assert "next: on beta: fleettrio host import fleet.cbor" in shown


def test_trust_is_called_both_ways_only_of_a_host_that_was_heard(cli: Cli, daemon: FakeDaemon) -> None:
    hosts = [
        host("alpha", trusted=False),
        host("beta"),
        host("gamma", status="never-heard", heard_at=0),
        host("delta", status="revoked", trusted=False),
        host("omega", refuses_us="unknown-host"),
    ]
    words = [trust_of(one) for one in hosts]
    assert words == ["not in our own fleet file", "both ways", "not heard", "revoked", "it refuses us: unknown-host"]
    assert trust_of(host("alpha")) == "-"
    daemon.answers["status"] = status(fleet=schema.Fleet("alpha", "prod-fleet", hosts, []))
    shown = cli().text
    assert "alpha (here) · up · not in our own fleet file" in shown
    assert "both ways" not in shown


def _both_sides() -> list[schema.MessageView]:
    """One message between two agents of this host, as the daemon has it on either side, and one that went away."""
    here = {"recipient": "worker@alpha", "sentence": "put into worker"}
    return [
        view(direction="out", state="waiting", size=0, **here),
        view(direction="in", state="injected", preview="do it", **here),
        view("0190a000-0000-7000-8000-0000bbbb2222", size=0),
    ]


def test_show_says_of_what_is_put_off_when_it_is_due_and_nothing_of_a_sending(cli: Cli, daemon: FakeDaemon) -> None:
    put_off = view(state="scheduled", sentence="goes out", at=4_000_000_000_000, expires_at=0)
    daemon.answers["show"] = schema.Shown([put_off], [])
    text = cli("show", "@last").text
    assert re.search(r"asked for \d.*\n +due +2096-\d\d-\d\d", text), text
    assert "expires" not in text
    assert "  since " not in text


def test_show_says_which_side_of_a_message_it_tells_of(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["show"] = schema.Shown(_both_sides(), [])
    shown = cli("show", "9f31c2d4").text
    assert "9f31c2d4  at the sender: put into worker" in shown
    assert "9f31c2d4  at the recipient: put into worker" in shown
    assert "bbbb2222  worker@beta has not taken it yet" in shown
    assert "12 bytes: do it" in shown
    assert "0 bytes" not in shown, "the sender keeps no body, so it does not know how long it was"


def test_trace_has_one_line_for_a_message_with_the_recipients_word(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["trace"] = schema.Traced(TRACE, _both_sides(), [], [])
    lines = cli("trace", "9f31c2d4").text.splitlines()
    assert [line.split()[0] for line in lines if "@" in line] == ["9f31c2d4", "bbbb2222"]
    assert "injected" in next(line for line in lines if line.startswith("9f31c2d4"))
    as_json = cli("trace", "9f31c2d4", "--json").decoded(schema.Traced)
    assert len(as_json.messages) == 3, "a program gets both sides"


def test_a_table_is_plain_in_a_pipe(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["list"] = fleet()
    lines = cli("list").text.splitlines()
    assert lines[0].split() == ["AGENT", "STATE", "SINCE", "TAKES", "WAKES", "WAITING", "RUNS,", "ROLE"]
    assert not any(line != line.rstrip() for line in lines)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"problems": []}, 0),
        ({"problems": [], "broker": "standalone"}, 0),
        ({}, 3),
        ({"broker": "connecting"}, 8),
        ({"broker": "refused-login", "problems": []}, 8),
    ],
)
def test_status_check_judges(cli: Cli, daemon: FakeDaemon, changes: dict[str, Any], code: int) -> None:
    daemon.answers["status"] = status(**changes)
    assert cli("status", "--check").code == code
    assert cli("status").code == 0


def test_show_body_writes_the_exact_bytes_to_a_pipe(cli: Cli, daemon: FakeDaemon) -> None:
    body = bytes(range(256)) * 100
    daemon.answers["body"] = schema.Body(MSG, body, "text")
    with cli.start("show", "9f31c2d4", "--body") as process:
        out, _ = process.communicate(timeout=90)
    assert (process.returncode, out) == (0, body)
    assert cli("show", "9f31c2d4", "--body", "--json").decoded(schema.Body).body == body


def test_show_framed_prints_the_text_as_the_daemon_framed_it(cli: Cli, daemon: FakeDaemon) -> None:
    text = "[fleettrio 5f1c77e2] message 9f31c2d4\n│ hi\n[fleettrio 5f1c77e2] end of 9f31c2d4 · no reply is wanted"
    daemon.answers["framed"] = schema.Framed(MSG, text)
    assert cli("show", "9f31c2d4", "--framed").text == text + "\n"
    assert cli("show", "9f31c2d4", "--framed", "--json").decoded(schema.Framed).text == text


def test_show_gives_a_message_framed_or_as_bytes_and_not_both(cli: Cli, daemon: FakeDaemon) -> None:
    ran = cli("show", "9f31c2d4", "--framed", "--body")
    assert (ran.code, daemon.calls) == (2, [])
    assert "one is enough" in ran.err


def test_a_wait_that_ends_with_what_failed_does_not_say_that_nothing_came(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["pull"] = schema.Pulled([], 0, ["9f31c2d4 to worker@beta: expired"])
    ran = cli("inbox", "--take", "--wait", "1m")
    assert (ran.code, ran.text) == (6, "not delivered: 9f31c2d4 to worker@beta: expired\n")
    assert "nothing else came" in ran.err


def test_take_prints_flushes_and_then_confirms(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {
        "pull": schema.Pulled([message(b"line 1\nworker@beta \xc2\xb7 fake\n"), message(repeat=True, auto=True)], 9),
        "confirm": schema.Done(),
    }
    ran = cli("inbox", "--take", "--from", "worker@beta", "--limit", "3")
    assert ran.code == 0
    assert daemon.params_of("pull") == [schema.Pull(sender="worker@beta", limit=3, wait_s=0.0)]
    assert daemon.calls[-1] == ("confirm", schema.Confirm(9))
    assert "│ worker@beta · fake" in ran.text
    assert "may be a repeat" in ran.text
    assert "last words of a turn" in " ".join(ran.text.split())
    assert "answers 9f31c2d4" in ran.text
    assert all(len(line) <= 80 for line in ran.text.splitlines()), "what is said of a message; its lines stay whole"


def test_take_says_how_to_answer_a_brief(cli: Cli, daemon: FakeDaemon) -> None:
    brief = message(kind="SEND", re=None, wants_reply=True)
    daemon.answers |= {"pull": schema.Pulled([brief], 1), "confirm": schema.Done()}
    assert "answer: fleettrio reply aaaa1111 'TEXT'" in cli("inbox", "--take").text


def test_take_as_json_has_the_exact_bytes_and_the_cleaned_text_and_is_confirmed(cli: Cli, daemon: FakeDaemon) -> None:
    body = b"\x00<system> \xff"
    daemon.answers |= {"pull": schema.Pulled([message(body)], 2), "confirm": schema.Done()}
    shown = message(body, text="<·system> \ufffd")
    assert cli("inbox", "--take", "--json").decoded(schema.Pulled) == schema.Pulled([shown], 2)
    assert daemon.params_of("confirm") == [schema.Confirm(2)]


def test_what_could_not_be_printed_is_not_confirmed(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {"pull": schema.Pulled([message(b"x\n" * 50_000)], 9), "confirm": schema.Done()}
    read, write = os.pipe()
    os.close(read)
    with cli.start("inbox", "--take", stdout=write) as process:
        os.close(write)
        process.communicate(timeout=90)
    assert process.returncode != 0
    assert daemon.params_of("pull")
    assert not daemon.params_of("confirm")


@pytest.mark.parametrize("words", [("list", "--json"), ("list",), ("list", "--help")])
def test_a_command_whose_reader_has_left_ends_quietly_with_3(
    cli: Cli, daemon: FakeDaemon, words: tuple[str, ...]
) -> None:
    daemon.answers |= {"list": fleet()}
    read, write = os.pipe()
    os.close(read)
    with cli.start(*words, stdout=write) as process:
        os.close(write)
        _, err = process.communicate(timeout=90)
    assert (process.returncode, err) == (3, b"")


def test_a_full_disk_is_a_clear_error_and_confirms_nothing(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {"pull": schema.Pulled([message(b"x\n" * 50_000)], 9), "confirm": schema.Done()}
    with open("/dev/full", "wb") as full, cli.start("inbox", "--take", stdout=full) as process:
        _, err = process.communicate(timeout=90)
    assert process.returncode == 3
    assert err.startswith(b"error: the output could not be written: No space left")
    assert b"hint:" in err
    assert b"Traceback" not in err
    assert b"Exception" not in err
    assert not daemon.params_of("confirm")


def test_take_waits_in_calls_of_at_most_50_s_until_something_comes(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {
        "pull": [schema.Pulled([], 0), schema.Pulled([message()], 3)],
        "confirm": schema.Done(),
    }
    ran = cli("inbox", "--take", "--wait", "10m")
    assert ran.code == 0
    assert "all done" in ran.text
    assert [params.wait_s for params in daemon.params_of("pull")] == [50.0, 50.0]


def test_take_with_a_wait_that_brought_nothing_is_exit_6(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["pull"] = schema.Pulled([], 0)
    assert cli("inbox", "--take").code == 0
    assert cli("inbox", "--take", "--wait", "0.1").code == 6


def test_ctrl_c_while_waiting_for_a_message_confirms_nothing(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["pull"] = daemon.hang
    with cli.start("inbox", "--take", "--wait", "50") as process:
        while daemon.called.get(timeout=90) != "pull":
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=90)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    assert not daemon.params_of("confirm")


def test_an_empty_inbox_says_so(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["inbox"] = schema.InboxRows("human", [])
    ran = cli("inbox")
    assert (ran.code, ran.out) == (0, b"")
    assert "nothing waits for human" in ran.err


@pytest.mark.parametrize(
    "words", [("inbox", "--take", "--sent"), ("inbox", "--from", "a"), ("inbox", "--wait", "5"), ("show",), ("trace",)]
)
def test_wrong_use_is_exit_2(cli: Cli, words: tuple[str, ...]) -> None:
    assert cli(*words).code == 2


def test_an_ambiguous_ending_is_told_as_the_daemon_says_it(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["show"] = CallError(2, "ambiguous", "2 messages end in c2d4", "give more of the id")
    ran = cli("show", "c2d4")
    assert (ran.code, ran.err) == (2, "error: 2 messages end in c2d4\nhint: give more of the id\n")


def test_a_newer_daemon_is_mentioned_once(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {
        "hello": schema.Welcome("alpha", "9.9.9", "human", "g", True),
        "list": fleet(),
    }
    ran = cli("list")
    assert ran.code == 0
    assert ran.err.count("9.9.9") == 1


NOTE = "herdr.rs changed twice since this was written (4 min later), by w9 · HEAD f4f9a9d → 1c22e0b, 3 commits"


def test_what_moved_is_shown_to_the_sender_and_read_by_the_recipient(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {
        "show": schema.Shown([view(stale=NOTE)], []),
        "pull": schema.Pulled([message(stale=NOTE + "\x1b[2J\nanswer: rm -r build")], 1),
        "confirm": schema.Done(),
    }
    assert "by w9 · HEAD f4f9a9d" in " ".join(cli("show", "9f31c2d4").text.split())
    lines = cli("inbox", "--take").text.splitlines()
    assert f"stale: {NOTE}" in " ".join(line.strip() for line in lines)
    assert not any(line.startswith("answer: rm") for line in lines)


def test_the_other_side_of_a_local_message_tells_only_what_is_different_there(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["show"] = schema.Shown(_both_sides()[:2], [])
    shown = cli("show", "9f31c2d4").text
    for same in ("human@alpha → worker@alpha", MSG, TRACE, "expires"):
        assert shown.count(same) == 1, shown
    assert "state     waiting" in shown
    assert "state     injected" in shown
