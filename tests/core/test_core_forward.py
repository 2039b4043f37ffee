"""The forward lane: at most once into an agent, from arrival to the one word that is told."""

from __future__ import annotations

import pytest

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.ids import WallMs
from tests.core.builders import START, World, pair, told
from tests.core.messages import brief, by_hand


def test_an_arrival_is_committed_before_it_is_acknowledged() -> None:
    _, alpha, beta = pair()
    _, actions = brief(alpha, beta)
    assert told(actions) == ["commit waiting", "ack", "reserve"]


def test_the_mark_is_recorded_before_the_first_byte() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    assert told(beta.ready(msg_id, "worker")) == ["record injecting", "inject"]


def test_what_was_put_in_is_told_and_told_once_only() -> None:
    world, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.ready(msg_id, "worker")
    assert told(beta.typed(msg_id, "worker")) == ["record injected owed", "publish INJECTED alpha"]
    (notice,) = beta.taken()
    beta.hand(notice)
    assert told(beta.verdict(notice)) == ["record injected"]
    assert told(alpha.get(beta.signed(notice))) == ["sent injected", "ack"]
    assert told(alpha.get(beta.signed(notice))) == ["ack"]
    world.settle()
    assert beta.row(msg_id, "worker").notified


def test_that_a_word_was_told_needs_no_commit_of_its_own_and_lost_it_is_told_once_more() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.ready(msg_id, "worker")
    beta.typed(msg_id, "worker")
    (notice,) = beta.taken()
    beta.hand(notice)
    key = msg_id, beta.gid("worker")
    owed = beta.ledger[key]
    assert do.may_wait(do.parted(beta.verdict(notice))[0])
    alpha.get(beta.signed(notice))
    beta.ledger[key] = owed  # the process died before the next commit
    beta.start()
    assert "publish INJECTED alpha" in told(beta.open())
    again = next(publish for publish in beta.taken() if publish.envelope.kind == "INJECTED")
    assert told(alpha.get(beta.signed(again))) == ["ack"]


def test_the_mark_of_an_answer_waits_for_no_commit_but_that_of_the_answer() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.ready(msg_id, "worker")
    beta.typed(msg_id, "worker")
    beta.taken()
    beta.reply(msg_id, "worker")
    assert told(beta.last) == ["record injected owed", "publish REPLY"]
    assert do.may_wait(do.parted(beta.last)[0])


def test_bytes_that_nobody_saw_land_are_unconfirmed_and_never_repeated() -> None:
    world, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.ready(msg_id, "worker")
    actions = beta.typed(msg_id, "worker", "unconfirmed", "no turn began")
    assert told(actions) == ["record unconfirmed(not-observed) owed", "publish OUTCOME alpha unconfirmed(not-observed)"]
    world.settle()
    assert alpha.fate(msg_id) == "unconfirmed(not-observed)"
    assert told(beta.run(ev.AgentSeen(beta.gid("worker"), "idle"))) == []


def test_proof_that_nothing_was_written_lets_it_wait_again_and_go_later() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.ready(msg_id, "worker")
    assert told(beta.typed(msg_id, "worker", "nothing-written", "a draft")) == ["record waiting"]
    assert beta.gateway.inbox.forward.why_waiting(beta.gid("worker"))[0] == "a draft"
    assert told(beta.wait(0.2)) == ["reserve"]


def test_what_goes_back_to_waiting_keeps_its_place() -> None:
    _, alpha, beta = pair()
    first, _ = brief(alpha, beta)
    brief(alpha, beta)
    beta.ready(first, "worker")
    beta.typed(first, "worker", "nothing-written", "a draft")
    reserved = [action for action in beta.wait(0.2) if isinstance(action, do.Reserve)]
    assert [action.row.msg_id for action in reserved] == [first]


def test_a_reply_to_an_unconfirmed_brief_makes_it_injected_and_says_so_again() -> None:
    world, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.ready(msg_id, "worker")
    beta.typed(msg_id, "worker", "unconfirmed")
    world.settle()
    beta.reply(msg_id, "worker")
    assert told(beta.last) == [
        "record unconfirmed(not-observed)",
        "record injected owed",
        "publish REPLY",
        "publish INJECTED alpha",
    ]
    world.settle()
    assert (alpha.sent(msg_id).state, bool(alpha.sent(msg_id).answered_by)) == ("injected", True)
    assert not [n for n in alpha.journal if n.what == "contradiction"]


