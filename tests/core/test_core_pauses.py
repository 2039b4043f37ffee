"""The red button: what is paused does not land, is taken in all the same, and goes on when a person says so."""

from __future__ import annotations

import msgspec
import pytest

from fleettrio.api.sentences import sent_sentence
from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.compose import control
from fleettrio.core.requests import PauseAsked
from fleettrio.core.rows import SentState
from fleettrio.ids import HostId, MsgId, TraceId
from fleettrio.wire.bodies import PauseBody
from fleettrio.wire.envelope import Kind
from tests.core.asks import asking, listening
from tests.core.builders import TRACE, Clock, Host, World, agent, fleet_of, pair, told
from tests.core.test_core_guard import land, ping_pong, talkers


def press(
    host: Host, target: str, at: str = "", *, on: bool = True, sender: str = "human"
) -> tuple[MsgId, list[do.Action]]:
    """Pause or resume `target`, here or `at` another host."""
    asked = PauseAsked(
        call=host.call(),
        sender=host.gid(sender),
        host=HostId(at or host.name),
        target=target,
        on=on,
        msg_id=host.new_id(),
        trace_id=TRACE,
    )
    return asked.msg_id, host.run(asked)


def test_what_is_paused_is_taken_in_and_lands_when_it_is_resumed() -> None:
    world, alpha, beta = pair()
    press(beta, beta.gid("worker"))
    msg_id = alpha.send("worker@beta")
    world.settle()
    assert beta.state(msg_id, "worker") == "waiting"
    assert not beta.asked
    press(beta, beta.gid("worker"), on=False)
    assert land(world, beta, msg_id, "worker")
    assert alpha.fate(msg_id) == "injected"


@pytest.mark.parametrize("what", ["agent", "sender", "here", "there", "trace", "all"])
def test_every_kind_of_target_holds_what_belongs_to_it_and_nothing_else(what: str) -> None:
    world, alpha, beta = pair()
    beta.run(ev.Attached(beta.call(), agent("other", "beta")))
    target = {
        "agent": beta.gid("worker"),
        "sender": alpha.gid("human"),
        "here": "beta",
        "there": "alpha",
        "trace": TRACE,
        "all": "all",
    }[what]
    press(beta, target)
    msg_id = alpha.send("worker@beta")
    world.settle()
    assert not beta.asked
    by = beta.send("other", sender="worker", trace_id=TraceId("9" * 32))
    if what in ("agent", "here", "all"):  # what a paused agent says is held, too
        assert not beta.asked
    else:
        assert land(world, beta, by, "other")
    press(beta, target, on=False)
    assert land(world, beta, msg_id, "worker")


def test_a_delivery_that_was_being_looked_at_is_held_and_one_being_written_runs_to_its_end() -> None:
    world, alpha, beta = pair()
    first, second = alpha.send("worker@beta"), alpha.send("worker@beta")
    world.settle()
    beta.ready(first, "worker")
    press(beta, beta.gid("worker"))
    beta.typed(first, "worker")
    assert beta.state(first, "worker") == "injected"
    assert beta.state(second, "worker") == "waiting"
    press(beta, beta.gid("worker"), on=False)
    press(beta, beta.gid("worker"))
    beta.ready(second, "worker")
    assert beta.state(second, "worker") == "waiting"


def test_a_pause_outlives_a_restart() -> None:
    world, alpha, beta = pair()
    press(beta, "all")
    beta.start()
    beta.open()
    msg_id = alpha.send("worker@beta")
    world.settle()
    assert not beta.asked
    press(beta, "all", on=False)
    assert land(world, beta, msg_id, "worker")
    beta.start()
    assert not list(beta.gateway.pauses)


def test_what_is_paused_expires_and_can_be_called_back() -> None:
    world, alpha, beta = pair()
    press(beta, beta.gid("worker"))
    first = alpha.send("worker@beta", expires_in_ms=60_000)
    second = alpha.send("worker@beta")
    world.settle()
    alpha.cancel(second)
    world.settle()
    assert alpha.fate(second) == "recalled"
    beta.wait(61)
    world.settle()
    assert alpha.fate(first) == "expired"


def test_a_pull_and_a_waiting_call_get_nothing_while_paused_and_all_of_it_afterwards() -> None:
    world, alpha, beta = pair()
    brief = alpha.send("worker@beta", sender="lead")
    assert land(world, beta, brief, "worker")
    press(alpha, alpha.gid("lead"))
    waiting = alpha.await_answer(brief, "lead")
    answer = beta.reply(brief, "worker")
    other = beta.send("lead@alpha", sender="worker")
    world.settle()
    assert alpha.pull("lead", wait=True) is None
    assert waiting not in alpha.results
    press(alpha, alpha.gid("lead"), on=False)
    assert [alpha.state(m, "lead") for m in (answer, other)] == ["offered", "offered"]
    assert waiting in alpha.results


def test_another_host_obeys_with_the_grant_and_answers_done() -> None:
    world, alpha, beta = pair(reporters=["alpha"])
    msg_id, _ = press(alpha, beta.gid("worker"), at="beta")
    world.settle()
    assert alpha.fate(msg_id) == "done"
    assert [pause.by for pause in beta.gateway.pauses] == ["human@alpha"]
    msg_id, _ = press(alpha, beta.gid("worker"), at="beta", on=False)
    world.settle()
    assert (alpha.fate(msg_id), list(beta.gateway.pauses)) == ("done", [])


def test_without_the_grant_another_host_refuses() -> None:
    world, alpha, beta = pair()
    msg_id, _ = press(alpha, "all", at="beta")
    world.settle()
    assert alpha.fate(msg_id) == "failed(refused: not-authorised at beta)"
    assert alpha.gateway.roster.peers[beta.name].refuses_us == ""  # a grant that is missing is no trust that is
    assert not list(beta.gateway.pauses)


