"""Ask and answer between two hosts: live only, and every question ends in one stated outcome at both."""

from __future__ import annotations

import pytest

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.calls import Accepted, WaitOver
from fleettrio.core.ledger import Limits
from fleettrio.ids import MsgId
from fleettrio.wire.envelope import Kind
from tests.core.asks import again, answering, answers, asking, beating, heard, listening, notice, waiting
from tests.core.builders import Host, World, agent, pair, told


def asked(world: World, alpha: Host, beta: Host) -> tuple[ask.CallId, MsgId]:
    """The lead listens, the worker asked and waits, and the lead has the question: the worker's call, the question."""
    ear = listening(alpha)
    question = asking(beta)
    world.settle()
    call = waiting(beta, question)
    assert heard(alpha, ear) == [question]
    return call, question


def test_a_question_to_nobody_who_listens_ends_at_once_and_says_so() -> None:
    world, alpha, beta = pair()
    question = asking(beta)
    world.settle()
    assert beta.fate(question) == "failed(no-waiter)"
    assert alpha.state(question, "lead") == "failed(no-waiter)"
    assert alpha.take("lead") == []


def test_nobody_listens_is_told_by_a_notice_of_its_own_until_it_is_confirmed() -> None:
    _world, alpha, beta = pair()
    asking(beta)
    (publish,) = beta.taken()
    beta.hand(publish)
    beta.verdict(publish)
    assert told(alpha.get(beta.signed(publish))) == [
        "commit waiting",
        "record failed(no-waiter) owed",
        "ack",
        "publish NO_WAITER beta",
    ]
    alpha.taken()  # lost with the link
    alpha.run(ev.SessionClosed(1, "gone"))
    assert "publish NO_WAITER beta" in told(alpha.open())


def test_a_question_is_shown_to_a_pull_that_waits_and_its_answer_is_the_result_of_the_call_that_asked() -> None:
    world, alpha, beta = pair()
    ear = listening(alpha)
    question = asking(beta)
    world.settle()
    assert heard(alpha, ear) == [question]
    assert beta.fate(question) == "held"
    call = waiting(beta, question)
    reply, _ = answering(alpha, question)
    assert alpha.state(question, "lead") == "drained"
    world.settle()
    assert answers(beta, call) == [reply]
    assert beta.sent(question).answered_by == reply
    assert not beta.injected
    result = beta.results[call]
    assert isinstance(result, WaitOver)
    beta.confirm(result.cursor, "asker")
    world.settle()
    assert (beta.state(reply, "worker"), alpha.fate(reply)) == ("drained", "drained")


def test_a_waiting_send_is_shown_the_question_and_goes_on_waiting() -> None:
    world, alpha, beta = pair()
    brief = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.put_in(brief, "worker")
    world.settle()
    call = alpha.await_answer(brief, "lead")
    question = asking(beta)
    world.settle()
    result = alpha.results[call]
    assert isinstance(result, WaitOver)
    assert ([key[0] for key in result.questions], result.answers) == ([question], ())
    alpha.confirm(result.cursor)
    again_call = alpha.await_answer(brief, "lead")
    reply = beta.reply(brief, "worker")
    world.settle()
    assert answers(alpha, again_call) == [reply]
    assert alpha.state(question, "lead") == "offered", "it waits for its answer, whoever has seen it"


def test_between_two_calls_of_a_waiting_send_a_question_waits_for_the_next_one() -> None:
    world, alpha, beta = pair()
    brief = alpha.send("worker@beta", sender="lead")
    world.settle()
    again(alpha, "lead", alpha.await_answer(brief, "lead"), "s")
    beating(world, 80)
    question = asking(beta)
    world.settle()
    assert alpha.state(question, "lead") == "waiting"
    call = alpha.await_answer(brief, "lead")
    result = alpha.results[call]
    assert isinstance(result, WaitOver)
    assert [key[0] for key in result.questions] == [question]


