"""Sends: one verdict per publish, what a lost link makes of it, and what may be tried again."""

from __future__ import annotations

import pytest

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.calls import Accepted
from fleettrio.ids import MsgId
from fleettrio.wire.envelope import decode_envelope
from tests.core.asks import answering, asking, listening
from tests.core.builders import Host, World, agent, fleet_of, pair, told
from tests.core.messages import brief, failed, outcome


def sending(alpha: Host) -> tuple[MsgId, do.Publish]:
    msg_id = alpha.send("worker@beta")
    (publish,) = alpha.taken()
    return msg_id, publish


def test_a_send_ends_with_its_verdict() -> None:
    _, alpha, _ = pair()
    _, publish = sending(alpha)
    assert told(alpha.last) == ["publish SEND"]
    assert told(alpha.hand(publish)) == []
    assert told(alpha.verdict(publish)) == ["sent confirmed", "resolve confirmed"]
    assert told(alpha.verdict(publish)) == []


@pytest.mark.parametrize("verdict", ["unroutable", "nacked"])
def test_what_the_broker_refuses_is_failed(verdict: str) -> None:
    _, alpha, _ = pair()
    _, publish = sending(alpha)
    alpha.hand(publish)
    assert told(alpha.verdict(publish, verdict)) == [f"sent failed({verdict})", f"resolve failed({verdict})"]


def test_what_was_not_handed_over_is_failed() -> None:
    _, alpha, _ = pair()
    _, publish = sending(alpha)
    actions = alpha.run(ev.PublishNotHanded(publish.id, "broker-blocked", "memory"))
    assert told(actions) == ["sent failed(broker-blocked)", "resolve failed(broker-blocked)"]


def test_no_confirm_within_four_seconds_is_unknown_and_a_late_confirm_still_counts() -> None:
    _, alpha, _ = pair()
    msg_id, publish = sending(alpha)
    alpha.hand(publish)
    assert [w.split("(")[0] for w in told(alpha.wait(4.1))] == ["sent outcome-unknown", "resolve outcome-unknown"]
    assert told(alpha.verdict(publish)) == ["sent confirmed"]
    assert alpha.fate(msg_id) == "confirmed"


def test_a_late_return_after_unknown_is_failed() -> None:
    _, alpha, _ = pair()
    msg_id, publish = sending(alpha)
    alpha.hand(publish)
    alpha.wait(4.1)
    alpha.verdict(publish, "unroutable")
    assert alpha.fate(msg_id) == "failed(unroutable)"


def test_the_word_of_the_recipient_may_come_before_the_confirm() -> None:
    _, alpha, beta = pair()
    _, publish = sending(alpha)
    alpha.hand(publish)
    parsed = alpha.signed(publish)
    actions = alpha.get(outcome(beta, alpha, (parsed.envelope.msg_id, beta.gid("worker"), parsed.leaf, "drained")))
    assert told(actions) == ["sent drained", "resolve drained", "ack"]
    assert told(alpha.verdict(publish)) == []


def test_a_silent_broker_makes_every_later_send_fail_at_once_until_it_is_heard() -> None:
    _, alpha, _ = pair()
    _, publish = sending(alpha)
    alpha.hand(publish)
    alpha.wait(4.1)
    alpha.send("worker@beta")
    assert told(alpha.last) == ["sent failed(broker-unreachable)", "resolve failed(broker-unreachable)"]
    alpha.verdict(publish)
    alpha.send("worker@beta")
    assert told(alpha.last) == ["publish SEND"]


def test_a_broker_that_is_heard_but_slow_is_not_suspect() -> None:
    _, alpha, _ = pair()
    _, publish = sending(alpha)
    alpha.hand(publish)
    alpha.wait(3)
    alpha.run(ev.LinkHeard(alpha.clock.now.mono))
    alpha.wait(1.1)
    alpha.send("worker@beta")
    assert told(alpha.last) == ["publish SEND"]


def test_a_blocked_broker_fails_sends_at_once_and_takes_them_again() -> None:
    _, alpha, _ = pair()
    alpha.run(ev.LinkBlocked("memory"))
    alpha.send("worker@beta")
    assert told(alpha.last) == ["sent failed(broker-blocked)", "resolve failed(broker-blocked)"]
    alpha.run(ev.LinkUnblocked())
    alpha.send("worker@beta")
    assert told(alpha.last) == ["publish SEND"]


