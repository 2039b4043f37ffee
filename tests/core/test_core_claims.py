"""Claims: the first who asks has the key, fences grow, and nobody guesses for an arbiter that does not answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleettrio.api.sentences import inbox_sentence, sent_sentence
from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.claims import key_problem
from fleettrio.core.drift import Belief
from fleettrio.core.rpc import RpcAnswer
from fleettrio.ids import HostId, Tag
from fleettrio.wire.bodies import RpcBody, RpcCall
from fleettrio.wire.envelope import Kind
from fleettrio.wire.parsed import Parsed
from tests.core.builders import TRACE, Host, World, agent, fleet_of, pair, salt_of, told

MINUTE = 60.0


def call(at: Host, to: str, name: str, who: str, **args: object) -> int:
    """A client of `at` has the gateway of `to` do it; the number of its call."""
    number = at.call()
    given = {"key": "issue-149", "gid": str(at.gid(who)), "salt": salt_of(who), **args}
    asked = ask.RpcAsked(call=number, host=HostId(to), name=name, args=given, msg_id=at.new_id(), trace_id=TRACE)
    at.last = at.run(asked)
    return number


def answer(at: Host, number: int) -> dict[str, Any]:
    result = at.results[number]
    assert isinstance(result, RpcAnswer), result
    assert isinstance(result.value, dict)
    return result.value


def refusal(at: Host, number: int) -> do.Fail:
    result = at.results[number]
    assert isinstance(result, do.Fail)
    return result


@pytest.mark.parametrize("key", ["", "  ", " a", "k" * 201, "a\n", "alpha:"])
def test_a_key_that_names_nothing_is_told_what_a_key_is(key: str) -> None:
    assert key_problem(key)


def test_the_first_who_claims_has_it_and_the_second_learns_who_that_is() -> None:
    _, alpha, _ = pair()
    first = answer(alpha, call(alpha, "alpha", "claim", "lead"))
    assert told(alpha.last)[0] == "claim issue-149", "recorded before anybody is told"
    second = answer(alpha, call(alpha, "alpha", "claim", "human"))
    assert (first["granted"], second["granted"]) == (True, False)
    assert (second["name"], second["fence"]) == ("lead@alpha", first["fence"])


def test_a_claim_of_another_hosts_key_is_decided_there() -> None:
    world, alpha, beta = pair()
    number = call(alpha, "beta", "claim", "lead")
    assert number not in alpha.results
    world.settle()
    assert answer(alpha, number)["granted"]
    taken = call(beta, "beta", "claim", "worker")
    assert answer(beta, taken)["name"] == "lead@alpha"


def test_an_arbiter_that_cannot_be_reached_is_an_error_and_never_a_guess() -> None:
    _, alpha, _ = pair()
    alpha.run(ev.SessionClosed(1, "gone"))
    failed = refusal(alpha, call(alpha, "beta", "claim", "lead"))
    assert (failed.code, failed.reason) == (8, "host-silent")
    assert "beta" in failed.message


def test_an_arbiter_that_does_not_answer_is_an_error_after_the_limit_and_is_told_so() -> None:
    _, alpha, beta = pair()
    number = call(alpha, "beta", "claim", "lead")
    asked = alpha.taken()[-1]
    alpha.wait(31)
    assert "did not answer" in refusal(alpha, number).message
    cancels = [p for p in alpha.taken() if p.envelope.kind == Kind.RPC]
    assert [RpcBody.from_bytes(p.body).cancel for p in cancels] == [True]
    beta.get(alpha.signed(asked))  # late; its answer is dropped here
    answers = [p for p in beta.taken() if p.envelope.kind == Kind.RPC]
    alpha.get(beta.signed(answers[0]))
    assert alpha.resolved[number] == 1
    assert alpha.gateway.rpc.counts["late"] == 1


def test_a_client_that_stops_waiting_is_told_to_the_arbiter() -> None:
    _, alpha, _ = pair()
    number = call(alpha, "beta", "claim", "lead")
    alpha.taken()
    alpha.run(ask.CallEnded(number, "s", gone=False))
    assert [RpcBody.from_bytes(p.body).cancel for p in alpha.taken()] == [True]


def given_up(alpha: Host) -> tuple[Parsed, Parsed]:
    """A claim at beta whose client stopped waiting, and the word of that; neither has come yet."""
    number = call(alpha, "beta", "claim", "lead")
    asked = alpha.signed(alpha.taken()[-1])
    alpha.run(ask.CallEnded(number, "s", gone=False))
    return asked, alpha.signed(alpha.taken()[-1])


@pytest.mark.parametrize("cancel_first", [False, True])
def test_a_grant_that_nobody_waits_for_any_more_is_not_kept(cancel_first: bool) -> None:
    _, alpha, beta = pair()
    asked, cancel = given_up(alpha)
    for message in (cancel, asked) if cancel_first else (asked, cancel):
        beta.get(message)
    assert answer(beta, call(beta, "beta", "claim", "worker"))["granted"]


def test_a_claim_that_was_had_before_or_asked_for_again_outlives_a_caller_that_gave_up() -> None:
    world, alpha, beta = pair()
    asked, cancel = given_up(alpha)
    beta.get(asked)
    world.clock.advance(1)
    again = call(alpha, "beta", "claim", "lead")
    world.settle()
    assert answer(alpha, again)["granted"]
    beta.get(cancel)  # of the one before
    for message in given_up(alpha):
        beta.get(message)
    assert answer(beta, call(beta, "beta", "claim", "worker"))["name"] == "lead@alpha"


def test_another_host_cannot_take_back_a_claim() -> None:
    _, alpha, beta = pair()
    call(alpha, "beta", "claim", "lead")
    asked = alpha.taken()[-1]
    beta.get(alpha.signed(asked))
    mine = beta.gateway.settings.me
    forged = msgspec.structs.replace(
        asked.envelope, host=mine.host, msg_id=beta.new_id(), sender=mine.gid, re=asked.envelope.msg_id
    )
    beta.get(beta.sign(forged, RpcBody(cancel=True).to_bytes()))
    assert not answer(beta, call(beta, "beta", "claim", "worker"))["granted"]


def test_the_same_call_again_gets_the_same_answer_and_does_nothing() -> None:
    _, alpha, beta = pair()
    call(alpha, "beta", "claim", "lead")
    asked = alpha.signed(alpha.taken()[-1])
    assert "claim issue-149" in told(beta.get(asked))
    first = beta.taken()[-1]
    again = beta.run(ev.DuplicateArrived(Tag(1, 1, 99), (asked.envelope.msg_id, beta.gateway.settings.me.gid)))
    assert "claim issue-149" not in told(again)
    assert beta.taken()[-1].body == first.body


def test_an_entity_of_another_host_cannot_be_claimed_for() -> None:
    world, alpha, beta = pair()
    number = call(alpha, "beta", "claim", "lead", gid=str(beta.gid("worker")), salt=salt_of("worker"))
    world.settle()
    assert "does not live on alpha" in refusal(alpha, number).message


def test_an_answer_of_a_third_host_is_dropped() -> None:
    _, alpha, beta = pair()
    number = call(alpha, "beta", "claim", "lead")
    publish = alpha.taken()[-1]
    beta.get(alpha.signed(publish))
    said = next(p for p in beta.taken() if p.envelope.kind == Kind.RPC)
    mine = alpha.gateway.settings.me
    forged = msgspec.structs.replace(said.envelope, host=mine.host, msg_id=alpha.new_id(), sender=mine.gid)
    alpha.get(alpha.sign(forged, RpcBody(result={"granted": True}).to_bytes()))
    assert number not in alpha.results
    assert alpha.gateway.rpc.counts["late"] == 1


def test_only_its_holder_releases_it_and_only_with_its_own_fence() -> None:
    _, alpha, _ = pair()
    fence = answer(alpha, call(alpha, "alpha", "claim", "lead"))["fence"]
    assert "held by lead@alpha" in refusal(alpha, call(alpha, "alpha", "release", "human")).message
    assert "granted anew" in refusal(alpha, call(alpha, "alpha", "release", "lead", fence=fence + 1)).message
    assert answer(alpha, call(alpha, "alpha", "release", "lead", fence=fence)) == {"key": "issue-149"}
    assert answer(alpha, call(alpha, "alpha", "claim", "human"))["fence"] == fence + 1


def test_a_holder_that_is_there_keeps_it_and_one_that_is_away_loses_it_only_to_who_says_so() -> None:
    _, alpha, _ = pair()
    fence = answer(alpha, call(alpha, "alpha", "claim", "lead"))["fence"]
    alpha.wait(60 * MINUTE)
    assert not answer(alpha, call(alpha, "alpha", "claim", "human", lapsed=True))["granted"]
    alpha.run(ev.Detached(alpha.call(), alpha.gid("lead"), forget=False))
    alpha.wait(9 * MINUTE)
    assert not answer(alpha, call(alpha, "alpha", "claim", "human", lapsed=True))["granted"]
    alpha.wait(2 * MINUTE)
    waiting = answer(alpha, call(alpha, "alpha", "claim", "human"))
    assert (waiting["granted"], waiting["lapsed"]) == (False, True)
    taken = answer(alpha, call(alpha, "alpha", "claim", "human", lapsed=True))
    assert (taken["granted"], taken["fence"]) == (True, fence + 1)
    assert "held by human@alpha" in refusal(alpha, call(alpha, "alpha", "release", "lead", fence=fence)).message


def test_a_holder_that_is_gone_for_good_frees_what_it_held() -> None:
    _, alpha, _ = pair()
    call(alpha, "alpha", "claim", "lead")
    assert "claim issue-149 free" in told(alpha.run(ev.Detached(alpha.call(), alpha.gid("lead"), forget=True)))
    assert answer(alpha, call(alpha, "alpha", "claim", "human"))["granted"]


def test_a_holder_on_another_host_that_is_gone_for_good_frees_it_too() -> None:
    world, alpha, beta = pair()
    call(alpha, "beta", "claim", "lead")
    world.settle()
    alpha.run(ev.Detached(alpha.call(), alpha.gid("lead"), forget=True))
    world.settle()
    assert not answer(beta, call(beta, "beta", "claim", "worker"))["granted"], "it may only not be announced yet"
    for _ in range(4):
        world.clock.advance(5)
        alpha.run(ev.BeatDue())
        world.settle()
    assert answer(beta, call(beta, "beta", "claim", "worker"))["granted"]


def test_claims_and_fences_outlive_the_process() -> None:
    _, alpha, _ = pair()
    fence = answer(alpha, call(alpha, "alpha", "claim", "lead"))["fence"]
    alpha.start()
    assert answer(alpha, call(alpha, "alpha", "claim", "human"))["name"] == "lead@alpha"
    assert answer(alpha, call(alpha, "alpha", "claim", "human", key="other"))["fence"] == fence + 1


def test_a_claim_that_could_not_be_recorded_was_not_granted() -> None:
    _, alpha, _ = pair()
    alpha.broken = True
    assert refusal(alpha, call(alpha, "alpha", "claim", "lead")).reason == "store"
    alpha.broken = False
    alpha.run(ev.StoreRecovered())
    assert answer(alpha, call(alpha, "alpha", "claim", "human"))["granted"]


def test_an_unknown_procedure_is_an_error_for_its_caller() -> None:
    world, alpha, _ = pair()
    number = call(alpha, "beta", "drop-everything", "lead")
    world.settle()
    assert "no procedure" in refusal(alpha, number).message


# --- messages that carry a claim


def test_of_two_who_get_the_same_work_one_does_it_and_for_the_other_it_ends_claimed_by() -> None:
    world, alpha, beta = pair()
    for name in ("one", "two"):
        beta.run(ev.Attached(beta.call(), agent(name, "beta", role="worker")))
    beta.run(ev.BeatDue())
    beta.wait(2)
    world.settle()
    for name in ("one", "two"):
        alpha.send(f"{name}@beta", claim="beta:issue-149")
    world.settle()
    one, two = (next(r for r in beta.ledger.values() if r.gid == beta.gid(name)) for name in ("one", "two"))
    assert told(beta.ready(two.msg_id, "two")) == ["claim issue-149", "record injecting", "inject"]
    assert told(beta.ready(one.msg_id, "one"))[0] == "record failed(claimed-by) owed"
    world.settle()
    assert alpha.fate(one.msg_id) == "failed(claimed-by)"
    assert "two@beta" in alpha.sent(one.msg_id).detail


def test_the_senders_host_decides_when_the_key_names_nobody_and_the_message_waits_for_it() -> None:
    world, alpha, beta = pair()
    sent = alpha.send("worker@beta", claim="issue-149")
    world.settle()
    assert told(beta.ready(sent, "worker")) == ["publish RPC alpha"]
    assert "asking" in beta.gateway.inbox.forward.why_waiting(beta.gid("worker"))[0]
    world.settle()
    assert told(beta.ready(sent, "worker")) == ["record injecting", "inject"]
    assert answer(alpha, call(alpha, "alpha", "claim", "lead"))["name"] == "worker@beta"


def test_an_arbiter_that_is_silent_keeps_the_message_waiting_and_is_asked_again() -> None:
    world, alpha, beta = pair()
    sent = alpha.send("worker@beta", claim="issue-149")
    world.settle()
    beta.ready(sent, "worker")
    beta.taken()  # lost on the way
    for _ in range(7):
        assert beta.state(sent, "worker") == "waiting"
        beta.wait(5)
        for host in (alpha, beta):
            host.run(ev.BeatDue())
        world.settle()
    told(beta.ready(sent, "worker"))
    world.settle()
    assert told(beta.ready(sent, "worker")) == ["record injecting", "inject"]


def test_a_silent_arbiter_is_not_even_asked() -> None:
    world, alpha, beta = pair()
    sent = alpha.send("worker@beta", claim="issue-149")
    world.settle()
    world.clock.advance(20)
    assert told(beta.ready(sent, "worker")) == []
    assert beta.state(sent, "worker") == "waiting"
    failed = refusal(beta, call(beta, "alpha", "claim", "worker"))
    assert (failed.code, "alpha is not heard" in failed.message) == (8, True)


def test_a_client_that_pulls_gets_the_work_only_with_its_claim() -> None:
    world, alpha, beta = pair()
    call(alpha, "alpha", "claim", "human")
    sent = beta.send("lead@alpha", claim="alpha:issue-149", sender="human")
    world.settle()
    assert alpha.take("lead") == []
    assert alpha.state(sent, "lead") == "failed(claimed-by)"


def with_reader() -> tuple[World, Host, Host]:
    """As `pair`, and beta has an agent that pulls."""
    world, alpha, beta = pair()
    beta.run(ev.Attached(beta.call(), agent("reader", "beta", takes="pull", transport="pull")))
    beta.run(ev.BeatDue())
    beta.wait(2)
    world.settle()
    return world, alpha, beta


@pytest.mark.parametrize("to", ["worker@beta", "lead"])
def test_a_send_with_a_key_of_a_host_that_is_not_in_the_fleet_is_refused(to: str) -> None:
    _, alpha, _ = pair()
    alpha.send(to, claim="beat:issue-1")
    (failed,) = [result for result in alpha.results.values() if isinstance(result, do.Fail)]
    assert (failed.code, failed.reason) == (2, "no-such-host")
    assert "no host 'beat' is in the fleet" in failed.message
    assert (alpha.outbox, alpha.out) == ({}, [])


@pytest.mark.parametrize("taker", ["worker", "reader"])
def test_one_that_comes_with_a_key_of_a_host_that_is_not_in_the_fleet_ends_at_once(taker: str) -> None:
    world, alpha, beta = with_reader()
    alpha.trust(fleet_of(["alpha", "beta", "gamma"]))  # beta's file has no gamma
    sent = alpha.send(f"{taker}@beta", claim="gamma:issue-1")
    world.settle()
    assert beta.state(sent, taker) == "failed(claim-undecided)"
    beta.wait(5)
    world.settle()
    assert alpha.fate(sent) == "failed(claim-undecided)"
    said = sent_sentence(alpha.sent(sent), f"{taker}@beta", alpha.gateway, alpha.clock.now.wall)
    assert "nobody can decide who has its claim (no host 'gamma' is in the fleet)" in said


def test_what_comes_after_a_message_whose_arbiter_is_silent_passes_it_in_a_pane_and_at_a_client() -> None:
    world, alpha, beta = with_reader()
    for host in (alpha, beta):
        host.trust(fleet_of(["alpha", "beta", "gamma"]))  # nobody ever heard gamma
    for _ in range(4):
        world.clock.advance(5)
        for host in (alpha, beta):
            host.run(ev.BeatDue())
        world.settle()
    for name in ("worker", "reader"):
        claimed = alpha.send(f"{name}@beta", claim="gamma:issue-1")
        later = alpha.send(f"{name}@beta")
        world.settle()
        if name == "worker":
            beta.ready(claimed, name)
            assert beta.asked[-1].row.msg_id == later
            beta.put_in(later, name)
        else:
            assert beta.take(name) == [later]
        assert beta.state(claimed, name) == "waiting"
        world.settle()
        now = alpha.clock.now.wall
        here = inbox_sentence(beta.row(claimed, name), f"{name}@beta", beta.gateway, now)
        there = sent_sentence(alpha.sent(claimed), f"{name}@beta", alpha.gateway, now)
        for said in (here, there):
            assert "gamma decides who has 'issue-1', and gamma is not heard" in said


def test_what_comes_after_it_waits_while_the_arbiter_is_asked_and_passes_once_it_did_not_answer() -> None:
    world, alpha, beta = pair()
    claimed = alpha.send("worker@beta", claim="issue-1")
    later = alpha.send("worker@beta")
    world.settle()
    beta.asked.clear()
    beta.ready(claimed, "worker")
    assert beta.asked == [], "order holds while the arbiter is asked"
    for _ in range(8):
        beta.taken()  # every question is lost on the way
        world.clock.advance(5)
        beta.expire()
        alpha.run(ev.BeatDue())
        world.settle()
        if beta.asked and beta.asked[-1].row.msg_id == claimed:
            beta.ready(claimed, "worker")
    assert beta.asked[-1].row.msg_id == later


def test_a_claim_is_asked_for_also_where_the_work_tree_is_looked_at() -> None:
    world, alpha, beta = pair()
    worker = beta.gateway.roster.entities[beta.gid("worker")]
    beta.gateway.roster.put(msgspec.structs.replace(worker, cwd="/work/worker"))
    belief = Belief("/work/lead", "a" * 40, "b" * 40, ("src/herdr.rs",), (b"\1" * 32,))
    call(alpha, "alpha", "claim", "lead")
    sent = alpha.send("worker@beta", claim="issue-149", belief=belief)
    world.settle()
    assert beta.row(sent, "worker").has_causal
    beta.ready(sent, "worker")
    assert told(beta.ready(sent, "worker")) == [], "nothing lands while the arbiter is asked"
    world.settle()
    assert beta.state(sent, "worker") == "failed(claimed-by)"


def test_a_malformed_call_is_refused() -> None:
    _, alpha, beta = pair()
    number = call(alpha, "beta", "claim", "lead")
    assert number not in alpha.results
    asked = alpha.taken()[-1]
    both = RpcCall(name="claim", args={})
    assert RpcBody(call=both).to_bytes() != asked.body
    envelope = msgspec.structs.replace(asked.envelope, msg_id=alpha.new_id())
    assert "note refused malformed" in told(beta.get(alpha.sign(envelope, b"\xa0")))
