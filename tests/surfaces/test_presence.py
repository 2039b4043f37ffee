"""Who is there: a copied home stops both daemons, a silent host is unknown, one that was ended has left."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator

import pytest

from fleettrio.core.topology import InboxQueue, inbox_queue
from fleettrio.ids import Gid, HostId
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.raw_client import RawClient, RawClientError
from fleettrio.testing.waiting import wait_until


@pytest.fixture(scope="module")
def fleet(broker: BrokerNode) -> Iterator[Fleet]:
    """alpha, which owns the fleet, and beta with an agent. A test that stops one of them starts it again."""
    with Fleet(broker, "alpha", "beta") as fleet:
        fleet["beta"].ok("attach", "--name", "reader")
        wait_until("alpha hears of the reader", lambda: fleet["alpha"].agent("reader@beta"))
        yield fleet


def _is(host: Host, other: str, status: str) -> bool:
    return any(view.status == status for view in host.status().fleet.hosts if view.host == other)


def test_a_host_that_was_ended_has_left_and_one_that_was_killed_is_unknown_since_it_was_heard(fleet: Fleet) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    beta.stop()
    wait_until("alpha sees it leave", lambda: _is(alpha, "beta", "left"))
    assert "left " in alpha.ok("list").text
    ping = alpha.cli("ping", "beta")
    assert (ping.code, "its daemon was ended at" in " ".join(ping.err.split())) == (5, True), ping.err
    alpha.ok("send", "reader@beta", "for later")
    assert "(beta left " in alpha.ok("show", "@last").text
    beta.up()
    wait_until("it is back", lambda: _is(alpha, "beta", "up"))
    beta.kill()
    wait_until("three beats are over", lambda: _is(alpha, "beta", "unknown"))
    agent = alpha.agent("reader@beta")
    assert agent is not None, "it does not vanish"
    assert agent.status == "unknown"
    assert "unknown since " in alpha.ok("list").text
    assert "beta · unknown since " in alpha.ok().text
    beta.up()
    wait_until("it is back", lambda: _is(alpha, "beta", "up"))


def test_a_host_is_forgotten_by_hand_until_it_is_heard_again(fleet: Fleet) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    beta.stop()
    wait_until("alpha has heard its last word", lambda: _is(alpha, "beta", "left"))
    assert alpha.cli("host", "forget", "nobody").code == 3
    alpha.ok("host", "forget", "beta")
    assert alpha.agent("reader@beta") is None
    beta.up()
    wait_until("its agents are known again", lambda: alpha.agent("reader@beta"))


def test_a_copied_home_stops_both_daemons_until_a_person_has_looked(fleet: Fleet) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    beta.stop()
    home = fleet.folder / "copy"
    shutil.copytree(beta.paths.config_dir, home)
    beta.up()
    copy = Host("beta", home, beta.env)
    copy.begin()
    try:
        for host in (beta, copy):
            wait_until("it stops", functools.partial(_has_stopped, host))
            assert "fleettrio doctor --fix clone" in host.cli("doctor").text
            wait_until("it is in its log", functools.partial(_logs_clone, host))
        beta.ok("attach", "--name", "neighbour")
        beta.ok("send", "neighbour", "local messages go on")
    finally:
        copy.stop()
    beta.ok("doctor", "--fix", "clone")
    beta.wait_broker("connected")
    wait_until("it is heard", lambda: _is(alpha, "beta", "up"))


def _logs_clone(host: Host) -> bool:
    return '"reason": "clone"' in host.log


def _has_stopped(host: Host) -> bool:
    """Off the broker, and it says why."""
    return host.broker_state() == "kept-off" and "another machine" in " ".join(host.status().problems)


def test_a_frozen_daemon_commits_nothing_that_another_took_meanwhile(broker: BrokerNode) -> None:
    with Fleet(broker, "alpha", "beta", more="heartbeat_s = 4\n[timers]\nbeat_s = 0.5\n") as fleet:
        alpha, beta = fleet["alpha"], fleet["beta"]
        token = beta.ok("attach", "--name", "reader", "--json").json()["token"]
        agent = wait_until("alpha hears of the reader", lambda: alpha.agent("reader@beta"))
        beta.freeze()
        alpha.ok("send", "reader@beta", "in hand when it froze")
        inbox, _ = inbox_queue(HostId("beta"), InboxQueue(Gid(agent.gid)))
        assert wait_until("another takes it over", lambda: _take(broker, fleet.vhost, inbox.name))
        beta.thaw()
        wait_until("it notices", lambda: "stood still" in beta.log)
        beta.wait_broker("connected")
        wait_until("it is heard again", lambda: _is(alpha, "beta", "up"))
        assert beta.cli("inbox", "--take", token=token).text == ""
        alpha.ok("send", "reader@beta", "after the thaw")
        assert "after the thaw" in beta.ok("inbox", "--take", "--wait", "50", token=token).text


def _take(broker: BrokerNode, vhost: str, queue: str) -> bool:
    """Take a message out of `queue`; False while a consumer has it."""
    with RawClient(broker.port, vhost) as client:
        try:
            return client.get(queue) is not None
        except RawClientError:
            return False
