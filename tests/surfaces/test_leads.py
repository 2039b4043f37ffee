"""Lead to lead on a real broker: two fleets, two vhosts, and a third one for the coordinator."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator

import pytest

from fleettrio.local.frame import unframe
from fleettrio.testing.agents.room import StandIn, TmuxRoom
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until
from fleettrio.wire.kinds import Kind
from tests.surfaces.leads import Leads, leads
from tests.surfaces.workers import stand_in


@pytest.fixture(scope="module")
def pair(broker: BrokerNode, room: TmuxRoom) -> Iterator[Leads]:
    with leads(broker, room) as pair:
        yield pair


@pytest.fixture(scope="module")
def token(pair: Leads) -> str:
    """alpha's lead, which fetches its mail."""
    token = str(pair.alpha.ok("attach", "--name", "lead", "--json").json()["token"])
    pair.wait_link(pair.alpha, "connected")
    return token


@pytest.fixture(scope="module")
def other(pair: Leads, room: TmuxRoom) -> StandIn:
    """beta's lead, in a pane."""
    agent = stand_in(room, pair.beta, "lead")
    pair.wait_link(pair.beta, "connected")
    return agent


def _says_not_party(host: Host, trace_id: str) -> bool:
    return "not-party" in host.cli("trace", trace_id).text


def refused(host: Host) -> int:
    return sum(host.status().refused.values())


def test_a_lead_that_is_not_here_yet_is_what_doctor_says(pair: Leads) -> None:
    done = pair.alpha.cli("doctor")
    assert done.code == 3
    assert "no agent here is called 'lead'" in " ".join(done.text.split())


def test_coordination_lands_in_the_other_leads_pane_and_the_word_comes_back(
    pair: Leads, token: str, other: StandIn
) -> None:
    done = pair.alpha.cli("send", "--coord", "lead-b", "we take src/ui", "--wait=delivered", token=token)
    assert done.code == 0, done.err
    assert "lead.lead-b" in done.err + done.text
    turn = wait_until("the turn", lambda: next(iter(other.turns()), None))
    assert unframe(turn) == "we take src/ui"
    assert "coordination" in turn
    assert "from lead.lead-a (verified)" in turn
    assert "fleettrio send --coord lead-a" in turn


def test_the_answer_goes_the_same_way_and_is_pulled(pair: Leads, token: str, other: StandIn) -> None:
    lead = pair.beta.ok("token", "create", "--name", "lead", "--json").json()["token"]
    sent = pair.beta.ok("send", "--coord", "lead-a", "then we take src/core", "--json", token=lead).json()
    taken = pair.alpha.ok("inbox", "--take", "--wait", "50", "--json", token=token).json()
    assert [message["sender"] for message in taken["messages"]] == ["lead.lead-b"]
    (message,) = sent["messages"]
    wait_until(
        "beta is told that it was taken",
        lambda: "took it" in pair.beta.ok("show", message["msg_id"], token=lead).text,
    )


def test_list_and_status_show_who_the_lead_is(pair: Leads, token: str) -> None:
    assert "lead is the lead lead-a to other leads" in pair.alpha.ok("list").text
    assert "lead-a" in pair.alpha.ok("status").text
    facts = json.loads(pair.alpha.ok("list", "--json").out)["coordination"]
    assert (facts["coord_id"], facts["broker"], facts["others"]) == ("lead-a", "connected", ["lead-b"])
    doctor = " ".join(pair.alpha.cli("doctor").text.split())
    assert "connected; the lead here is lead-a; what dies in a mailbox is told by lead-a" in doctor


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--coord", "lead-x", "hi"), 3, "no lead 'lead-x'"),
        (("--coord", "lead-a", "hi"), 2, "this very lead"),
        (("--coord", "lead-b", "worker", "hi"), 2, "names the one recipient"),
        (("--coord", "lead-b", "hi", "--claim", "k"), 2, "--coord goes with"),
        (("--coord", "lead-b", "hi", "--wait"), 2, "--coord goes with"),
    ],
)
def test_what_cannot_be_said_to_a_lead_is_explained(
    pair: Leads, token: str, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = pair.alpha.cli("send", *arguments, token=token)
    assert done.code == code
    assert says in done.err


def test_a_person_is_not_the_lead(pair: Leads, token: str) -> None:
    done = pair.alpha.cli("send", "--coord", "lead-b", "hi")
    assert (done.code, "only the lead" in done.err) == (3, True)


def test_send_ask_spawn_and_broadcast_in_a_mailbox_are_refused_and_told(pair: Leads, other: StandIn) -> None:
    gid = pair.beta.ok("list", "--json").json()["agents"][0]["gid"]
    before, turns = refused(pair.beta), list(other.turns())
    forgeries = (
        pair.by_hand(pair.alpha, Kind.SEND, gid),
        pair.by_hand(pair.alpha, Kind.ASK, gid, turnId="t"),
        pair.by_hand(pair.alpha, Kind.SPAWN, "beta", spawnId=gid),
        pair.by_hand(pair.alpha, Kind.BROADCAST, "broadcast.all"),
    )
    with pair.raw("alpha") as raw:
        for forged in forgeries:
            assert forged.send(raw) == "ack"
    wait_until("all four are refused", lambda: refused(pair.beta) == before + 4)
    assert list(other.turns()) == turns
    for forged in forgeries:  # alpha is told, and knows of no such message
        wait_until("alpha is told", functools.partial(_says_not_party, pair.alpha, forged.fields["traceId"]))


def test_a_host_without_a_lead_is_refused_though_its_key_is_good(pair: Leads, other: StandIn) -> None:
    before = refused(pair.beta)
    with pair.raw("gamma") as raw:
        assert pair.by_hand(pair.gamma, Kind.COORD, "lead.lead-b").send(raw) == "ack"
    wait_until("it is refused", lambda: refused(pair.beta) == before + 1)
    assert pair.beta.status().refused["not-authorised"] >= 1


def test_without_the_coordinators_vhost_the_send_fails_at_once_and_the_fleet_goes_on(
    pair: Leads, token: str, other: StandIn
) -> None:
    pair.broker.delete_vhost(pair.vhost)
    pair.wait_link(pair.alpha, "connecting", "refused-login")
    done = pair.alpha.cli("send", "--coord", "lead-b", "are you there?", token=token)
    assert done.code == 8
    assert done.seconds < 30, "it waited for it"
    assert pair.alpha.status().broker == "connected"
    assert pair.alpha.cli("send", "human", "local goes on", token=token).code == 0
    assert "coordinator" in pair.alpha.cli("doctor").text


def test_the_plan_and_the_rights_for_a_coordinators_vhost_are_printed(pair: Leads) -> None:
    plan = pair.beta.ok("broker", "plan", "--coordinator").text
    assert "lead.lead-b.mailbox" in plan
    assert "bound to fleet.ops: lead.lead-b" in plan
    assert "fleet.msg" not in plan
    (line,) = pair.beta.ok("broker", "permissions", "beta", "--coordinator", "lead-b", "--json").json()["lines"]
    assert f"set_permissions -p {pair.vhost} beta " in line
    assert r"^lead\.lead\-b\.mailbox$|^control\.beta$" in line


def test_the_help_has_an_example(pair: Leads) -> None:
    assert "--coord lead-b" in pair.alpha.ok("send", "--help").text