def test_whoever_was_told_to_call_again_and_does_not_is_no_waiter_after_90_seconds() -> None:
    world, alpha, beta = pair()
    again(alpha, "lead", listening(alpha), "ear")
    beating(world, 60)
    question = asking(beta)
    world.settle()
    assert alpha.state(question, "lead") == "waiting"
    alpha.wait(29)
    assert alpha.state(question, "lead") == "waiting"
    alpha.wait(2)
    world.settle()
    assert beta.fate(question) == "failed(no-waiter)"


def test_a_call_that_was_given_up_is_no_waiter() -> None:
    world, alpha, beta = pair()
    call = listening(alpha)
    alpha.run(ask.CallEnded(call, "ear", gone=False), ask.CallEnded(None, "ear", gone=True))
    question = asking(beta)
    world.settle()
    assert beta.fate(question) == "failed(no-waiter)"


def test_a_pull_for_another_senders_mail_does_not_listen() -> None:
    world, alpha, beta = pair()
    alpha.pull("lead", wait=True, sender=alpha.gid("human"))
    question = asking(beta)
    world.settle()
    assert beta.fate(question) == "failed(no-waiter)"


def test_a_question_whose_client_died_before_it_said_that_it_has_it_is_shown_to_the_next_one_as_a_repeat() -> None:
    world, alpha, beta = pair()
    _, question = asked(world, alpha, beta)
    alpha.run(ask.CallEnded(None, "ear", gone=True))
    assert alpha.state(question, "lead") == "waiting"
    assert heard(alpha, listening(alpha, session="other")) == [question]
    assert alpha.row(question, "lead").repeat


def test_questions_come_first_in_a_pull_and_past_a_message_that_is_ahead() -> None:
    world, alpha, beta = pair()
    again(alpha, "lead", listening(alpha), "ear")
    first = beta.send("lead@alpha", sender="worker")
    question = asking(beta)
    world.settle()
    assert heard(alpha, listening(alpha, session="other")) == [question, first]


def test_a_full_inbox_ends_a_question_at_the_askers_own_gateway() -> None:
    world, alpha, beta = pair(limits=Limits(messages=2))
    for _ in range(2):
        beta.send("lead@alpha", sender="worker")
    world.settle()
    alpha.wait(2)
    world.settle()
    question = asking(beta)
    assert told(beta.last) == ["sent failed(no-waiter)", "resolve failed(no-waiter)"]
    assert beta.sent(question).detail == "backlog"


def test_a_question_that_meets_a_full_inbox_nobody_told_of_ends_the_same_way() -> None:
    world, _alpha, beta = pair(limits=Limits(messages=2))
    for _ in range(2):
        beta.send("lead@alpha", sender="worker")
    world.settle()
    question = asking(beta)
    world.settle()
    assert (beta.fate(question), beta.sent(question).detail) == ("failed(no-waiter)", "backlog")


def test_the_first_answer_wins_and_the_second_is_told_that_it_is_too_late() -> None:
    world, alpha, beta = pair()
    call, question = asked(world, alpha, beta)
    first, _ = answering(alpha, question)
    world.settle()
    second, _ = answering(alpha, question, body=b"no, 4712")
    world.settle()
    assert answers(beta, call) == [first]
    assert (alpha.fate(second), beta.state(second, "worker")) == ("failed(too-late)", "failed(too-late)")
    assert not beta.asked
    alpha.await_answer(second, "lead", until="delivered")  # the command that answered asks, and says it
    assert alpha.gateway.failures.of(alpha.gid("lead")) == []


def test_an_answer_that_comes_between_two_polls_waits_for_the_next_one_and_is_never_typed() -> None:
    world, alpha, beta = pair()
    call, question = asked(world, alpha, beta)
    again(beta, "worker", call, "asker")
    reply, _ = answering(alpha, question)
    world.settle()
    assert beta.state(reply, "worker") == "waiting"
    beta.run(ev.AgentSeen(beta.gid("worker"), "idle"))
    assert not beta.asked
    assert answers(beta, waiting(beta, question)) == [reply]


