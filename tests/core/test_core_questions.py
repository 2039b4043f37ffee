"""RECALL and QUERY: what a recipient's gateway answers, in every state of its row, and to whom."""

from __future__ import annotations

import pytest

from fleettrio.api.sentences import sent_sentence
from fleettrio.core import actions as do
from fleettrio.core.arrivals import known_leaf
from fleettrio.core.calls import Offered
from fleettrio.core.events import Event, Loaded, LoadFailed
from fleettrio.core.notices import MOST_IN_ONE
from fleettrio.core.recalled import PER_HOST
from fleettrio.ids import Leaf
from fleettrio.wire.envelope import Kind
from tests.core.builders import Host, World, pair, told
from tests.core.messages import brief, by_hand, question

OTHER = Leaf(b"x" * 32)


def load_of(host: Host, event: Event) -> do.Load:
    """What the core wants to know from the store before it goes on; nobody answers yet."""
    (load,) = [action for action in host.gateway.handle(event, host.clock.now) if isinstance(action, do.Load)]
    return load


def test_called_back_before_it_came_it_is_acknowledged_and_never_delivered() -> None:
    _, alpha, beta = pair()
    parsed = by_hand(alpha, "lead", beta.gid("worker"))
    key = (parsed.envelope.msg_id, beta.gid("worker"), parsed.leaf)
    assert told(beta.get(question(Kind.RECALL, alpha, beta, key))) == [
        "load",
        "ack",
        "record recalled",
        "publish OUTCOME alpha recalled",
    ]
    assert told(beta.get(parsed)) == ["ack"]
    assert beta.injected == []


def test_called_back_while_the_arrival_was_being_read_it_is_not_delivered() -> None:
    """The consumer of the inbox asked the store before the tombstone was there."""
    _, alpha, beta = pair()
    parsed = by_hand(alpha, "lead", beta.gid("worker"))
    stale = beta.arrival(parsed)
    beta.get(question(Kind.RECALL, alpha, beta, (parsed.envelope.msg_id, beta.gid("worker"), parsed.leaf)))
    assert told(beta.run(stale)) == ["ack"]


def test_a_recall_that_crosses_the_arrival_recalls_it() -> None:
    """The store was asked about it before it came; when the answer is there, the message waits."""
    _, alpha, beta = pair()
    parsed = by_hand(alpha, "lead", beta.gid("worker"))
    recall = beta.arrival(question(Kind.RECALL, alpha, beta, (parsed.envelope.msg_id, beta.gid("worker"), parsed.leaf)))
    load = load_of(beta, recall)
    beta.get(parsed)
    assert told(beta.run(Loaded(load.ask, (None,), ()))) == ["record recalled", "publish OUTCOME alpha recalled"]
    assert told(beta.ready(parsed.envelope.msg_id, "worker")) == []


def test_a_query_that_crosses_the_arrival_is_answered_as_it_is_now() -> None:
    _, alpha, beta = pair()
    parsed = by_hand(alpha, "lead", beta.gid("worker"))
    query = question(Kind.QUERY, alpha, beta, (parsed.envelope.msg_id, beta.gid("worker"), parsed.leaf))
    load = load_of(beta, beta.arrival(query))
    beta.get(parsed)
    assert told(beta.run(Loaded(load.ask, (None,), ()))) == ["publish OUTCOME alpha waiting"]


def test_what_waits_is_recalled_and_not_typed() -> None:
    world, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    actions = alpha.cancel(msg_id)
    assert told(actions) == ["sent confirmed recalling", "publish RECALL beta", "resolve confirmed"]
    world.settle()
    assert (beta.state(msg_id, "worker"), alpha.fate(msg_id)) == ("recalled", "recalled")
    assert told(beta.ready(msg_id, "worker")) == []


def test_what_is_held_and_was_never_offered_is_recalled() -> None:
    world, alpha, beta = pair()
    msg_id = beta.send("lead@alpha", sender="worker")
    world.settle()
    beta.cancel(msg_id)
    world.settle()
    assert beta.fate(msg_id) == "recalled"
    assert alpha.pull("lead") == Offered((), 0)
    assert beta.journal == []


def test_what_may_have_been_seen_is_unconfirmed_and_not_recalled() -> None:
    world, alpha, beta = pair()
    msg_id = beta.send("lead@alpha", sender="worker")
    world.settle()
    alpha.pull("lead")
    alpha.wait(121)
    world.settle()
    beta.cancel(msg_id)
    world.settle()
    assert (alpha.state(msg_id, "lead"), beta.fate(msg_id)) == ("unconfirmed(offered)", "unconfirmed(offered)")


def test_a_recall_while_it_is_typed_is_answered_with_the_row() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.ready(msg_id, "worker")
    row = beta.row(msg_id, "worker")
    recall = question(Kind.RECALL, alpha, beta, (row.msg_id, row.gid, row.leaf))
    assert told(beta.get(recall)) == ["publish OUTCOME alpha injecting", "ack"]
    beta.typed(msg_id, "worker")
    assert told(beta.get(question(Kind.RECALL, alpha, beta, (row.msg_id, row.gid, row.leaf)))) == [
        "publish OUTCOME alpha injected",
        "ack",
    ]


