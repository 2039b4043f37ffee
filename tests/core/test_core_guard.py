"""Loops are held where they would land, loudly and once; everybody else passes by; a person lets them go on."""

from __future__ import annotations

import msgspec

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.entity import Entity
from fleettrio.core.guard import LOOP
from fleettrio.core.harness import PromptTyped
from fleettrio.core.rows import InboxRow
from fleettrio.ids import Gid, HostId, Leaf, MsgId, TraceId, WallMs
from tests.core.asks import answering, answers, asking, heard, listening, waiting
from tests.core.builders import START, WAITING, Host, World, agent, gid_of, pair


def talkers() -> tuple[World, Host, Host]:
    """`one` on alpha and `two` on beta, both with panes, and a `third` on each host."""
    world = World("alpha", "beta")
    alpha, beta = world.hosts
    for host, names in ((alpha, ("one", "third")), (beta, ("two", "third"))):
        for name in names:
            attach(host, agent(name, host.name))
    world.open()
    return world, alpha, beta


def attach(host: Host, entity: Entity) -> None:
    host.run(ev.Attached(host.call(), entity))


def land(world: World, host: Host, msg_id: MsgId, name: str) -> bool:
    """Let it land; False when it is held. The agent is idle again afterwards."""
    world.settle()
    if host.row(msg_id, name).held:
        return False
    host.put_in(msg_id, name)
    host.run(ev.AgentSeen(host.gid(name), "working"), ev.AgentSeen(host.gid(name), "idle"))
    world.settle()
    return True


def ping_pong(world: World, one: Host, two: Host, most: int = 40) -> tuple[int, MsgId]:
    """`one` and `two` answer each other until a message for `two` is held: how many landed, and the held one."""
    sides = [(one, "one", two, "two"), (two, "two", one, "one")]
    for number in range(most):
        host, name, other, to = sides[number % 2]
        msg_id = host.send(f"{to}@{other.name}", sender=name)
        if not land(world, other, msg_id, to):
            return number, msg_id
    raise AssertionError(f"nothing was held within {most} messages")


def alarms(*hosts: Host) -> list[str]:
    return [note.what for host in hosts for note in host.journal if note.alarm]


# --- depth and trace


def test_a_person_is_0_deep_and_each_agent_one_deeper_than_what_was_put_into_it() -> None:
    world, alpha, beta = talkers()
    brief = alpha.send("two@beta")
    assert beta.gateway.depths.of(beta.gid("two")).depth == 1
    assert land(world, beta, brief, "two")
    assert beta.row(brief, "two").depth == 0
    onward = beta.send("one@alpha", sender="two")
    assert land(world, alpha, onward, "one")
    assert (alpha.row(onward, "one").depth, alpha.row(onward, "one").trace_id) == (1, beta.row(brief, "two").trace_id)
    back = alpha.send("two@beta", sender="one", trace_id=alpha.sent(brief).trace_id)
    assert land(world, beta, back, "two")
    assert beta.row(back, "two").depth == 2


def test_what_was_put_in_counts_for_this_turn_and_the_next_and_not_for_later_ones() -> None:
    _, alpha, _ = talkers()
    depths, gid = alpha.gateway.depths, alpha.gid("one")
    row = deep(gid, 5)
    depths.landed(row)
    depths.seen(gid, "idle")
    assert depths.of(gid).depth == 6
    depths.seen(gid, "working")
    assert depths.of(gid).depth == 6
    depths.seen(gid, "idle")
    depths.seen(gid, "working")
    assert depths.of(gid).depth == 1


def test_a_persons_message_begins_the_count_anew() -> None:
    world, alpha, beta = talkers()
    beta.gateway.depths.landed(deep(beta.gid("two"), 9))
    assert land(world, beta, alpha.send("two@beta"), "two")
    assert beta.gateway.depths.of(beta.gid("two")).depth == 1


def test_depth_is_known_again_after_a_restart() -> None:
    world, alpha, beta = talkers()
    onward = beta.send("one@alpha", sender="two")
    land(world, alpha, onward, "one")
    before = alpha.gateway.depths.of(alpha.gid("one"))
    alpha.start()
    assert alpha.gateway.depths.of(alpha.gid("one")) == before
    assert before.depth == 2


def test_a_pull_that_brings_something_is_a_turn() -> None:
    world, alpha, beta = pair()
    msg_id = beta.send("lead@alpha", sender="worker")
    world.settle()
    assert alpha.gateway.depths.of(alpha.gid("lead")).depth == 1
    assert alpha.take("lead") == [msg_id]
    assert alpha.gateway.depths.of(alpha.gid("lead")).depth == 2


# --- trips


def test_two_that_answer_each_other_are_held_after_8_turns_with_one_alarm() -> None:
    world, alpha, beta = talkers()
    landed, held = ping_pong(world, alpha, beta)
    assert landed == 8
    row = beta.row(held, "two")
    assert (row.state, row.held) == ("waiting", LOOP)
    assert alarms(alpha, beta) == [LOOP]
    later = alpha.send("two@beta", sender="one")
    assert not land(world, beta, later, "two")
    assert alarms(alpha, beta) == [LOOP]


