"""What an administrator, or a name, can do to an inbox at the broker: taken away, too small, bound to everything."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from fleettrio.core.topology import MSG
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.raw_client import properties
from fleettrio.testing.waiting import wait_until
from tests.surfaces.broker_hand import delete_queue, exists
from tests.surfaces.forger import good, raw_client


@dataclasses.dataclass(frozen=True, slots=True)
class Crew:
    """Two agents on beta that fetch their mail; alpha knows both. `tokens` and `gids` by name."""

    fleet: Fleet
    tokens: dict[str, str]
    gids: dict[str, str]

    @property
    def alpha(self) -> Host:
        return self.fleet["alpha"]

    @property
    def beta(self) -> Host:
        return self.fleet["beta"]

    def queue(self, name: str) -> str:
        return f"agent.{self.gids[name]}.inbox.v2.beta"

    def is_open(self, name: str) -> bool:
        agent = self.beta.agent(f"{name}@beta")
        return agent is not None and agent.inbox == "open"

    def take(self, name: str, wait: str = "50") -> str:
        return self.beta.ok("inbox", "--take", "--wait", wait, token=self.tokens[name]).text


@pytest.fixture(scope="module")
def crew(broker: BrokerNode) -> Iterator[Crew]:
    with Fleet(broker, "alpha", "beta") as fleet:
        tokens, gids = {}, {}
        for name in ("one", "two"):
            attached = fleet["beta"].ok("attach", "--name", name, "--group", "crew", "--json").json()
            tokens[name], gids[name] = attached["token"], attached["gid"]
        crew = Crew(fleet, tokens, gids)
        wait_until("alpha hears of both", lambda: all(fleet["alpha"].agent(f"{name}@beta") for name in gids))
        wait_until("their inboxes are open", lambda: all(map(crew.is_open, gids)))
        yield crew


def test_an_inbox_deleted_under_its_consumer_is_made_again_and_loses_nothing_that_was_taken(crew: Crew) -> None:
    alpha, beta, queue = crew.alpha, crew.beta, crew.queue("one")
    sessions = beta.log.count("session open")
    alpha.ok("send", "one@beta", "before")
    wait_until("it was taken", lambda: (agent := beta.agent("one@beta")) and agent.waiting == 1)
    delete_queue(crew.fleet, queue)
    wait_until("it is there again", lambda: exists(crew.fleet, queue))
    wait_until("it is open", lambda: crew.is_open("one"))
    alpha.ok("send", "one@beta", "after")
    wait_until("both are there", lambda: (agent := beta.agent("one@beta")) and agent.waiting == 2)
    taken = crew.take("one")
    assert taken.index("before") < taken.index("after")
    assert beta.log.count("session open") == sessions, "the other inboxes went on"


def test_an_inbox_deleted_under_its_publisher_fails_the_send_which_goes_through_once_it_is_back(crew: Crew) -> None:
    alpha, beta = crew.alpha, crew.beta
    beta.stop()
    delete_queue(crew.fleet, crew.queue("one"))
    failed = alpha.cli("send", "one@beta", "to nowhere", "--json")
    (view,) = failed.json()["messages"]
    assert (failed.code, view["state"], view["reason"]) == (3, "failed", "unroutable")
    assert "no inbox of one@beta is on the broker" in view["sentence"]
    beta.up()
    wait_until("its inbox is open", lambda: crew.is_open("one"))
    alpha.ok("send", "--retry", view["msg_id"], "to nowhere")
    assert "to nowhere" in crew.take("one")


def test_a_broadcast_with_one_full_inbox_reaches_all_others_and_a_retry_that_one_alone(
    crew: Crew, broker: BrokerNode
) -> None:
    alpha, beta = crew.alpha, crew.beta
    beta.stop()
    policy = {"vhost": crew.fleet.vhost, "name": "small", "pattern": f"^{crew.queue('one')}$", "apply-to": "queues"}
    broker.import_definitions({"policies": [{**policy, "priority": 1, "definition": {"max-length": 1}}]})
    alpha.ok("send", "one@beta", "fills it")
    done = alpha.cli("broadcast", "--group", "crew", "all hands", "--json")
    broker.rabbitmqctl("clear_policy", "-p", crew.fleet.vhost, "small")
    head, *members = done.json()["messages"]
    assert (done.code, head["is_head"]) == (5, True)
    assert {member["recipient"] for member in members} == {"one@beta", "two@beta"}
    assert all("full" in member["sentence"] for member in members), members
    beta.up()
    assert "all hands" in crew.take("two"), "the other member on that host has it"
    assert "fills it" in crew.take("one")
    assert crew.take("one", "0") == ""
    alpha.ok("send", "--retry", head["msg_id"], "all hands")
    assert "all hands" in crew.take("one")
    assert crew.take("two", "0") == "", "nobody has it twice"


def test_a_group_called_hash_is_nobodys_and_bound_to_by_nobody(crew: Crew) -> None:
    alpha, beta = crew.alpha, crew.beta
    for done in (
        alpha.cli("broadcast", "--group", "#", "everybody?"),
        beta.cli("attach", "--name", "x", "--group", "#"),
    ):
        assert done.code in (2, 3)
        assert "group" in done.err
    forged = dataclasses.replace(good(alpha, "broadcast.#", kind="BROADCAST"), key=crew.gids["one"])
    refused = beta.status().refused.get("malformed", 0)
    with raw_client(crew.fleet) as raw:
        assert forged.send(raw) == "ack"
        wait_until("it is refused", lambda: beta.status().refused.get("malformed", 0) == refused + 1)
        assert raw.publish(MSG, "broadcast.#", properties(), b"anybody?", mandatory=True) == "returned"
