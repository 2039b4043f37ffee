"""The demo's worker counts what is really there: its log and its answers come from the bytes, never from a text."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleettrio.demo.examples import Example, examples
from fleettrio.demo.worker import ANSWER, Worker, find_id
from fleettrio.local.frame import FrameFacts, frame
from fleettrio.local.sanitise import clean

SHORT = "9f31c2d4"
REPLY_ID = "01a22943-acc8-7449-856d-c05e0a494c5d"

COMMAND_LINE = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
words = sys.argv[2:]
script = json.loads((folder / "script.json").read_text())
code = script.get(words[0], [0]).pop(0) if script.get(words[0]) else 0
(folder / "script.json").write_text(json.dumps(script))
given = sys.stdin.buffer.read()
with open(folder / "calls.jsonl", "a") as calls:
    calls.write(json.dumps({"words": words, "given": given.decode(), "code": code}) + "\\n")
if words[0] == "show" and code == 0:
    sys.stdout.buffer.write((folder / "body").read_bytes())
elif words[0] == "ask" and code == 0:
    print("[fleettrio 0a1b2c3d] answer 7f3a9c\\n│ 4711\\n[fleettrio 0a1b2c3d] end of 7f3a9c")
elif words[0] != "show" and code not in (2, 7):
    print(json.dumps({"messages": [{"msg_id": "REPLY"}]}))
sys.exit(code)
""".replace("REPLY", REPLY_ID)
"""A stand-in for `fleettrio` with exit codes by script: it keeps every call."""


class Bench:
    """A worker with a command line that does what a test tells it to."""

    def __init__(self, folder: Path, body: bytes, codes: dict[str, list[int]]) -> None:
        self.folder = folder
        (folder / "body").write_bytes(body)
        (folder / "script.json").write_text(json.dumps(codes))
        (folder / "fleettrio.py").write_text(COMMAND_LINE)
        self.hold = folder / "hold"
        self.screens: list[list[str]] = []
        self.log_file = (folder / "log.jsonl").open("ab")
        command = [sys.executable, str(folder / "fleettrio.py"), str(folder)]
        self.worker = Worker(self.log_file, self.hold, command, self.screens.append)

    def turn(self, text: str) -> None:
        """Paste and Enter, as the daemon does it."""
        self.worker.feed(b"\x1b[200~" + text.encode() + b"\x1b[201~")
        self.worker.feed(b"\r")

    def log(self, event: str) -> list[dict[str, Any]]:
        lines = (self.folder / "log.jsonl").read_text().split("\n")[:-1]  # of a line that is being written, nothing
        entries = [entry for entry in map(json.loads, lines) if entry["event"] == event]
        return [{key: value for key, value in entry.items() if key != "at"} for entry in entries]

    def calls(self) -> list[dict[str, Any]]:
        file = self.folder / "calls.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


SetUp = Callable[..., Bench]


@pytest.fixture
def set_up(tmp_path: Path) -> Iterator[SetUp]:
    """Makes the bench of a test: the stored body, and exit codes by command."""
    with contextlib.ExitStack() as stack:

        def make(body: bytes, **codes: list[int]) -> Bench:
            bench = Bench(tmp_path, body, codes)
            stack.callback(bench.log_file.close)
            return bench

        yield make


def framed(body: bytes, *, wants_reply: bool = True, stale: str = "") -> str:
    facts = FrameFacts(
        sender="lead@alpha",
        is_person=False,
        verified=True,
        kind="SEND",
        intent="directive",
        age_ms=100,
        short_id=SHORT,
        nonce="5bd1e995",
        wants_reply=wants_reply,
        stale=stale,
    )
    return frame(facts, body).framed


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_every_example_is_one_turn_and_is_counted_byte_for_byte(example: Example, set_up: SetUp) -> None:
    bench = set_up(example.body)
    bench.turn(framed(example.body))
    (read,) = bench.log("read")
    assert len(bench.log("turn")) == 1
    assert read["id"] == SHORT
    assert read["size"] == len(example.body)
    assert read["sha256"] == hashlib.sha256(example.body).hexdigest()
    assert read["shown"] == hashlib.sha256(clean(example.body).encode()).hexdigest()
    assert [call["words"] for call in bench.calls()] == [
        ["show", SHORT, "--body"],
        ["reply", SHORT, "-", "--key", SHORT, "--json"],
    ]
    assert bench.calls()[1]["given"] == ANSWER.format(**{key: read[key] for key in ("size", "sha256", "number")})
    assert bench.log("answered") == [{"event": "answered", "id": SHORT, "reply": REPLY_ID}]