def test_another_host_has_no_say() -> None:
    world = World("alpha", "beta", "gamma")
    world.open()
    alpha, beta, gamma = world.hosts
    msg_id, _ = brief(alpha, beta)
    row = beta.row(msg_id, "worker")
    for kind in (Kind.RECALL, Kind.QUERY):
        actions = told(beta.get(question(kind, gamma, beta, (row.msg_id, row.gid, row.leaf))))
        assert actions == ["publish OUTCOME gamma absent", "ack"]
        other_leaf = told(beta.get(question(kind, alpha, beta, (row.msg_id, row.gid, OTHER))))
        assert other_leaf == ["publish OUTCOME alpha absent", "ack"]
    assert beta.state(msg_id, "worker") == "waiting"


@pytest.mark.parametrize("names_the_leaf", [False, True])
def test_a_recall_by_another_host_stands_in_nobodys_way(names_the_leaf: bool) -> None:
    world = World("alpha", "beta", "gamma")
    world.open()
    alpha, beta, gamma = world.hosts
    parsed = by_hand(alpha, "lead", beta.gid("worker"))
    msg_id, gid = parsed.envelope.msg_id, beta.gid("worker")
    beta.get(question(Kind.RECALL, gamma, beta, (msg_id, gid, parsed.leaf if names_the_leaf else OTHER)))
    assert beta.ledger[msg_id, gid].from_host == "gamma"
    assert known_leaf(beta.ledger[msg_id, gid], alpha.name) is None
    beta.ledger.pop((msg_id, gid))  # what the consumer makes of such a row
    assert told(beta.get(parsed)) == ["commit waiting", "ack", "reserve"]
    recall = question(Kind.RECALL, alpha, beta, (msg_id, gid, parsed.leaf))
    assert told(beta.get(recall)) == ["record recalled", "publish OUTCOME alpha recalled", "ack"]


def test_a_recall_meets_another_hosts_recall_as_if_it_were_not_there() -> None:
    world = World("alpha", "beta", "gamma")
    world.open()
    alpha, beta, gamma = world.hosts
    parsed = by_hand(alpha, "lead", beta.gid("worker"))
    msg_id, gid = parsed.envelope.msg_id, beta.gid("worker")
    beta.get(question(Kind.RECALL, gamma, beta, (msg_id, gid, OTHER)))
    beta.get(question(Kind.RECALL, alpha, beta, (msg_id, gid, parsed.leaf)))
    assert (beta.ledger[msg_id, gid].from_host, beta.ledger[msg_id, gid].leaf) == ("alpha", parsed.leaf)
    assert told(beta.get(parsed)) == ["ack"]


@pytest.mark.parametrize("names_the_leaf", [False, True])
def test_nobody_takes_back_what_a_host_was_promised_by_a_recall(names_the_leaf: bool) -> None:
    world = World("alpha", "beta", "gamma")
    world.open()
    alpha, beta, gamma = world.hosts
    parsed = by_hand(alpha, "lead", beta.gid("worker"))
    key = (parsed.envelope.msg_id, beta.gid("worker"))
    recall = question(Kind.RECALL, alpha, beta, (*key, parsed.leaf))
    assert told(beta.get(recall))[-1] == "publish OUTCOME alpha recalled"
    beta.get(question(Kind.RECALL, gamma, beta, (*key, parsed.leaf if names_the_leaf else OTHER)))
    for kind in (Kind.QUERY, Kind.RECALL):
        asked = question(kind, alpha, beta, (*key, parsed.leaf))
        assert told(beta.get(asked)) == ["publish OUTCOME alpha recalled", "ack"]
    assert told(beta.get(parsed)) == ["ack"]
    beta.start()
    beta.open()
    assert told(beta.get(parsed)) == ["ack"]


def test_a_recalled_message_is_its_own_hosts_alone() -> None:
    world = World("alpha", "beta", "gamma")
    world.open()
    alpha, beta, gamma = world.hosts
    busy, _ = brief(alpha, beta)
    beta.ready(busy, "worker")
    parsed = by_hand(alpha, "lead", beta.gid("worker"))
    beta.get(parsed)
    key = (parsed.envelope.msg_id, beta.gid("worker"))
    beta.get(question(Kind.RECALL, alpha, beta, (*key, parsed.leaf)))
    recall = question(Kind.RECALL, gamma, beta, (*key, parsed.leaf))
    assert told(beta.get(recall)) == ["publish OUTCOME gamma absent", "ack"]
    assert told(beta.get(parsed)) == ["ack"]


