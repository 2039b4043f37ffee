"""A brief wants an answer: what its agent's turn came to is said to whoever waits for it."""

from __future__ import annotations

import pytest

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.calls import WaitOver
from fleettrio.ids import MsgId
from fleettrio.wire.envelope import Kind
from tests.core.builders import Host, World, agent, pair, told


def at_work(world: World, alpha: Host, beta: Host, **fields: object) -> MsgId:
    """The lead's brief was put in, and the worker was seen at work."""
    brief = alpha.send("worker@beta", sender="lead", **fields)  # type: ignore[arg-type]
    world.settle()
    beta.put_in(brief, "worker")
    seen(beta, "working")
    world.settle()
    return brief


def seen(host: Host, status: str, *, looked: bool = True, name: str = "worker") -> None:
    host.last = host.run(ev.AgentSeen(host.gid(name), status, looked))


def _is_presence(action: do.Action) -> bool:
    return isinstance(action, do.Publish) and action.envelope.kind == Kind.PRESENCE


def turn_over(host: Host) -> None:
    seen(host, "idle")
    host.last = [action for action in host.wait(3) if not _is_presence(action)]


def test_a_turn_that_ends_without_an_answer_is_told_and_ends_the_wait() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    call = alpha.await_answer(brief, "lead")
    turn_over(beta)
    assert told(beta.last) == ["record injected owed", "publish OUTCOME alpha ended"]
    world.settle()
    assert beta.row(brief, "worker").notified
    assert (alpha.fate(brief), alpha.sent(brief).answer) == ("injected", "ended")
    result = alpha.results[call]
    assert isinstance(result, WaitOver)
    assert result.rows[0].answer == "ended"


def test_what_is_owed_about_it_is_told_again_after_a_restart() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    turn_over(beta)
    beta.taken()
    beta.start()
    assert "publish OUTCOME alpha ended" in told(beta.open())
    world.settle()
    assert alpha.sent(brief).answer == "ended"


def test_a_later_reply_is_its_answer_all_the_same() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    turn_over(beta)
    world.settle()
    reply = beta.reply(brief, "worker")
    world.settle()
    assert (alpha.sent(brief).answer, alpha.sent(brief).answered_by) == ("", reply)
    assert beta.row(brief, "worker").answer == "answered"


def test_a_reply_within_the_turn_leaves_nothing_to_tell() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    beta.reply(brief, "worker")
    world.settle()
    turn_over(beta)
    assert told(beta.last) == []
    assert alpha.sent(brief).answer == ""


def test_an_answer_while_the_word_that_it_was_put_in_is_on_its_way_has_that_word_told_once() -> None:
    world, alpha, beta = pair()
    brief = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.ready(brief, "worker")
    beta.typed(brief, "worker", detail="its program")
    (word,) = beta.taken()
    beta.reply(brief, "worker")
    beta.hand(word)
    assert not [line for line in told(beta.verdict(word, "confirmed")) if "INJECTED" in line]
    assert beta.row(brief, "worker").notified


def test_a_reply_that_could_not_go_out_is_no_answer() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    beta.run(ev.SessionClosed(1, "gone"))
    beta.reply(brief, "worker")
    assert beta.row(brief, "worker").answer == ""


def test_the_word_that_it_ended_does_not_take_back_an_answer_that_overtook_it() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    turn_over(beta)
    (notice,) = [publish for publish in beta.taken() if publish.envelope.kind == Kind.OUTCOME]
    beta.reply(brief, "worker")
    world.settle()
    beta.hand(notice)
    alpha.get(beta.signed(notice))
    assert alpha.sent(brief).answer == ""


def test_an_agent_that_was_never_seen_at_work_says_nothing_by_being_idle() -> None:
    world, alpha, beta = pair()
    brief = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.put_in(brief, "worker")
    seen(beta, "working", looked=False)
    turn_over(beta)
    world.settle()
    assert (beta.row(brief, "worker").answer, alpha.sent(brief).answer) == ("", "")


