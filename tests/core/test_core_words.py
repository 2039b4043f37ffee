"""What other hosts say about our messages: who is believed, and what follows what."""

from __future__ import annotations

import pytest

from fleettrio.core import actions as do
from fleettrio.core.requests import PingAsked
from fleettrio.ids import Gid, Leaf, MsgId
from tests.core.builders import Host, World, told
from tests.core.messages import brief, failed, injected, outcome

OTHER = Leaf(b"x" * 32)


def three(reporters: tuple[str, ...] = ()) -> tuple[World, Host, Host, Host, tuple[MsgId, Gid, Leaf]]:
    """alpha has sent to beta; gamma is a third host. Also `(msgId, gid, leaf)` of the message."""
    world = World("alpha", "beta", "gamma", reporters=reporters)
    world.open()
    alpha, beta, gamma = world.hosts
    msg_id, _ = brief(alpha, beta)
    row = alpha.sent(msg_id)
    return world, alpha, beta, gamma, (row.msg_id, row.gid, row.leaf)


def test_a_third_host_is_not_party() -> None:
    _, alpha, _, gamma, about = three()
    for notice in (
        injected(gamma, alpha, *about),
        failed(gamma, alpha, *about),
        outcome(gamma, alpha, (*about, "drained")),
    ):
        assert [word.split()[0] for word in told(alpha.get(notice))] == ["note", "reject"]
    assert alpha.fate(about[0]) == "confirmed"


def test_an_unknown_message_and_another_leaf_are_not_party() -> None:
    _, alpha, beta, _, (msg_id, gid, leaf) = three()
    assert told(alpha.get(injected(beta, alpha, beta.new_id(), gid, leaf))) == [
        "load",
        "load",
        "note not-party injected",
        "reject",
    ]
    assert told(alpha.get(injected(beta, alpha, msg_id, gid, OTHER))) == ["note not-party injected", "reject"]
    assert told(alpha.get(injected(beta, alpha, msg_id, beta.gid("human"), leaf))) == [
        "load",
        "load",
        "note not-party injected",
        "reject",
    ]
    assert alpha.fate(msg_id) == "confirmed"


def test_a_repeated_word_changes_nothing() -> None:
    _, alpha, beta, _, about = three()
    notice = injected(beta, alpha, *about)
    assert told(alpha.get(notice)) == ["sent injected", "ack"]
    assert told(alpha.get(injected(beta, alpha, *about))) == ["ack"]


@pytest.mark.parametrize("second", ["expired", "recalled", "superseded", "failed", "drained", "unconfirmed"])
def test_the_first_final_word_stands_and_another_is_a_contradiction(second: str) -> None:
    _, alpha, beta, _, about = three()
    alpha.get(injected(beta, alpha, *about))
    actions = told(alpha.get(outcome(beta, alpha, (*about, second))))
    assert actions == [f"note contradiction injected then {second}", "ack"]
    assert alpha.fate(about[0]) == "injected"


@pytest.mark.parametrize("first", ["drained", "expired", "recalled", "superseded", "failed"])
def test_a_final_row_of_the_outbox_never_changes(first: str) -> None:
    _, alpha, beta, _, about = three()
    alpha.get(outcome(beta, alpha, (*about, first)))
    before = alpha.sent(about[0])
    for word in ("injected", "unconfirmed", first):
        alpha.get(outcome(beta, alpha, (*about, word)))
    for word in ("held", "waiting", "absent"):  # they were on their way
        assert told(alpha.get(outcome(beta, alpha, (*about, word)))) == ["ack"]
    assert alpha.sent(about[0]) == before


@pytest.mark.parametrize("last", ["drained", "expired", "recalled", "superseded", "failed", "unconfirmed", "injected"])
def test_held_goes_on_to_whatever_becomes_of_it(last: str) -> None:
    _, alpha, beta, _, about = three()
    alpha.get(outcome(beta, alpha, (*about, "held")))
    assert told(alpha.get(outcome(beta, alpha, (*about, last)))) == [f"sent {last}", "ack"]