def test_a_turn_that_is_not_polled_for_90_seconds_is_over_and_the_question_disappears() -> None:
    world, alpha, beta = pair()
    call, question = asked(world, alpha, beta)
    again(beta, "worker", call, "asker")
    beta.wait(89)
    assert beta.fate(question) == "held"
    beta.wait(2)
    assert beta.fate(question) == "failed(abandoned)"
    assert beta.sent(question).owes == "abandoned"
    world.settle()
    assert alpha.state(question, "lead") == "recalled(abandoned)"
    assert beta.sent(question).owes == ""


def test_a_turn_whose_client_died_in_its_call_is_over_at_once() -> None:
    world, alpha, beta = pair()
    call, question = asked(world, alpha, beta)
    beta.run(ask.CallEnded(call, "asker", gone=False))
    beta.run(ask.CallEnded(None, "asker", gone=True))
    world.settle()
    assert beta.fate(question) == "failed(abandoned)"
    assert alpha.state(question, "lead") == "recalled(abandoned)"


def test_an_answer_to_a_turn_that_is_over_is_dropped_and_told() -> None:
    world, alpha, beta = pair()
    call, question = asked(world, alpha, beta)
    reply, _ = answering(alpha, question)
    beta.run(ask.CallEnded(call, "asker", gone=False), ask.CallEnded(None, "asker", gone=True))
    world.settle()
    assert (alpha.fate(reply), beta.state(reply, "worker")) == ("failed(too-late)", "failed(too-late)")
    assert not beta.asked


def test_an_answer_that_nobody_fetched_before_its_turn_ended_is_too_late() -> None:
    world, alpha, beta = pair()
    call, question = asked(world, alpha, beta)
    again(beta, "worker", call, "asker")
    reply, _ = answering(alpha, question)
    world.settle()
    beta.wait(91)
    world.settle()
    assert alpha.fate(reply) == "failed(too-late)"


def test_an_answer_whose_client_died_with_it_may_have_been_seen() -> None:
    world, alpha, beta = pair()
    call, question = asked(world, alpha, beta)
    reply, _ = answering(alpha, question)
    world.settle()
    assert answers(beta, call) == [reply]
    beta.run(ask.CallEnded(None, "asker", gone=True))
    world.settle()
    assert alpha.fate(reply) == "unconfirmed(offered)"


def test_the_one_who_asks_may_take_the_question_back() -> None:
    world, alpha, beta = pair()
    call, question = asked(world, alpha, beta)
    beta.cancel(question)
    assert isinstance(beta.results[call], WaitOver)
    world.settle()
    assert alpha.state(question, "lead") == "recalled(abandoned)"
    _, answer_call = answering(alpha, question)
    failed = alpha.results[answer_call]
    assert isinstance(failed, do.Fail)
    assert failed.reason == "too-late"


def test_a_question_expires_at_both_hosts_by_their_own_clocks() -> None:
    world, alpha, beta = pair()
    ear = listening(alpha)
    question = asking(beta, expires_in_ms=60_000)
    world.settle()
    call = waiting(beta, question)
    alpha.wait(61)
    beta.expire()
    assert heard(alpha, ear) == [question]
    assert (beta.fate(question), alpha.state(question, "lead")) == ("expired", "expired")
    assert isinstance(beta.results[call], WaitOver)
    assert not [publish for publish in beta.out if publish.envelope.kind == Kind.ABANDONED]


def test_after_a_restart_the_open_questions_of_a_host_end_as_not_listened_to() -> None:
    world, alpha, beta = pair()
    _, question = asked(world, alpha, beta)
    alpha.start()
    alpha.open()
    world.settle()
    assert (beta.fate(question), beta.sent(question).detail) == (
        "failed(no-waiter)",
        "restarted",
    )


