"""Ask and answer in every wrong order, and from those who have no say: each ends in a stated outcome."""

from __future__ import annotations

import pytest

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.ids import TurnId
from fleettrio.wire.envelope import Kind
from tests.core.asks import TURN, answer_by_hand, answering, answers, asking, heard, listening, notice, waiting
from tests.core.builders import Host, World, told
from tests.core.messages import failed, outcome


def three() -> tuple[World, Host, Host, Host]:
    world = World("alpha", "beta", "gamma")
    world.open()
    for host in world.hosts:
        host.taken()
    alpha, beta, gamma = world.hosts
    return world, alpha, beta, gamma


def test_an_answer_without_its_question_is_refused() -> None:
    _world, alpha, beta, _ = three()
    parsed = answer_by_hand(alpha, "lead", beta.gid("worker"), alpha.new_id())
    assert told(beta.get(parsed)) == ["load", "note refused not-party", "publish FAILED alpha", "reject"]


def test_an_answer_by_another_host_than_the_one_asked_is_refused() -> None:
    world, alpha, beta, gamma = three()
    listening(alpha)
    question = asking(beta)
    world.settle()
    call = waiting(beta, question)
    parsed = answer_by_hand(gamma, "human", beta.gid("worker"), question)
    assert "note refused not-party" in told(beta.get(parsed))
    assert call not in beta.results


def test_a_question_that_was_refused_once_is_over_though_a_good_copy_of_it_was_taken() -> None:
    """A spoilt copy came first; what is said of the good one behind it comes to nobody."""
    world, alpha, beta, _ = three()
    ear = listening(alpha)
    question = asking(beta)
    world.settle()
    call = waiting(beta, question)
    row = beta.sent(question)
    beta.get(failed(alpha, beta, question, row.gid, row.leaf, "refused: signature at alpha"))
    assert call in beta.results
    beta.get(outcome(alpha, beta, (question, row.gid, row.leaf, "held")))
    assert beta.fate(question) == "failed(refused: signature at alpha)"
    assert heard(alpha, ear) == [question]
    reply, _ = answering(alpha, question)
    world.settle()
    assert alpha.fate(reply) == "failed(too-late)"


def test_an_answer_by_a_neighbour_of_the_one_asked_is_refused() -> None:
    world, alpha, beta, _ = three()
    listening(alpha)
    question = asking(beta)
    world.settle()
    assert "note refused not-party" in told(beta.get(answer_by_hand(alpha, "human", beta.gid("worker"), question)))


def test_an_answer_of_another_turn_is_refused() -> None:
    world, alpha, beta, _ = three()
    listening(alpha)
    question = asking(beta)
    world.settle()
    parsed = answer_by_hand(alpha, "lead", beta.gid("worker"), question, TurnId("another"))
    assert "note refused not-party" in told(beta.get(parsed))


def test_an_answer_to_a_message_that_is_no_question_is_refused() -> None:
    world, alpha, beta, _ = three()
    sent = beta.send("lead@alpha", sender="worker")
    world.settle()
    assert "note refused not-party" in told(beta.get(answer_by_hand(alpha, "lead", beta.gid("worker"), sent)))


def test_an_answer_that_overtakes_the_word_about_its_question_counts() -> None:
    _world, alpha, beta, _ = three()
    listening(alpha)
    question = asking(beta)
    (publish,) = beta.taken()
    beta.hand(publish)
    alpha.get(beta.signed(publish))  # not confirmed yet
    alpha.taken()
    call = waiting(beta, question)
    reply, _ = answering(alpha, question)
    (answer,) = alpha.taken()
    beta.get(alpha.signed(answer))
    assert answers(beta, call) == [reply]
    beta.verdict(publish)
    assert beta.sent(question).answered_by == reply


def test_the_same_answer_twice_is_acknowledged_and_lands_once() -> None:
    world, alpha, beta, _ = three()
    listening(alpha)
    question = asking(beta)
    world.settle()
    call = waiting(beta, question)
    answering(alpha, question)
    (publish,) = alpha.taken()
    parsed = alpha.signed(publish)
    one, two = beta.arrival(parsed), beta.arrival(parsed)
    assert told(beta.run(one, two)).count("ack") == 2
    assert beta.resolved[call] == 1


def test_an_abandoned_that_overtakes_its_question_leaves_a_tombstone() -> None:
    world, alpha, beta, _ = three()
    ear = listening(alpha)
    question = asking(beta)
    (publish,) = beta.taken()
    beta.hand(publish)
    beta.verdict(publish)
    beta.cancel(question)
    world.settle()
    assert told(alpha.get(beta.signed(publish))) == ["record recalled(abandoned)", "ack"]
    assert ear not in alpha.results
    assert beta.fate(question) == "failed(abandoned)"


def test_the_tombstone_outlives_a_restart() -> None:
    world, alpha, beta, _ = three()
    question = asking(beta)
    (publish,) = beta.taken()
    beta.hand(publish)
    beta.verdict(publish)
    beta.cancel(question)
    world.settle()
    alpha.start()
    alpha.open()
    listening(alpha)
    assert "record recalled(abandoned)" in told(alpha.get(beta.signed(publish)))


