"""A worker in a pane asks its lead on another host: real daemons, broker and panes."""

from __future__ import annotations

import dataclasses
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleettrio.local.frame import unframe
from fleettrio.testing.agents.room import StandIn, TmuxRoom
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import COMMAND, Host
from fleettrio.testing.waiting import BOUND_S, wait_until
from tests.surfaces.workers import stand_in

SHOWN = re.compile(r"asks \(([0-9a-f]{8})\)(?s:.*?)fleettrio answer \1\b")


@dataclasses.dataclass
class Asker:
    """The worker: a program in a pane on beta, and the token with which it calls."""

    agent: StandIn
    token: str


@dataclasses.dataclass
class Running:
    """A command that goes on, with what it has written so far in files."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    def text(self) -> str:
        return self.out.read_text()

    def end(self) -> int:
        try:
            return self.process.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@pytest.fixture(scope="module")
def asker(fleet: Fleet, room: TmuxRoom) -> Asker:
    agent = stand_in(room, fleet["beta"], "asker")
    wait_until("alpha hears of the asker", lambda: fleet["alpha"].agent("asker@beta"))
    token = fleet["beta"].ok("token", "create", "--name", "asker", "--json").json()["token"]
    return Asker(agent, token)


@pytest.fixture(scope="module")
def lead(fleet: Fleet) -> str:
    token = str(fleet["alpha"].ok("attach", "--name", "lead", "--json").json()["token"])
    wait_until("beta hears of the lead", lambda: fleet["beta"].agent("lead@alpha"))
    return token


@pytest.fixture
def waiting(fleet: Fleet, room: TmuxRoom, asker: Asker, lead: str) -> Iterator[Running]:
    """The lead's brief is with the worker, and the lead waits for its answer."""
    turns = len(asker.agent.turns())
    running = run(fleet["alpha"], room, "send", "asker@beta", f"task {turns}", "--wait", token=lead)
    try:
        wait_until("the worker has the brief", lambda: len(asker.agent.turns()) > turns)
        yield running
    finally:
        running.process.kill()
        running.end()


def run(host: Host, room: TmuxRoom, *arguments: str, token: str) -> Running:
    out, err = (room.folder / f"{name}-{arguments[0]}-{len(list(room.folder.iterdir()))}" for name in ("out", "err"))
    with out.open("wb") as out_file, err.open("wb") as err_file:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            env={**host.env, "FLEETTRIO_TOKEN": token},
            stdin=subprocess.DEVNULL,
            stdout=out_file,
            stderr=err_file,
        )
    return Running(process, out, err)


def question_in(running: Running) -> str:
    """The id of the question that a waiting send has printed, to its last line, which names the id once more."""
    return str(wait_until("the question is shown", lambda: SHOWN.findall(running.err.read_text()))[-1])


