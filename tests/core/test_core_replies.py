"""The reply lane: handed to clients that fetch, at least once, and never twice without saying so."""

from __future__ import annotations

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.calls import Offered, WaitOver
from fleettrio.core.ledger import Limits
from fleettrio.ids import MsgId
from tests.core.builders import Host, World, agent, pair, told
from tests.core.messages import brief


def reply_waiting(world: World, alpha: Host, beta: Host) -> tuple[MsgId, MsgId]:
    """The lead's brief is answered, and the answer waits at alpha: both msgIds."""
    sent = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.put_in(sent, "worker")
    world.settle()
    reply = beta.reply(sent, "worker")
    world.settle()
    return sent, reply


def test_what_a_pull_client_has_waiting_is_held_at_the_sender() -> None:
    world, alpha, beta = pair()
    _, reply = reply_waiting(world, alpha, beta)
    assert alpha.state(reply, "lead") == "waiting"
    assert beta.fate(reply) == "held"


def test_an_offer_is_recorded_before_the_client_gets_it_and_drained_by_its_own_word() -> None:
    world, alpha, beta = pair()
    _, reply = reply_waiting(world, alpha, beta)
    offered = alpha.pull("lead")
    assert told(alpha.last) == ["record offered", "resolve offered 1"]
    assert isinstance(offered, Offered)
    assert told(alpha.confirm(offered.cursor)) == ["record drained owed", "publish OUTCOME beta drained", "resolve"]
    world.settle()
    assert beta.fate(reply) == "drained"
    assert told(alpha.confirm(offered.cursor)) == ["resolve"]


def test_an_unconfirmed_offer_is_made_again_after_two_minutes_and_marked() -> None:
    world, alpha, beta = pair()
    _, reply = reply_waiting(world, alpha, beta)
    alpha.pull("lead")
    assert "record waiting repeat" in told(alpha.wait(121))
    alpha.pull("lead", "other")
    assert told(alpha.last) == ["record offered repeat", "resolve offered 1"]
    assert alpha.row(reply, "lead").repeat


def test_a_client_that_died_gives_back_what_it_was_offered_to_the_one_that_waits() -> None:
    world, alpha, beta = pair()
    reply_waiting(world, alpha, beta)
    alpha.pull("lead", "first")
    assert alpha.pull("lead", "second", wait=True) is None
    assert told(alpha.run(ev.CallEnded(None, "first", gone=True))) == [
        "record waiting repeat",
        "record offered repeat",
        "resolve offered 1",
    ]


def test_only_the_session_that_was_offered_can_confirm() -> None:
    world, alpha, beta = pair()
    _, reply = reply_waiting(world, alpha, beta)
    offered = alpha.pull("lead", "mine")
    assert isinstance(offered, Offered)
    assert told(alpha.confirm(offered.cursor, "another")) == ["resolve"]
    assert alpha.state(reply, "lead") == "offered"


def test_an_offer_that_expires_is_unconfirmed_at_the_end_of_its_lease() -> None:
    world, alpha, beta = pair()
    msg_id = beta.send("lead@alpha", sender="worker", expires_in_ms=60_000)
    world.settle()
    alpha.pull("lead")
    assert alpha.state(msg_id, "lead") == "offered"
    alpha.wait(70)
    assert alpha.state(msg_id, "lead") == "offered"
    alpha.wait(60)
    assert alpha.state(msg_id, "lead") == "unconfirmed(offered)"
    world.settle()
    assert beta.fate(msg_id) == "unconfirmed(offered)"


def test_what_may_have_been_seen_and_then_expires_is_unconfirmed() -> None:
    world, alpha, beta = pair()
    msg_id = beta.send("lead@alpha", sender="worker", expires_in_ms=300_000)
    world.settle()
    alpha.pull("lead")
    alpha.wait(301)
    world.settle()
    assert (alpha.state(msg_id, "lead"), beta.fate(msg_id)) == ("unconfirmed(offered)", "unconfirmed(offered)")