def test_after_a_restart_of_the_asker_its_turn_is_over_and_the_notice_is_owed_until_it_is_confirmed() -> None:
    world, alpha, beta = pair()
    _, question = asked(world, alpha, beta)
    beta.start()
    assert beta.fate(question) == "failed(abandoned)"
    beta.start()
    assert "publish ABANDONED alpha" in told(beta.open())
    world.settle()
    assert alpha.state(question, "lead") == "recalled(abandoned)"
    beta.run(ev.SessionClosed(1, "gone"))
    assert "publish ABANDONED alpha" not in told(beta.open())


def test_a_question_that_was_lost_with_the_broker_ends_loudly() -> None:
    world, alpha, beta = pair()
    listening(alpha)
    question = asking(beta)
    (publish,) = beta.taken()
    beta.hand(publish)
    beta.verdict(publish)
    call = waiting(beta, question)
    for host in (alpha, beta):
        host.run(ev.SessionClosed(1, "the broker went"))
    world.open()
    assert beta.fate(question) == "failed(lost-with-broker)"
    assert isinstance(beta.results[call], WaitOver)
    assert alpha.ledger[question, alpha.gid("lead")].reason == "abandoned", (
        "if it comes all the same, nobody is shown it"
    )


@pytest.mark.parametrize("lost", [Kind.QUERY, Kind.OUTCOME])
def test_a_lost_question_ends_loudly_though_the_word_about_it_is_lost_too(lost: Kind) -> None:
    world, alpha, beta = pair()
    listening(alpha)
    question = asking(beta)
    (publish,) = beta.taken()
    beta.hand(publish)
    beta.verdict(publish)
    for host in (alpha, beta):
        host.run(ev.SessionClosed(1, "the broker went"))
    for host in (alpha, beta):
        host.open()
    lost_ones = []
    while any(host.out for host in world.hosts):
        for host in world.hosts:
            for publish in host.taken():
                if publish.envelope.kind == lost:
                    lost_ones.append(publish)
                else:
                    world.carry(host, publish)
    assert lost_ones
    assert beta.fate(question) == "confirmed"
    beta.wait(6)
    world.settle()
    assert beta.fate(question) == "failed(lost-with-broker)"


def test_an_answer_that_was_lost_with_the_broker_ends_loudly_and_can_be_given_again() -> None:
    world, alpha, beta = pair()
    call, question = asked(world, alpha, beta)
    lost, _ = answering(alpha, question)
    (publish,) = alpha.taken()
    alpha.hand(publish)
    alpha.verdict(publish)
    for host in (alpha, beta):
        host.run(ev.SessionClosed(1, "the broker went"))
    world.open()
    assert alpha.fate(lost) == "failed(lost-with-broker)"
    reply, _ = answering(alpha, question)
    world.settle()
    assert answers(beta, call) == [reply]


def test_a_question_that_its_host_has_is_not_lost_with_the_broker() -> None:
    world, alpha, beta = pair()
    call, question = asked(world, alpha, beta)
    for host in (alpha, beta):
        host.run(ev.SessionClosed(1, "the broker went"))
    world.open()
    reply, _ = answering(alpha, question)
    world.settle()
    assert answers(beta, call) == [reply]


def test_a_question_without_a_link_or_to_a_silent_host_fails_at_once() -> None:
    _world, _alpha, beta = pair()
    asking(beta, to="nobody@alpha")
    assert told(beta.last) == ["fail 3 no-such-recipient"]
    asking(beta, expires_in_ms=3_600_001)
    assert told(beta.last) == ["fail 2 lifetime"]
    beta.clock.advance(60)
    asking(beta)
    assert told(beta.last) == ["fail 8 host-silent"]
    beta.run(ev.SessionClosed(1, "gone"))
    asking(beta)
    assert told(beta.last) == ["fail 8 broker-unreachable"]
    assert not [row for row in beta.outbox.values() if row.kind == Kind.ASK]


