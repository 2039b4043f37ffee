"""`send --lines`: a message for each line of JSON, a line of JSON for what came of each."""

from __future__ import annotations

import base64
import json
import re
import threading
from typing import Any

import msgspec
import pytest

from fleettrio.api import schema
from fleettrio.api.rpc import CallError
from fleettrio.clients.client import REQUEST_LIMIT
from tests.cli.fake_daemon import Cli, FakeDaemon


def told(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def ndjson(*lines: object) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def accept(params: schema.SendMany) -> schema.SentMany:
    """Each in its place, named by its body."""
    return schema.SentMany(
        [schema.Sent([schema.SentWord(m.body.decode()[:20], "gid", "waiting")]) for m in params.messages]
    )


def test_each_line_is_a_message_and_its_line_says_what_came_of_it(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["send_many"] = accept
    lines = ndjson(
        {"to": "worker@beta", "text": "one"},
        {"to": ["a", "b"], "body": base64.b64encode(b"two").decode(), "when": "now", "key": "k", "expires_s": 60},
        {"to": "a, b", "text": "three", "wants_reply": False},
    )
    ran = cli("send", "--lines", stdin=lines)
    assert ran.code == 0, ran.err
    assert [(line["line"], line["messages"][0]["msg_id"]) for line in told(ran.text)] == [
        (1, "one"),
        (2, "two"),
        (3, "three"),
    ]
    [params] = daemon.params_of("send_many")
    assert params.messages == [
        schema.Send(to=["worker@beta"], body=b"one"),
        schema.Send(to=["a", "b"], body=b"two", when="now", key="k", expires_s=60.0),
        schema.Send(to=["a", "b"], body=b"three", wants_reply=False),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"hello", "not JSON"),
        (b"[1]", "not an object"),
        (b'{"to": "a"}', "`text` or `body`"),
        (b'{"to": "a", "text": "x", "body": ""}', "not both"),
        (b'{"to": "a", "text": 5}', "text: must be a text"),
        (b'{"to": "a", "body": "%%"}', "body"),
        (b'{"text": "x"}', "to"),
        (b'{"to": "", "text": "x"}', "to: names nobody"),
        (b'{"to": [], "text": "x"}', "to: names nobody"),
        (b'{"to": 5, "text": "x"}', "to: must be a name, or a list of names"),
        (b'{"to": ["a", 5], "text": "x"}', "to[1]: must be a text, not a whole number"),
        (b'{"to": "a", "text": ""}', "text: is empty"),
        (b'{"to": "a", "body": ""}', "body: is empty"),
        (b'{"to": "a", "text": "x", "expires_s": 1e999}', "a number in it is out of range"),
        (b'{"to": "a", "text": "x", "expires_s": 0}', "expires_s: must be above 0"),
        (b'{"to": "a", "text": "\\ud800 alone"}', "not JSON: unexpected end of escaped utf-16 surrogate pair"),
        (b'{"to": "a", "text": "x", "when": "never"}', "when: must be one of"),
        (b'{"to": "a", "text": "x", "colour": "red"}', "colour"),
        (b'{"to": "a", "text": "\xff"}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"to": "a", "text": "' + b"x" * REQUEST_LIMIT + b'"}', "over"),
    ],
)
def test_a_line_that_is_no_message_costs_itself_alone(cli: Cli, daemon: FakeDaemon, line: bytes, words: str) -> None:
    daemon.answers["send_many"] = accept
    good = b'{"to": "a", "text": "good"}'
    ran = cli("send", "--lines", stdin=b"\n".join((good, line, b"", good)))
    first, bad, last = told(ran.text)
    assert ran.code == 2
    assert (bad["line"], bad["error"]["reason"], bad["error"]["exit_code"]) == (2, "bad-line", 2)
    assert words in bad["error"]["message"]
    assert '"text"' in bad["error"]["hint"]
    assert (first["line"], last["line"]) == (1, 4)
    assert all(one["messages"][0]["state"] == "waiting" for one in (first, last))


def test_the_exit_code_is_that_of_the_worst(cli: Cli, daemon: FakeDaemon) -> None:
    words = [
        schema.SentWord("m", "gid", "failed", "broker-unreachable", exit_code=8),
        schema.SentWord("m", "g", "waiting"),
    ]
    unknown = schema.Sent(error=schema.NotSent("no-such-recipient", "no agent x", "fleettrio list", 3))
    daemon.answers["send_many"] = [
        schema.SentMany([schema.Sent(words)]),
        schema.SentMany([unknown, schema.Sent(words)]),
    ]
    line = {"to": "a", "text": "x"}
    assert cli("send", "--lines", stdin=ndjson(line)).code == 8
    ran = cli("send", "--lines", stdin=ndjson(line, line))
    assert ran.code == 3
    assert told(ran.text)[0] == {
        "line": 1,
        "error": {"reason": "no-such-recipient", "message": "no agent x", "hint": "fleettrio list", "exit_code": 3},
    }