def test_a_tombstone_of_another_host_stands_in_nobodys_way() -> None:
    world, alpha, beta, gamma = three()
    ear = listening(alpha)
    question = asking(beta)
    alpha.get(notice(Kind.ABANDONED, gamma, alpha, question, alpha.gid("lead")))
    world.settle()
    assert ear in alpha.results
    assert beta.fate(question) == "held"


@pytest.mark.parametrize("by", ["beta", "gamma"])
def test_a_question_is_abandoned_by_the_host_that_asked_and_for_that_turn_alone(by: str) -> None:
    world, alpha, beta, gamma = three()
    listening(alpha)
    question = asking(beta)
    world.settle()
    host, turn = (gamma, TURN) if by == "gamma" else (beta, TurnId("another"))
    parsed = notice(Kind.ABANDONED, host, alpha, question, alpha.gid("lead"), turn)
    assert told(alpha.get(parsed)) == ["note not-party abandoned", "reject"]
    assert alpha.state(question, "lead") == "offered"


def test_an_abandoned_about_a_question_that_is_over_changes_nothing() -> None:
    world, alpha, beta, _ = three()
    question = asking(beta)
    world.settle()
    assert told(alpha.get(notice(Kind.ABANDONED, beta, alpha, question, alpha.gid("lead")))) == ["ack"]
    assert alpha.state(question, "lead") == "failed(no-waiter)"


def test_an_abandoned_for_somebody_who_does_not_live_here_is_refused() -> None:
    _world, alpha, beta, gamma = three()
    parsed = notice(Kind.ABANDONED, beta, alpha, beta.new_id(), gamma.gid("human"))
    assert told(alpha.get(parsed)) == ["load", "note not-party abandoned", "reject"]


@pytest.mark.parametrize("kind", [Kind.NO_WAITER, Kind.TOO_LATE])
def test_a_notice_about_a_question_counts_from_the_host_that_was_asked_about_that_turn_and_kind_alone(
    kind: Kind,
) -> None:
    world, alpha, beta, gamma = three()
    listening(alpha)
    question, sent = asking(beta), beta.send("lead@alpha", sender="worker")
    world.settle()
    lead = alpha.gid("lead")
    for parsed in (
        notice(kind, gamma, beta, question, lead),
        notice(kind, alpha, beta, question, lead, TurnId("another")),
        notice(kind, alpha, beta, sent, lead),
        notice(kind, alpha, beta, alpha.new_id(), lead),
    ):
        assert [word for word in told(beta.get(parsed)) if word.startswith(("note not-party", "reject"))]
    assert beta.fate(question) == "held"


def test_too_late_is_said_of_answers_and_not_of_questions() -> None:
    world, alpha, beta, _ = three()
    listening(alpha)
    question = asking(beta)
    world.settle()
    assert "reject" in told(beta.get(notice(Kind.TOO_LATE, alpha, beta, question, alpha.gid("lead"))))
    assert beta.fate(question) == "held"


def test_only_the_one_who_was_asked_answers() -> None:
    world, alpha, beta, _ = three()
    listening(alpha)
    question = asking(beta)
    world.settle()
    call = alpha.call()
    row = alpha.row(question, "lead")
    alpha.run(ask.AnswerAsked(call=call, sender=alpha.gid("human"), question=row, body=b"I", msg_id=alpha.new_id()))
    failed = alpha.results[call]
    assert isinstance(failed, do.Fail)
    assert failed.reason == "not-yours"


def test_what_is_no_question_is_not_answered() -> None:
    world, alpha, beta, _ = three()
    sent = beta.send("lead@alpha", sender="worker")
    world.settle()
    _, call = answering(alpha, sent)
    failed = alpha.results[call]
    assert isinstance(failed, do.Fail)
    assert (failed.code, failed.reason) == (2, "not-a-question")


def test_an_answer_without_a_link_fails_at_once_and_the_question_stays_open() -> None:
    world, alpha, beta, _ = three()
    listening(alpha)
    question = asking(beta)
    world.settle()
    alpha.run(ev.SessionClosed(1, "gone"))
    answering(alpha, question)
    assert told(alpha.last) == ["fail 8 broker-unreachable"]
    assert alpha.state(question, "lead") == "offered"


def test_questions_to_one_entity_are_bounded() -> None:
    world, alpha, beta, _ = three()
    for number in range(101):
        listening(alpha, session=f"ear-{number}")
        question = asking(beta)
        world.settle()
    assert (beta.fate(question), beta.sent(question).detail) == ("failed(no-waiter)", "backlog")


def test_what_is_live_is_not_retried() -> None:
    world, _alpha, beta, _ = three()
    question = asking(beta)
    world.settle()
    told_words = told(beta.run(ask.RetryAsked(beta.call(), beta.sent(question), b"which port?")))
    assert told_words == ["fail 2 not-retryable"]


def test_an_agent_that_is_gone_takes_its_questions_with_it() -> None:
    world, alpha, beta, _ = three()
    listening(alpha)
    question = asking(beta)
    world.settle()
    alpha.run(ev.Detached(alpha.call(), alpha.gid("lead"), forget=True))
    world.settle()
    assert beta.fate(question) == "failed(offered)"