def listed(host: Host, lead: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = host.ok("inbox", "--json", token=lead).json()["messages"]
    return [row for row in rows if row["kind"] == "ASK"]


def test_a_question_that_nobody_listens_to_ends_at_once(fleet: Fleet, asker: Asker, lead: str) -> None:
    done = fleet["beta"].cli("ask", "lead@alpha", "anybody there?", token=asker.token)
    assert done.code == 3, done.err
    assert "does not listen" in done.err
    (view,) = fleet["beta"].ok("inbox", "--sent", "--json", token=asker.token).json()["messages"][:1]
    assert (view["kind"], view["reason"]) == ("ASK", "no-waiter")
    assert view["at"] - view["ts"] < 60_000, "it was not waited for"
    assert listed(fleet["alpha"], lead) == []


def test_the_answer_comes_out_of_the_very_call_that_asked_and_the_lead_goes_on_waiting(
    fleet: Fleet, room: TmuxRoom, asker: Asker, lead: str, waiting: Running
) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    before = asker.agent.raw()
    asked = run(beta, room, "ask", "lead@alpha", "which port?\nand why;", token=asker.token)
    question = question_in(waiting)
    assert "│ which port?" in waiting.err.read_text()
    assert f"fleettrio answer {question}" in waiting.err.read_text()
    assert [row["short"] for row in listed(alpha, lead)] == [question]
    assert alpha.ok("inbox", token=lead).text.splitlines()[1].strip() == f"fleettrio answer {question} 'TEXT'"
    given = alpha.cli("answer", question, "4711", token=lead)
    assert given.code == 0, given.err
    assert asked.end() == 0, asked.err.read_text()
    assert unframe(asked.text()) == "4711"
    assert listed(alpha, lead) == []

    late = alpha.cli("answer", question, "no, 4712", token=lead)
    assert late.code == 3
    assert "has an answer already" in late.err
    assert asker.agent.raw() == before, "the pane is as it was, byte for byte"

    brief = asker.agent.turns()[-1].split(" from ", 1)[0].split()[-1]
    beta.ok("reply", brief, "done", token=asker.token)
    assert waiting.end() == 0
    assert unframe(waiting.text()) == "done"


def test_an_asker_that_stops_takes_the_question_from_the_leads_list(
    fleet: Fleet, room: TmuxRoom, asker: Asker, lead: str, waiting: Running
) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    asked = run(beta, room, "ask", "lead@alpha", "may I?", token=asker.token)
    question = question_in(waiting)
    assert [row["short"] for row in listed(alpha, lead)] == [question]
    asked.process.send_signal(signal.SIGINT)
    assert asked.end() == 130
    assert "taken back" in asked.err.read_text()
    wait_until("the question is gone", lambda: not listed(alpha, lead))
    before = asker.agent.raw()
    late = alpha.cli("answer", question, "yes", token=lead)
    assert (late.code, "too late" in late.err) == (3, True)
    assert asker.agent.raw() == before
    assert "taken back" in alpha.ok("show", question, token=lead).text


def test_an_asker_that_was_killed_takes_the_question_from_the_leads_list(
    fleet: Fleet, room: TmuxRoom, asker: Asker, lead: str, waiting: Running
) -> None:
    alpha = fleet["alpha"]
    asked = run(fleet["beta"], room, "ask", "lead@alpha", "may I?", token=asker.token)
    question_in(waiting)
    asked.process.kill()
    asked.end()
    wait_until("the question is gone", lambda: not listed(alpha, lead))


def test_a_question_that_is_not_answered_in_time_expires_at_both_hosts(
    fleet: Fleet, room: TmuxRoom, asker: Asker, lead: str, waiting: Running
) -> None:
    asked = run(fleet["beta"], room, "ask", "lead@alpha", "quick?", "--timeout", "20", token=asker.token)
    question_in(waiting)
    assert asked.end() == 4
    assert "did not answer in time" in asked.err.read_text()
    wait_until("the question is gone", lambda: not listed(fleet["alpha"], lead))


def test_a_worker_that_ends_without_answering_is_told_to_whoever_waits() -> None:
    with Fleet(None, "solo") as alone:
        solo = alone["solo"]
        solo.ok("attach", "--name", "worker", "--command", "cat")
        done = solo.cli("send", "worker", "read this", "--wait", "--timeout", "90")
        assert done.code == 3
        assert "ended its turn without answering" in done.err
        shown = solo.ok("show", "@last", "--json").json()["messages"][0]
        assert (shown["state"], shown["reason"]) == ("ended", "no answer")
        brief = shown["short"]
        token = solo.ok("token", "create", "--name", "worker", "--json").json()["token"]
        solo.ok("reply", brief, "late, but here it is", token=token)
        wait_until("it counts all the same", lambda: _shown(solo, brief) == "answered")


def test_a_broker_restart_in_between_loses_the_question_loudly(
    fleet: Fleet, room: TmuxRoom, broker: BrokerNode, asker: Asker, waiting: Running
) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    asked_of = beta.agent("lead@alpha")
    assert asked_of is not None
    inbox = f"agent.{asked_of.gid}.inbox.v2.alpha"
    alpha.freeze()
    try:
        broker.drop_consumers(inbox, fleet.vhost)  # else alpha has it in its socket, where nothing is lost
        asked = run(beta, room, "ask", "lead@alpha", "still there?", token=asker.token)
        wait_until("the broker has it", lambda: _state(beta, asker.token) == "waiting")
        broker.kill()
        broker.start()
    finally:
        alpha.thaw()
    assert asked.end() == 3
    assert "the broker lost it" in asked.err.read_text()


def _shown(host: Host, short: str) -> str:
    return str(host.ok("show", short, "--json").json()["messages"][0]["state"])


def _state(host: Host, token: str) -> str:
    """Of the newest message sent with `token`, if it is a question."""
    newest = host.ok("inbox", "--sent", "--json", token=token).json()["messages"][:1]
    return next((str(view["state"]) for view in newest if view["kind"] == "ASK"), "")