def test_more_than_go_into_a_call_are_several_calls_in_order(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["send_many"] = accept
    ran = cli("send", "--lines", stdin=ndjson(*[{"to": "a", "text": f"{n}"} for n in range(300)]))
    assert ran.code == 0, ran.err
    assert [line["messages"][0]["msg_id"] for line in told(ran.text)] == [str(n) for n in range(300)]
    assert max(len(params.messages) for params in daemon.params_of("send_many")) <= 256
    large = [{"to": "a", "text": f"{n} " + "x" * 500_000} for n in range(6)]
    assert cli("send", "--lines", stdin=ndjson(*large)).code == 0
    assert [m.body[:1] for p in daemon.params_of("send_many")[2:] for m in p.messages] == [b"%d" % n for n in range(6)]


def test_a_mark_of_byte_order_at_the_beginning_is_passed_over(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["send_many"] = accept
    line = b'\xef\xbb\xbf{"to": "a", "text": "good"}'
    for stdin in (line, line + b"\n"):
        assert cli("send", "--lines", stdin=stdin).code == 0
    ran = cli("send", "--lines", stdin=line + b"\n" + line)
    assert [("error" in one) for one in told(ran.text)] == [False, True]


def test_what_failed_is_told_once_how_to_send_it_again(cli: Cli, daemon: FakeDaemon) -> None:
    failed = schema.SentWord("m", "gid", "failed", "broker-unreachable", exit_code=8)
    daemon.answers["send_many"] = lambda params: schema.SentMany([schema.Sent([failed])] * len(params.messages))
    ran = cli("send", "--lines", stdin=ndjson(*[{"to": "a", "text": f"{n}"} for n in range(300)]))
    assert ran.code == 8
    assert ran.err.count("fleettrio show ID") == 1


def test_without_any_line_nothing_is_asked(cli: Cli, daemon: FakeDaemon) -> None:
    ran = cli("send", "--lines", stdin=b"\n \n")
    assert (ran.code, ran.text, daemon.params_of("send_many")) == (0, "", [])


def test_a_call_that_is_refused_is_told_for_each_of_its_lines(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["send_many"] = CallError(3, "no-identity", "nobody says who is calling", "fleettrio attach")
    ran = cli("send", "--lines", stdin=ndjson({"to": "a", "text": "x"}, {"to": "b", "text": "y"}))
    assert ran.code == 3
    assert [line["error"]["reason"] for line in told(ran.text)] == ["no-identity", "no-identity"]


def test_a_daemon_that_goes_leaves_its_lines_unknown_and_sends_none_behind_them(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["send_many"] = daemon.hang

    def kill() -> None:
        while daemon.called.get(timeout=90) != "send_many":
            pass
        daemon.stop()

    killer = threading.Thread(target=kill)
    killer.start()
    ran = cli("send", "--lines", stdin=ndjson(*[{"to": "a", "text": f"{n}"} for n in range(300)]))
    killer.join()
    assert ran.code == 5
    lines = told(ran.text)
    assert {line["error"]["reason"] for line in lines} == {"unknown"}
    assert len(lines) <= 256
    assert f"nothing behind line {len(lines)} was sent" in ran.err.replace("\n       ", " ")


@pytest.mark.parametrize("more", [("worker",), ("--when", "now"), ("--file", "x"), ("--retry", "1234"), ("--wait",)])
def test_lines_stand_alone(cli: Cli, daemon: FakeDaemon, more: tuple[str, ...]) -> None:
    ran = cli("send", "--lines", *more, stdin=b"")
    assert ran.code == 2
    assert daemon.params_of("send_many") == []


def test_the_help_names_every_key_of_a_line_and_a_bad_line_points_there(cli: Cli, daemon: FakeDaemon) -> None:
    words = set(
        re.findall(r"\w+", cli("send", "--help").text.partition("With --lines")[2].partition("With --coord")[0])
    )
    assert {field.name for field in msgspec.structs.fields(schema.Send)} <= words
    [bad] = told(cli("send", "--lines", stdin=b'{"to": "a", "text": "x", "colour": "red"}').text)
    assert "fleettrio send --help" in bad["error"]["hint"]