def test_unconfirmed_goes_on_to_injected_alone() -> None:
    _, alpha, beta, _, about = three()
    alpha.get(outcome(beta, alpha, (*about, "unconfirmed")))
    assert told(alpha.get(outcome(beta, alpha, (*about, "drained"))))[0].startswith("note contradiction")
    assert told(alpha.get(injected(beta, alpha, *about))) == ["sent injected", "ack"]


@pytest.mark.parametrize("word", ["absent", "waiting", "injecting", "offered"])
def test_words_about_the_view_change_only_the_view(word: str) -> None:
    _, alpha, beta, _, about = three()
    assert told(alpha.get(outcome(beta, alpha, (*about, word)))) == ["ack"]
    assert (alpha.fate(about[0]), alpha.gateway.outbox.view_note(about[:2])) == ("confirmed", word)


@pytest.mark.parametrize("word", ["accepted", "written", "confirmed", "unknown", "outcome-unknown", "banana"])
def test_words_that_no_recipient_may_say_are_noted_and_change_nothing(word: str) -> None:
    _, alpha, beta, _, about = three()
    alpha.get(outcome(beta, alpha, (*about, "held")))
    assert told(alpha.get(outcome(beta, alpha, (*about, word)))) == [f"note unknown-word {word}", "ack"]
    assert alpha.fate(about[0]) == "held"


def test_one_notice_that_contradicts_itself_counts_once() -> None:
    _, alpha, beta, _, about = three()
    actions = told(alpha.get(outcome(beta, alpha, (*about, "drained"), (*about, "failed"))))
    assert actions == ["sent drained", "ack"]


def test_a_reporter_is_believed_about_messages_to_others_until_the_recipient_speaks() -> None:
    _, alpha, beta, gamma, about = three(reporters=("gamma",))
    assert told(alpha.get(failed(gamma, alpha, *about))) == ["sent failed(overflow)", "ack"]
    assert alpha.sent(about[0]).said_by == "report"
    assert told(alpha.get(failed(gamma, alpha, *about)))[-1] == "ack"
    assert told(alpha.get(injected(beta, alpha, *about))) == ["sent injected", "ack"]


def test_a_reporter_says_nothing_against_the_recipient() -> None:
    _, alpha, beta, gamma, about = three(reporters=("gamma",))
    alpha.get(injected(beta, alpha, *about))
    assert told(alpha.get(failed(gamma, alpha, *about))) == ["ack"]
    assert alpha.fate(about[0]) == "injected"


def test_a_reporter_may_say_failed_only_and_only_with_the_leaf() -> None:
    _, alpha, _, gamma, (msg_id, gid, leaf) = three(reporters=("gamma",))
    assert told(alpha.get(injected(gamma, alpha, msg_id, gid, leaf)))[-1] == "reject"
    assert told(alpha.get(outcome(gamma, alpha, (msg_id, gid, leaf, "recalled"))))[-1] == "reject"
    assert told(alpha.get(failed(gamma, alpha, msg_id, gid, OTHER)))[-1] == "reject"
    assert alpha.fate(msg_id) == "confirmed"


def test_a_reporters_expired_reads_expired() -> None:
    _, alpha, _, gamma, about = three(reporters=("gamma",))
    assert told(alpha.get(failed(gamma, alpha, *about, reason="expired"))) == ["sent expired(expired)", "ack"]


def test_a_refusal_yields_to_the_word_that_it_was_taken_after_all() -> None:
    """A spoilt copy was refused first; the good one behind it was delivered."""
    _, alpha, beta, _, about = three()
    alpha.get(failed(beta, alpha, *about, reason="refused: signature at beta"))
    assert alpha.fate(about[0]) == "failed(refused: signature at beta)"
    assert told(alpha.get(injected(beta, alpha, *about)))[-2:] == ["sent injected", "ack"]
    assert not [n for n in alpha.journal if n.what == "contradiction"]