def test_a_host_that_sleeps_is_told_when_it_wakes() -> None:
    _, alpha, _ = pair(reporters=["alpha"])
    alpha.wait(60)
    _, actions = press(alpha, "all", at="beta")
    assert any(isinstance(action, do.Publish) for action in actions)


def test_an_agent_may_pause_an_agent_and_neither_all_nor_resume() -> None:
    _, alpha, _ = pair()
    assert "fail 3 not-a-person" in told(press(alpha, "all", sender="lead")[1])
    press(alpha, alpha.gid("lead"), sender="lead")
    assert [pause.target for pause in alpha.gateway.pauses] == [alpha.gid("lead")]
    assert "fail 3 not-a-person" in told(press(alpha, alpha.gid("lead"), on=False, sender="lead")[1])
    assert list(alpha.gateway.pauses)


@pytest.mark.parametrize("target", ["", "#", "A B", "x" * 128])
def test_a_target_that_is_none_is_refused(target: str) -> None:
    _, alpha, beta = pair(reporters=["alpha"])
    envelope = control(alpha.gateway.settings.me, Kind.PAUSE, beta.name, trace_id=TRACE, now=alpha.clock.now)
    envelope = msgspec.structs.replace(envelope, msg_id=alpha.new_id())
    actions = beta.get(alpha.sign(envelope, PauseBody(target=target, on=True).to_bytes()))
    assert "reject" in told(actions)
    assert not list(beta.gateway.pauses)


def test_a_loop_goes_on_when_a_person_resumes_its_trace_and_is_counted_anew() -> None:
    world, alpha, beta = talkers()
    _, held = ping_pong(world, alpha, beta)
    for host in (alpha, beta):
        press(host, beta.row(held, "two").trace_id, on=False)
    assert (beta.row(held, "two").held, beta.row(held, "two").depth) == ("", 0)
    assert land(world, beta, held, "two")
    assert beta.gateway.depths.of(beta.gid("two")).depth == 1
    assert ping_pong(world, alpha, beta)[0] == 8


def test_no_more_than_256_pauses_are_kept() -> None:
    _, alpha, _ = pair()
    for number in range(256):
        press(alpha, f"{number:032x}")
    assert "fail 3 too-many" in told(press(alpha, "f" * 32)[1])
    assert "resolve done" in told(press(alpha, "all", on=False)[1])
    assert not list(alpha.gateway.pauses)


def test_the_sender_of_what_lay_when_the_flow_was_held_is_told_so_and_when_it_goes_on() -> None:
    world, alpha, beta = pair()
    first = beta.send("lead@alpha", sender="worker", body=b"same")
    world.settle()
    assert beta.fate(first) == "held"
    again = beta.send("lead@alpha", sender="worker", body=b"same", trace_id=beta.sent(first).trace_id)
    world.settle()
    assert [beta.fate(msg_id) for msg_id in (first, again)] == ["held(loop)", "held(loop)"]
    press(alpha, "all", on=False)
    world.settle()
    assert [beta.fate(msg_id) for msg_id in (first, again)] == ["held", "held"]
    assert beta.sent(first).detail == ""


@pytest.mark.parametrize("target", ["all", "worker"])
def test_resume_says_how_much_goes_on_and_when_there_was_nothing_to_resume(target: str) -> None:
    world, _, beta = pair()
    for is_paused, said in ((True, "0 messages go on"), (False, "nothing of it was paused or held")):
        what = beta.gid("worker") if target == "worker" else target
        if is_paused:
            press(beta, what)
        msg_id, _ = press(beta, what, on=False)
        world.settle()
        assert beta.sent(msg_id).detail == said


def test_a_question_to_a_paused_agent_is_not_put_and_its_asker_is_told_at_once() -> None:
    world, alpha, beta = pair()
    listening(alpha)
    press(alpha, alpha.gid("lead"))
    question = asking(beta)
    world.settle()
    assert beta.fate(question) == "failed(no-waiter)"
    assert alpha.row(question, "lead").detail == "paused"
    press(alpha, alpha.gid("lead"), on=False)
    again = asking(beta)
    world.settle()
    assert beta.fate(again) == "held"


def late_by(world: World, host: Host, seconds: float) -> None:
    """From now on the clock of `host` is that far behind the others'."""
    behind = Clock()
    behind.wall, behind.mono = world.clock.wall - round(seconds * 1000), world.clock.mono
    host.clock = behind


@pytest.mark.parametrize("grants", [["pause"], ["send"]])
def test_a_host_whose_clock_is_behind_learns_what_became_of_its_pause(grants: list[str]) -> None:
    world, alpha, beta = pair()
    beta.trust(fleet_of(("alpha", "beta"), grants={"alpha": grants}))
    late_by(world, alpha, 120)
    msg_id, _ = press(alpha, beta.gid("worker"), at="beta")
    world.settle()
    assert alpha.fate(msg_id) == ("done" if grants == ["pause"] else "failed(refused: not-authorised at beta)")


def test_the_clock_is_why_a_host_is_not_heard() -> None:
    world, alpha, beta = pair()
    late_by(world, alpha, 120)
    beta.run(ev.BeatDue())
    world.settle()
    alpha.clock.advance(300)
    msg_id = alpha.send("worker@beta")
    world.settle()
    sent = msgspec.structs.replace(alpha.sent(msg_id), state=SentState.CONFIRMED)
    assert "its clock is 120 s ahead of ours" in sent_sentence(sent, "worker@beta", alpha.gateway, alpha.clock.now.wall)
