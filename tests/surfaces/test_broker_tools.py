"""`fleettrio broker`: the plan is applied, the printed rights are given, and with exactly these a gateway works."""

from __future__ import annotations

import dataclasses
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleettrio.core.topology import InboxQueue, inbox_queue
from fleettrio.ids import Gid, HostId
from fleettrio.private_files import write_private
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.hosts import Host
from fleettrio.testing.raw_client import RawClient, RawClientError, properties
from fleettrio.testing.waiting import wait_until

PASSWORD = "not guessed"


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """A broker on which nothing has been prepared, and a host whose login has no rights yet."""

    broker: BrokerNode
    vhost: str
    host: Host
    admin: tuple[str, ...]
    """Options that log in as the administrator."""

    def client(self) -> RawClient:
        return RawClient(self.broker.port, self.vhost, user=self.host.name, password=PASSWORD)


@pytest.fixture(scope="module")
def site(broker: BrokerNode) -> Iterator[Site]:
    vhost = "tools"
    broker.add_vhost(vhost)
    broker.rabbitmqctl("add_user", "beta", PASSWORD)
    with tempfile.TemporaryDirectory(prefix="ft-") as folder:
        host = Host("beta", Path(folder) / "beta")
        host.configure(f"amqp://127.0.0.1:{broker.port}/{vhost}", "beta", PASSWORD)
        secret = Path(folder) / "admin.password"
        write_private(secret, b"guest\n", replace=True)
        try:
            yield Site(broker, vhost, host, ("--user", "guest", "--password-file", str(secret)))
        finally:
            host.kill()
            broker.delete_vhost(vhost)
            broker.rabbitmqctl("delete_user", "beta")


def _give(site: Site, *options: str) -> None:
    for line in site.host.ok("broker", "permissions", "beta", *options).text.splitlines():
        site.broker.rabbitmqctl(*shlex.split(line)[1:])


def test_the_plan_has_every_queue_with_its_bindings_and_arguments_and_asks_no_broker(site: Site) -> None:
    plan = site.host.ok("broker", "plan", "--json").json()
    queues = {queue["name"]: queue for queue in plan["queues"]}
    assert {exchange["name"]: exchange["type"] for exchange in plan["exchanges"]}["fleet.msg"] == "topic"
    assert queues["control.beta"]["bindings"] == [["fleet.control", "beta"]]
    assert queues["control.beta"]["arguments"]["x-overflow"] == "reject-publish"
    assert queues["fleet.dlq"]["shared"] is True
    assert max(map(len, site.host.ok("broker", "plan").text.splitlines())) <= 80


def test_policies_name_the_limits_that_hold_without_them(site: Site) -> None:
    for line in site.host.ok("broker", "plan", "--policy").text.splitlines():
        site.broker.rabbitmqctl(*shlex.split(line)[1:])
    assert '"max-length":10000' in site.broker.rabbitmqctl("list_policies", "-p", site.vhost)


def test_what_is_missing_is_named_then_made_by_an_administrator_once(site: Site) -> None:
    before = site.host.cli("broker", "check", "--json", *site.admin)
    assert before.code == 3
    states = {look["name"]: look["state"] for look in before.json()["looks"]}
    assert states["fleet.msg"] == states["fleet.dlq"] == states["control.beta"] == "missing"
    for _ in range(2):
        site.host.ok("broker", "plan", "--apply", *site.admin)
    after = site.host.cli("broker", "check", *site.admin)
    assert "1 of 8" in after.text, "only the host's own control queue, which its daemon makes"
    assert "fleettrio up" in after.text


