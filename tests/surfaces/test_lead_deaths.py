"""Coordination that dies at the coordinator's broker: its sender hears of it, and a person can put it right."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fleettrio.core.topology import DLX, OPS, LeadQueue, inbox_queue, lead_key
from fleettrio.ids import Gid, HostId
from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until
from tests.surfaces.broker_hand import count, replace_queue
from tests.surfaces.leads import Leads, leads

MAILBOX = "lead.lead-b.mailbox"
SHORT: dict[str, str | int] = {"x-message-ttl": 200}
SMALL: dict[str, str | int] = {"x-max-length": 1, "x-overflow": "drop-head"}
AS_MADE = inbox_queue(HostId("beta"), LeadQueue(Gid(""), coord_id="lead-b"))[0].arguments


@pytest.fixture(scope="module")
def pair(broker: BrokerNode, room: TmuxRoom) -> Iterator[Leads]:
    """alpha's lead writes, and alpha reports what died; beta's lead fetches, but its host is down."""
    with leads(broker, room) as pair:
        for host in (pair.alpha, pair.beta):
            host.ok("attach", "--name", "lead", "--takes", "pull")
            pair.wait_link(host, "connected")
        pair.beta.stop()
        yield pair


@pytest.fixture(scope="module")
def token(pair: Leads) -> str:
    return str(pair.alpha.ok("token", "create", "--name", "lead", "--json").json()["token"])


def mailbox(pair: Leads, arguments: Mapping[str, str | int]) -> None:
    """The mailbox of beta's lead anew, empty."""
    replace_queue(pair, MAILBOX, {"x-dead-letter-exchange": DLX, **arguments}, (OPS, lead_key("lead-b")))


def coord(pair: Leads, token: str, body: str) -> str:
    # It may have ended, and been told so, before the command looks: that is no failure of the command's.
    sent = pair.alpha.cli("send", "--coord", "lead-b", body, "--json", token=token).json()["messages"][0]
    return str(sent["msg_id"])


def state(host: Host, msg_id: str, token: str) -> tuple[str, str]:
    message = host.cli("show", msg_id, "--json", token=token).json()["messages"][0]
    return message["state"], message["reason"]


def said(host: Host, msg_id: str, token: str) -> str:
    return " ".join(host.cli("show", msg_id, token=token).text.split())


def listed(pair: Leads) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pair.alpha.ok("dlq", "list", "--coordinator", "--json").json()["letters"]
    return found


def letters(pair: Leads) -> dict[str, dict[str, Any]]:
    return {letter["msg_id"]: letter for letter in listed(pair)}


def deaths(pair: Leads, msg_id: str) -> int:
    """As often as that it was set aside."""
    return sum(letter["msg_id"] == msg_id for letter in listed(pair))


def set_aside(pair: Leads, msg_id: str) -> dict[str, Any]:
    return wait_until("it is set aside", lambda: letters(pair).get(msg_id))


def told(pair: Leads, msg_id: str, token: str) -> list[str]:
    """With what reasons the reporter told of it."""
    message = pair.alpha.cli("show", msg_id, "--json", token=token).json()["messages"][0]
    journal = pair.alpha.cli("trace", message["trace_id"], "--json", "--local").json()["journal"]
    return [line["reason"] for line in journal if (line["what"], line["msg_id"]) == ("dead-letter", msg_id)]


def test_what_expired_in_a_mailbox_is_told_to_the_lead_that_sent_it(pair: Leads, token: str) -> None:
    mailbox(pair, SHORT)
    msg_id = coord(pair, token, "nobody opens this in time")
    wait_until("alpha's lead is told", lambda: state(pair.alpha, msg_id, token) == ("expired", "expired"))
    letter = set_aside(pair, msg_id)
    assert (letter["kind"], letter["sender"], letter["queue"]) == ("COORD", "lead.lead-a", MAILBOX)
    assert (letter["reason"], told(pair, msg_id, token)) == ("expired", ["expired"])