def test_without_a_link_a_remote_send_fails_at_once_and_a_local_one_goes() -> None:
    _, alpha, _ = pair()
    alpha.run(ev.SessionClosed(1, "gone"))
    alpha.send("worker@beta")
    assert told(alpha.last) == ["sent failed(broker-unreachable)", "resolve failed(broker-unreachable)"]
    alpha.send("lead")
    assert told(alpha.last)[-1] == "resolve held"


def test_the_end_of_a_session_gives_every_open_publish_its_verdict() -> None:
    _, alpha, _ = pair()
    handed, publish = sending(alpha)
    alpha.hand(publish)
    waiting, other = sending(alpha)
    actions = alpha.run(ev.SessionClosed(1, "reset"))
    assert told(actions) == [
        "sent outcome-unknown(the link was lost: reset)",
        "sent failed(broker-unreachable)",
        "resolve outcome-unknown(the link was lost: reset)",
        "resolve failed(broker-unreachable)",
    ]
    assert told(alpha.run(ev.VerdictGiven(other.id, "outcome-unknown", ""))) == []
    assert alpha.fate(waiting) == "failed(broker-unreachable)"
    alpha.verdict(publish)  # it had arrived before the link was lost
    assert alpha.fate(handed) == "confirmed"
    assert alpha.gateway.link.open_count == 0


def test_nothing_of_an_old_session_is_kept_in_the_next() -> None:
    _, alpha, _ = pair()
    _, publish = sending(alpha)
    alpha.hand(publish)
    alpha.run(ev.SessionClosed(1, "reset"))
    alpha.open()
    assert alpha.gateway.link.purpose(publish.id) is None


def test_an_unknown_outcome_is_asked_for_at_the_next_beat_of_that_host() -> None:
    world, alpha, beta = pair()
    msg_id, publish = sending(alpha)
    alpha.hand(publish)
    beta.get(alpha.signed(publish))
    alpha.run(ev.SessionClosed(1, "reset"))
    alpha.open()
    alpha.taken()
    beta.run(ev.BeatDue())
    (beat,) = beta.taken()
    assert "publish QUERY beta" in told(alpha.get(beta.signed(beat)))
    world.settle()
    assert alpha.fate(msg_id) == "confirmed"
    assert alpha.gateway.outbox.view_note((msg_id, beta.gid("worker"))) == "waiting"
    beta.run(ev.BeatDue())
    (beat,) = beta.taken()
    assert "publish QUERY beta" not in told(alpha.get(beta.signed(beat)))


def test_sixty_seconds_without_a_word_from_an_idle_agent_is_unknown_and_asked_for() -> None:
    world, alpha, beta = pair()
    msg_id, publish = sending(alpha)
    alpha.hand(publish)
    alpha.verdict(publish)
    seen = []
    for _ in range(13):
        seen += told(alpha.wait(5))
        for host in (alpha, beta):
            host.run(ev.BeatDue())
        world.settle()
    assert [word for word in seen if "QUERY" in word or "unknown" in word] == [
        "sent unknown(no word from beta)",
        "publish QUERY beta",
    ]
    assert alpha.gateway.outbox.view_note((msg_id, beta.gid("worker"))) == "absent"


def test_what_waits_for_a_busy_neighbour_is_never_in_doubt() -> None:
    """This host has it itself: nobody is to be asked, however long a turn takes, and whoever else is silent."""
    world, alpha, _ = pair()
    alpha.run(ev.Attached(alpha.call(), agent("busy", "alpha")))
    near = alpha.send("busy")
    _, publish = sending(alpha)
    alpha.hand(publish)
    alpha.verdict(publish)
    for _ in range(40):
        alpha.wait(5)
        alpha.run(ev.BeatDue())
        world.settle()
    assert alpha.fate(near) == "confirmed"
    alpha.start()
    alpha.wait(90)
    assert alpha.fate(near) == "confirmed"


