"""Hand-outs: what an agent takes by a call of its own is taken once, and what became of it is told."""

from __future__ import annotations

import pytest

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.calls import Offered
from fleettrio.core.harness import NagAsked
from tests.core.asks import asking
from tests.core.builders import Host, World, pair, told
from tests.core.hands import Hand
from tests.core.messages import brief
from tests.core.spawning import stop
from tests.core.test_core_looks import BELIEF, NOTE, STALE, trees
from tests.core.test_core_pauses import press


@pytest.fixture
def fleet() -> tuple[World, Host, Host, Hand]:
    world, alpha, beta = pair()
    return world, alpha, beta, Hand(beta)


Fleet = tuple[World, Host, Host, Hand]


# --- taking -------------------------------------------------------------------------------------


def test_what_a_hook_takes_is_marked_before_the_hook_has_it(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    assert hand.takes() == [msg_id]
    assert told(hand.last) == ["record injecting", "resolve offered 1"]


def test_nothing_waits_and_the_hook_is_told_so_at_once(fleet: Fleet) -> None:
    *_, hand = fleet
    assert hand.takes() == []


def test_what_was_taken_is_never_given_or_typed_again(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    hand.takes()
    assert hand.takes() == []
    assert told(beta.ready(msg_id, "worker")) == []
    beta.wait(60)
    assert (hand.takes(), beta.state(msg_id, "worker")) == ([], "unconfirmed(not-observed)")
    assert beta.injected == []


def test_a_hook_takes_in_the_order_of_the_lane(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    low, _ = brief(alpha, beta, priority=1)
    high, _ = brief(alpha, beta, priority=9, sender="lead")
    behind, _ = brief(alpha, beta, priority=9)
    assert hand.takes() == [high, low, behind]


def test_a_hook_takes_only_what_may_land_at_its_moment(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    idle, _ = brief(alpha, beta)
    turn, _ = brief(alpha, beta, when="turn")
    assert hand.takes(whens=frozenset({"turn", "now"})) == [turn]
    assert hand.takes() == [idle]


def test_a_hook_takes_no_more_than_there_is_room_for(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    ids = [brief(alpha, beta, body=str(n).encode() * 3_000)[0] for n in range(4)]
    assert hand.takes(room=9_000) == ids[:2]
    assert hand.takes(room=100) == ids[2:3], "one alone goes, and its text is cut"


def test_a_hook_takes_no_more_than_it_asks_for(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    ids = [brief(alpha, beta)[0] for _ in range(3)]
    assert (hand.takes(most=2), hand.takes(most=2)) == (ids[:2], ids[2:])


# --- what becomes of it -------------------------------------------------------------------------


def test_what_was_seen_is_injected_and_told(fleet: Fleet) -> None:
    world, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    hand.takes()
    assert told(hand.seen(msg_id)) == ["record injected owed", "publish INJECTED alpha"]
    world.settle()
    assert (alpha.fate(msg_id), beta.row(msg_id, "worker").via) == ("injected", "hook")


def test_all_that_a_hook_took_is_seen_together(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    ids = [brief(alpha, beta)[0] for _ in range(2)]
    hand.takes()
    hand.seen()
    assert [beta.state(msg_id, "worker") for msg_id in ids] == ["injected", "injected"]


def test_without_evidence_it_is_unconfirmed_after_ten_seconds(fleet: Fleet) -> None:
    world, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    hand.takes()
    beta.wait(9.9)
    assert beta.state(msg_id, "worker") == "injecting"
    beta.wait(0.2)
    world.settle()
    assert alpha.fate(msg_id) == "unconfirmed(not-observed)"


@pytest.mark.parametrize("how", ["its nonce", "an answer"])
def test_evidence_that_comes_late_counts_and_is_told_again(fleet: Fleet, how: str) -> None:
    world, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    hand.takes()
    beta.wait(30)
    world.settle()
    if how == "an answer":
        beta.reply(msg_id, "worker")
    else:
        hand.seen(msg_id)
    world.settle()
    assert (alpha.fate(msg_id), beta.row(msg_id, "worker").via) == ("injected", "hook")
    assert told(hand.seen(msg_id)) == []


def test_an_answer_is_evidence_and_the_brief_has_it(fleet: Fleet) -> None:
    world, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    hand.takes()
    reply = beta.reply(msg_id, "worker")
    world.settle()
    assert (beta.state(msg_id, "worker"), beta.row(msg_id, "worker").answer) == ("injected", "answered")
    beta.run(ev.TurnEnded(beta.gid("worker"), b"bye", "done", (beta.new_id(),)))
    world.settle()
    assert (alpha.fate(msg_id), alpha.sent(msg_id).answered_by) == ("injected", reply)


def test_what_is_handed_out_in_the_middle_of_a_turn_and_not_seen_says_so(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    beta.run(ev.AgentSeen(beta.gid("worker"), "working"))
    msg_id, _ = brief(alpha, beta, when="now")
    hand.takes(whens=frozenset({"now"}))
    beta.wait(11)
    assert beta.state(msg_id, "worker") == "unconfirmed(mid-turn)"


def test_a_process_that_died_meanwhile_leaves_it_unconfirmed(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    hand.takes()
    beta.start()
    assert beta.state(msg_id, "worker") == "unconfirmed(crashed)"
    assert hand.takes() == []


def test_a_call_that_was_broken_off_with_a_result_in_hand_leaves_it_unconfirmed(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    call = hand.hook()
    hand.ended(call, "h")
    assert beta.state(msg_id, "worker") == "unconfirmed(not-observed)"
    beta.run(ev.TurnEnded(beta.gid("worker"), None, "done"))
    assert beta.state(msg_id, "worker") == "unconfirmed(not-observed)", "its turn went on without it"


def test_a_hook_that_printed_and_ended_is_not_broken_off(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    hand.takes()
    hand.ended(None, "h", gone=True)
    assert beta.state(msg_id, "worker") == "injecting"


def test_the_nonce_of_what_was_typed_unseen_is_late_evidence_too(fleet: Fleet) -> None:
    world, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    beta.ready(msg_id, "worker")
    beta.typed(msg_id, "worker", "unconfirmed")
    world.settle()
    hand.seen(msg_id)
    world.settle()
    assert (alpha.fate(msg_id), beta.row(msg_id, "worker").via) == ("injected", "tmux")


def test_what_is_typed_into_the_middle_of_a_turn_unseen_says_so(fleet: Fleet) -> None:
    _, alpha, beta, _ = fleet
    beta.run(ev.AgentSeen(beta.gid("worker"), "working"))
    msg_id, _ = brief(alpha, beta, when="now")
    beta.ready(msg_id, "worker")
    beta.typed(msg_id, "worker", "unconfirmed")
    assert beta.state(msg_id, "worker") == "unconfirmed(mid-turn)"


# --- calls that wait ----------------------------------------------------------------------------


def test_a_waiting_call_goes_before_the_transport(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    call = hand.rewake()
    msg_id, actions = brief(alpha, beta)
    assert told(actions) == ["commit waiting", "record injecting", "ack", "resolve offered 1"]
    assert hand.got(call) == [msg_id]


def test_a_call_that_wakes_waits_while_its_agent_works(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    beta.run(ev.AgentSeen(beta.gid("worker"), "working"))
    call = hand.rewake()
    msg_id, _ = brief(alpha, beta)
    beta.run(ev.AgentNotReady(beta.gid("worker"), msg_id, "it works", "working"))
    assert hand.got(call) is None
    beta.run(ev.AgentSeen(beta.gid("worker"), "idle"))
    assert hand.got(call) == [msg_id]


def test_the_transport_lets_an_agent_alone_that_was_just_woken(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    hand.rewake()
    first, _ = brief(alpha, beta)
    second, actions = brief(alpha, beta)
    assert told(actions) == ["commit waiting", "ack"]
    assert told(hand.seen(first)) == ["record injected owed", "reserve", "publish INJECTED alpha"]
    assert beta.state(second, "worker") == "waiting"


def test_a_call_that_is_given_up_takes_nothing(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    hand.ended(hand.rewake(), "r")
    hand.rewake()
    hand.ended(None, "r", gone=True)
    _, actions = brief(alpha, beta)
    assert told(actions) == ["commit waiting", "ack", "reserve"]


# --- polls --------------------------------------------------------------------------------------


def test_a_poll_of_the_agent_takes_its_messages_and_is_confirmed_by_its_client(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    call = hand.poll()
    assert hand.got(call) == [msg_id]
    offered = beta.results[call]
    assert isinstance(offered, Offered)
    beta.wait(60)
    beta.confirm(offered.cursor, "p")
    assert (beta.state(msg_id, "worker"), beta.row(msg_id, "worker").via) == ("injected", "poll")


def test_a_client_that_confirms_late_is_believed(fleet: Fleet) -> None:
    world, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    offered = beta.results[hand.poll()]
    assert isinstance(offered, Offered)
    beta.wait(600)
    world.settle()
    assert alpha.fate(msg_id) == "unconfirmed(not-observed)"
    beta.confirm(offered.cursor, "p")
    world.settle()
    assert alpha.fate(msg_id) == "injected"


@pytest.mark.parametrize(("how", "state"), [("done", "injected"), ("interrupt", "injecting")])
def test_a_turn_that_ends_by_itself_proves_what_was_polled_in_it(fleet: Fleet, how: str, state: str) -> None:
    _, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    hand.poll()
    beta.run(ev.TurnEnded(beta.gid("worker"), None, how))
    assert beta.state(msg_id, "worker") == state


def test_what_was_polled_in_a_turn_has_its_last_words(fleet: Fleet) -> None:
    world, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta, sender="lead")
    hand.poll()
    beta.run(NagAsked(beta.call(), beta.gid("worker")))
    beta.run(ev.TurnEnded(beta.gid("worker"), b"all is well", "done", (beta.new_id(),)))
    world.settle()
    assert (alpha.fate(msg_id), alpha.sent(msg_id).answer) == ("injected", "auto")


def test_a_client_that_dies_between_the_poll_and_the_print_leaves_it_unconfirmed(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    hand.poll()
    hand.ended(None, gone=True)
    assert beta.state(msg_id, "worker") == "unconfirmed(not-observed)"
    assert hand.got(hand.poll("again")) == []


def test_a_waiting_poll_gets_what_comes_though_its_agent_works(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    beta.run(ev.AgentSeen(beta.gid("worker"), "working"))
    call = hand.poll(wait=True)
    msg_id, _ = brief(alpha, beta)
    assert hand.got(call) == [msg_id]


# --- what holds for all deliveries --------------------------------------------------------------


def test_a_poll_in_the_middle_of_a_write_overtakes_nothing_of_the_same_sender(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    first, _ = brief(alpha, beta)
    beta.run(ev.AgentReserved(beta.gid("worker"), first))
    second, _ = brief(alpha, beta)
    other, _ = brief(alpha, beta, sender="lead")
    assert hand.got(hand.poll()) == [other]
    beta.run(ev.Injected(gid=beta.gid("worker"), msg_id=first, outcome="submitted", via="tmux", detail=""))
    assert hand.got(hand.poll("q")) == [second]


def test_nothing_is_handed_out_while_the_store_takes_no_writes(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    beta.broken = True
    call = hand.hook()
    assert isinstance(beta.results[call], do.Fail)
    assert beta.state(msg_id, "worker") == "waiting"
    assert hand.takes() == []
    beta.broken = False
    beta.run(ev.StoreRecovered())
    assert hand.takes() == [msg_id]
    hand.seen(msg_id)
    assert beta.state(msg_id, "worker") == "injected"


def test_nothing_is_handed_out_while_the_clock_is_behind(fleet: Fleet) -> None:
    world, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    world.clock.turn(-120)
    assert hand.takes() == []
    world.clock.turn(120)
    assert hand.takes() == [msg_id]


def test_a_work_tree_is_looked_at_before_a_hook_has_the_message() -> None:
    world, alpha, beta = trees()
    hand = Hand(beta)
    msg_id = alpha.send("worker@beta", belief=BELIEF)
    world.settle()
    call = hand.hook()
    assert (hand.got(call), told(hand.last)) == (None, ["lookattree"])
    beta.looked(STALE)
    assert (hand.got(call), beta.row(msg_id, "worker").stale) == ([msg_id], NOTE)


def test_what_its_sender_wants_dropped_when_stale_is_not_handed_out() -> None:
    world, alpha, beta = trees()
    hand = Hand(beta)
    msg_id = alpha.send("worker@beta", belief=BELIEF, on_stale="drop")
    world.settle()
    call = hand.hook()
    beta.looked(STALE)
    world.settle()
    assert (hand.got(call), alpha.fate(msg_id)) == ([], "failed(stale-dropped)")


def test_what_is_paused_is_not_handed_out(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    press(beta, beta.gid("worker"))
    msg_id, _ = brief(alpha, beta)
    call = hand.rewake()
    assert (hand.takes(), hand.got(call)) == ([], None)
    press(beta, beta.gid("worker"), on=False)
    assert hand.got(call) == [msg_id]


def test_what_belongs_to_a_loop_is_not_handed_out(fleet: Fleet) -> None:
    _, alpha, beta, hand = fleet
    brief(alpha, beta, body=b"thanks", sender="lead")
    hand.takes()
    again, _ = brief(alpha, beta, body=b"thanks", sender="lead")
    assert (hand.takes(), beta.row(again, "worker").held) == ([], "loop")


def test_a_claim_is_taken_when_its_message_is_handed_out_and_not_before(fleet: Fleet) -> None:
    _, _, beta, hand = fleet
    small = beta.send("worker", claim="issue-1")
    other = beta.send("worker", claim="issue-2")
    assert not beta.claims
    assert hand.takes(most=1) == [small]
    assert list(beta.claims) == ["issue-1"]
    assert hand.takes() == [other]


def test_what_has_expired_is_not_handed_out(fleet: Fleet) -> None:
    world, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta, expires_in_ms=1_000)
    world.clock.advance(2)
    assert (hand.takes(), beta.state(msg_id, "worker")) == ([], "expired")


def test_what_was_handed_out_is_not_called_back(fleet: Fleet) -> None:
    world, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    hand.takes()
    alpha.cancel(msg_id)
    world.settle()
    assert beta.state(msg_id, "worker") == "injecting"
    hand.seen(msg_id)
    world.settle()
    assert alpha.fate(msg_id) == "injected"


def test_an_agent_that_is_stopped_leaves_what_it_was_given_unconfirmed_and_is_gone(fleet: Fleet) -> None:
    world, alpha, beta, hand = fleet
    msg_id, _ = brief(alpha, beta)
    hand.takes()
    waiting = hand.rewake()
    stop(beta, beta.gid("worker"))
    world.settle()
    assert (alpha.fate(msg_id), hand.got(waiting)) == ("unconfirmed(not-observed)", [])
    assert beta.gid("worker") not in beta.entities


def test_a_client_that_is_not_pushed_into_takes_nothing_by_a_hook(fleet: Fleet) -> None:
    world, alpha, beta, _ = fleet
    msg_id = beta.send("lead@alpha", sender="worker")
    world.settle()
    assert (Hand(alpha, "lead").takes(), alpha.state(msg_id, "lead")) == ([], "waiting")


def test_a_question_is_shown_to_a_poll_of_an_agent_that_is_pushed_into(fleet: Fleet) -> None:
    world, alpha, beta, hand = fleet
    call = hand.poll(wait=True)
    msg_id = asking(alpha, "worker@beta", "lead")
    world.settle()
    assert (hand.got(call), beta.state(msg_id, "worker")) == ([msg_id], "offered")
