"""Loops, the red button, poison and safe mode, over two hosts as a person meets them."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleettrio.api.schema import MessageView, Send, SendResult, Show, Shown
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host, Outcome
from fleettrio.testing.waiting import wait_until
from tests.surfaces.harnessed import AFTER_INJECTED

HELD_WITHIN_S = 240.0
"""Each answer is a program that starts two more: a busy machine takes seconds for one."""
ANSWERS = """
import os, subprocess, sys
sys.stdin.read()
send = [sys.executable, "-P", "-m", "fleettrio", "send", sys.argv[1], "-"]
while subprocess.run(send, input=os.urandom(8).hex().encode()).returncode == 8:
    pass
"""
"""Once more where it did not go out: a broker that is busy for seconds was given up."""


@pytest.fixture(scope="module")
def fleet(broker: BrokerNode) -> Iterator[Fleet]:
    """alpha, whom beta obeys, and beta."""
    with Fleet(broker, "alpha", "beta", env={"FLEETTRIO_LIMITS_DEATHS": "3"}) as fleet:
        fleet.add(fleet["alpha"], "--grants", "send,ask,reply,broadcast,report,pause")
        fleet.carry(fleet["beta"])
        yield fleet


def answering(host: Host, name: str, to: str, folder: Path) -> None:
    """An agent that answers every message with a new one to `to`, without ever asking a person."""
    script = folder / "answers.py"
    script.write_text(ANSWERS)
    host.ok("attach", "--name", name, "--command", shlex.join([sys.executable, str(script), to]))


def send(host: Host, to: str, body: bytes) -> MessageView:
    """Send it, again where a broker that is busy for seconds was given up."""

    def sent() -> MessageView | None:
        with host.client() as client:
            result: SendResult = client.call("send", Send(to=[to], body=body))
        return None if result.messages[0].state == "failed" else result.messages[0]

    return wait_until(f"a message to {to} goes out", sent)


def view(host: Host, msg_id: str) -> MessageView:
    with host.client() as client:
        shown: Shown = client.call("show", Show(msg_id))
    return shown.messages[0]


def state(host: Host, msg_id: str, *states: str) -> MessageView:
    wanted = {*states, *(AFTER_INJECTED if "injected" in states else ())}

    def there() -> MessageView | None:
        found = view(host, msg_id)
        return found if found.state in wanted else None

    try:
        return wait_until(f"{msg_id} is {' or '.join(states)}", there)
    except AssertionError as trouble:
        raise AssertionError(f"{trouble}; it is {view(host, msg_id)}") from None


def latency(host: Host, to: str) -> float:
    """From the send to the word that it is taken, in seconds; the best of three."""
    spent = []
    for number in range(3):
        began = time.monotonic()
        sent = send(host, to, f"ping {number} {began}".encode())
        state(host, sent.msg_id, "injected")
        spent.append(time.monotonic() - began)
    return min(spent)


def loops(*hosts: Host) -> list[str]:
    return [problem for host in hosts for problem in host.status().problems if "go round in circles" in problem]


def _alarms(*hosts: Host) -> int:
    return sum(host.log.count('"event": "loop"') for host in hosts)


def test_two_that_answer_each_other_are_held_with_one_alarm_and_a_third_pair_goes_on(
    fleet: Fleet, tmp_path: Path
) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    beta.ok("attach", "--name", "bystander", "--command", "true")
    wait_until("alpha hears of the bystander", lambda: alpha.agent("bystander@beta"))
    before = latency(alpha, "bystander@beta")
    answering(alpha, "one", "two@beta", tmp_path)
    answering(beta, "two", "one@alpha", tmp_path)
    wait_until("they hear of each other", lambda: alpha.agent("two@beta") and beta.agent("one@alpha"))
    send(alpha, "two@beta", b"begin")
    wait_until("the loop is held", lambda: loops(alpha, beta), HELD_WITHIN_S)
    wait_until("the alarm is in the log", lambda: _alarms(alpha, beta))
    assert (len(loops(alpha, beta)), _alarms(alpha, beta)) == (1, 1)
    held = alpha if loops(alpha) else beta
    assert latency(alpha, "bystander@beta") < max(10 * before, 60.0), "it waits for the loop"
    assert "fleettrio resume" in held.status().next_step
    alpha.ok("resume", "--all")
    wait_until("it went on, and is held again", lambda: _alarms(alpha, beta) == 2 and loops(alpha, beta), HELD_WITHIN_S)
    for host, name in ((alpha, "one"), (beta, "two")):
        host.ok("detach", name, "--forget")


def test_what_is_paused_waits_on_both_hosts_and_lands_when_it_is_resumed(fleet: Fleet) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    beta.ok("attach", "--name", "quiet", "--command", "true")
    wait_until("alpha hears of it", lambda: alpha.agent("quiet@beta"))
    # A host that is busy says so too late for the command: it is asked again.
    wait_until("both hosts obeyed", lambda: _obeyed(alpha.ok("pause", "quiet@beta", "--json")) == {"alpha", "beta"})
    sent = send(alpha, "quiet@beta", b"later")
    wait_until("it waits at beta", lambda: beta.agent("quiet@beta").waiting == 1)  # type: ignore[union-attr]
    quiet = beta.agent("quiet@beta")
    assert quiet is not None
    assert quiet.paused == "human@alpha"
    assert "paused by human@alpha" in beta.ok("show", sent.short).text
    assert any("quiet@beta is paused by human@alpha" in problem for problem in beta.status().problems)
    beta.stop()
    beta.up()
    assert view(alpha, sent.msg_id).state == "waiting"
    alpha.ok("resume", "quiet@beta")
    state(alpha, sent.msg_id, "injected")


def _obeyed(told: Outcome) -> set[str]:
    return {host["host"] for host in told.json()["hosts"] if host["state"] == "done"}


def _said(done: Outcome, words: str) -> Outcome | None:
    return done if words in done.text else None


def test_without_the_grant_another_host_says_no_and_a_worker_may_not_resume(fleet: Fleet) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    done = wait_until("alpha says no", lambda: _said(beta.cli("pause", "human@alpha"), "was not granted pause"))
    assert done.code == 3, done
    assert "beta: holds what comes from human@alpha, which is still taken in" in " ".join(done.text.split())
    alone = " ".join(beta.cli("pause", "alpha").text.split())  # what beta itself does is another thing
    assert "beta: holds what comes from alpha, which is still taken in" in alone
    refusal = "alpha: beta was not granted pause"  # it does not obey, and is named
    everywhere = wait_until("it is named", lambda: _said(beta.cli("resume", "--all"), refusal))
    assert everywhere.code == 0, everywhere
    token = alpha.ok("attach", "--name", "helper", "--json").json()["token"]
    alpha.ok("pause", "helper", token=token)
    refused = alpha.cli("resume", "helper", token=token)
    assert (refused.code, "only a person" in refused.err) == (3, True)
    alpha.ok("resume", "helper")


def dies_of(beta: Host, msg_id: str) -> None:
    """Start beta; it dies in the middle of that message."""
    beta.begin({"FLEETTRIO_FAILPOINT": f"handling@{msg_id[-8:]}"})
    beta.wait_end()


def test_a_message_that_kills_the_daemon_twice_is_set_aside_and_told_and_the_others_are_delivered(fleet: Fleet) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    beta.ok("attach", "--name", "victim", "--command", "true")
    wait_until("alpha hears of it", lambda: alpha.agent("victim@beta"))
    beta.stop()
    before = send(alpha, "victim@beta", b"before")
    poison = send(alpha, "victim@beta", b"poison")
    after = send(alpha, "victim@beta", b"after")
    dies_of(beta, poison.msg_id)
    dies_of(beta, poison.msg_id)
    beta.up({"FLEETTRIO_FAILPOINT": f"handling@{poison.msg_id[-8:]}"})
    failed = state(alpha, poison.msg_id, "failed")
    assert "set it aside" in failed.sentence
    state(alpha, before.msg_id, "injected", "unconfirmed")  # it may have been on its way in when the poison struck
    state(alpha, after.msg_id, "injected")
    assert '"event": "set aside"' in beta.log
    assert beta.status().broker == "connected"


def test_three_deaths_without_a_common_message_start_the_daemon_safe_until_a_person_has_looked(fleet: Fleet) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    beta.ok("attach", "--name", "another", "--command", "true")
    wait_until("alpha hears of it", lambda: alpha.agent("another@beta"))
    beta.stop()
    sent = []
    for number in range(3):
        sent.append(send(alpha, "another@beta", f"number {number}".encode()))
        dies_of(beta, sent[-1].msg_id)
    beta.begin()
    wait_until("it serves", lambda: beta.cli("status").code in (0, 3) and beta.broker_state() != "")
    status = beta.status()
    assert (status.broker, "safe mode" in status.broker_detail) == ("kept-off", True)
    assert "safe mode" in " ".join(beta.cli("send", "human@alpha", "not now").err.split())
    assert any("safe mode" in problem and "3 times within a minute" in problem for problem in status.problems)
    assert "fleettrio doctor --fix safe" in status.next_step
    beta.ok("send", "another", "local mail goes on")
    assert beta.cli("doctor").code == 3
    beta.stop()
    beta.begin()
    wait_until("it is safe still", lambda: any("safe mode" in text for text in _problems(beta)))
    beta.ok("doctor", "--fix", "safe")
    beta.wait_broker("connected")
    for message in sent:  # one may have been on its way into its command when the next one killed the daemon
        state(alpha, message.msg_id, "injected", "unconfirmed")


def _problems(host: Host) -> list[str]:
    return host.status().problems if host.broker_state() else []


def test_a_message_that_is_due_later_is_listed_and_called_off_or_goes_out_after_a_restart_and_who_is_silent_is_named(
    fleet: Fleet,
) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    beta.ok("attach", "--name", "silent", "--command", "true")
    wait_until("alpha hears of it", lambda: alpha.agent("silent@beta"))
    off = alpha.ok("send", "silent@beta", "never", "--after", "1h", "--json").json()["messages"][0]
    assert off["state"] == "scheduled"
    assert off["short"] in alpha.ok("inbox", "--sent").text
    assert "goes out to silent@beta at" in alpha.ok("show", off["short"]).text
    assert "will not be" in alpha.ok("cancel", off["short"]).text
    assert off["short"] not in alpha.ok("inbox", "--sent").text
    due = alpha.ok("send", "silent@beta", "later", "--after", "4s", "--remind", "1s", "--json").json()["messages"][0]
    alpha.kill()
    alpha.up()
    state(alpha, due["msg_id"], "injected")
    wait_until("the reminder is there", lambda: "no answer to" in alpha.ok("inbox").text)
    assert f"no answer to {due['short']} from silent@beta" in alpha.ok("inbox", "--take").text
    alpha.kill()
    alpha.up({"FLEETTRIO_CLOCK_OFFSET_MS": "60000"})
    assert alpha.ok("inbox", "--all").text.count("no answer to") == 1