def test_each_message_is_asked_for_sixty_seconds_after_its_own_confirm_and_those_of_one_moment_together() -> None:
    world, alpha, beta = pair()
    seen: dict[int, list[str]] = {}
    for second in range(0, 100, 5):
        if second in (0, 30):
            for _ in range(2 if second else 1):
                _, publish = sending(alpha)
                alpha.hand(publish)
                alpha.verdict(publish)
        words = told(alpha.wait(5))
        if asked := [word for word in words if "QUERY" in word or "unknown" in word]:
            seen[second + 5] = asked
        for host in (alpha, beta):
            host.run(ev.BeatDue())
        world.settle()
    unknown, query = "sent unknown(no word from beta)", "publish QUERY beta"
    assert seen == {60: [unknown, query], 90: [unknown, unknown, query]}


def test_past_its_end_it_reads_unknown_and_is_called_back() -> None:
    world, alpha, _ = pair()
    msg_id = alpha.send("worker@beta", expires_in_ms=60_000)
    (publish,) = alpha.taken()
    alpha.hand(publish)
    alpha.verdict(publish)
    alpha.wait(91)
    assert alpha.fate(msg_id) == "unknown(no word from beta)"
    assert alpha.sent(msg_id).recalling
    world.settle()
    assert alpha.fate(msg_id) == "recalled"


def test_what_the_recipient_said_is_held_is_not_taken_back_by_a_clock() -> None:
    world, alpha, beta = pair()
    msg_id = beta.send("lead@alpha", sender="worker", expires_in_ms=60_000)
    world.settle()
    assert beta.fate(msg_id) == "held"
    beta.wait(91)
    assert (beta.fate(msg_id), beta.sent(msg_id).recalling) == ("held", True)
    alpha.expire()
    world.settle()
    assert beta.fate(msg_id) == "expired"
    assert not [note for note in beta.journal if note.alarm]


def test_a_recall_goes_out_again_whenever_the_host_is_heard_again() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    assert "publish RECALL beta" in told(alpha.cancel(msg_id))
    alpha.taken()  # lost on the way
    alpha.run(ev.SessionClosed(1, "reset"))
    alpha.open()
    beta.run(ev.BeatDue())
    (beat,) = beta.taken()
    assert "publish RECALL beta" in told(alpha.get(beta.signed(beat)))


def test_a_recall_that_nobody_answers_is_asked_again_ever_less_often_until_there_is_a_word() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    alpha.cancel(msg_id)
    alpha.taken()  # it, or its answer, met a full queue
    assert "publish RECALL beta" not in told(alpha.wait(59))
    assert told(alpha.wait(2)).count("publish RECALL beta") == 1
    assert told(alpha.wait(118)).count("publish RECALL beta") == 0
    assert told(alpha.wait(3)).count("publish RECALL beta") == 1
    row = alpha.sent(msg_id)
    alpha.get(outcome(beta, alpha, (row.msg_id, row.gid, row.leaf, "recalled")))
    assert "publish RECALL beta" not in told(alpha.wait(600))


def test_cancel_before_the_confirm_is_called_back_too() -> None:
    _, alpha, _ = pair()
    msg_id, publish = sending(alpha)
    alpha.hand(publish)
    assert "publish RECALL beta" in told(alpha.cancel(msg_id))


def test_cancel_of_what_is_over_says_how_it_ended() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    row = alpha.sent(msg_id)
    alpha.get(outcome(beta, alpha, (row.msg_id, row.gid, row.leaf, "unconfirmed")))
    assert told(alpha.cancel(msg_id)) == ["resolve unconfirmed"]
    alpha.run(ev.LinkBlocked("memory"))
    never = alpha.send("worker@beta")
    assert told(alpha.cancel(never)) == ["resolve failed(broker-blocked)"]


def test_cancel_on_this_host_is_decided_at_once() -> None:
    _, alpha, _ = pair()
    msg_id = alpha.send("lead")
    assert told(alpha.cancel(msg_id)) == ["record recalled", "sent recalled", "resolve recalled"]


# --- retry


def retry(host: Host, msg_id: MsgId, body: bytes = b"do it") -> list[str]:
    return told(host.run(ask.RetryAsked(host.call(), host.sent(msg_id), body)))


def test_a_retry_is_the_same_header_and_opens_the_row_again() -> None:
    _, alpha, beta = pair()
    msg_id, publish = sending(alpha)
    alpha.hand(publish)
    alpha.verdict(publish, "nacked")
    assert retry(alpha, msg_id) == ["publish SEND"]
    (again,) = alpha.taken()
    alpha.hand(again)
    assert told(alpha.verdict(again)) == ["sent confirmed", "resolve confirmed"]
    assert alpha.signed(again).leaf == alpha.signed(publish).leaf
    assert decode_envelope(alpha.sent(msg_id).header).msg_id == msg_id
    assert told(beta.get(alpha.signed(again)))[0] == "commit waiting"


