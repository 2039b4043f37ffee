"""Trust that is missing on one side is told to both, with what mends it; then the same bytes go through."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host, Outcome
from fleettrio.testing.waiting import wait_until


@pytest.fixture(scope="module")
def uneven(broker: BrokerNode) -> Iterator[Fleet]:
    """alpha owns the fleet; gamma is in the newest fleet file, which beta has not got."""
    with Fleet(broker, "alpha", "beta", later=("gamma",)) as fleet:
        gamma = fleet["gamma"]
        fleet.add(gamma)
        fleet.carry(gamma)
        gamma.up()
        # What beta announces, gamma believes; what gamma asks, beta does not answer.
        fleet["beta"].ok("attach", "--name", "reader")
        wait_until("gamma hears of the reader", lambda: gamma.agent("reader@beta"))
        yield fleet


def _problem(host: Host, name: str) -> dict[str, str] | None:
    """The check of this name that found a problem."""
    checks = host.cli("doctor", "--json").json()["checks"]
    return next((check for check in checks if check["name"] == name and not check["ok"]), None)


def test_one_way_trust_is_told_with_the_command_that_mends_it(uneven: Fleet) -> None:
    gamma, beta = uneven["gamma"], uneven["beta"]
    done = gamma.cli("send", "reader@beta", "do you hear me?", "--json")
    assert done.code in (0, 3), done  # the refusal may be quicker than the command
    sent = done.json()["messages"][0]
    shown = wait_until("the refusal is told", lambda: _shown(gamma, sent["short"], "failed"))
    assert shown["reason"] == "refused: unknown-host at beta"
    assert "On beta: `fleettrio host import FILE`" in shown["sentence"]
    # A stranger is told once a second at most, so not each of these is.
    waited = wait_until(
        "a wait ends with the refusal",
        lambda: _failed(gamma.cli("send", "reader@beta", "and now?", "--wait=delivered", "--timeout", "4")),
    )
    assert "fleettrio host import" in waited

    theirs = wait_until("gamma's doctor knows", lambda: _problem(gamma, "trust beta"))
    assert "beta refuses us: unknown-host" in theirs["detail"]
    assert "on beta: fleettrio host import FILE" in theirs["fix"]
    ours = wait_until("beta's doctor knows", lambda: _problem(beta, "trust gamma"))
    assert "we refuse gamma: unknown-host" in ours["detail"]
    assert "fleettrio host import FILE" in ours["fix"]
    ping = gamma.cli("ping", "beta")
    assert ping.code == 3
    assert "refuses us" in ping.err

    uneven.carry(beta)
    again = gamma.ok("send", "--retry", sent["short"], "do you hear me?", "--json").json()["messages"][0]
    assert again["msg_id"] == sent["msg_id"]
    taken = beta.ok("token", "create", "--name", "reader", "--json").json()["token"]
    assert "do you hear me?" in beta.ok("inbox", "--take", "--wait", "50", token=taken).text
    wait_until(
        "trust reads both ways again", lambda: not _problem(gamma, "trust beta") and not _problem(beta, "trust gamma")
    )


def _failed(done: Outcome) -> str:
    return done.err if done.code == 3 else ""


def _shown(host: Host, short: str, state: str) -> dict[str, str] | None:
    shown: dict[str, str] = host.ok("show", short, "--json").json()["messages"][0]
    return shown if shown["state"] == state else None


def test_a_revoked_host_is_refused_at_once(uneven: Fleet) -> None:
    gamma, beta = uneven["gamma"], uneven["beta"]
    uneven["alpha"].ok("host", "revoke", "gamma", "--yes")
    uneven.carry(beta)
    before = beta.status().refused.get("revoked", 0)
    sent = gamma.cli("send", "reader@beta", "still there?")
    assert sent.code in (0, 3), sent
    wait_until("it is refused", lambda: beta.status().refused.get("revoked", 0) > before)
    wait_until("and shown so", lambda: _host(beta, "gamma") == "revoked")


def _host(host: Host, other: str) -> str:
    return next((h.status for h in host.status().fleet.hosts if h.host == other), "")
