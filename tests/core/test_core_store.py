"""A store that takes no writes: nothing is acknowledged, delivered or promised that is not recorded, and it heals."""

from __future__ import annotations

from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.calls import Offered
from tests.core.builders import agent, pair, told
from tests.core.messages import brief, by_hand, injected


def test_an_arrival_that_cannot_be_recorded_is_not_acknowledged_and_comes_again() -> None:
    _, alpha, beta = pair()
    parsed = by_hand(alpha, "lead", beta.gid("worker"))
    beta.broken = True
    assert told(beta.get(parsed)) == ["commit waiting", "ack", "reserve", "endsession"]
    assert (beta.ledger, beta.gateway.inbox.rows) == ({}, {})
    beta.broken = False
    beta.run(ev.StoreRecovered())
    beta.open()
    assert told(beta.get(parsed)) == ["commit waiting", "ack", "reserve"]


def test_nothing_is_typed_whose_mark_could_not_be_recorded() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.broken = True
    beta.ready(msg_id, "worker")
    assert beta.injected == []
    assert beta.gateway.inbox.rows[beta.row(msg_id, "worker").msg_id, beta.gid("worker")].state == "waiting"
    beta.broken = False
    assert "reserve" in told(beta.run(ev.StoreRecovered()))
    beta.put_in(msg_id, "worker")
    assert beta.state(msg_id, "worker") == "injected"


def test_what_came_of_a_write_is_recorded_once_the_store_takes_it() -> None:
    world, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    brief(alpha, beta)
    beta.ready(msg_id, "worker")
    beta.broken = True
    beta.typed(msg_id, "worker")
    assert beta.state(msg_id, "worker") == "injecting"
    beta.broken = False
    actions = told(beta.run(ev.StoreRecovered()))
    assert [w for w in actions if "agent" not in w and "watch" not in w] == [
        "record injected owed",
        "reserve",
        "publish INJECTED alpha",
    ]
    world.settle()
    assert alpha.fate(msg_id) == "injected"


def test_a_notice_that_cannot_be_recorded_is_not_acknowledged_and_counts_when_it_comes_again() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    row = alpha.sent(msg_id)
    notice = injected(beta, alpha, row.msg_id, row.gid, row.leaf)
    alpha.broken = True
    alpha.get(notice)
    assert alpha.gateway.outbox.rows[row.msg_id, row.gid].state == "confirmed"
    alpha.broken = False
    alpha.run(ev.StoreRecovered())
    assert told(alpha.get(notice)) == ["sent injected", "ack"]


def test_a_send_that_cannot_be_recorded_never_was() -> None:
    _, alpha, _ = pair()
    msg_id = alpha.send("worker@beta", key="k")
    (publish,) = alpha.taken()
    alpha.broken = True
    assert told(alpha.run(ev.PublishNotHanded(publish.id, "store", "disk full"))) == ["endsession", "fail 3 store"]
    assert (alpha.outbox, alpha.gateway.outbox.rows) == ({}, {})
    alpha.send("worker@beta", key="k")
    assert told(alpha.last) == ["fail 3 store"]
    alpha.broken = False
    alpha.run(ev.StoreRecovered())
    alpha.open()
    assert alpha.send("worker@beta", key="k") != msg_id
    assert "publish SEND" in told(alpha.last)


def test_a_local_send_that_cannot_be_recorded_never_was() -> None:
    _, alpha, _ = pair()
    alpha.broken = True
    alpha.send("lead", key="k")
    assert told(alpha.last)[-2:] == ["fail 3 store", "endsession"]
    assert (alpha.gateway.outbox.rows, alpha.gateway.inbox.rows, alpha.ledger) == ({}, {}, {})


def test_the_store_is_probed_until_it_takes_writes_and_nothing_spins_meanwhile() -> None:
    _, alpha, beta = pair()
    brief(alpha, beta, expires_in_ms=10_000)
    beta.send("lead@alpha", sender="worker", expires_in_ms=1_000)
    (publish,) = beta.taken()
    beta.hand(publish)
    beta.verdict(publish)
    beta.broken = True
    beta.run(ev.AgentSeen(beta.gid("worker"), "working"))
    steps, end = 0, beta.clock.mono + 120
    while (due := beta.gateway.next_deadline()) is not None and due <= end:
        beta.clock.advance(max(0.0, due - beta.clock.mono))
        beta.expire()
        steps += 1
    assert 20 < steps < 120
    beta.broken = False
    beta.run(ev.StoreRecovered())
    beta.wait(40)
    assert beta.gateway.inbox.rows == {}


def test_an_agent_that_came_while_nothing_was_recorded_is_recorded_and_watched_later() -> None:
    _, _, beta = pair()
    beta.broken = True
    call = beta.call()
    beta.run(ev.Attached(call, agent("second", "beta")))
    assert told([beta.results[call]]) == ["fail 3 store"]  # type: ignore[list-item]
    beta.broken = False
    actions = told(beta.run(ev.StoreRecovered()))
    assert "agent second idle" in actions
    assert "watch second" in actions


def test_a_word_that_was_told_but_not_noted_is_told_again_in_the_next_session() -> None:
    world, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.put_in(msg_id, "worker")
    (notice,) = beta.taken()
    beta.hand(notice)
    beta.broken = True
    beta.verdict(notice)
    assert not beta.row(msg_id, "worker").notified
    beta.broken = False
    beta.run(ev.StoreRecovered())
    assert "publish INJECTED alpha" in told(beta.open())
    world.settle()
    assert beta.row(msg_id, "worker").notified


def test_an_offer_that_cannot_be_recorded_reaches_nobody() -> None:
    world, alpha, beta = pair()
    msg_id = beta.send("lead@alpha", sender="worker")
    world.settle()
    alpha.broken = True
    alpha.pull("lead")
    assert told(alpha.last)[-2:] == ["fail 3 store", "endsession"]
    alpha.broken = False
    alpha.run(ev.StoreRecovered())
    assert alpha.take("lead") == [msg_id]
    assert not alpha.row(msg_id, "lead").repeat


def test_what_stays_offered_because_nothing_was_recorded_is_offered_again_later() -> None:
    world, alpha, beta = pair()
    msg_id = beta.send("lead@alpha", sender="worker")
    world.settle()
    offered = alpha.pull("lead", "one")
    assert isinstance(offered, Offered)
    alpha.broken = True
    alpha.run(ask.CallEnded(None, "one", gone=True))
    alpha.broken = False
    alpha.run(ev.StoreRecovered())
    assert alpha.state(msg_id, "lead") == "offered"
    assert "record waiting repeat" in told(alpha.wait(121))
    assert alpha.take("lead") == [msg_id]


def test_an_offer_that_was_undone_has_no_say_in_the_next_one() -> None:
    world, alpha, beta = pair()
    msg_id = beta.send("lead@alpha", sender="worker")
    world.settle()
    alpha.broken = True
    alpha.pull("lead", "one")
    alpha.broken = False
    alpha.run(ev.StoreRecovered())
    offered = alpha.pull("lead", "two")
    assert isinstance(offered, Offered)
    alpha.run(ask.CallEnded(None, "one", gone=True))
    alpha.confirm(offered.cursor, "two")
    assert alpha.state(msg_id, "lead") == "drained"