def test_a_refused_message_may_be_retried_once_the_trust_is_mended() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    row = alpha.sent(msg_id)
    alpha.get(failed(beta, alpha, row.msg_id, row.gid, row.leaf, "refused: unknown-host at beta"))
    assert retry(alpha, msg_id) == ["publish SEND"]


@pytest.mark.parametrize("word", ["injected", "drained", "recalled", "failed", "unconfirmed", "held"])
def test_what_the_recipient_spoke_about_is_not_retried(word: str) -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    row = alpha.sent(msg_id)
    alpha.get(outcome(beta, alpha, (row.msg_id, row.gid, row.leaf, word)))
    assert retry(alpha, msg_id) == ["fail 2 not-retryable"]


def test_an_expired_message_is_not_retried() -> None:
    _, alpha, _ = pair()
    alpha.run(ev.LinkBlocked("memory"))
    msg_id = alpha.send("worker@beta", expires_in_ms=60_000)
    alpha.run(ev.LinkUnblocked())
    alpha.clock.advance(61)
    assert retry(alpha, msg_id) == ["fail 4 expired"]


def test_two_retries_at_once_publish_once() -> None:
    _, alpha, _ = pair()
    msg_id, publish = sending(alpha)
    alpha.hand(publish)
    alpha.verdict(publish, "nacked")
    stale = alpha.sent(msg_id)
    first = told(alpha.run(ask.RetryAsked(alpha.call(), stale, b"do it")))
    second = told(alpha.run(ask.RetryAsked(alpha.call(), stale, b"do it")))
    assert (first, second) == (["publish SEND"], ["fail 2 not-retryable"])


def test_a_late_verdict_of_the_first_attempt_does_not_fail_the_second() -> None:
    _, alpha, _ = pair()
    msg_id, first = sending(alpha)
    alpha.hand(first)
    alpha.wait(4.1)
    alpha.run(ev.LinkHeard(alpha.clock.now.mono))
    assert retry(alpha, msg_id) == ["publish SEND"]
    (second,) = alpha.taken()
    alpha.hand(second)
    alpha.verdict(second)
    assert told(alpha.verdict(first, "nacked")) == []
    assert alpha.fate(msg_id) == "confirmed"


def test_a_confirm_of_the_second_attempt_counts_after_the_first_one_failed() -> None:
    _, alpha, _ = pair()
    msg_id, first = sending(alpha)
    alpha.hand(first)
    alpha.wait(4.1)
    alpha.run(ev.LinkHeard(alpha.clock.now.mono))
    retry(alpha, msg_id)
    (second,) = alpha.taken()
    alpha.hand(second)
    alpha.verdict(first, "nacked")
    alpha.verdict(second)
    assert alpha.fate(msg_id) == "confirmed"
    assert alpha.gateway.outbox.rows[alpha.sent(msg_id).msg_id, alpha.sent(msg_id).gid].said_by == ""


# --- idempotency


def test_the_same_key_while_the_first_is_under_way_is_the_same_message() -> None:
    _, alpha, _ = pair()
    alpha.send("worker@beta", key="k")
    (publish,) = alpha.taken()
    assert publish.keyed is not None
    alpha.send("worker@beta", key="k")
    assert told(alpha.last) == []
    alpha.hand(publish)
    actions = alpha.verdict(publish)
    assert told(actions) == ["sent confirmed", "resolve confirmed", "resolve confirmed"]
    results = [r for r in alpha.results.values() if isinstance(r, Accepted)]
    assert len({row.msg_id for r in results for row in r.rows}) == 1
    assert alpha.out == []


def test_the_same_key_after_the_verdict_says_how_it_stands_now() -> None:
    _, alpha, beta = pair()
    msg_id = alpha.send("worker@beta", key="k")
    (publish,) = alpha.taken()
    alpha.hand(publish)
    alpha.verdict(publish)
    row = alpha.sent(msg_id)
    alpha.get(outcome(beta, alpha, (row.msg_id, row.gid, row.leaf, "injected")))
    alpha.send("worker@beta", key="k")
    assert told(alpha.last) == ["resolve injected"]


