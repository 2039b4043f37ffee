"""One message to eight workers on three hosts, and one flow seen from any of them."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host, Outcome
from fleettrio.testing.waiting import wait_until
from tests.surfaces.forger import good, raw_client
from tests.surfaces.workers import stand_in

WORKERS = {"alpha": ("w1",), "beta": ("w2", "w3", "w4"), "gamma": ("w5", "w6", "w7")}


@pytest.fixture(scope="module")
def three(broker: BrokerNode, room: TmuxRoom) -> Iterator[Fleet]:
    with Fleet(broker, "alpha", "beta", "gamma", env=room.env) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def lead(three: Fleet) -> str:
    """The token of a lead on alpha, which hears of seven workers at work and of one that is busy."""
    token = str(three["alpha"].ok("attach", "--name", "lead", "--json").json()["token"])
    for host, names in WORKERS.items():
        for name in names:
            three[host].ok("attach", "--name", name, "--role", "worker", "--group", "crew", "--command", "cat")
    return token


def _hears(host: Host, *addresses: str) -> None:
    for address in addresses:
        wait_until(f"{host.name} hears of {address}", functools.partial(host.agent, address))


def _member_states(shown: Any) -> dict[str, str]:
    members = [m for m in shown["messages"] if m["to"] and m["direction"] == "out" and not m["is_head"]]
    return {m["recipient"]: m["state"] for m in members}


def test_a_broadcast_to_eight_workers_counts_seven_injected_and_one_expired(
    three: Fleet, room: TmuxRoom, lead: str
) -> None:
    alpha, beta = three["alpha"], three["beta"]
    busy = stand_in(room, beta, "busy", "--mode", "working")
    _hears(alpha, "busy@beta", *(f"{name}@{host}" for host, names in WORKERS.items() for name in names))
    done = alpha.cli("broadcast", "all hands", "--wait=delivered", "--expires", "25", "--timeout", "90", token=lead)
    head, *members = done.text.splitlines()
    assert head.endswith("everybody: 7 of 8 injected, 1 expired"), done.text + done.err
    assert sorted(line.split()[0] for line in members if line.endswith("injected")) == sorted(
        f"{name}@{host}" for host, names in WORKERS.items() for name in names
    )
    assert done.code == 4
    shown = alpha.ok("show", "@last", "--json", token=lead).json()
    assert shown["messages"][0]["sentence"] == "7 of 8 injected, 1 expired"
    assert _member_states(shown)["busy@beta"] == "expired"
    traced = beta.ok("trace", shown["messages"][0]["trace_id"], "--json").json()["messages"]
    assert {m["sentence"] for m in traced if m["is_head"]} == {"sent to everybody; alpha counts"}
    assert "7 of 8 injected" in alpha.ok("inbox", "--sent", token=lead).text
    assert busy.turns() == []
    beta.ok("detach", "busy", "--forget")


def test_a_group_that_was_left_is_not_heard_any_more_and_nobody_in_a_group_is_said(three: Fleet, lead: str) -> None:
    alpha, gamma = three["alpha"], three["gamma"]
    gamma.ok("attach", "--name", "w7", "--role", "worker", "--no-group", "--command", "cat", "--take")
    wait_until("alpha hears that w7 left", lambda: (found := alpha.agent("w7@gamma")) and "crew" not in found.groups)
    done = alpha.cli("broadcast", "--group", "crew", "crew only", "--wait=delivered", "--timeout", "60", token=lead)
    assert done.text.splitlines()[0].endswith("group crew: 6 of 6 injected"), done.text + done.err
    assert "w7@gamma" not in done.text
    empty = alpha.ok("broadcast", "--group", "nobody", "is anybody there?", token=lead)
    assert "nobody is in group nobody, as far as this host knows" in empty.text
    assert gamma.ok("inbox", "--all").text.count("crew only") == 0


def test_a_worker_may_not_broadcast(three: Fleet) -> None:
    beta = three["beta"]
    token = str(beta.ok("attach", "--name", "hand", "--role", "worker", "--json").json()["token"])
    done = beta.cli("broadcast", "listen to me", token=token)
    assert (done.code, "a worker may not broadcast" in done.err) == (3, True)
    beta.ok("detach", "hand", "--forget")


def test_answers_of_several_stand_under_their_authors(three: Fleet, lead: str) -> None:
    alpha = three["alpha"]
    tokens = {}
    for host in ("beta", "gamma"):
        name = f"architect-{host}"
        tokens[name, host] = str(three[host].ok("attach", "--name", name, "--json").json()["token"])
        _hears(alpha, f"{name}@{host}")
    both = "architect-beta@beta,architect-gamma@gamma"
    asked = alpha.popen("send", both, "your plan?", "--wait", "--json", token=lead)
    for (name, host), token in tokens.items():
        pulled = three[host].ok("inbox", "--take", "--wait", "50", "--json", token=token).json()["messages"]
        three[host].ok("reply", pulled[0]["short"], f"the plan of {name}", token=token)
    out, err = asked.communicate(timeout=90)
    assert asked.returncode == 0, err
    answers = {a["sender"]: base64.b64decode(a["body"]).decode() for a in json.loads(out)["answers"]}
    assert answers == {f"{name}@{host}": f"the plan of {name}" for name, host in tokens}


def test_a_trace_shows_the_flow_over_three_hosts_in_order_and_names_the_one_that_is_stopped(
    three: Fleet,
) -> None:
    """alpha delegates to beta, beta asks back and passes a part on to gamma; each answer goes the way back."""
    alpha, beta, gamma = three["alpha"], three["beta"], three["gamma"]
    agents = {"chief": alpha, "boss": beta, "clerk": gamma}
    tokens = {name: str(host.ok("attach", "--name", name, "--json").json()["token"]) for name, host in agents.items()}
    _hears(alpha, "boss@beta", "clerk@gamma")
    _hears(beta, "chief@alpha", "clerk@gamma")

    def take(name: str) -> Any:
        taken = agents[name].ok("inbox", "--take", "--wait", "50", "--json", token=tokens[name])
        return taken.json()["messages"][0]

    delegated = alpha.popen("send", "boss@beta", "build it", "--wait", "--json", token=tokens["chief"])
    brief = take("boss")
    asking = beta.popen("ask", "chief@alpha", "which one?", token=tokens["boss"])
    question = wait_until(
        "the question is at alpha",
        lambda: [
            m for m in alpha.ok("inbox", "--json", token=tokens["chief"]).json()["messages"] if m["kind"] == "ASK"
        ],
    )[0]
    alpha.ok("answer", question["short"], "the blue one", token=tokens["chief"])
    assert b"the blue one" in asking.communicate(timeout=90)[0]
    beta.ok("send", "clerk@gamma", "paint it blue", token=tokens["boss"])
    gamma.ok("reply", take("clerk")["short"], "painted", token=tokens["clerk"])
    take("boss")
    beta.ok("reply", brief["short"], "built", token=tokens["boss"])
    assert b"YnVpbHQ=" in delegated.communicate(timeout=90)[0]

    last = {("alpha", "answered"), ("beta", "answered"), ("beta", "told")}

    def whole() -> Any:
        """Once every host has told of it, and the last steps are there."""
        told = gamma.ok("trace", brief["trace_id"], "--json").json()
        return told if not told["silent"] and last <= _steps(told) else None

    traced = wait_until("every word is in the trace", whole)
    kinds = [m["kind"] for m in traced["messages"] if m["direction"] == "out"]
    assert sorted(kinds) == ["ANSWER", "ASK", "REPLY", "REPLY", "SEND", "SEND"]
    # By cause; what has none goes by clocks, which are known as well as a beat was quick.
    assert kinds[0] == "SEND"
    assert kinds.index("ASK") < kinds.index("ANSWER")
    assert {line["host"] for line in traced["journal"]} == {"alpha", "beta", "gamma"}
    steps = [(line["host"], line["what"]) for line in traced["journal"] if line["msg_id"] == brief["msg_id"]]
    # Not `confirmed`: a word of beta may overtake the broker's confirm, which counts no more then.
    assert {("beta", "offered"), ("beta", "told"), ("alpha", "answered")} <= set(steps)
    assert steps.index(("alpha", "accepted")) < steps.index(("beta", "waiting")) < steps.index(("beta", "drained"))

    past = {"ts": brief["ts"] - 60_000, "expiresAt": brief["ts"] - 50_000}
    refused = good(alpha, brief["gid"], b"too late", traceId=brief["trace_id"], **past)
    with raw_client(three) as raw:
        refused.send(raw)
    shown = wait_until("the refusal is in the trace", lambda: _refusals(gamma, brief["trace_id"]))
    assert [(line["host"], line["reason"]) for line in shown] == [("beta", "expired")]
    # Who is busy for two seconds is named, too, and asked again.
    wait_until("the refusal is printed", lambda: "refused" in gamma.ok("trace", brief["trace_id"]).text)

    beta.stop()
    done = wait_until("beta alone is silent", lambda: _without_beta(gamma, brief["trace_id"]))
    assert "boss@beta" in done.text
    beta.up()


def _without_beta(host: Host, trace_id: str) -> Outcome | None:
    done = host.ok("trace", trace_id)
    return done if "no word from beta" in done.err else None


def _refusals(host: Host, trace_id: str) -> list[Any]:
    return [line for line in host.ok("trace", trace_id, "--json").json()["journal"] if line["what"] == "refused"]


def _steps(traced: Any) -> set[tuple[str, str]]:
    return {(line["host"], line["what"]) for line in traced["journal"]}