def test_the_trace_of_a_recall_lives_no_longer_than_a_message_may() -> None:
    _, alpha, beta = pair()
    parsed = by_hand(alpha, "lead", beta.gid("worker"))
    beta.get(question(Kind.RECALL, alpha, beta, (parsed.envelope.msg_id, beta.gid("worker"), parsed.leaf)))
    row = beta.row(parsed.envelope.msg_id, "worker")
    assert row.expires_at <= beta.clock.wall + 14 * 86_400_000


def flood(sender: Host, to: Host) -> None:
    """`sender` calls back what never was, until no more of it is kept."""
    for _ in range(PER_HOST.at_once // MOST_IN_ONE + 1):
        never = [(sender.new_id(), to.gid("worker"), OTHER) for _ in range(MOST_IN_ONE)]
        to.get(question(Kind.RECALL, sender, to, *never))


def test_what_one_host_calls_back_before_it_came_is_bounded_and_nothing_false_is_promised_over_that() -> None:
    world = World("alpha", "beta", "gamma")
    world.open()
    alpha, beta, gamma = world.hosts
    here, _ = brief(alpha, beta)
    flood(alpha, beta)
    assert len(beta.ledger) == PER_HOST.at_once + 1
    late = by_hand(alpha, "lead", beta.gid("worker"))
    asked = question(Kind.RECALL, alpha, beta, (late.envelope.msg_id, beta.gid("worker"), late.leaf))
    assert told(beta.get(asked)) == [
        "load",
        "ack",
        "note recall recall-limit",
        "publish OUTCOME alpha absent(recall-limit)",
    ]
    assert told(beta.get(late))[:2] == ["commit waiting", "ack"]
    row = beta.row(here, "worker")
    assert told(beta.get(question(Kind.RECALL, alpha, beta, (*row.key, row.leaf))))[-2:] == [
        "publish OUTCOME alpha recalled",
        "ack",
    ]  # what is here needs no room
    other = (gamma.new_id(), beta.gid("worker"), OTHER)
    assert "record recalled" in told(beta.get(question(Kind.RECALL, gamma, beta, other)))


def test_a_take_back_over_the_bound_is_told_to_its_sender_and_goes_through_later() -> None:
    world, alpha, beta = pair()
    flood(alpha, beta)
    msg_id = alpha.send("worker@beta")
    (publish,) = alpha.taken()
    alpha.hand(publish)
    alpha.verdict(publish)  # and it lies at the broker
    alpha.cancel(msg_id)
    world.settle()
    said = sent_sentence(alpha.sent(msg_id), "worker@beta", alpha.gateway, alpha.clock.now.wall)
    assert (alpha.fate(msg_id), said[:32]) == ("confirmed", "called back, but beta has not go")
    alpha.wait(PER_HOST.every_ms / 1000)
    world.settle()
    assert alpha.fate(msg_id) == "recalled"
    assert told(beta.get(alpha.signed(publish))) == ["ack"]


def test_a_query_is_answered_with_the_row_and_changes_nothing() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    row = beta.row(msg_id, "worker")
    asked = (row.msg_id, row.gid, row.leaf)
    assert told(beta.get(question(Kind.QUERY, alpha, beta, asked))) == ["publish OUTCOME alpha waiting", "ack"]
    beta.put_in(msg_id, "worker")
    assert told(beta.get(question(Kind.QUERY, alpha, beta, asked)))[0] == "publish OUTCOME alpha injected"


def test_a_query_for_what_never_came_is_answered_absent() -> None:
    _, alpha, beta = pair()
    asked = (alpha.new_id(), beta.gid("worker"), OTHER)
    assert told(beta.get(question(Kind.QUERY, alpha, beta, asked))) == ["load", "ack", "publish OUTCOME alpha absent"]


def test_what_is_older_than_the_store_is_ledger_lost_and_never_recalled() -> None:
    _, alpha, beta = pair()
    asked = (alpha.new_id(), beta.gid("worker"), OTHER)
    beta.clock.advance(5)
    beta.born = beta.clock.now.wall
    beta.start()
    beta.open()
    for kind in (Kind.QUERY, Kind.RECALL):
        actions = told(beta.get(question(kind, alpha, beta, asked)))
        assert actions == ["load", "ack", "publish OUTCOME alpha unconfirmed(ledger-lost)"]


def test_one_list_may_name_a_message_twice() -> None:
    _, alpha, beta = pair()
    asked = (alpha.new_id(), beta.gid("worker"), OTHER)
    actions = told(beta.get(question(Kind.RECALL, alpha, beta, asked, asked)))
    assert actions == ["load", "ack", "record recalled", "publish OUTCOME alpha recalled recalled"]


def test_a_question_whose_rows_cannot_be_read_is_dropped_and_the_session_ends() -> None:
    _, alpha, beta = pair()
    recall = beta.arrival(question(Kind.RECALL, alpha, beta, (alpha.new_id(), beta.gid("worker"), OTHER)))
    load = load_of(beta, recall)
    assert told(beta.run(LoadFailed(load.ask, "io"))) == ["endsession"]
    assert told(beta.run(Loaded(load.ask, (None,), ()))) == []