def test_a_key_with_another_body_or_for_others_is_refused() -> None:
    _, alpha, _ = pair()
    msg_id = alpha.send("worker@beta", key="k")
    alpha.taken()
    for to, body in (("worker@beta",), b"another"), (("human@beta",), b"do it"), (("worker@beta", "lead"), b"do it"):
        alpha.send(*to, key="k", body=body)
        (refused,) = alpha.last
        assert isinstance(refused, do.Fail)
        assert refused.reason == "key-conflict"
        assert msg_id[-8:] in refused.message
    assert alpha.out == []


def test_a_key_that_only_the_store_knows_is_compared_too() -> None:
    _, alpha, _ = pair()
    msg_id = alpha.send("worker@beta", key="k")
    (publish,) = alpha.taken()
    alpha.hand(publish)
    alpha.verdict(publish)
    alpha.start()
    known = (alpha.sent(msg_id),)
    alpha.send("worker@beta", key="k", known=known)
    assert told(alpha.last) == ["resolve confirmed"]
    alpha.send("worker@beta", key="k", body=b"another", known=known)
    assert told(alpha.last) == ["fail 2 key-conflict"]


def test_a_key_still_stands_for_its_message_when_the_recipient_is_gone() -> None:
    _, _, beta = pair()
    beta.send("worker", key="k")
    beta.run(ev.Detached(beta.call(), beta.gid("worker"), True))
    beta.send("worker", key="k")
    assert told(beta.last) == ["resolve failed(recipient-gone)"]


def test_the_key_of_a_reply_with_another_text_or_to_another_message_is_refused() -> None:
    _, alpha, beta = pair()
    first, _ = brief(alpha, beta)
    beta.put_in(first, "worker")
    second, _ = brief(alpha, beta)
    beta.reply(first, "worker", key="r")
    beta.reply(first, "worker", b"not done", key="r")
    assert told(beta.last) == ["fail 2 key-conflict"]
    beta.reply(second, "worker", key="r")
    assert told(beta.last) == ["fail 2 key-conflict"]


def test_a_key_of_another_sender_is_another_key() -> None:
    _, alpha, _ = pair()
    alpha.send("worker@beta", key="k")
    alpha.send("worker@beta", key="k", sender="lead")
    assert len(alpha.taken()) == 2


def test_a_key_for_several_recipients_is_recorded_with_all_of_their_rows() -> None:
    _, alpha, _ = pair()
    alpha.send("worker@beta", "lead", key="k")
    words = told(alpha.last)
    assert words[:4] == ["key", "sent accepted", "sent confirmed", "commit waiting"]
    assert all(publish.keyed is None for publish in alpha.taken())


def test_the_same_key_of_a_reply_is_the_same_reply() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.put_in(msg_id, "worker")
    beta.taken()
    beta.reply(msg_id, "worker", key="r")
    beta.reply(msg_id, "worker", key="r")
    assert len([p for p in beta.taken() if p.envelope.kind == "REPLY"]) == 1


# --- several, live, gone


def test_several_recipients_have_one_verdict_each_and_the_call_ends_with_the_last() -> None:
    _, alpha, beta = pair()
    alpha.send("worker@beta", "human@beta", "lead")
    first, second = alpha.taken()
    alpha.hand(first)
    alpha.hand(second)
    assert told(alpha.verdict(second, "nacked")) == ["sent failed(nacked)"]
    row = next(r for r in alpha.outbox.values() if r.gid == beta.gid("worker"))
    alpha.get(outcome(beta, alpha, (row.msg_id, row.gid, row.leaf, "drained")))
    (accepted,) = [r for r in alpha.results.values() if isinstance(r, Accepted)]
    assert sorted(str(r.state) for r in accepted.rows) == ["drained", "failed", "held"]


def test_a_live_send_to_a_silent_host_fails_at_once_and_not_while_the_session_settles() -> None:
    _, alpha, _ = pair()
    alpha.wait(30)
    alpha.send("worker@beta", live=True)
    assert told(alpha.last) == ["fail 8 host-silent"]
    alpha.run(ev.SessionClosed(1, "reset"))
    alpha.open()
    alpha.taken()
    alpha.send("worker@beta", live=True)
    assert told(alpha.last) == ["publish SEND"]


