"""Dead letters: whatever the broker does to a message, its sender hears of it once, and a person can put it right."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from fleettrio.core.topology import CONTROL, DLX, MSG
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.raw_client import RawClient, field, properties, table
from fleettrio.testing.waiting import wait_until
from fleettrio.wire.envelope import Kind
from tests.surfaces.broker_hand import Overheard, count, replace_queue, take_and_give_back
from tests.surfaces.forger import good

TO_DLX: dict[str, str | int] = {"x-dead-letter-exchange": DLX}


@pytest.fixture(scope="module")
def three(broker: BrokerNode) -> Iterator[Fleet]:
    """alpha reports, beta sends, gamma's agent is who it is sent to; gamma's daemon is down."""
    with Fleet(broker, "alpha", "beta", "gamma") as fleet:
        fleet["gamma"].ok("attach", "--name", "worker", "--takes", "pull")
        wait_until("beta hears of the worker", lambda: fleet["beta"].agent("worker@gamma"))
        wait_until("its inbox", lambda: _has_inbox(fleet["gamma"]))
        fleet["gamma"].stop()
        yield fleet


@pytest.fixture(scope="module")
def to_beta(three: Fleet) -> Overheard:
    """Every notice that beta gets."""
    return Overheard(three, CONTROL, "beta")


@pytest.fixture(scope="module")
def inbox(three: Fleet) -> tuple[str, str]:
    """The broker queue of the worker, and its gid."""
    worker = three["beta"].agent("worker@gamma")
    assert worker is not None
    return f"agent.{worker.gid}.inbox.v2.gamma", worker.gid


def _has_inbox(host: Host) -> bool:
    agent = host.agent("worker@gamma")
    return agent is not None and agent.inbox == "open"


def _send(fleet: Fleet, body: str) -> str:
    sent = fleet["beta"].cli("send", "worker@gamma", body, "--json").json()["messages"][0]
    # The broker has it, if it did not tell its end already; one that was busy for seconds may have told nothing yet.
    assert sent["state"] in ("waiting", "expired", "outcome-unknown"), sent
    return str(sent["msg_id"])


def _shown(host: Host, msg_id: str) -> dict[str, Any]:
    shown: dict[str, Any] = host.cli("show", msg_id, "--json").json()
    return shown


def _state(host: Host, msg_id: str) -> tuple[str, str]:
    message = _shown(host, msg_id)["messages"][0]
    return message["state"], message["reason"]


def _told(fleet: Fleet, to_beta: Overheard, msg_id: str) -> list[str]:
    """How often, and with what reason, the reporter told of it; its sender got one notice for each."""
    lines = fleet["alpha"].cli("trace", _shown(fleet["beta"], msg_id)["messages"][0]["trace_id"], "--json", "--local")
    if lines.code:
        return []
    told = [x["reason"] for x in lines.json()["journal"] if x["what"] == "dead-letter" and x["msg_id"] == msg_id]
    assert [notice.host for notice in to_beta.about(msg_id, Kind.FAILED)] == ["alpha"] * len(told)
    return told


def _letters(fleet: Fleet) -> dict[str, dict[str, Any]]:
    found = fleet["alpha"].ok("dlq", "list", "--json").json()["letters"]
    return {letter["msg_id"]: letter for letter in found}


def _listed_as(fleet: Fleet, kind: str) -> list[dict[str, Any]]:
    found = fleet["alpha"].ok("dlq", "list", "--json").json()["letters"]
    return [letter for letter in found if letter["kind"] == kind]


def _set_aside(fleet: Fleet, msg_id: str) -> dict[str, Any]:
    return wait_until("it is set aside", lambda: _letters(fleet).get(msg_id))


def _listed_with(host: Host, word: str) -> str:
    listed = host.ok("dlq", "list").text
    return listed if word in listed else ""


def _raw(fleet: Fleet) -> RawClient:
    assert fleet.broker is not None
    return RawClient(fleet.broker.port, vhost=fleet.vhost)


def test_what_expired_on_its_queue_is_told_once(three: Fleet, to_beta: Overheard, inbox: tuple[str, str]) -> None:
    queue, gid = inbox
    replace_queue(three, queue, {**TO_DLX, "x-message-ttl": 200}, (MSG, gid))
    msg_id = _send(three, "nobody reads this in time")
    wait_until("beta is told", lambda: _state(three["beta"], msg_id) == ("expired", "expired"))
    assert _set_aside(three, msg_id)["reason"] == "expired"
    assert _told(three, to_beta, msg_id) == ["expired"]


def test_what_was_pushed_out_is_told_once_and_sent_again_by_hand(
    three: Fleet, to_beta: Overheard, inbox: tuple[str, str]
) -> None:
    queue, gid = inbox
    replace_queue(three, queue, {**TO_DLX, "x-max-length": 1, "x-overflow": "drop-head"}, (MSG, gid))
    msg_id = _send(three, "pushed out")
    _send(three, "pushes")
    wait_until("beta is told", lambda: _state(three["beta"], msg_id) == ("failed", "overflow"))
    letter = _set_aside(three, msg_id)
    assert (letter["reason"], letter["queue"], letter["kind"]) == ("maxlen", queue, "SEND")
    assert _told(three, to_beta, msg_id) == ["overflow"]
    shown = three["alpha"].ok("dlq", "show", letter["short"]).text
    assert "pushed out" in shown
    assert "was full" in shown
    assert f"fleettrio dlq retry {letter['short']}" in " ".join(shown.split())
    replace_queue(three, queue, TO_DLX, (MSG, gid))
    assert "on its way again" in three["alpha"].ok("dlq", "retry", letter["short"]).text
    assert msg_id not in _letters(three)
    wait_until("it is in its queue", lambda: count(three, queue) == 1)


def test_what_came_back_too_often_is_told_once(three: Fleet, to_beta: Overheard, inbox: tuple[str, str]) -> None:
    queue, gid = inbox
    replace_queue(three, queue, {**TO_DLX, "x-queue-type": "quorum", "x-delivery-limit": 1}, (MSG, gid))
    msg_id = _send(three, "comes back")
    take_and_give_back(three, queue, 2)
    wait_until("beta is told", lambda: _state(three["beta"], msg_id) == ("failed", "delivery-limit"))
    assert _set_aside(three, msg_id)["reason"] == "delivery_limit"
    assert _told(three, to_beta, msg_id) == ["delivery-limit"]


def test_what_was_refused_was_told_by_its_refuser_alone(three: Fleet, to_beta: Overheard) -> None:
    reader = three["alpha"].status().fleet.agents[0]
    past = time.time_ns() // 1_000_000 - 600_000
    late = good(three["beta"], reader.gid, ts=past, expiresAt=past + 1_000)
    with _raw(three) as raw:
        late.send(raw)
    assert _set_aside(three, late.fields["msgId"])["reason"] == "rejected"
    traced = three["alpha"].ok("trace", late.fields["traceId"], "--json", "--local").json()
    assert [line["what"] for line in traced["journal"]] == ["refused"]
    assert len(to_beta.about(late.fields["msgId"], Kind.FAILED)) == 1


def test_poison_among_the_dead_letters_costs_itself_alone(three: Fleet, inbox: tuple[str, str]) -> None:
    queue, gid = inbox
    with _raw(three) as raw:
        raw.publish(DLX, "", properties(table(field("fleet", b"\xff" * 40))), b"\x1b[2Jpoison")
        raw.publish(DLX, "", properties(table()), b"nothing")
    replace_queue(three, queue, {**TO_DLX, "x-message-ttl": 200}, (MSG, gid))
    msg_id = _send(three, "behind the poison")
    wait_until("beta is told", lambda: _state(three["beta"], msg_id) == ("expired", "expired"))
    listed = wait_until("the poison is set aside", lambda: _listed_with(three["alpha"], "malformed"))
    assert "\x1b" not in listed


@pytest.mark.parametrize("name", ["fleet", "hop"])
def test_a_dead_letter_with_more_headers_than_a_message_may_have_costs_itself_alone(
    three: Fleet, inbox: tuple[str, str], name: str
) -> None:
    """It is set aside without them, and the reporter goes on: nobody may end it, whatever he puts among the dead."""
    queue, gid = inbox
    pid, before = three["alpha"].pid, len(_listed_as(three, "?"))
    with _raw(three) as raw:
        assert raw.publish(DLX, "", properties(table(field(name, b"x" * 60_000))), b"poison") == "ack"
    replace_queue(three, queue, {**TO_DLX, "x-message-ttl": 200}, (MSG, gid))
    msg_id = _send(three, f"behind {name}")
    wait_until("beta is told", lambda: _state(three["beta"], msg_id) == ("expired", "expired"))
    _set_aside(three, msg_id)
    assert [letter["size"] for letter in _listed_as(three, "?")[before:]] == [len("poison")]
    assert (three["alpha"].is_up, three["alpha"].pid) == (True, pid)


def test_a_host_that_can_be_told_nothing_holds_up_nobody_else(three: Fleet, inbox: tuple[str, str]) -> None:
    """gamma is down, and what waits for it fills its control queue."""
    queue, gid = inbox
    full: dict[str, str | int] = {"x-max-length": 1, "x-overflow": "reject-publish"}
    replace_queue(three, "control.gamma", full, (CONTROL, "gamma"))
    replace_queue(three, queue, {**TO_DLX, "x-message-ttl": 200}, (MSG, gid))
    own = good(three["gamma"], gid)
    with _raw(three) as raw:
        while raw.publish(CONTROL, "gamma", properties(table())) == "ack":
            pass
        assert own.send(raw) == "ack"
    msg_id = _send(three, "behind one that cannot be told")
    wait_until("beta is told", lambda: _state(three["beta"], msg_id) == ("expired", "expired"))
    assert _set_aside(three, own.fields["msgId"])["reason"] == "expired"


def test_a_reporter_that_died_between_telling_and_moving_tells_nothing_twice(
    three: Fleet, to_beta: Overheard, inbox: tuple[str, str]
) -> None:
    queue, gid = inbox
    replace_queue(three, queue, {**TO_DLX, "x-message-ttl": 200}, (MSG, gid))
    alpha = three["alpha"]
    alpha.stop()
    alpha.up(env={"FLEETTRIO_FAILPOINT": "D1-reported"})
    msg_id = _send(three, "told once")
    assert alpha.wait_end() == 137
    wait_until("beta is told", lambda: _state(three["beta"], msg_id) == ("expired", "expired"))
    alpha.up()
    _set_aside(three, msg_id)
    assert _told(three, to_beta, msg_id) == ["expired"]
    assert count(three, "fleet.dlq") == 0


def test_a_person_throws_them_away_and_an_agent_may_not_look(three: Fleet) -> None:
    alpha = three["alpha"]
    token = alpha.ok("attach", "--name", "nosy", "--json").json()["token"]
    assert "only a person" in alpha.cli("dlq", "list", token=token).err
    before = _letters(three)
    assert before
    first = next(x for x in before.values() if x["msg_id"])
    alpha.ok("dlq", "drop", first["short"])
    assert first["msg_id"] not in _letters(three)
    alpha.ok("dlq", "drop", "--all", "--yes")
    assert _letters(three) == {}
    assert "no dead letters" in alpha.ok("dlq", "list").text


def test_a_login_that_may_not_read_them_is_told_what_it_lacks(three: Fleet) -> None:
    refused = three["beta"].cli("dlq", "list")
    assert refused.code == 3
    assert "may not read the dead letters" in refused.err
    assert "broker permissions beta --reporter" in refused.err