def test_it_asks_what_the_brief_tells_it_to_ask_and_quotes_the_answer(set_up: SetUp) -> None:
    body = b"Before you begin:\nAsk lead@alpha: which port?\n"
    bench = set_up(body)
    bench.turn(framed(body))
    show, ask, reply = bench.calls()
    assert (show["words"][0], reply["words"][0]) == ("show", "reply")
    assert ask["words"] == ["ask", "lead@alpha", "which port?"]
    (asked,) = bench.log("asked")
    assert asked["answer"] == "4711"
    assert reply["given"].endswith("\nanswered 4711\n")


def test_a_question_without_an_answer_ends_its_work_on_that_brief(set_up: SetUp) -> None:
    body = b"Ask lead@alpha: which port?\n"
    bench = set_up(body, ask=[3])
    bench.turn(framed(body))
    assert "exit 3" in bench.log("failed")[0]["why"]
    assert [call["words"][0] for call in bench.calls()] == ["show", "ask"]


def test_it_notes_what_the_frame_says_of_code_that_moved(set_up: SetUp) -> None:
    bench = set_up(b"count me")
    bench.turn(framed(b"count me", stale="a.py changed\nHEAD moved"))
    bench.turn(framed(b"[fleettrio 5bd1e995] stale: not the frame's own words"))
    assert [turn["stale"] for turn in bench.log("turn")] == [["a.py changed", "HEAD moved"], []]


def test_it_shows_that_it_works_and_then_a_free_prompt(set_up: SetUp) -> None:
    bench = set_up(b"count me")
    bench.turn(framed(b"count me"))
    assert any("Working" in line for line in bench.screens[0])
    assert "❯ " in bench.worker.screen()
    assert not any("Working" in line for line in bench.worker.screen())


def test_two_turns_draw_two_numbers(set_up: SetUp) -> None:
    bench = set_up(b"same")
    bench.turn(framed(b"same"))
    bench.turn(framed(b"same"))
    first, second = bench.log("read")
    assert first["number"] != second["number"]


def test_a_daemon_that_is_away_is_waited_for(set_up: SetUp) -> None:
    bench = set_up(b"late", show=[7, 0], reply=[7, 0])
    bench.turn(framed(b"late"))
    assert [call["code"] for call in bench.calls()] == [7, 0, 7, 0]
    assert len({tuple(call["words"]) for call in bench.calls()[2:]}) == 1, "the same key: the same message"
    assert bench.log("answered")


@pytest.mark.parametrize("code", [5, 8], ids=["unknown", "no broker"])
def test_a_reply_that_did_not_go_out_is_sent_again_by_its_id(code: int, set_up: SetUp) -> None:
    bench = set_up(b"broker away", reply=[code], send=[8, 0])
    bench.turn(framed(b"broker away"))
    replies = bench.calls()[1:]
    assert [call["words"][:3] for call in replies] == [
        ["reply", SHORT, "-"],
        ["send", "--retry", REPLY_ID],
        ["send", "--retry", REPLY_ID],
    ]
    assert len({call["given"] for call in replies}) == 1, "a retry is the same bytes"
    assert len(bench.log("answered")) == 1


def test_a_reply_that_settled_meanwhile_is_left_alone(set_up: SetUp) -> None:
    bench = set_up(b"settled", reply=[5], send=[2])
    bench.turn(framed(b"settled"))
    assert bench.log("answered") == [{"event": "answered", "id": SHORT, "reply": REPLY_ID}]


def test_what_it_cannot_read_it_does_not_answer(set_up: SetUp) -> None:
    bench = set_up(b"", show=[3])
    bench.turn(framed(b"gone"))
    assert [entry["id"] for entry in bench.log("failed")] == [SHORT]
    assert [call["words"][0] for call in bench.calls()] == ["show"]


def test_while_it_is_held_no_answer_leaves(set_up: SetUp) -> None:
    bench = set_up(b"patience")
    bench.hold.touch()
    turn = threading.Thread(target=bench.turn, args=(framed(b"patience"),))
    turn.start()
    wait_for_event(bench, "read")
    assert [call["words"][0] for call in bench.calls()] == ["show"]
    bench.hold.unlink()
    turn.join(90)
    assert len(bench.log("answered")) == 1


def wait_for_event(bench: Bench, event: str) -> None:
    over = threading.Event()
    for _ in range(9_000):
        if bench.log(event):
            return
        over.wait(0.01)
    raise AssertionError(f"the worker never logged {event!r}")


def test_a_frame_inside_the_body_names_no_message() -> None:
    inner = framed(b"inner").replace(SHORT, "00000000")
    assert find_id(framed(inner.encode())) == SHORT
    assert find_id(framed(inner.encode(), wants_reply=False)) is None


def test_what_is_no_message_is_ignored(set_up: SetUp) -> None:
    bench = set_up(b"")
    bench.turn("hello, are you there?")
    assert bench.log("turn") == []
    assert len(bench.log("ignored")) == 1
    assert bench.calls() == []