def test_the_senders_host_is_told_once_that_it_is_held() -> None:
    world, alpha, beta = talkers()
    _, held = ping_pong(world, alpha, beta)
    assert alpha.gateway.outbox.view_note((held, beta.gid("two"))) == LOOP
    assert beta.row(held, "two").notified
    beta.wait(120)
    assert not [p for p in beta.taken() if p.envelope.kind == "OUTCOME"]


def test_a_neighbour_is_told_that_its_message_is_held() -> None:
    world = World("alpha", standalone=True)
    (alpha,) = world.hosts
    for name in ("one", "two"):
        attach(alpha, agent(name, "alpha", takes="pull", transport="pull"))
    ids = [alpha.send("two@alpha", sender="one", body=b"same") for _ in range(2)]
    world.settle()
    assert alpha.fate(ids[1]) == "held(loop)"


def test_a_third_pair_and_the_same_pair_in_another_trace_pass_by() -> None:
    world, alpha, beta = talkers()
    _, held = ping_pong(world, alpha, beta)
    for sender, to in (("third", "third"), ("third", "two")):
        assert land(world, beta, alpha.send(f"{to}@beta", sender=sender), to)
    alpha.gateway.depths.landed(deep(alpha.gid("one")))
    alpha.gateway.depths.landed(deep(alpha.gid("one")))
    assert land(world, beta, alpha.send("two@beta", sender="one"), "two")
    assert beta.row(held, "two").held == LOOP


def test_the_same_words_twice_within_5_minutes_are_held_and_after_that_are_not() -> None:
    world, alpha, beta = talkers()
    assert land(world, beta, alpha.send("two@beta", sender="one", body=b"go on"), "two")
    again = alpha.send("two@beta", sender="one", body=b"go on")
    assert not land(world, beta, again, "two")
    world, alpha, beta = talkers()
    assert land(world, beta, alpha.send("two@beta", sender="one", body=b"go on"), "two")
    world.clock.advance(301)
    assert land(world, beta, alpha.send("two@beta", sender="one", body=b"go on"), "two")


def test_a_person_may_say_the_same_twice_and_be_told_the_same_twice() -> None:
    world, alpha, beta = pair()
    for _ in range(2):
        brief = alpha.send("worker@beta", body=b"status?")
        assert land(world, beta, brief, "worker")
        beta.reply(brief, "worker", b"done")
        world.settle()
    assert len(alpha.take("human")) == 2
    assert not alarms(alpha, beta)


def test_the_same_answer_to_two_briefs_is_no_loop() -> None:
    world, alpha, beta = talkers()
    for text in (b"first", b"second"):
        brief = alpha.send("two@beta", sender="one", body=text)
        assert land(world, beta, brief, "two")
        assert land(world, alpha, beta.reply(brief, "two", b"done"), "one")


def test_answers_to_answers_in_the_same_words_are_a_loop() -> None:
    world, alpha, beta = talkers()
    message = alpha.send("two@beta", sender="one", body=b"hello")
    assert land(world, beta, message, "two")
    message = beta.reply(message, "two", b"thanks")
    assert land(world, alpha, message, "one")
    message = alpha.reply(message, "one", b"thanks")
    assert land(world, beta, message, "two")
    assert not land(world, alpha, beta.reply(message, "two", b"thanks"), "one")


def test_depth_32_is_held() -> None:
    world, alpha, beta = talkers()
    beta.gateway.depths.landed(deep(beta.gid("two"), 30))
    assert land(world, alpha, beta.send("one@alpha", sender="two"), "one")
    beta.gateway.depths.landed(deep(beta.gid("two"), 31))
    assert not land(world, alpha, beta.send("one@alpha", sender="two"), "one")


def test_a_persons_word_in_between_lets_the_count_begin_anew() -> None:
    world, alpha, beta = talkers()
    for number in range(20):
        sender, name, host, to = (alpha, "one", beta, "two") if number % 2 == 0 else (beta, "two", alpha, "one")
        assert land(world, host, sender.send(f"{to}@{host.name}", sender=name), to)
        if number % 6 == 5:
            assert land(world, alpha, beta.send("one@alpha"), "one")
            assert land(world, beta, alpha.send("two@beta"), "two")


def test_neighbours_that_go_round_in_circles_are_held_without_a_broker() -> None:
    world = World("alpha", standalone=True)
    (alpha,) = world.hosts
    for name in ("one", "two"):
        attach(alpha, agent(name, "alpha"))
    landed, held = ping_pong(world, alpha, alpha)
    assert landed == 8
    assert alpha.row(held, "two").held == LOOP


def test_what_is_held_is_held_after_a_restart_and_expires_at_its_time() -> None:
    world, alpha, beta = talkers()
    _, held = ping_pong(world, alpha, beta)
    beta.start()
    beta.open()
    world.settle()
    assert not land(world, beta, alpha.send("two@beta", sender="one"), "two")
    assert alarms(beta) == [LOOP]
    beta.wait(9 * 3600)
    world.settle()
    assert beta.state(held, "two") == "expired"
    assert alpha.fate(held) == "expired"


