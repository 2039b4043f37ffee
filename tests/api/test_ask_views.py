"""What `show` says of questions, answers and briefs, at both hosts: one sentence where it is, why, and what to do."""

from __future__ import annotations

from fleettrio.api.schema import MessageView
from fleettrio.api.views import inbox_view, sent_view
from fleettrio.core import events as ev
from fleettrio.ids import MsgId, short_id
from tests.core.asks import answering, asking, listening, waiting
from tests.core.builders import Host, pair


def sent(host: Host, msg_id: MsgId) -> MessageView:
    row = host.gateway.outbox.get((msg_id, host.sent(msg_id).gid)) or host.sent(msg_id)
    return sent_view(row, host.gateway, host.clock.now.wall)


def received(host: Host, msg_id: MsgId, name: str) -> MessageView:
    return inbox_view(host.row(msg_id, name), host.gateway, host.clock.now.wall)


def test_a_question_says_how_it_is_answered_and_that_it_was() -> None:
    world, alpha, beta = pair()
    listening(alpha)
    question = asking(beta)
    world.settle()
    assert "lead@alpha has not answered yet" in sent(beta, question).sentence
    assert f"fleettrio answer {short_id(question)} 'TEXT'" in received(alpha, question, "lead").sentence
    waiting(beta, question)
    reply, _ = answering(alpha, question)
    world.settle()
    assert (sent(beta, question).state, sent(beta, question).exit_code) == ("answered", 0)
    assert "lead@alpha answered it" in received(alpha, question, "lead").sentence
    late, _ = answering(alpha, question)
    world.settle()
    assert sent(alpha, late).sentence == "failed: worker@beta has an answer already"
    assert sent(alpha, late).exit_code == 3
    assert reply != late


def test_a_question_without_an_answer_says_why() -> None:
    world, alpha, beta = pair()
    unheard = asking(beta)
    world.settle()
    assert "lead@alpha does not listen just now" in sent(beta, unheard).sentence
    assert "did not listen" in received(alpha, unheard, "lead").sentence
    listening(alpha)
    left = asking(beta)
    world.settle()
    alpha.start()
    alpha.open()
    world.settle()
    assert "the daemon of alpha was started anew" in sent(beta, left).sentence
    listening(alpha)
    question = asking(beta)
    world.settle()
    beta.cancel(question)
    world.settle()
    assert sent(beta, question).sentence.startswith("taken back: whoever asked waits no longer")
    assert "taken back" in received(alpha, question, "lead").sentence


def test_a_brief_says_that_its_agent_is_at_work_and_that_it_ended_without_an_answer() -> None:
    world, alpha, beta = pair()
    brief = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.put_in(brief, "worker")
    beta.run(ev.AgentSeen(beta.gid("worker"), "working", looked=True))
    beta.wait(2)
    world.settle()
    assert "worker@beta works on it" in sent(alpha, brief).sentence
    beta.run(ev.AgentSeen(beta.gid("worker"), "idle", looked=True))
    beta.wait(3)
    world.settle()
    view = sent(alpha, brief)
    assert (view.state, view.reason, view.exit_code) == ("ended", "no answer", 3)
    assert "ended its turn without answering" in view.sentence
    assert "not answered" in received(beta, brief, "worker").sentence
    beta.run(ev.TurnEnded(beta.gid("worker"), b"", "done"))


def test_last_words_are_called_so() -> None:
    world, alpha, beta = pair()
    brief = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.put_in(brief, "worker")
    beta.run(ev.TurnEnded(beta.gid("worker"), b"all is well", "done", (beta.new_id(),)))
    world.settle()
    view = sent(alpha, brief)
    assert (view.state, view.reason, view.exit_code) == ("answered", "auto", 0)
    assert "the last words of its turn" in view.sentence