def test_what_was_refused_and_is_held_after_all_is_called_back_when_it_has_expired() -> None:
    _, alpha, beta, _, about = three()
    alpha.get(failed(beta, alpha, *about, reason="refused: signature at beta"))
    alpha.get(outcome(beta, alpha, (*about, "held")))
    assert alpha.fate(about[0]) == "held"
    row = alpha.sent(about[0])
    alpha.wait((row.expires_at - row.ts) / 1000 + 31)
    assert alpha.sent(about[0]).recalling


def test_a_refusal_as_expired_reads_expired() -> None:
    _, alpha, beta, _, about = three()
    alpha.get(failed(beta, alpha, *about, reason="refused: expired at beta"))
    assert alpha.sent(about[0]).state == "expired"
    assert told(alpha.get(outcome(beta, alpha, (*about, "recalled")))) == ["ack"]
    assert alpha.sent(about[0]).state == "expired"


def test_a_refusal_for_want_of_trust_is_kept_with_the_peer_until_it_takes_us_again() -> None:
    _, alpha, beta, _, about = three()
    alpha.get(failed(beta, alpha, *about, reason="refused: unknown-host at beta"))
    assert alpha.peers[beta.name].refuses_us == "unknown-host"
    again, _ = brief(alpha, beta)
    row = alpha.sent(again)
    alpha.get(injected(beta, alpha, row.msg_id, row.gid, row.leaf))
    assert alpha.peers[beta.name].refuses_us == ""


def test_a_refusal_for_want_of_trust_is_over_when_a_ping_is_answered() -> None:
    world, alpha, beta, _, about = three()
    alpha.get(failed(beta, alpha, *about, reason="refused: unknown-host at beta"))
    alpha.run(PingAsked(alpha.call(), beta.name, alpha.new_id()))
    world.settle()
    assert alpha.peers[beta.name].refuses_us == ""


def test_an_answer_says_that_it_was_read_whatever_comes_late() -> None:
    world, alpha, beta, _, about = three()
    beta.put_in(about[0], "worker")
    beta.taken()  # the notice is on its way by another queue
    beta.reply(about[0], "worker")
    world.settle()
    assert alpha.sent(about[0]).answered_by
    for late in ("unconfirmed", "held", "injected", "drained"):
        assert not [w for w in told(alpha.get(outcome(beta, alpha, (*about, late)))) if w.startswith("note")]
    assert alpha.sent(about[0]).answered_by


def test_a_late_notice_does_not_undo_the_answer_though_the_store_is_behind() -> None:
    """The REPLY is decided, its row not yet recorded, when the notice is looked up."""
    world, alpha, beta, _, about = three()
    beta.put_in(about[0], "worker")
    (notice,) = beta.taken()
    stale = dict(alpha.outbox)
    beta.reply(about[0], "worker")
    world.settle()
    alpha.outbox = stale
    alpha.get(beta.signed(notice))
    row = alpha.gateway.outbox.get(about[:2])
    assert row is not None
    assert row.answered_by
    assert alpha.sent(about[0]).answered_by is None  # nothing was written over it


def test_an_answer_to_what_is_finally_expired_is_kept_and_noted() -> None:
    _, alpha, beta, _, about = three()
    alpha.get(outcome(beta, alpha, (*about, "expired")))
    (publish,) = [p for p in _reply(beta, about[0]) if p.envelope.kind == "REPLY"]
    actions = told(alpha.get(beta.signed(publish)))
    assert "note contradiction expired then answered" in actions
    assert alpha.fate(about[0]) == "expired"
    assert alpha.sent(about[0]).answered_by


def _reply(beta: Host, msg_id: MsgId) -> list[do.Publish]:
    beta.put_in(msg_id, "worker")
    beta.taken()
    beta.reply(msg_id, "worker")
    return beta.taken()
