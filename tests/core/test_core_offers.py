"""Offers: messages handed to clients that fetch, at least once, and never twice without saying so."""

from __future__ import annotations

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.calls import Offered, WaitOver
from fleettrio.core.ledger import Limits
from fleettrio.core.offers import FETCHING_S
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
    assert told(alpha.confirm(offered.cursor)) == ["record drained owed", "resolve", "publish OUTCOME beta drained"]
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
    assert told(alpha.run(ask.CallEnded(None, "first", gone=True))) == [
        "record waiting repeat",
        "record offered repeat",
        "resolve offered 1",
    ]


def test_a_reply_to_what_was_offered_is_the_clients_word_and_it_is_not_offered_again() -> None:
    world, alpha, beta = pair()
    for pause_s in (0, 121):
        sent = beta.send("lead@alpha", sender="worker")
        world.settle()
        alpha.pull("lead", str(pause_s))
        alpha.wait(pause_s)
        alpha.reply(sent, "lead", f"after {pause_s} s".encode())
        world.settle()
        assert alpha.state(sent, "lead") == "drained"
    assert alpha.pull("lead", "later", wait=True) is None


def test_what_a_call_was_offered_that_was_given_up_waits_again_and_is_not_drained_by_a_later_word() -> None:
    world, alpha, beta = pair()
    _, lost = reply_waiting(world, alpha, beta)
    alpha.pull("lead")
    assert told(alpha.run(ask.CallEnded(alpha.last_call, "s", gone=False))) == ["record waiting"]
    later = beta.send("lead@alpha", sender="worker")
    world.settle()
    assert alpha.take("lead") == [lost, later]
    assert not alpha.row(lost, "lead").repeat


def test_an_answer_that_came_as_its_call_was_given_up_waits_in_the_inbox() -> None:
    world, alpha, beta = pair()
    sent = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.put_in(sent, "worker")
    call = alpha.await_answer(sent, "lead")
    reply = beta.reply(sent, "worker")
    world.settle()
    assert isinstance(alpha.results[call], WaitOver)
    alpha.run(ask.CallEnded(call, "s", gone=False))
    assert alpha.take("lead") == [reply]


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
        "ack",
        "resolve offered 1",
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
    alpha.run(ask.CallEnded(None, "s", gone=True))
    assert alpha.gateway.inbox.forward._agents[alpha.gid("boss")].in_hand == (reply, alpha.gid("boss"))