def test_what_a_full_mailbox_pushed_out_is_told_as_often_as_it_was_sent(pair: Leads, token: str) -> None:
    mailbox(pair, SMALL)
    msg_id = coord(pair, token, "pushed out")
    coord(pair, token, "pushes")
    wait_until("alpha's lead is told", lambda: state(pair.alpha, msg_id, token) == ("failed", "overflow"))
    at = time.time()
    assert "was full at the broker" in said(pair.alpha, msg_id, token)
    set_aside(pair, msg_id)
    assert told(pair, msg_id, token) == ["overflow"]
    wait_until("another second", lambda: time.time() > at + 2)  # the broker notes deaths in whole ones
    pair.alpha.cli("send", "--retry", msg_id, "pushed out", token=token)
    coord(pair, token, "pushes again")
    wait_until("it is told again", lambda: told(pair, msg_id, token) == ["overflow"] * 2)
    wait_until("alpha's lead knows", lambda: state(pair.alpha, msg_id, token) == ("failed", "overflow"))
    wait_until("it is set aside again: the reporter has nothing in hand", lambda: deaths(pair, msg_id) == 2)


def test_a_reporter_killed_between_telling_and_moving_tells_nothing_twice(pair: Leads, token: str) -> None:
    mailbox(pair, SMALL)
    alpha = pair.alpha
    alpha.stop()
    alpha.up(env={"FLEETTRIO_FAILPOINT": "D1-reported"})
    pair.wait_link(alpha, "connected")
    msg_id = coord(pair, token, "told once")
    alpha.cli("send", "--coord", "lead-b", "pushes", token=token)  # it may die before it answers
    assert alpha.wait_end() == 137
    alpha.up()
    pair.wait_link(alpha, "connected")
    set_aside(pair, msg_id)
    wait_until("alpha's lead is told", lambda: state(alpha, msg_id, token) == ("failed", "overflow"))
    assert told(pair, msg_id, token) == ["overflow"]
    assert count(pair, "fleet.dlq") == 0


def test_what_a_person_sends_again_is_taken_by_the_other_lead_whose_word_is_the_last(pair: Leads, token: str) -> None:
    mailbox(pair, SMALL)
    msg_id = coord(pair, token, "in the end it is read")
    coord(pair, token, "pushes")
    letter = set_aside(pair, msg_id)
    command = f"fleettrio dlq retry {letter['short']} --coordinator"
    assert command in " ".join(pair.alpha.ok("dlq", "show", letter["short"], "--coordinator").text.split())
    mailbox(pair, AS_MADE)
    assert "on its way again" in pair.alpha.ok("dlq", "retry", letter["short"], "--coordinator").text
    assert msg_id not in letters(pair)
    pair.beta.up()
    lead = pair.beta.ok("token", "create", "--name", "lead", "--json").json()["token"]
    taken = pair.beta.ok("inbox", "--take", "--wait", "50", "--json", token=lead).json()["messages"]
    assert [message["msg_id"] for message in taken] == [msg_id]
    wait_until("the other lead's word", lambda: state(pair.alpha, msg_id, token)[0] == "drained")


def test_the_leads_dead_letters_are_shown_to_whose_login_may_read_them(pair: Leads) -> None:
    refused = pair.beta.cli("dlq", "list", "--coordinator")
    assert refused.code == 3
    assert "may not read the dead letters of the leads" in refused.err
    assert "broker permissions beta --coordinator lead-b --reporter" in refused.err
    (line,) = pair.alpha.ok("broker", "permissions", "alpha", "--coordinator", "lead-a", "--reporter").text.splitlines()
    assert r"^fleet\.dlq" in line
    assert letters(pair)
    pair.alpha.ok("dlq", "drop", "--all", "--coordinator", "--yes")
    assert letters(pair) == {}
    assert pair.alpha.ok("dlq", "list", "--json").json()["letters"] == []