def test_an_agent_that_is_seen_at_work_before_the_word_that_it_was_put_in_has_worked_on_it() -> None:
    world, alpha, beta = pair()
    brief = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.ready(brief, "worker")
    seen(beta, "working")
    beta.typed(brief, "worker")
    turn_over(beta)
    world.settle()
    assert alpha.sent(brief).answer == "ended"


def test_an_idle_moment_between_two_steps_of_a_turn_does_not_end_it() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    seen(beta, "idle")
    assert beta.gateway.asks.briefs.is_ending(beta.gid("worker"))
    beta.wait(1)
    seen(beta, "working")
    beta.wait(3)
    assert beta.row(brief, "worker").answer == ""


def test_the_next_brief_ends_the_turn_of_the_one_before() -> None:
    world, alpha, beta = pair()
    first = at_work(world, alpha, beta)
    seen(beta, "idle")
    second = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.put_in(second, "worker")
    world.settle()
    assert [alpha.sent(brief).answer for brief in (first, second)] == ["ended", ""]


def test_a_session_that_ends_takes_its_turn_with_it() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    seen(beta, "away")
    world.settle()
    assert (alpha.sent(brief).answer, alpha.sent(brief).detail) == ("ended", "its session ended")


def test_a_turn_goes_on_over_a_restart() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    beta.start()
    beta.open()
    turn_over(beta)
    world.settle()
    assert alpha.sent(brief).answer == "ended"


def test_what_an_agent_is_only_thought_to_work_on_is_not_over_because_its_host_starts_again() -> None:
    """A text was put in, so it is said to work; it was never seen to, and programs that do not show it look idle."""
    world, alpha, beta = pair()
    brief = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.ready(brief, "worker")
    seen(beta, "working", looked=False)
    beta.typed(brief, "worker")
    world.settle()
    beta.start()
    beta.open()
    turn_over(beta)
    world.settle()
    assert (beta.row(brief, "worker").answer, alpha.sent(brief).answer) == ("", "")


def test_work_that_shows_after_it_was_only_thought_of_is_known_over_a_restart() -> None:
    world, alpha, beta = pair()
    brief = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.ready(brief, "worker")
    seen(beta, "working", looked=False)
    beta.typed(brief, "worker")
    seen(beta, "working")
    beta.start()
    beta.open()
    turn_over(beta)
    world.settle()
    assert alpha.sent(brief).answer == "ended"


def test_who_wants_no_reply_is_told_nothing_of_the_turn() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta, wants_reply=False)
    turn_over(beta)
    assert told(beta.last) == []
    assert beta.row(brief, "worker").answer == ""


def test_all_that_a_turn_took_ends_with_it() -> None:
    world, alpha, beta = pair()
    first = at_work(world, alpha, beta)
    second = alpha.send("worker@beta", sender="lead", when="now")
    world.settle()
    beta.put_in(second, "worker")
    beta.reply(first, "worker")
    turn_over(beta)
    world.settle()
    assert [alpha.sent(brief).answer for brief in (first, second)] == ["", "ended"]


def test_a_neighbour_is_told_without_a_broker() -> None:
    world = World("alpha")
    (alpha,) = world.hosts
    alpha.run(ev.Attached(alpha.call(), agent("worker", "alpha")))
    brief = alpha.send("worker", sender="lead")
    alpha.put_in(brief, "worker")
    seen(alpha, "working")
    call = alpha.await_answer(brief, "lead")
    turn_over(alpha)
    assert isinstance(alpha.results[call], WaitOver)
    assert alpha.sent(brief).answer == "ended"


def test_a_host_of_before_notes_the_word_and_changes_nothing() -> None:
    """`ended` is a word of OUTCOME like any that a host may not know."""
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    turn_over(beta)
    world.settle()
    turn_over(beta)
    assert alpha.fate(brief) == "injected"
    assert not [note for note in alpha.journal if note.what in ("unknown-word", "contradiction")]


def ended(host: Host, words: bytes | None = b"all is well", how: str = "done", ids: int = 1) -> None:
    new = tuple(host.new_id() for _ in range(ids))
    host.last = host.run(ev.TurnEnded(host.gid("worker"), words, how, new))


