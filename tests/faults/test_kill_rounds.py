"""Killed at every step of a delivery: nothing is typed twice, nothing is lost, the outcome is what the table says.

A round counts only when the daemon died in the window it was meant to die in: the line of the fail point is in its log,
and the row in its store, read before the restart, is the row of that step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from fleettrio.api.schema import MessageView, Send
from fleettrio.clients.client import ConnectionLost
from fleettrio.observe import FAILPOINT_EXIT
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until
from tests.faults.pair import ROUNDS, Pair

LEDGER = "SELECT state, reason, notified FROM ledger WHERE msg_id = ?"
OUTBOX = "SELECT msg_id, state FROM outbox WHERE kind = 'SEND' ORDER BY ts DESC, msg_id DESC LIMIT 1"


def _died_at(host: Host, point: str, before: int) -> None:
    """The daemon ended by itself, in the window `point`."""
    assert host.wait_end() == FAILPOINT_EXIT
    assert host.log.count(f"failpoint {point}: ") == before + 1


def _queued(pair: Pair, gid: str) -> int:
    """Messages that the broker has for the worker."""
    return pair.broker.message_count(f"agent.{gid}.inbox.v2.beta", pair.fleet.vhost)


# What the table says of each window: the row before the restart, the turns by then, the outcome.
R_WINDOWS: dict[str, tuple[dict[str, Any] | None, int, str]] = {
    "R1-delivered": (None, 0, "injected"),
    "R2-committed": ({"state": "waiting"}, 0, "injected"),
    "R3-before-injecting": ({"state": "waiting"}, 0, "injected"),
    "R4-injecting": ({"state": "injecting"}, 0, "unconfirmed"),
    "R5-pasted": ({"state": "injecting"}, 0, "unconfirmed"),
    "R6-written": ({"state": "injecting"}, 1, "unconfirmed"),
    "R7-recorded": ({"state": "injected", "notified": 0}, 1, "injected"),
    "R8-published": ({"state": "injected", "notified": 0}, 1, "injected"),
}


def _stopped_and_told(host: Host) -> bool:
    """Stop it; what is still to be told then is told by the next daemon."""
    if not host.is_up:
        host.up()
    host.stop()
    return not host.rows("SELECT * FROM ledger WHERE notified = 0")


def _kill_recipient(pair: Pair, point: str, body: str) -> MessageView:
    """Send with the fail point set at beta, and look at what beta's death left behind."""
    row, turns, _ = R_WINDOWS[point]
    wait_until("beta has told every outcome", lambda: _stopped_and_told(pair.beta))
    pair.beta.up({"FLEETTRIO_FAILPOINT": point})
    before = pair.beta.log.count(f"failpoint {point}: ")
    sent = pair.send(body)
    _died_at(pair.beta, point, before)
    found = pair.beta.rows(LEDGER, [sent.msg_id])
    assert [{key: have[key] for key in row or have} for have in found] == ([row] if row else [])
    wait_until(f"{turns} turns of {sent.short}", lambda: pair.turns_of(sent.short) == turns)
    wait_until("its composer is as it must be", lambda: pair.has_draft(pair.worker) == (point == "R5-pasted"))
    unacked = int(point in ("R1-delivered", "R2-committed"))
    wait_until(f"{unacked} messages wait at the broker", lambda: _queued(pair, sent.gid) == unacked)
    return sent


@pytest.mark.parametrize("point", R_WINDOWS)
def test_a_recipient_killed_in_mid_delivery_types_nothing_twice_and_loses_nothing(pair: Pair, point: str) -> None:
    outcome = R_WINDOWS[point][2]
    shorts = []
    for number in range(ROUNDS):
        sent = _kill_recipient(pair, point, f"round {number} of {point}\nsecond line;")
        shorts.append(sent.short)
        pair.beta.up()
        ended = pair.wait_outcome(sent.msg_id, outcome)
        assert ended.reason == ("crashed" if outcome == "unconfirmed" else "")
        if point == "R5-pasted":
            pair.submit_draft(pair.worker)
    marker = pair.send("the last one")
    pair.wait_outcome(marker.msg_id, "injected")
    assert [pair.turns_of(short) for short in shorts] == [0 if point == "R4-injecting" else 1] * ROUNDS


def _kill_sender(pair: Pair, point: str, body: str) -> str:
    """Send with the fail point set; the id of the message, which nobody was told."""
    pair.alpha.stop()
    pair.alpha.up({"FLEETTRIO_FAILPOINT": point})
    before = pair.alpha.log.count(f"failpoint {point}: ")
    with pair.alpha.client(pair.person) as client, contextlib.suppress(ConnectionLost):
        client.call("send", Send(to=["worker@beta"], body=body.encode()))
    _died_at(pair.alpha, point, before)
    return str(pair.alpha.rows(OUTBOX)[0]["msg_id"])


S_WINDOWS: dict[str, tuple[set[str], Callable[[Pair, str], None]]] = {}


def _recalled_on_cancel(pair: Pair, msg_id: str) -> None:
    pair.wait_outcome(msg_id, "outcome-unknown", "unknown")
    assert pair.view(msg_id).exit_code == 5
    pair.alpha.ok("cancel", msg_id, token=pair.person)
    pair.wait_outcome(msg_id, "recalled")
    assert pair.turns_of(msg_id[-8:]) == 0


def _injected(pair: Pair, msg_id: str) -> None:
    pair.wait_outcome(msg_id, "injected")
    assert pair.turns_of(msg_id[-8:]) == 1


S_WINDOWS |= {
    "S1-recorded": ({"accepted"}, _recalled_on_cancel),
    "S2-written": ({"accepted"}, _injected),
    "S3-notice": ({"accepted", "confirmed"}, _injected),  # the broker's confirm waits for the next commit
}


@pytest.mark.parametrize("point", S_WINDOWS)
def test_a_sender_killed_in_mid_send_learns_the_truth_after_its_restart(pair: Pair, point: str) -> None:
    states, ends_well = S_WINDOWS[point]
    sent = []
    for number in range(ROUNDS):
        msg_id = _kill_sender(pair, point, f"round {number} of {point}")
        assert pair.alpha.rows(OUTBOX)[0]["state"] in states
        pair.alpha.up()
        ends_well(pair, msg_id)
        sent.append(msg_id)
    marker = pair.send("the last one")
    pair.wait_outcome(marker.msg_id, "injected")
    assert [pair.turns_of(msg_id[-8:]) for msg_id in sent] == [0 if point == "S1-recorded" else 1] * ROUNDS
    if point == "S3-notice":
        for msg_id in sent:
            journal = pair.alpha.ok("show", msg_id, "--json", token=pair.person).json()["journal"]
            assert [line["what"] for line in journal].count("injected") == 1
