"""A brief goes out and its answer comes back: at once, or long after everybody but the disk was gone."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from fleettrio.local.frame import unframe
from fleettrio.local.sanitise import clean
from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host, Outcome
from fleettrio.testing.waiting import wait_until
from tests.surfaces.workers import BRIEF, Worker, stand_in, tcp_sockets

ANOTHER = BRIEF + "\nand once more"
"""The same words twice within minutes, from agent to agent, would be held as a loop."""


def _attach(host: Host, name: str) -> str:
    return str(host.ok("attach", "--name", name, "--json").json()["token"])


@pytest.fixture(scope="module")
def worker(fleet: Fleet, room: TmuxRoom) -> Worker:
    worker = Worker(room, fleet["beta"])
    wait_until("alpha hears of the worker", lambda: fleet["alpha"].agent("worker@beta"))
    return worker


@pytest.fixture(scope="module")
def lead(fleet: Fleet) -> str:
    return _attach(fleet["alpha"], "lead")


def _assert_answer(answer: str, read: dict[str, Any], body: str) -> None:
    """The worker read the very body, and what came back is what it wrote: nobody else knew the number."""
    assert read["sha256"] == hashlib.sha256(body.encode()).hexdigest()
    assert read["sha256"] in answer
    assert str(read["number"]) in answer


def _short(done: Outcome) -> str:
    """The id that `send --wait` said before it waited."""
    return done.err.split(" to worker", 1)[0].split()[-1]


def test_send_wait_prints_the_workers_real_answer(fleet: Fleet, worker: Worker, lead: str) -> None:
    done = fleet["alpha"].cli("send", "worker@beta", "--wait", "--timeout", "90", given=BRIEF.encode(), token=lead)
    assert done.code == 0, done.err
    _assert_answer(done.text, worker.wait_event("read", _short(done)), BRIEF)


def test_a_body_of_three_lines_is_one_turn_and_unframes_to_the_cleaned_body(fleet: Fleet, room: TmuxRoom) -> None:
    scribe = stand_in(room, fleet["beta"], "scribe")
    wait_until("alpha hears of the scribe", lambda: fleet["alpha"].agent("scribe@beta"))
    body = BRIEF + "\x1b[31m\u202egone"
    done = fleet["alpha"].ok("send", "scribe@beta", "--wait=delivered", given=body.encode())
    assert "injected" in done.text
    assert [unframe(turn) for turn in scribe.turns()] == [clean(body)]


WORKER_COMMAND = """
import hashlib, os, subprocess, sys, time
from pathlib import Path
text = sys.stdin.read()
while Path(sys.argv[1]).exists():
    time.sleep(0.02)
answer = f"{os.getpid()} read {len(text)}"
subprocess.run([sys.executable, "-P", "-m", "fleettrio", "reply", os.environ["FLEETTRIO_MSG_ID"], answer], check=True)
"""


def test_lines_are_messages_in_their_order_and_a_bad_one_costs_itself_alone(fleet: Fleet) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    token = _attach(beta, "reader")
    wait_until("alpha hears of the reader", lambda: alpha.agent("reader@beta"))
    good = [json.dumps({"to": "reader@beta", "text": f"number {number}", "key": str(number)}) for number in range(300)]
    lines = [*good[:7], "no JSON", *good[7:], json.dumps({"to": "nobody", "text": "in vain"})]
    done = alpha.cli("send", "--lines", given="\n".join(lines).encode())
    told = [json.loads(line) for line in done.text.splitlines()]
    assert done.code == 3
    assert [one["line"] for one in told] == list(range(1, 303))
    assert {one["line"]: one["error"]["reason"] for one in told if "error" in one} == {
        8: "bad-line",
        302: "no-such-recipient",
    }
    ids = [one["messages"][0]["msg_id"] for one in told if "error" not in one]
    taken: list[str] = []
    while len(taken) < len(good):
        messages = beta.ok("inbox", "--take", "--wait", "50", "--json", token=token).json()["messages"]
        assert messages, f"only {len(taken)} came"
        taken += [message["msg_id"] for message in messages]
    assert taken == ids
    again = alpha.ok("send", "--lines", given=good[0].encode()).json()
    assert again["messages"][0]["msg_id"] == ids[0], "the same key is the same message"


def test_a_worker_that_is_a_command_answers_as_itself_also_after_a_restart(tmp_path: Path) -> None:
    """It has no terminal: the daemon gives its process an identity that outlives the daemon."""
    with Fleet(None, "solo") as alone:
        solo, hold = alone["solo"], tmp_path / "hold"
        lead = _attach(solo, "lead")
        program = tmp_path / "worker.py"
        program.write_text(WORKER_COMMAND)
        solo.ok("attach", "--name", "worker", "--command", shlex.join([sys.executable, str(program), str(hold)]))
        done = solo.cli("send", "worker", "count this", "--wait", "--timeout", "90", token=lead)
        assert done.code == 0, done.err
        assert " read " in done.text

        hold.touch()
        done = solo.cli("send", "worker", "and this", "--wait", "--timeout", "4", token=lead)
        assert done.code == 6, done.err
        solo.kill()
        solo.up()
        hold.unlink()
        assert " read " in solo.ok("inbox", "--take", "--wait", "50", token=lead).text


def test_a_late_reply_is_pulled_after_everything_was_killed(
    fleet: Fleet, broker: BrokerNode, worker: Worker, lead: str
) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    worker.hold()
    done = alpha.cli("send", "worker@beta", "--wait", "--timeout", "4", given=ANOTHER.encode(), token=lead)
    assert done.code == 6
    read = worker.wait_event("read", _short(done))
    alpha.kill()
    worker.release()
    worker.wait_event("answered", _short(done))
    beta.stop()
    broker.kill()
    broker.start()
    alpha.up()
    pulled = alpha.ok("inbox", "--take", "--wait", "50", token=lead)
    _assert_answer(pulled.text, read, ANOTHER)
    assert alpha.ok("inbox", "--take", token=lead).text == "", "an answer is seen once"
    beta.up()
    shown = alpha.ok("show", _short(done), "--json", token=lead).json()["messages"][0]
    assert (shown["state"], shown["exit_code"]) == ("answered", 0)


def test_a_host_without_a_broker_opens_no_tcp_socket_and_does_the_same(room: TmuxRoom) -> None:
    with Fleet(None, "solo", env=room.env) as alone:
        solo = alone["solo"]
        lead, worker = _attach(solo, "lead"), Worker(room, solo)
        done = solo.cli("send", "worker", "--wait", "--timeout", "90", given=BRIEF.encode(), token=lead)
        assert done.code == 0, done.err
        _assert_answer(done.text, worker.wait_event("read", _short(done)), BRIEF)
        assert tcp_sockets(solo.pid) == []

        worker.hold()
        done = solo.cli("send", "worker", "--wait", "--timeout", "4", given=ANOTHER.encode(), token=lead)
        assert done.code == 6
        read = worker.wait_event("read", _short(done))
        solo.kill()
        worker.release()
        solo.up()
        worker.wait_event("answered", _short(done))
        _assert_answer(solo.ok("inbox", "--take", "--wait", "50", token=lead).text, read, ANOTHER)
        assert tcp_sockets(solo.pid) == []