def test_an_asker_with_no_call_gets_the_answer_put_in_while_its_turn_waits() -> None:
    world, alpha, beta = pair()
    listening(alpha)
    beta.run(ev.AgentSeen(beta.gid("worker"), "working"))
    question = asking(beta, has_call=False)
    world.settle()
    reply, _ = answering(alpha, question)
    world.settle()
    assert beta.state(reply, "worker") == "waiting"
    beta.put_in(reply, "worker")
    world.settle()
    assert alpha.fate(reply) == "injected"


def test_an_asker_with_no_call_whose_turn_ended_gets_nothing_put_in() -> None:
    world, alpha, beta = pair()
    listening(alpha)
    beta.run(ev.AgentSeen(beta.gid("worker"), "working", looked=True))
    question = asking(beta, has_call=False)
    world.settle()
    reply, _ = answering(alpha, question)
    world.settle()
    beta.asked.clear()
    beta.run(ev.AgentSeen(beta.gid("worker"), "idle"))
    beta.ready(reply, "worker")
    world.settle()
    assert alpha.fate(reply) == "failed(too-late)"
    assert not beta.injected


def test_an_asker_that_was_only_thought_to_work_goes_on_waiting_when_it_is_seen_idle() -> None:
    world, alpha, beta = pair()
    listening(alpha)
    beta.run(ev.AgentSeen(beta.gid("worker"), "working"))
    question = asking(beta, has_call=False)
    beta.run(ev.AgentSeen(beta.gid("worker"), "idle"))
    world.settle()
    reply, _ = answering(alpha, question)
    world.settle()
    beta.put_in(reply, "worker")
    world.settle()
    assert alpha.fate(reply) == "injected"


def test_neighbours_ask_and_answer_by_the_same_rules_without_a_broker() -> None:
    world = World("alpha")
    (alpha,) = world.hosts
    alpha.run(ev.Attached(alpha.call(), agent("worker", "alpha")))
    refused = asking(alpha, to="lead")
    assert alpha.fate(refused) == "failed(no-waiter)"
    ear = listening(alpha)
    question = asking(alpha, to="lead")
    assert heard(alpha, ear) == [question]
    call = waiting(alpha, question)
    reply, answer_call = answering(alpha, question)
    assert answers(alpha, call) == [reply]
    assert isinstance(alpha.results[answer_call], Accepted)
    second, _ = answering(alpha, question)
    assert alpha.fate(second) == "failed(too-late)"
    assert alpha.gateway.failures.of(alpha.gid("lead")) == []
    listening(alpha)
    other = asking(alpha, to="lead")
    call = waiting(alpha, other)
    alpha.run(ask.CallEnded(call, "asker", gone=False), ask.CallEnded(None, "asker", gone=True))
    assert alpha.state(other, "lead") == "recalled(abandoned)"
    assert not alpha.out


def test_what_is_due_to_a_host_is_told_apart_from_questions() -> None:
    """NO_WAITER waits for no list: it goes by itself, before what else is owed."""
    _world, alpha, beta = pair()
    beta.send("lead@alpha", sender="worker")
    question = asking(beta)
    for publish in beta.taken():
        beta.hand(publish)
        beta.verdict(publish)
        alpha.get(beta.signed(publish))
    first = alpha.taken()
    alpha.hand(first[0])
    alpha.verdict(first[0])
    kinds = [publish.envelope.kind for publish in (*first, *alpha.taken())]
    assert kinds == [Kind.OUTCOME, Kind.NO_WAITER]
    assert question


def test_a_notice_told_twice_changes_nothing() -> None:
    world, alpha, beta = pair()
    question = asking(beta)
    world.settle()
    told_again = notice(Kind.NO_WAITER, alpha, beta, question, alpha.gid("lead"))
    assert told(beta.get(told_again)) == ["ack"]


def test_nobody_asks_itself() -> None:
    _, alpha, _ = pair()
    listening(alpha)
    asking(alpha, to="lead", sender="lead")
    assert "fail 2 own-question" in told(alpha.last)
