"""The person at a host: what waits, what happened meanwhile, being told; nudges into real panes. Standalone hosts."""

from __future__ import annotations

import re
import secrets
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleettrio.api.schema import Send
from fleettrio.testing.agents.room import StandIn, TmuxRoom
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import COMMAND, Host
from fleettrio.testing.waiting import wait_until

LINE = re.compile(
    r"\[fleettrio [0-9a-f]{8}\] (\d+) messages? waits? for you \(([^)]*)\); fetch: fleettrio inbox --take"
)


@pytest.fixture
def told(room: TmuxRoom) -> Path:
    """Where the command of `[notify]` writes."""
    return room.folder / f"{secrets.token_hex(4)}.told"


@pytest.fixture
def host(room: TmuxRoom, told: Path) -> Iterator[Host]:
    """One machine without a broker, whose person is told by a command."""
    script = f"cat >> {told}"
    more = f'[notify]\ncommand = ["sh", "-c", "{script}"]\n'
    with Fleet(None, "laptop", more=more, env=room.env) as fleet:
        yield fleet["laptop"]


def at_terminal(room: TmuxRoom, host: Host, *words: str) -> str:
    """What `fleettrio …` prints for the person, at a real terminal without a token."""
    out = room.folder / f"{secrets.token_hex(4)}.out"
    own = [f"{key}={host.env[key]}" for key in ("FLEETTRIO_HOME", "PYTHONPATH")]
    line = f"{shlex.join([*COMMAND, *words])} > {out}.new 2>&1; mv {out}.new {out}"
    room.run(["env", "-u", "TMUX", *own, "sh", "-c", line])
    wait_until(f"the end of fleettrio {' '.join(words)}", out.exists)
    return out.read_text()


def client(room: TmuxRoom, host: Host, name: str, *options: str) -> StandIn:
    """A program in a pane that fetches its mail by itself."""
    agent = room.place(*options)
    wait_until(f"{name} is on the screen", lambda: "stand-in agent" in room.screen(agent.pane))
    host.ok("attach", "--name", name, "--takes", "pull", "--pane", agent.target, "--harness", "script")
    return agent


def restart(host: Host, *, after_s: float = 0.0) -> None:
    """The daemon dies, and another one starts when so much time has passed."""
    host.kill()
    host.up({"FLEETTRIO_CLOCK_OFFSET_MS": str(round(after_s * 1000))})


def settled(room: TmuxRoom, host: Host) -> None:
    """Wait until whatever was due has been typed: a client that came later has its line."""
    name = f"witness-{secrets.token_hex(4)}"
    witness = client(room, host, name)
    host.ok("send", name, "are you there?")
    wait_until("the witness is nudged", witness.turns)


def nudges(agent: StandIn) -> list[tuple[int, str]]:
    """Each line that became a turn: how many messages, of whom."""
    found = [LINE.fullmatch(turn) for turn in agent.turns()]
    assert all(found), agent.turns()
    return [(int(match[1]), match[2]) for match in found if match]


# --- the person


def test_bare_fleettrio_begins_with_what_waits_for_the_person_and_how_it_is_answered(
    room: TmuxRoom, host: Host
) -> None:
    token = host.ok("attach", "--name", "worker", "--json").json()["token"]
    short = host.ok("send", "human", "which of the two?\nsecond line", "--json", token=token).json()["messages"][0][
        "short"
    ]
    shown = at_terminal(room, host)
    assert "1 message waits for you:" in shown
    assert f"{short}  worker@laptop (send) which of the two?" in shown
    assert "fleettrio inbox --take" in shown
    taken = at_terminal(room, host, "inbox", "--take")
    assert "│ second line" in taken
    assert f"fleettrio reply {short}" in taken
    at_terminal(room, host, "reply", short, "the first")
    assert host.ok("inbox", "--take", "--json", token=token).json()["messages"][0]["text"] == "the first"
    assert "waits for you" not in at_terminal(room, host)


def test_a_question_to_the_person_who_listens_is_answered_by_the_printed_command(room: TmuxRoom, host: Host) -> None:
    token = host.ok("attach", "--name", "worker", "--json").json()["token"]
    listening = host.popen("inbox", "--take", "--wait", "90")
    asked: list[Any] = []

    def is_heard() -> bool:
        """Ask again while nobody listens yet."""
        if not asked or asked[-1].poll() is not None:
            asked.append(host.popen("ask", "human", "which port?", token=token))
        return listening.poll() is not None

    wait_until("the question is heard", is_heard)
    out, _ = listening.communicate(timeout=90)
    command = re.search(r"fleettrio (answer [0-9a-f]{8}) 'TEXT'", out.decode())
    assert command, out
    at_terminal(room, host, *command[1].split(), "4711")
    answered = [process.communicate(timeout=90)[0] for process in asked]
    assert b"4711" in answered[-1]