def test_one_message_at_a_time_and_the_next_after_it() -> None:
    _, alpha, beta = pair()
    first, _ = brief(alpha, beta)
    second, actions = brief(alpha, beta)
    assert told(actions) == ["commit waiting", "ack"]
    beta.ready(first, "worker")
    assert told(beta.typed(first, "worker")) == ["record injected owed", "reserve", "publish INJECTED alpha"]
    assert told(beta.ready(second, "worker")) == ["record injecting", "inject"]


def test_not_ready_is_asked_again_a_little_less_often_each_time() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    waits = []
    for _ in range(7):
        beta.run(ev.AgentNotReady(beta.gid("worker"), msg_id, "at a prompt", "blocked"))
        due = beta.gateway.timers._at["gate", beta.gid("worker")]
        waits.append(round(due - beta.clock.mono, 1))
        assert told(beta.wait(due - beta.clock.mono))[-1] == "reserve"
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


def test_how_long_it_waits_is_told_of_the_reason_that_holds_it_now() -> None:
    _, alpha, beta = pair()
    msg_id = alpha.send("worker@beta")
    beta.get(alpha.signed(alpha.taken()[0]))
    gid, forward = beta.gid("worker"), beta.gateway.inbox.forward
    beta.run(ev.AgentNotReady(gid, msg_id, "it is working", "working"))
    beta.clock.advance(60)
    beta.run(ev.AgentNotReady(gid, msg_id, "it is at a dialog", "blocked"))
    at_the_dialog = beta.clock.wall
    beta.clock.advance(60)
    beta.run(ev.AgentNotReady(gid, msg_id, "it is at a dialog", "blocked"))
    assert forward.why_waiting(gid) == ("it is at a dialog", at_the_dialog)


def test_an_agent_seen_idle_gets_the_next_message_at_once() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.run(ev.AgentNotReady(beta.gid("worker"), msg_id, "working", "working"))
    assert told(beta.run(ev.AgentSeen(beta.gid("worker"), "idle"))) == ["agent worker idle", "reserve"]


def test_nothing_is_put_into_an_agent_that_is_away_and_all_of_it_when_it_is_back() -> None:
    _, alpha, beta = pair()
    worker = beta.gateway.roster.entities[beta.gid("worker")]
    beta.run(ev.Detached(beta.call(), worker.gid, forget=False))
    _, actions = brief(alpha, beta)
    assert told(actions) == ["commit waiting", "ack"]
    assert told(beta.run(ev.Attached(beta.call(), worker))) == [
        "agent worker idle",
        "watch worker",
        "resolve attached worker idle",
        "reserve",
    ]


def test_twice_in_one_batch_is_committed_once_and_acknowledged_twice() -> None:
    _, alpha, beta = pair()
    alpha.send("worker@beta")
    (publish,) = alpha.taken()
    parsed = alpha.signed(publish)
    actions = beta.run(beta.arrival(parsed), beta.arrival(parsed))
    assert sorted(told(actions)) == ["ack", "ack", "commit waiting", "reserve"]


def test_other_bytes_under_a_known_id_in_one_batch_are_a_conflict() -> None:
    _, alpha, beta = pair()
    alpha.send("worker@beta")
    (publish,) = alpha.taken()
    first, other = alpha.signed(publish), alpha.sign(publish.envelope, b"something else")
    actions = beta.run(beta.arrival(first), beta.arrival(other))
    assert told(actions) == [
        "commit waiting",
        "note refused conflict",
        "ack",
        "publish FAILED alpha",
        "reject",
        "reserve",
    ]


def test_a_duplicate_is_acknowledged_silently_in_every_state() -> None:
    _, alpha, beta = pair()
    alpha.send("worker@beta")
    (publish,) = alpha.taken()
    parsed = alpha.signed(publish)
    beta.get(parsed)
    assert told(beta.get(parsed)) == ["ack"]
    beta.ready(parsed.envelope.msg_id, "worker")
    assert told(beta.get(parsed)) == ["ack"]
    beta.typed(parsed.envelope.msg_id, "worker")
    assert told(beta.get(parsed)) == ["ack"]
    assert beta.injected == [(parsed.envelope.msg_id, beta.gid("worker"))]


def test_a_duplicate_that_was_read_before_the_row_became_final_is_not_delivered_again() -> None:
    """The consumer asked the store before the first copy was recorded."""
    _, alpha, beta = pair()
    alpha.send("worker@beta")
    (publish,) = alpha.taken()
    parsed = alpha.signed(publish)
    stale = beta.arrival(parsed)
    beta.get(parsed)
    beta.put_in(parsed.envelope.msg_id, "worker")
    assert told(beta.run(stale)) == ["ack"]