def test_a_reply_of_somebody_else_with_that_re_is_no_answer() -> None:
    world, alpha, beta = pair()
    sent = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.put_in(sent, "worker")
    call = alpha.await_answer(sent, "lead")
    forged = beta.row(sent, "worker")
    beta.run(
        ask.ReplyAsked(call=beta.call(), sender=beta.gid("human"), original=forged, body=b"mine", msg_id=beta.new_id())
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
    alpha.run(ask.CallEnded(call, "s", gone=False))
    reply = beta.reply(sent, "worker")
    world.settle()
    assert call not in alpha.results
    assert alpha.take("lead") == [reply]


def test_a_wait_that_timed_out_ends_without_a_result_and_one_that_has_its_answer_keeps_it() -> None:
    world, alpha, beta = pair()
    sent = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.put_in(sent, "worker")
    early, late = alpha.await_answer(sent, "lead"), alpha.await_answer(sent, "lead")
    assert alpha.run(ask.CallTimedOut(early, "s")) == [do.Resolve(early, None)]
    reply = beta.reply(sent, "worker")
    world.settle()
    assert alpha.run(ask.CallTimedOut(late, "s")) == []
    over = alpha.results[late]
    assert isinstance(over, WaitOver)
    assert [msg_id for msg_id, _ in over.answers] == [reply]


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


def test_a_full_inbox_goes_on_when_what_was_offered_is_called_back_and_its_client_dies() -> None:
    world, alpha, beta = pair(limits=Limits(messages=2))
    ids = [brief(beta, alpha, "lead@alpha", sender="worker")[0] for _ in range(2)]
    alpha.pull("lead", session="dead")
    for msg_id in ids:
        beta.cancel(msg_id)
        world.settle()
    assert told(alpha.run(ask.CallEnded(None, "dead", gone=True))).count("open inbox") == 1
    assert [alpha.state(msg_id, "lead") for msg_id in ids] == ["unconfirmed(offered)"] * 2


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
    actions = alpha.run(ask.RetryAsked(alpha.call(), alpha.sent(second), b"more"))
    assert told(actions) == ["sent confirmed", "commit waiting", "sent held", "resolve held", "pause inbox"]
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


def test_an_inbox_that_empties_because_its_mail_is_over_is_consumed_again() -> None:
    world, alpha, beta = pair(limits=Limits(messages=2))
    beta.run(ev.AgentSeen(beta.gid("worker"), "away"))
    for _ in range(2):
        for sender, to in ((beta, alpha), (alpha, beta)):
            sender.taken()
            brief(sender, to, "lead@alpha" if to is alpha else "worker@beta", expires_in_ms=1_000)
    assert alpha.gateway.ledger.is_full(alpha.gid("lead"))
    assert beta.gateway.ledger.is_full(beta.gid("worker"))
    world.clock.advance(2)  # a pull, and an agent that is back, may be quicker than the timers
    alpha.pull("lead")
    assert "open inbox" in told(alpha.last)
    assert "open inbox" in told(beta.run(ev.AgentSeen(beta.gid("worker"), "idle")))


def test_what_comes_together_is_offered_together_to_the_call_that_waits_and_told_in_one_notice() -> None:
    world, alpha, beta = pair()
    alpha.run(ask.PullAsked(alpha.call(), "s", alpha.gid("lead"), 2, True, None))
    sent, actions = several(alpha, beta, 4)
    assert told(actions)[-5:] == ["ack"] * 4 + ["resolve offered 2"]
    (offered,) = alpha.results.values()
    assert isinstance(offered, Offered)
    assert [msg_id for msg_id, _ in offered.keys] == sent[:2]
    assert told(alpha.wait(FETCHING_S)) == ["publish OUTCOME beta held held"]
    world.settle()
    assert [beta.fate(msg_id) for msg_id in sent] == ["confirmed", "confirmed", "held", "held"]


def test_what_a_client_fetches_in_a_moment_is_not_told_as_held_but_as_drained() -> None:
    world, alpha, beta = pair()
    several(alpha, beta, 1)
    world.settle()
    alpha.take("lead")
    world.settle()
    sent, actions = several(alpha, beta, 2)
    assert told(actions)[-2:] == ["ack", "ack"]
    assert alpha.take("lead") == sent
    assert told(alpha.wait(2 * FETCHING_S)) == []
    assert [told([publish]) for publish in alpha.out] == [["publish OUTCOME beta drained drained"]]
    world.settle()
    assert [beta.fate(msg_id) for msg_id in sent] == ["drained", "drained"]


def test_a_client_that_does_not_come_again_has_it_told_as_held() -> None:
    world, alpha, beta = pair()
    several(alpha, beta, 1)
    alpha.take("lead")
    world.settle()
    sent, _ = several(alpha, beta, 2)
    alpha.pull("lead")
    alpha.run(ask.CallEnded(None, "s", gone=True))
    world.settle()
    assert [beta.fate(msg_id) for msg_id in sent] == ["held", "held"]


def several(alpha: Host, beta: Host, count: int) -> tuple[list[MsgId], list[do.Action]]:
    """So many of the worker's, which come to the lead together: their ids, and what alpha does."""
    sent = [beta.send("lead@alpha", sender="worker") for _ in range(count)]
    published = beta.taken()
    for publish in published:
        beta.hand(publish)
        beta.verdict(publish)
    return sent, alpha.run(*(alpha.arrival(beta.signed(publish)) for publish in published))