def test_last_words_are_the_answer_that_was_not_given_and_are_marked_so() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    call = alpha.await_answer(brief, "lead")
    ended(beta)
    world.settle()
    result = alpha.results[call]
    assert isinstance(result, WaitOver)
    ((reply, _),) = result.answers
    assert alpha.row(reply, "lead").auto
    assert alpha.bodies[reply, alpha.gid("lead")] == b"all is well"
    assert (alpha.sent(brief).answer, alpha.sent(brief).answered_by) == ("auto", reply)
    assert (beta.row(brief, "worker").answer, beta.owed) == ("auto", {})


def test_an_answer_of_its_own_is_better_than_last_words() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    ended(beta)
    world.settle()
    reply = beta.reply(brief, "worker")
    world.settle()
    assert (alpha.sent(brief).answer, alpha.sent(brief).answered_by) == ("", reply)


@pytest.mark.parametrize(("how", "why"), [("interrupt", "interrupted"), ("error", "error"), ("typed", "person typed")])
def test_no_last_words_are_sent_of_a_turn_that_did_not_end_by_itself(how: str, why: str) -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    ended(beta, how=how)
    world.settle()
    assert alpha.sent(brief).answer == "ended"
    assert why in alpha.sent(brief).detail
    assert alpha.sent(brief).answered_by is None


@pytest.mark.parametrize("mode", ["nag", "manual"])
def test_an_agent_whose_profile_does_not_want_it_has_no_last_words_sent(mode: str) -> None:
    world, alpha, beta = pair()
    beta.gateway.asks.briefs.mode_of = lambda _gid: mode
    brief = at_work(world, alpha, beta)
    ended(beta)
    world.settle()
    assert alpha.sent(brief).answer == "ended"


def test_a_turn_without_known_words_ends_without_an_answer() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    ended(beta, words=None)
    world.settle()
    assert alpha.sent(brief).answer == "ended"


def test_last_words_go_out_again_until_the_broker_has_them_also_after_a_restart() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    ended(beta)
    assert "publish REPLY" in told(beta.last)
    (first,) = [publish for publish in beta.taken() if publish.envelope.kind == Kind.REPLY]
    beta.run(ev.SessionClosed(1, "gone"))
    beta.start()
    assert "publish REPLY" in told(beta.open())
    (again,) = [publish for publish in beta.out if publish.envelope.kind == Kind.REPLY]
    assert (again.sent[0].header, again.body) == (first.sent[0].header, first.body), "the very same bytes"
    world.settle()
    assert alpha.sent(brief).answer == "auto"
    assert not beta.owed
    beta.run(ev.SessionClosed(1, "gone"))
    assert "publish REPLY" not in told(beta.open())


def test_last_words_wait_for_a_link() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    beta.run(ev.SessionClosed(1, "gone"))
    ended(beta)
    assert beta.owed
    beta.open()
    world.settle()
    assert alpha.sent(brief).answer == "auto"


def test_last_words_to_a_neighbour_need_no_broker() -> None:
    world = World("alpha")
    (alpha,) = world.hosts
    alpha.run(ev.Attached(alpha.call(), agent("worker", "alpha")))
    brief = alpha.send("worker", sender="lead")
    alpha.put_in(brief, "worker")
    call = alpha.await_answer(brief, "lead")
    ended(alpha)
    result = alpha.results[call]
    assert isinstance(result, WaitOver)
    assert len(result.answers) == 1
    assert alpha.sent(brief).answer == "auto"


def test_one_turn_that_took_several_answers_each_as_far_as_it_has_ids() -> None:
    world, alpha, beta = pair()
    first = at_work(world, alpha, beta)
    second = alpha.send("worker@beta", sender="lead", when="now", body=b"and that")
    world.settle()
    beta.put_in(second, "worker")
    ended(beta, ids=1)
    world.settle()
    assert [alpha.sent(brief).answer for brief in (first, second)] == ["auto", "ended"]