def test_expired_at_the_gate_is_not_delivered_and_those_behind_it_are() -> None:
    _, alpha, beta = pair()
    first, _ = brief(alpha, beta, expires_in_ms=60_000)
    brief(alpha, beta, expires_in_ms=60_000)
    third, _ = brief(alpha, beta)
    beta.clock.turn(61)  # the wall clock was set: no timer has gone off yet
    actions = beta.run(ev.AgentNotReady(beta.gid("worker"), first, "busy", "idle"))
    assert told(actions) == []
    beta.clock.advance(0.2)
    assert told(beta.expire()) == [
        "record expired owed",
        "record expired owed",
        "reserve",
        "publish OUTCOME alpha expired expired",
    ]
    assert told(beta.ready(third, "worker")) == ["record injecting", "inject"]


def test_expired_between_the_look_and_the_mark_is_not_delivered() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta, expires_in_ms=60_000)
    beta.clock.turn(61)
    assert told(beta.ready(msg_id, "worker")) == ["record expired owed", "publish OUTCOME alpha expired"]
    assert beta.injected == []


def test_expiry_while_it_waits_is_told_as_expired() -> None:
    world, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta, expires_in_ms=60_000)
    beta.run(ev.AgentNotReady(beta.gid("worker"), msg_id, "busy", "blocked"))
    beta.run(ev.Detached(beta.call(), beta.gid("worker"), forget=False))
    beta.wait(61)
    world.settle()
    assert alpha.fate(msg_id) == "expired"


def test_nothing_expires_once_the_mark_is_set() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta, expires_in_ms=60_000)
    beta.ready(msg_id, "worker")
    beta.wait(70)
    assert beta.state(msg_id, "worker") == "injecting"
    beta.typed(msg_id, "worker")
    assert beta.state(msg_id, "worker") == "injected"


def test_priority_goes_first_but_never_before_an_earlier_one_of_the_same_sender() -> None:
    _, alpha, beta = pair()
    first, _ = brief(alpha, beta)
    brief(alpha, beta)
    brief(alpha, beta, priority=9)
    other, _ = brief(alpha, beta, priority=7, sender="lead")
    beta.ready(first, "worker")
    reserved = [a for a in beta.typed(first, "worker") if isinstance(a, do.Reserve)]
    assert [a.row.msg_id for a in reserved] == [other]


def test_a_clock_behind_what_it_showed_closes_the_lane_until_it_has_caught_up() -> None:
    _, alpha, beta = pair()
    beta.clock.advance(1)
    beta.run(ev.AgentSeen(beta.gid("worker"), "idle"))
    beta.clock.turn(-40)
    alpha.clock.turn(0)
    msg_id, actions = brief(alpha, beta)
    assert told(actions) == ["commit waiting", "ack"]
    assert beta.gateway.inbox.forward.why_waiting(beta.gid("worker"))[0] == (
        "this host's clock is 40 s behind what it was: fleettrio doctor --fix clock"
    )
    assert told(beta.wait(11)) == ["reserve"]
    assert told(beta.ready(msg_id, "worker")) == ["record injecting", "inject"]


def test_a_clock_behind_at_the_start_closes_the_lane_and_a_person_opens_it() -> None:
    world, alpha, beta = pair()
    beta.wait(120)
    beta.run(ev.AgentSeen(beta.gid("worker"), "idle"))
    assert int(beta.settings["highest-wall"]) == beta.clock.wall
    beta.clock.turn(-3600)
    beta.start()
    beta.open()
    _, actions = brief(alpha, beta)
    assert told(actions) == ["commit waiting", "ack"]
    assert told(beta.run(ev.ClockAccepted())) == ["reserve"]
    assert int(beta.settings["highest-wall"]) == beta.clock.wall
    world.settle()


def test_a_clock_turned_back_a_little_changes_nothing() -> None:
    _, alpha, beta = pair()
    beta.clock.turn(-29)
    _, actions = brief(alpha, beta)
    assert told(actions) == ["commit waiting", "ack", "reserve"]


def test_a_store_made_under_a_clock_that_was_days_ahead_is_as_old_as_the_moment_a_person_set_it_right() -> None:
    _, alpha, beta = pair(born=WallMs(START + 5 * 86_400_000))
    assert told(brief(alpha, beta)[1])[0] == "commit waiting repeat", "it may have been typed by the store before"
    assert told(beta.run(ev.ClockAccepted())) == ["setting born"]
    assert int(beta.settings["born"]) == beta.clock.wall
    beta.clock.advance(1)
    assert told(brief(alpha, beta)[1])[0] == "commit waiting"