def test_an_unknown_recipient_is_told_with_near_matches() -> None:
    _, alpha, _ = pair()
    alpha.send("worke@beta")
    (problem,) = alpha.last
    assert isinstance(problem, do.Fail)
    assert (problem.code, problem.reason, problem.hint) == (
        3,
        "no-such-recipient",
        "did you mean worker@beta?",
    )


def test_a_sender_that_is_gone_is_told_so() -> None:
    _, alpha, _ = pair()
    alpha.run(ev.Detached(alpha.call(), alpha.gid("lead"), forget=True))
    alpha.send("worker@beta", sender="lead")
    assert told(alpha.last) == ["fail 3 no-identity"]


def test_final_rows_leave_memory() -> None:
    world, alpha, beta = pair()
    ids = [brief(alpha, beta)[0] for _ in range(3)]
    for msg_id in ids:
        beta.put_in(msg_id, "worker")
    world.settle()
    assert alpha.gateway.outbox.rows == {}
    assert beta.gateway.inbox.rows == {}
    assert len(alpha.gateway.timers._at) + len(beta.gateway.timers._at) < 20


def test_an_unknown_row_leaves_memory_when_the_store_forgets_it() -> None:
    _, alpha, _ = pair()
    alpha.send("worker@beta", expires_in_ms=60_000)
    (publish,) = alpha.taken()
    alpha.hand(publish)
    alpha.verdict(publish)
    alpha.wait(32 * 86_400)
    assert alpha.gateway.outbox.rows == {}


def test_timers_that_are_moved_do_not_pile_up() -> None:
    _, alpha, beta = pair()
    for _ in range(300):
        msg_id, _ = brief(alpha, beta)
        beta.put_in(msg_id, "worker")
        beta.taken()
    assert len(beta.gateway.timers._heap) < 400
    assert len(alpha.gateway.timers._heap) < 1_000


def test_a_revoked_host_has_nothing_delivered_that_still_waits() -> None:
    world, alpha, beta = pair()
    first, _ = brief(alpha, beta)
    msg_id, _ = brief(alpha, beta)
    beta.ready(first, "worker")
    actions = beta.trust(fleet_of(("alpha", "beta"), revoked=("alpha",), rev=2))
    assert told(actions) == ["record failed(revoked) owed", "publish FAILED alpha"]
    assert beta.state(first, "worker") == "injecting"
    assert told(beta.typed(first, "worker"))[0] == "record injected owed"
    world.settle()
    assert alpha.fate(msg_id) == "failed(revoked)"


def test_a_ping_is_answered_with_version_and_offset() -> None:
    world, alpha, beta = pair()
    call = alpha.call()
    assert told(alpha.run(ask.PingAsked(call, beta.name, alpha.new_id()))) == ["publish PING beta"]
    world.settle()
    assert told([do.Resolve(call, alpha.results[call])]) == ["resolve pong"]


def test_a_refusal_ends_the_ping_that_it_answers() -> None:
    world = World("alpha", "beta")
    alpha, beta = world.hosts
    beta.trust(fleet_of(("beta",)))
    world.open()
    call = alpha.call()
    alpha.run(ask.PingAsked(call, beta.name, alpha.new_id()))
    world.clock.advance(2)
    world.settle()
    assert told([do.Resolve(call, alpha.results[call])]) == ["resolve pong refused unknown-host"]


# --- bodies


@pytest.mark.parametrize("what", ["send", "broadcast", "reply", "ask", "answer"])
@pytest.mark.parametrize("body", [b"", b" \n\t\n"])
def test_a_body_with_nothing_to_read_is_a_usage_error_and_nothing_is_sent(what: str, body: bytes) -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.put_in(msg_id, "worker")
    listening(alpha)
    question = asking(alpha, to="lead", sender="human")
    alpha.taken(), beta.taken()
    at = beta if what == "reply" else alpha
    match what:
        case "send":
            alpha.send("worker@beta", body=body)
        case "broadcast":
            alpha.broadcast(body=body)
        case "reply":
            beta.reply(msg_id, "worker", body=body)
        case "ask":
            asking(alpha, sender="human", to="lead", body=body)
        case "answer":
            answering(alpha, question, body=body)
    refused = list(at.results.values())[-1]
    assert isinstance(refused, do.Fail)
    assert (refused.code, refused.reason) == (2, "empty")
    assert "is empty" in refused.message
    assert not at.out
