"""What a harness tells of its agent: whose prompt its turn began with, that it ended, and what is still unanswered."""

from __future__ import annotations

import pytest

from fleettrio.core import events as ev
from fleettrio.core.calls import Unanswered
from fleettrio.core.harness import NagAsked, PromptTyped
from fleettrio.core.spawned import Spawnable
from fleettrio.ids import MsgId
from tests.core.builders import Host, agent, pair, told
from tests.core.hands import Hand
from tests.core.spawning import hosts, launched, ready, spawn, spawned
from tests.core.test_core_briefs import at_work, seen


def typed(host: Host, name: str = "worker") -> None:
    host.last = host.run(PromptTyped(host.gid(name)))


def turn_ended(host: Host, how: str = "done", words: bytes | None = b"all is well") -> None:
    gid = host.gid("worker")
    ids = tuple(host.new_id() for _ in range(host.gateway.asks.briefs.count(gid)))
    host.last = host.run(ev.TurnEnded(gid, words, how, ids))


def nagged(host: Host) -> list[MsgId]:
    call = host.call()
    host.last = host.run(NagAsked(call, host.gid("worker")))
    result = host.results[call]
    assert isinstance(result, Unanswered)
    return [row.msg_id for row in result.rows]


def reply_by(host: Host, mode: str) -> None:
    """The worker was attached with this choice."""
    host.run(ev.Attached(host.call(), agent("worker", host.name, reply=mode)))


# --- a person's prompt --------------------------------------------------------------------------


def test_a_prompt_that_a_person_types_begins_the_depth_anew() -> None:
    world, alpha, beta = pair()
    brief = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.put_in(brief, "worker")
    deep = beta.send("lead@alpha", sender="worker")
    world.settle()
    typed(beta)
    anew = beta.send("lead@alpha", sender="worker")
    world.settle()
    assert (alpha.row(deep, "lead").depth, alpha.row(anew, "lead").depth) == (2, 1)


def test_a_turn_in_which_the_person_typed_has_no_last_words_sent() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    typed(beta)
    turn_ended(beta)
    world.settle()
    assert (alpha.sent(brief).answer, alpha.sent(brief).detail) == ("ended", "the person typed in that turn")


def test_what_comes_with_the_persons_own_prompt_belongs_to_that_turn() -> None:
    world, alpha, beta = pair()
    hand = Hand(beta)
    typed(beta)
    brief = alpha.send("worker@beta", sender="lead")
    world.settle()
    hand.takes()
    hand.seen()
    turn_ended(beta)
    world.settle()
    assert alpha.sent(brief).answer == "ended"


def test_the_turn_after_the_persons_is_the_briefs_own_again() -> None:
    world, alpha, beta = pair()
    typed(beta)
    turn_ended(beta)
    brief = at_work(world, alpha, beta)
    turn_ended(beta)
    world.settle()
    assert alpha.sent(brief).answer == "auto"


def test_a_turn_of_the_person_that_was_interrupted_silently_is_over_when_the_agent_is_seen_idle() -> None:
    world, alpha, beta = pair()
    typed(beta)
    seen(beta, "working")
    seen(beta, "idle")
    beta.wait(3)
    brief = at_work(world, alpha, beta)
    turn_ended(beta)
    world.settle()
    assert alpha.sent(brief).answer == "auto"


# --- the end of a turn --------------------------------------------------------------------------


def test_a_turn_that_its_harness_ended_is_not_ended_again_by_the_screen() -> None:
    world, alpha, beta = pair()
    first = at_work(world, alpha, beta)
    turn_ended(beta)
    second = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.put_in(second, "worker")
    seen(beta, "idle")
    beta.wait(3)
    world.settle()
    assert (alpha.sent(first).answer, alpha.sent(second).answer) == ("auto", "")


def test_a_turn_that_the_screen_ended_is_not_ended_again_by_its_harness() -> None:
    world, alpha, beta = pair()
    brief = at_work(world, alpha, beta)
    seen(beta, "idle")
    beta.wait(3)
    turn_ended(beta)
    world.settle()
    assert (told(beta.last), alpha.sent(brief).answer) == ([], "ended")


def test_every_message_of_a_turn_gets_its_last_words() -> None:
    world, alpha, beta = pair()
    hand = Hand(beta)
    ids = [alpha.send("worker@beta", sender="lead") for _ in range(5)]
    world.settle()
    hand.takes()
    hand.seen()
    turn_ended(beta)
    world.settle()
    assert [alpha.sent(msg_id).answer for msg_id in ids] == ["auto"] * 5


def test_evidence_of_a_hand_out_that_comes_with_the_end_of_the_turn_has_its_last_words() -> None:
    world, alpha, beta = pair()
    hand = Hand(beta)
    brief = alpha.send("worker@beta", sender="lead")
    world.settle()
    hand.takes()
    beta.wait(60)
    hand.seen()
    turn_ended(beta)
    world.settle()
    assert alpha.sent(brief).answer == "auto"


# --- the reminder -------------------------------------------------------------------------------


def test_an_agent_is_reminded_once_of_each_message_and_then_that_is_said() -> None:
    world, alpha, beta = pair()
    reply_by(beta, "nag")
    brief = at_work(world, alpha, beta)
    assert (nagged(beta), nagged(beta)) == ([brief], [])
    turn_ended(beta)
    world.settle()
    assert alpha.sent(brief).answer == "ended"


def test_an_answer_after_the_reminder_is_an_answer() -> None:
    world, alpha, beta = pair()
    reply_by(beta, "nag")
    brief = at_work(world, alpha, beta)
    nagged(beta)
    reply = beta.reply(brief, "worker")
    turn_ended(beta)
    world.settle()
    assert (alpha.sent(brief).answered_by, alpha.sent(brief).answer) == (reply, "")


@pytest.mark.parametrize("mode", ["", "auto", "manual"])
def test_nobody_is_reminded_who_was_not_attached_to_be(mode: str) -> None:
    world, alpha, beta = pair()
    reply_by(beta, mode)
    at_work(world, alpha, beta)
    assert nagged(beta) == []


def test_nobody_is_reminded_of_what_wants_no_answer_or_of_the_persons_own_turn() -> None:
    world, alpha, beta = pair()
    reply_by(beta, "nag")
    at_work(world, alpha, beta, wants_reply=False)
    assert nagged(beta) == []
    at_work(world, alpha, beta)
    typed(beta)
    assert nagged(beta) == []


@pytest.mark.parametrize(("own", "profile", "words"), [("", "manual", False), ("auto", "manual", True)])
def test_what_an_agent_was_attached_with_goes_before_its_profile(own: str, profile: str, words: bool) -> None:
    world, alpha, beta = hosts()
    coder = Spawnable(name="coder", most=2, transport="tmux", reply=profile)
    beta.gateway.spawns.profiles = {"coder": coder}
    spawn(alpha)
    world.settle()
    launched(beta)
    ready(beta)
    gid = spawned(beta)
    if own:
        known = beta.gateway.roster.entities[gid]
        beta.run(ev.Attached(beta.call(), agent(known.name, "beta", gid=gid, salt=known.salt, reply=own)))
    assert (beta.gateway.spawns.reply_of(gid) == "auto") is words