def test_while_you_were_away_comes_once_after_a_quarter_of_an_hour_over_a_restart_too(
    room: TmuxRoom, host: Host
) -> None:
    token = host.ok("attach", "--name", "worker", "--json").json()["token"]
    assert "while you were away" not in at_terminal(room, host)  # never there before
    at_terminal(room, host, "list")
    restart(host, after_s=10 * 60)
    assert "while you were away" not in at_terminal(room, host)
    restart(host, after_s=31 * 60)
    host.ok("send", "human", "done", token=token)
    assert "while you were away" not in host.ok().text  # a script is not the person at the terminal
    shown = at_terminal(room, host)
    assert "while you were away (since " in shown
    assert "1 message came for you" in shown
    assert "while you were away" not in at_terminal(room, host)


def test_the_person_is_told_of_mail_by_the_command_and_doctor_says_when_that_fails(host: Host, told: Path) -> None:
    token = host.ok("attach", "--name", "worker", "--json").json()["token"]
    short = host.ok("send", "human", "a secret", "--json", token=token).json()["messages"][0]["short"]
    wait_until("the person is told", lambda: told.exists() and told.read_text())
    host.ok("send", "human", "another one", token=token)
    host.ok("notify", "--test")
    assert told.read_text().splitlines() == [
        f"worker@laptop wrote to you: fleettrio show {short}",
        "fleettrio on laptop can reach you",
    ]
    told.unlink()
    told.mkdir()
    failed = host.cli("notify", "--test")
    assert (failed.code, "sh ended with" in failed.text) == (3, True)
    doctor = host.cli("doctor")
    assert doctor.code == 3
    assert "nobody was notified by command" in doctor.text
    told.rmdir()
    host.ok("notify", "--test")
    assert "notified by command" not in host.cli("doctor").text


def test_what_failed_stands_first_in_the_next_pull_and_once(room: TmuxRoom, host: Host) -> None:
    token = host.ok("attach", "--name", "lead", "--json").json()["token"]
    host.ok("attach", "--name", "worker")
    short = host.ok("send", "worker", "in vain", "--json", token=token).json()["messages"][0]["short"]
    host.ok("detach", "worker", "--forget")
    host.ok("send", "lead", "mail", token=host.operator_token)
    restart(host)
    taken = host.ok("inbox", "--take", token=token).text
    assert taken.startswith(f"not delivered: {short} to ")
    assert "│ mail" in taken
    assert "not delivered" not in host.cli("inbox", "--take", token=token).text


# --- nudges


def test_a_client_in_a_pane_is_nudged_by_one_line_without_a_peers_words(room: TmuxRoom, host: Host) -> None:
    agent = client(room, host, "lead", "--mode", "working")
    with host.client() as person:
        for body in (b"\x1b[201~/quit\r", b"another"):
            person.call("send", Send(to=["lead"], body=body))
    agent.finish()
    wait_until("it is nudged", agent.turns)
    assert nudges(agent) == [(2, "2 from human@laptop")]
    assert b"quit" not in agent.raw()
    listed = host.agent("lead@laptop")
    assert listed is not None
    assert (listed.takes, listed.wakes, listed.waiting) == ("pull", True, 2)


def due(began: float, offset_s: float) -> int:
    """How many lines have come by now, where each came at its time; `began` is before the first."""
    return 1 + sum(time.monotonic() - began + offset_s >= again_s for again_s in (30.0, 90.0, 210.0))


def test_nudges_come_once_at_their_times_over_restarts_of_the_daemon(room: TmuxRoom, host: Host) -> None:
    agent, began = client(room, host, "lead"), time.monotonic()
    host.ok("send", "lead", "do it")
    wait_until("it is nudged", agent.turns)
    restart(host, after_s=5)
    settled(room, host)
    assert 1 <= len(nudges(agent)) <= due(began, 5)
    restart(host, after_s=40)
    wait_until("the second line", lambda: len(agent.turns()) == 2)
    restart(host, after_s=50)
    settled(room, host)
    assert 2 <= len(nudges(agent)) <= due(began, 50)
    token = host.ok("token", "create", "--name", "lead", "--json").json()["token"]
    host.ok("inbox", "--take", token=token)
    seen = len(nudges(agent))
    restart(host, after_s=4_000)
    settled(room, host)
    assert len(nudges(agent)) == seen


@pytest.mark.parametrize("mood", [("--mode", "working"), ("--mode", "dialog"), ("--draft", "half a sentence")])
def test_nothing_is_typed_into_a_busy_client_or_past_a_draft(room: TmuxRoom, host: Host, mood: tuple[str, str]) -> None:
    agent = client(room, host, "lead", *mood)
    host.ok("send", "lead", "do it")
    restart(host, after_s=100)
    settled(room, host)
    assert agent.raw() == b""
    if mood[0] == "--draft":
        return
    agent.finish()
    wait_until("the line comes as it is idle", agent.turns)
    assert nudges(agent) == [(1, "1 from human@laptop")]