def test_what_expired_before_anybody_pulled_is_expired() -> None:
    world, alpha, beta = pair()
    msg_id = beta.send("lead@alpha", sender="worker", expires_in_ms=60_000)
    world.settle()
    alpha.clock.turn(61)
    assert alpha.pull("lead") == Offered((), 0)
    assert alpha.state(msg_id, "lead") == "expired"


def test_an_offer_called_back_ends_unconfirmed_with_its_lease_and_drained_if_confirmed_before() -> None:
    world, alpha, beta = pair()
    first = beta.send("lead@alpha", sender="worker")
    world.settle()
    offered = alpha.pull("lead")
    assert isinstance(offered, Offered)
    beta.cancel(first)
    world.settle()
    assert (alpha.state(first, "lead"), beta.fate(first)) == ("offered", "held")
    alpha.confirm(offered.cursor)
    world.settle()
    assert beta.fate(first) == "drained"
    second = beta.send("lead@alpha", sender="worker")
    world.settle()
    alpha.pull("lead")
    beta.cancel(second)
    world.settle()
    alpha.wait(121)
    world.settle()
    assert beta.fate(second) == "unconfirmed(offered)"


def test_a_pull_from_one_sender_leaves_the_others() -> None:
    world, alpha, beta = pair()
    beta.send("lead@alpha", sender="human")
    wanted = beta.send("lead@alpha", sender="worker")
    world.settle()
    offered = alpha.pull("lead", sender=beta.gid("worker"))
    assert isinstance(offered, Offered)
    assert [msg_id for msg_id, _ in offered.keys] == [wanted]


def test_an_open_pull_gets_what_arrives_in_the_same_step() -> None:
    world, alpha, beta = pair()
    assert alpha.pull("lead", wait=True) is None
    beta.send("lead@alpha", sender="worker")
    (publish,) = beta.taken()
    beta.hand(publish)
    assert told(alpha.get(beta.signed(publish))) == [
        "commit waiting",
        "record offered owed",
        "resolve offered 1",
        "ack",
    ]
    world.settle()


def test_the_answer_is_the_result_of_the_very_call_that_waits_for_it() -> None:
    world, alpha, beta = pair()
    sent = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.put_in(sent, "worker")
    world.settle()
    call = alpha.await_answer(sent, "lead")
    reply = beta.reply(sent, "worker")
    world.settle()
    over = alpha.results[call]
    assert isinstance(over, WaitOver)
    assert [msg_id for msg_id, _ in over.answers] == [reply]
    assert [row.answered_by for row in over.rows] == [reply]
    alpha.confirm(over.cursor)
    world.settle()
    assert beta.fate(reply) == "drained"


def test_an_answer_that_is_here_already_ends_the_wait_at_once() -> None:
    world, alpha, beta = pair()
    sent, reply = reply_waiting(world, alpha, beta)
    over = alpha.results[alpha.await_answer(sent, "lead")]
    assert isinstance(over, WaitOver)
    assert [msg_id for msg_id, _ in over.answers] == [reply]


def test_a_push_agent_that_waits_gets_its_answer_in_the_call_and_not_in_its_pane() -> None:
    world, alpha, beta = pair()
    alpha.run(ev.Attached(alpha.call(), agent("boss", "alpha")))
    world.settle()
    sent = alpha.send("worker@beta", sender="boss")
    world.settle()
    beta.put_in(sent, "worker")
    world.settle()
    call = alpha.await_answer(sent, "boss")
    reply = beta.reply(sent, "worker")
    world.settle()
    assert isinstance(alpha.results[call], WaitOver)
    assert alpha.state(reply, "boss") == "offered"
    alpha.run(ev.CallEnded(None, "s", gone=True))
    assert alpha.gateway.inbox.forward._agents[alpha.gid("boss")].in_hand == (reply, alpha.gid("boss"))


def test_a_reply_of_somebody_else_with_that_re_is_no_answer() -> None:
    world, alpha, beta = pair()
    sent = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.put_in(sent, "worker")
    call = alpha.await_answer(sent, "lead")
    forged = beta.row(sent, "worker")
    beta.run(
        ev.ReplyAsked(call=beta.call(), sender=beta.gid("human"), original=forged, body=b"mine", msg_id=beta.new_id())
    )
    world.settle()
    assert call not in alpha.results
    assert alpha.sent(sent).answered_by is None