def test_a_brief_older_than_the_store_may_have_been_typed_already() -> None:
    world = World("alpha", "beta", born=None)
    alpha, beta = world.hosts
    beta.born = beta.clock.now.wall
    beta.start()
    world.clock.turn(-5)
    alpha.open()
    world.clock.turn(5)
    beta.open()
    alpha.taken(), beta.taken()
    world.clock.turn(-5)
    parsed = by_hand(alpha, "lead", beta.gid("worker"))
    world.clock.turn(5)
    assert told(beta.get(parsed)) == [
        "commit waiting repeat",
        "record unconfirmed(ledger-lost) repeat owed",
        "ack",
        "publish OUTCOME alpha unconfirmed(ledger-lost)",
    ]


def test_a_neighbours_brief_is_never_ledger_lost() -> None:
    _, _, beta = pair()
    beta.clock.advance(1)
    beta.born = WallMs(beta.clock.now.wall + 3_600_000)  # the clock was ahead when the store was made
    beta.start()
    msg_id = beta.send("worker")
    assert told(beta.last)[:3] == ["sent confirmed", "commit waiting", "reserve"]
    beta.put_in(msg_id, "worker")
    assert beta.state(msg_id, "worker") == "injected"


# --- superseded


def test_a_newer_message_takes_the_place_of_one_that_still_waits_and_its_sender_is_told() -> None:
    world, alpha, beta = pair()
    first, _ = brief(alpha, beta)  # in the agent's hands: the transport looks
    second, _ = brief(alpha, beta, body=b"run the tests")
    third, _ = brief(alpha, beta, body=b"run the fast tests", supersedes=second)
    assert beta.state(second, "worker") == "superseded"
    world.settle()
    assert alpha.fate(second) == "superseded"
    beta.put_in(first, "worker")
    beta.put_in(third, "worker")
    assert [msg_id for msg_id, _ in beta.injected] == [first, third]


def test_what_is_being_typed_already_is_not_superseded() -> None:
    _, alpha, beta = pair()
    first, _ = brief(alpha, beta)
    beta.ready(first, "worker")
    brief(alpha, beta, supersedes=first)
    assert beta.state(first, "worker") == "injecting"


def test_of_a_replaced_message_that_was_offered_once_nobody_can_know_whether_it_was_read() -> None:
    _, alpha, beta = pair()
    first = beta.send("lead@alpha", sender="worker")
    (publish,) = [p for p in beta.taken() if p.envelope.kind == "SEND"]
    beta.hand(publish)
    alpha.get(beta.signed(publish))
    alpha.pull("lead", "gone")
    alpha.run(ask.CallEnded(None, "gone", True))
    beta.send("lead@alpha", sender="worker", supersedes=first)
    (publish,) = [p for p in beta.taken() if p.envelope.kind == "SEND"]
    beta.hand(publish)
    alpha.get(beta.signed(publish))
    assert alpha.state(first, "lead") == "unconfirmed(offered)"


def test_nobody_supersedes_the_message_of_another() -> None:
    _, alpha, beta = pair()
    brief(alpha, beta)
    second, _ = brief(alpha, beta)
    brief(alpha, beta, sender="lead", supersedes=second)
    assert beta.state(second, "worker") == "waiting"


def test_a_neighbours_newer_message_supersedes_too() -> None:
    _, _, beta = pair()
    beta.send("worker")
    second = beta.send("worker")
    beta.send("worker", supersedes=second)
    assert beta.state(second, "worker") == beta.fate(second) == "superseded"


@pytest.mark.parametrize("outcome", ["submitted", "unconfirmed"])
def test_an_answer_that_comes_while_it_is_being_written_proves_that_it_was_read(outcome: str) -> None:
    world, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.ready(msg_id, "worker")
    reply = beta.reply(msg_id, "worker")
    beta.typed(msg_id, "worker", outcome)
    world.settle()
    assert (alpha.fate(msg_id), beta.row(msg_id, "worker").answer) == ("injected", "answered")
    beta.run(ev.TurnEnded(beta.gid("worker"), b"bye", "done", (beta.new_id(),)))
    world.settle()
    assert (alpha.sent(msg_id).answered_by, alpha.sent(msg_id).answer) == (reply, "")
    assert not [note for note in alpha.journal if note.what == "contradiction"]
