"""A glance at an agent at rest: what comes for it is recorded and marked in one commit, and put in at once."""

from __future__ import annotations

from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.wire.signing import Parsed
from tests.core.builders import TRACE, Host, pair, told
from tests.core.messages import by_hand
from tests.core.test_core_looks import BELIEF, trees
from tests.core.test_core_pauses import press

AT_ONCE = ["commit waiting", "record injecting", "ack", "inject"]


def glanced(beta: Host, *parsed: Parsed) -> list[str]:
    """What is decided about these when a glance at the worker came with them."""
    found = ev.AgentFoundReady(beta.gid("worker"))
    return told(beta.run(found, *(beta.arrival(one) for one in parsed)))


def lone(alpha: Host, beta: Host, body: bytes = b"by hand") -> Parsed:
    return by_hand(alpha, "lead", beta.gid("worker"), body)


def test_what_comes_is_marked_in_the_commit_of_its_arrival_and_the_mark_is_there_before_the_first_byte() -> None:
    world, alpha, beta = pair()
    brief = lone(alpha, beta)
    assert glanced(beta, brief) == AT_ONCE
    beta.typed(brief.envelope.msg_id, "worker")
    world.settle()
    assert beta.state(brief.envelope.msg_id, "worker") == "injected"


def test_a_process_that_dies_behind_that_commit_never_types_it_again() -> None:
    _, alpha, beta = pair()
    brief = lone(alpha, beta)
    glanced(beta, brief)
    assert "record unconfirmed(crashed) owed" in told(beta.start())
    beta.open()
    assert told(beta.get(brief)) == ["ack"]
    assert told(beta.run(ev.AgentSeen(beta.gid("worker"), "idle"))) == []


def test_what_could_not_be_recorded_is_neither_put_in_nor_acknowledged_and_comes_again() -> None:
    _, alpha, beta = pair()
    brief = lone(alpha, beta)
    beta.broken = True
    glanced(beta, brief)
    assert (beta.injected, beta.ledger, beta.gateway.inbox.rows) == ([], {}, {})
    beta.broken = False
    beta.run(ev.StoreRecovered())
    beta.open()
    assert glanced(beta, brief) == AT_ONCE


def test_a_glance_is_good_for_one_message_and_for_that_moment() -> None:
    _, alpha, beta = pair()
    first, second, third = (lone(alpha, beta, body) for body in (b"one", b"two", b"three"))
    assert glanced(beta, first, second) == [*["commit waiting"] * 2, "record injecting", "ack", "ack", "inject"]
    assert "reserve" in told(beta.typed(first.envelope.msg_id, "worker"))
    beta.put_in(second.envelope.msg_id, "worker")
    beta.run(ev.AgentFoundReady(beta.gid("worker")))
    assert told(beta.get(third)) == ["commit waiting", "ack", "reserve"]


def test_a_glance_shows_nothing_of_a_work_tree() -> None:
    _, alpha, beta = trees()
    alpha.send("worker@beta", belief=BELIEF)
    (publish,) = alpha.taken()
    assert glanced(beta, alpha.signed(publish)) == ["commit waiting", "ack", "reserve"]


def test_what_is_paused_waits_though_its_agent_is_at_rest() -> None:
    _, alpha, beta = pair()
    press(beta, beta.gid("worker"))
    glanced(beta, lone(alpha, beta))
    assert beta.injected == []


def test_nothing_is_put_into_an_agent_whose_session_is_over() -> None:
    _, alpha, beta = pair()
    beta.run(ev.AgentSeen(beta.gid("worker"), "away"))
    assert glanced(beta, lone(alpha, beta)) == ["commit waiting", "ack"]


def test_a_neighbours_message_goes_the_same_way_and_its_sender_is_told() -> None:
    _, _, beta = pair()
    msg_id, call = beta.new_id(), beta.call()
    sent = ask.SendAsked(
        call=call, sender=beta.gid("human"), to=("worker",), body=b"x", msg_ids=(msg_id,), trace_id=TRACE
    )
    decided = told(beta.run(ev.AgentFoundReady(beta.gid("worker")), sent))
    assert [word for word in decided if word.startswith(("commit", "record", "inject"))] == [
        "commit waiting",
        "record injecting",
        "inject",
    ]
    assert call in beta.results
    beta.typed(msg_id, "worker")
    assert (beta.state(msg_id, "worker"), beta.fate(msg_id)) == ("injected", "injected")