def test_a_wait_for_the_receipt_ends_with_the_recipients_word() -> None:
    world, alpha, beta = pair()
    sent = alpha.send("worker@beta")
    world.settle()
    call = alpha.await_answer(sent, until="delivered")
    assert call not in alpha.results
    beta.put_in(sent, "worker")
    world.settle()
    over = alpha.results[call]
    assert isinstance(over, WaitOver)
    assert [str(row.state) for row in over.rows] == ["injected"]


def test_a_stopped_wait_is_forgotten_and_the_answer_waits_in_the_inbox() -> None:
    world, alpha, beta = pair()
    sent = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.put_in(sent, "worker")
    call = alpha.await_answer(sent, "lead")
    alpha.run(ev.CallEnded(call, "s", gone=False))
    reply = beta.reply(sent, "worker")
    world.settle()
    assert call not in alpha.results
    assert alpha.take("lead") == [reply]


def test_a_full_inbox_stops_consuming_and_goes_on_under_four_fifths() -> None:
    world, alpha, beta = pair(limits=Limits(messages=5))
    actions: list[do.Action] = []
    for _ in range(5):
        _, actions = brief(beta, alpha, "lead@alpha", sender="worker")
    assert "pause inbox" in told(actions)
    assert alpha.gateway.roster.entities[alpha.gid("lead")].full
    offered = alpha.pull("lead")
    assert isinstance(offered, Offered)
    assert told(alpha.confirm(offered.cursor)).count("open inbox") == 1
    assert not alpha.gateway.roster.entities[alpha.gid("lead")].full
    world.settle()


def test_an_inbox_that_was_full_is_still_full_after_a_restart() -> None:
    _, alpha, beta = pair(limits=Limits(messages=2))
    for _ in range(2):
        brief(beta, alpha, "lead@alpha", sender="worker")
    alpha.start()
    assert told(alpha.open()).count("open inbox") == 1  # the person's


def test_a_neighbours_send_to_a_full_inbox_fails_and_may_be_retried() -> None:
    _, alpha, _ = pair(limits=Limits(messages=1))
    first = alpha.send("lead", sender="human")
    second = alpha.send("lead", sender="human", body=b"more")
    assert told(alpha.last) == ["sent failed(inbox-full)", "resolve failed(inbox-full)"]
    assert alpha.take("lead") == [first]
    actions = alpha.run(ev.RetryAsked(alpha.call(), alpha.sent(second), b"more"))
    assert told(actions) == ["sent confirmed", "commit waiting", "sent held", "pause inbox", "resolve held"]
    assert alpha.take("lead") == [second]


def test_neighbours_talk_without_a_broker() -> None:
    world = World("alpha", standalone=True)
    (alpha,) = world.hosts
    sent = alpha.send("lead")
    assert told(alpha.last) == ["sent confirmed", "commit waiting", "sent held", "resolve held"]
    assert alpha.take("lead") == [sent]
    assert alpha.fate(sent) == "drained"
    call = alpha.await_answer(sent)
    alpha.reply(sent, "lead")
    assert isinstance(alpha.results[call], WaitOver)
    assert alpha.sent(sent).answered_by
    assert alpha.out == []


def test_forgetting_an_agent_ends_what_waits_and_what_is_offered() -> None:
    world, alpha, beta = pair()
    offered = beta.send("lead@alpha", sender="worker")
    world.settle()
    alpha.pull("lead")
    waiting = beta.send("lead@alpha", sender="worker")
    world.settle()
    actions = told(alpha.run(ev.Detached(alpha.call(), alpha.gid("lead"), forget=True)))
    assert actions[:3] == ["record failed(recipient-gone) owed", "record unconfirmed(offered) owed", "drop agent"]
    assert "close inbox" in actions
    world.settle()
    assert beta.fate(waiting) == "failed(recipient-gone)"
    assert beta.fate(offered) == "unconfirmed(offered)"
    late = alpha.wait(200)
    assert [word for word in told(late) if word.startswith("record")] == []