def test_an_answer_that_is_held_is_given_to_no_waiting_call() -> None:
    world, alpha, beta = pair()
    brief = alpha.send("worker@beta", sender="lead")
    assert land(world, beta, brief, "worker")
    beta.gateway.depths.landed(deep(beta.gid("worker"), 31))
    call = alpha.await_answer(brief, "lead")
    answer = beta.reply(brief, "worker")
    world.settle()
    assert alpha.row(answer, "lead").held == LOOP
    assert beta.fate(answer) == "held(loop)"
    assert call not in alpha.results


# --- buckets


def test_a_burst_of_10_lands_at_once_and_then_one_every_2_seconds() -> None:
    world, alpha, beta = talkers()
    ids = [alpha.send("two@beta", sender="one") for _ in range(13)]
    world.settle()
    for msg_id in ids[:10]:
        assert land(world, beta, msg_id, "two")
    assert beta.row(ids[10], "two").state == "waiting"
    assert not any(isinstance(a, do.Reserve) for a in beta.run(ev.AgentSeen(beta.gid("two"), "idle")))
    asked = len(beta.asked)
    beta.wait(2.1)
    assert len(beta.asked) == asked + 1
    assert land(world, beta, ids[10], "two")
    assert not alarms(alpha, beta)


def test_an_honest_backlog_lands_at_once() -> None:
    world, alpha, beta = talkers()
    beta.run(ev.SessionClosed(1, "away"))
    publishes = []
    for _ in range(30):
        alpha.send("two@beta", sender="one")
        publishes += alpha.taken()
        world.clock.advance(2)
    beta.open()
    world.settle()
    for publish in publishes:
        world.carry(alpha, publish)
    landed = 0
    while (todo := [a for a in beta.asked if isinstance(a, do.Reserve)]) and landed < 30:
        beta.asked.clear()
        beta.put_in(todo[-1].row.msg_id, "two")
        landed += 1
    assert landed == 30


def test_a_pulling_client_gets_what_is_over_the_pace_when_its_time_comes() -> None:
    world, alpha, beta = pair()
    for _ in range(12):
        beta.send("lead@alpha", sender="worker")
        world.settle()
        alpha.take("lead")
    assert alpha.gateway.ledger.lane(alpha.gid("lead")).count == 2
    alpha.pull("lead", wait=True)
    alpha.wait(2.1)
    assert alpha.gateway.ledger.lane(alpha.gid("lead")).count == 0


def test_one_hosts_flows_cannot_push_out_what_is_known_of_anothers() -> None:
    _, alpha, _ = talkers()
    guard, me = alpha.gateway.guard, alpha.gid("one")
    for number in range(3_000):
        row = msgspec.structs.replace(deep(me), sender=gid_of(f"x{number}", "beta"), from_host=HostId("beta"))
        guard.arrived(row, str(number).encode(), alpha.clock.now)
    memory = guard._memory[HostId("beta")]
    assert len(memory.flows) <= 1_024
    assert len(memory.bodies) <= 1_024


def deep(gid: Gid, depth: int = 0) -> InboxRow:
    """A row of an agent that nobody knows, so deep."""
    return InboxRow(
        msg_id=MsgId("m"),
        gid=gid,
        leaf=Leaf(b""),
        state=WAITING,
        kind="SEND",
        sender=gid_of("stranger", "alpha"),
        from_host=HostId("alpha"),
        trace_id=TraceId("f" * 32),
        ts=START,
        expires_at=WallMs(START + 3_600_000),
        arrived_at=START,
        seq=0,
        size=0,
        depth=depth,
    )


def test_agents_that_ask_each_other_for_ever_are_told_so_and_a_person_with_them() -> None:
    world, alpha, beta = pair()
    rounds = 0
    for _ in range(40):
        world.clock.advance(3)  # slower than what may land in a minute
        for host in world.hosts:
            host.run(ev.BeatDue())
        world.settle()
        ear = listening(alpha)
        question = asking(beta)
        world.settle()
        if not heard(alpha, ear):
            break
        call = waiting(beta, question)
        answering(alpha, question)
        world.settle()
        assert answers(beta, call)
        rounds += 1
    assert rounds == 16
    assert beta.fate(question) == "failed(no-waiter)"
    assert beta.sent(question).detail == "loop"
    (note,) = [note for note in alpha.journal if note.what == "loop"]
    assert (note.alarm, note.detail) == (True, "worker@beta asks lead@alpha in circles: 33 steps without a person")


def test_a_person_begins_the_count_of_questions_anew() -> None:
    world, alpha, beta = pair()
    beta.gateway.depths.begun(beta.gid("worker"), 40)
    listening(alpha)
    assert beta.fate(_asked(world, beta)) == "failed(no-waiter)"
    beta.run(PromptTyped(beta.gid("worker")))
    listening(alpha)
    assert alpha.state(_asked(world, beta), "lead") == "offered"


def _asked(world: World, beta: Host) -> MsgId:
    question = asking(beta)
    world.settle()
    return question