def test_a_login_with_exactly_the_printed_rights_runs_a_gateway_and_gets_no_further(site: Site) -> None:
    theirs, _ = inbox_queue(HostId("gamma"), InboxQueue(Gid("00000000-0000-8000-8000-000000000009")))
    site.host.ok("broker", "plan", "--apply", *site.admin)
    site.broker.import_definitions(
        {
            "queues": [
                {"name": theirs.name, "vhost": site.vhost, "durable": True, "auto_delete": False}
                | {"arguments": dict(theirs.arguments)}
            ],
        }
    )
    _give(site)
    site.host.ok("init")
    site.host.up(broker=("connected",))
    try:
        assert site.host.ok("broker", "check").text.count("cannot tell") == 7, "what the fleet shares"
        for queue in (theirs.name, "fleet.dlq"):
            with site.client() as client, pytest.raises(RawClientError, match="ACCESS_REFUSED"):
                client.get(queue)
        for exchange, key in (("fleet.roster", "roster.gamma._gateway"), ("", theirs.name)):
            with site.client() as client, pytest.raises(RawClientError, match="ACCESS_REFUSED"):
                client.publish(exchange, key, properties(), b"x")
        with site.client() as client:
            assert client.publish("fleet.roster", "roster.beta._gateway", properties(), b"x") == "ack"
    finally:
        site.host.stop()
    _give(site, "--reporter")
    with site.client() as client:
        assert client.get("fleet.dlq") is None


def test_a_host_that_is_to_report_dead_letters_and_may_not_read_them_says_so_until_it_may(site: Site) -> None:
    command = "fleettrio broker permissions beta --reporter"
    site.host.ok("broker", "plan", "--apply", *site.admin)
    _give(site)
    site.host.ok("init", "--new-fleet", "tools")  # whose owner is granted `report`
    site.host.up(broker=("connected",))
    try:
        wait_until("status says so", lambda: command in " ".join(site.host.cli("status").text.split()))
        assert command in " ".join(site.host.cli("doctor").text.split())
        assert "may not read the dead letters of the fleet" in " ".join(site.host.cli("doctor").text.split())
        _give(site, "--reporter")
        wait_until("it reports", lambda: command not in " ".join(site.host.cli("status").text.split()))
    finally:
        site.host.stop()


def test_other_arguments_and_another_type_are_found_and_never_changed(site: Site) -> None:
    site.broker.add_vhost("crooked")
    try:
        site.broker.import_definitions(
            {
                "exchanges": [
                    {"name": "fleet.msg", "vhost": "crooked", "type": "direct", "durable": True}
                    | {"auto_delete": False, "internal": False, "arguments": {}}
                ],
                "queues": [
                    {"name": "control.beta", "vhost": "crooked", "durable": True, "auto_delete": False}
                    | {"arguments": {"x-max-length": 5}}
                ],
            }
        )
        with tempfile.TemporaryDirectory(prefix="ft-") as folder:
            host = Host("beta", Path(folder))
            host.configure(f"amqp://127.0.0.1:{site.broker.port}/crooked", "guest", "guest")
            found = host.cli("broker", "check", "--json")
            assert found.code == 3
            looks = {look["name"]: look for look in found.json()["looks"]}
            assert looks["fleet.msg"]["state"] == looks["control.beta"]["state"] == "differs"
            assert "type" in looks["fleet.msg"]["detail"]
            assert "delete_queue control.beta" in looks["control.beta"]["fix"]
    finally:
        site.broker.delete_vhost("crooked")


def test_bad_requests_are_refused_with_what_to_do(site: Site, tmp_path: Path) -> None:
    for words, said in (
        (("plan", "--policy", "--apply"), "goes with neither"),
        (("plan", "--user", "guest"), "--apply"),
        (("check", "--user", "guest"), "--password-file"),
        (("permissions", "Not A Host"), "is not a host id"),
    ):
        done = site.host.cli("broker", *words)
        assert (done.code, said in done.err) == (2, True), done.err
    alone = Host("alone", tmp_path / "alone")
    alone.configure()
    assert "give --vhost" in alone.cli("broker", "permissions", "beta").err
    assert "no broker in its configuration" in alone.cli("broker", "check").err
    write_private(tmp_path / "wrong", b"wrong\n", replace=True)
    refused = site.host.cli("broker", "check", "--user", "guest", "--password-file", str(tmp_path / "wrong"))
    assert (refused.code, "login of user guest is refused" in refused.err) == (8, True), refused.err
