"""A message says what its sender believed of the recipient's work tree; it is looked at when it could land."""

from __future__ import annotations

import msgspec
import pytest

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.calls import Offered, WaitOver
from fleettrio.core.drift import Belief, Drift
from fleettrio.wire.causal import Causal, read_causal
from tests.core.builders import FULL, Host, World, pair, told
from tests.core.messages import brief, by_hand

REPO, HEAD, MOVED = "a" * 40, "b" * 40, "c" * 40
BELIEF = Belief("/work/lead", REPO, "d" * 40, ("src/herdr.rs",), (b"\1" * 32,))
NOTE = "herdr.rs changed twice since this was written, by w9 · HEAD bbbbbbb → ccccccc, 3 commits"
STALE, SAID = Drift(NOTE, is_stale=True), Drift("written against another branch", is_stale=False)


def trees() -> tuple[World, Host, Host]:
    """As `pair`, and both agents work in trees that they told the other host of."""
    world, alpha, beta = pair()
    for host, name in ((alpha, "lead"), (beta, "worker")):
        entity = host.gateway.roster.entities[host.gid(name)]
        host.gateway.roster.put(msgspec.structs.replace(entity, cwd=f"/work/{name}"))
        host.run(ev.TreeMoved(entity.gid, REPO, HEAD))
        host.wait(1)
    world.settle()
    return world, alpha, beta


def causal_of(publish: do.Publish) -> Causal | None:
    return read_causal(publish.envelope.causal)


def to_lead(world: World, sender: Host, body: bytes = b"look", **fields: object) -> object:
    msg_id = sender.send("lead@alpha", sender="worker", body=body, **fields)
    world.settle()
    return msg_id


# --- what is said ---------------------------------------------------------------------------------


def test_a_message_names_the_head_that_its_recipient_announced_and_not_its_senders() -> None:
    _, alpha, _ = trees()
    alpha.send("worker@beta", belief=BELIEF, on_stale="drop")
    (publish,) = alpha.taken()
    assert causal_of(publish) == Causal(repo=REPO, head=HEAD, paths=BELIEF.paths, fingerprints=BELIEF.fingerprints)
    assert publish.envelope.on_stale == "drop"


def test_in_a_shared_tree_the_senders_own_head_counts() -> None:
    _, alpha, _ = trees()
    alpha.send("worker@beta", belief=BELIEF, shared=frozenset({alpha.gateway.roster.by_name("lead").gid}))  # type: ignore[union-attr]
    (publish,) = alpha.taken()
    assert (causal_of(publish) or Causal(repo="")).head == HEAD  # the worker is not one of them
    msg_id = alpha.send("lead", belief=BELIEF, shared=frozenset({alpha.gid("lead")}))
    assert alpha.row(msg_id, "lead").has_causal


def test_nothing_is_said_to_an_agent_that_works_on_something_else() -> None:
    _, alpha, _ = trees()
    alpha.send("worker@beta", belief=msgspec.structs.replace(BELIEF, repo="e" * 40), on_stale="drop")
    (publish,) = alpha.taken()
    assert (publish.envelope.causal, publish.envelope.on_stale) == (None, None)


@pytest.mark.parametrize("announced", ["", "not a commit", "--upload-pack=x"])
def test_a_head_that_is_none_is_not_repeated(announced: str) -> None:
    world, alpha, beta = trees()
    beta.run(ev.TreeMoved(beta.gid("worker"), REPO, announced))
    beta.wait(1)
    world.settle()
    alpha.send("worker@beta", belief=BELIEF)
    (publish,) = alpha.taken()
    assert (causal_of(publish) or Causal(repo="", head="?")).head == ""


def test_where_a_tree_is_is_announced_when_it_moved_and_only_then() -> None:
    world, alpha, beta = trees()
    gid = beta.gid("worker")
    assert told(beta.run(ev.TreeMoved(gid, REPO, HEAD))) == []
    assert told(beta.run(ev.TreeMoved(gid, REPO, MOVED))) == ["agent worker idle"]
    assert told(beta.wait(1)) == ["publish PRESENCE agent"]
    world.settle()
    assert alpha.gateway.roster.place(gid) == (REPO, MOVED)


# --- push -----------------------------------------------------------------------------------------


def test_drift_goes_with_the_message_and_back_to_its_sender() -> None:
    world, alpha, beta = trees()
    msg_id, _ = brief(alpha, beta, belief=BELIEF)
    beta.ready(msg_id, "worker", STALE)
    assert beta.row(msg_id, "worker").stale == NOTE
    beta.typed(msg_id, "worker")
    world.settle()
    assert (alpha.fate(msg_id), alpha.sent(msg_id).stale) == ("injected", NOTE)


def test_told_in_company_the_note_is_told_too() -> None:
    world, alpha, beta = trees()
    first, _ = brief(alpha, beta, belief=BELIEF)
    second, _ = brief(alpha, beta)
    beta.run(ev.SessionClosed(1, "lost"))
    beta.ready(first, "worker", STALE)
    beta.typed(first, "worker")
    beta.put_in(second, "worker")
    beta.open()
    assert [p.envelope.kind for p in beta.out if p.envelope.kind == "OUTCOME"] == ["OUTCOME"]
    world.settle()
    assert (alpha.sent(first).stale, alpha.sent(second).stale) == (NOTE, "")


def test_the_note_is_kept_also_when_the_answer_overtakes_it() -> None:
    world, alpha, beta = trees()
    msg_id, _ = brief(alpha, beta, belief=BELIEF, sender="lead")
    beta.ready(msg_id, "worker", STALE)
    beta.typed(msg_id, "worker")
    (injected,) = [p for p in beta.taken() if p.envelope.kind == "INJECTED"]
    beta.reply(msg_id, "worker")
    world.settle()
    assert alpha.sent(msg_id).answered_by
    world.carry(beta, injected)
    assert alpha.sent(msg_id).stale == NOTE


def test_on_stale_drop_ends_it_with_the_note_and_the_next_one_goes() -> None:
    world, alpha, beta = trees()
    msg_id, _ = brief(alpha, beta, belief=BELIEF, on_stale="drop")
    after, _ = brief(alpha, beta)
    assert told(beta.ready(msg_id, "worker", STALE)) == [
        "record failed(stale-dropped) owed",
        "reserve",
        "publish FAILED alpha",
    ]
    world.settle()
    assert (alpha.fate(msg_id), alpha.sent(msg_id).detail) == ("failed(stale-dropped)", NOTE)
    beta.put_in(after, "worker")
    assert beta.injected == [(after, beta.gid("worker"))]


def test_what_is_only_said_drops_nothing() -> None:
    _, alpha, beta = trees()
    msg_id, _ = brief(alpha, beta, belief=BELIEF, on_stale="drop")
    beta.ready(msg_id, "worker", SAID)
    assert (beta.state(msg_id, "worker"), beta.row(msg_id, "worker").stale) == ("injecting", SAID.note)


def test_each_opportunity_has_its_own_look() -> None:
    _, alpha, beta = trees()
    msg_id, _ = brief(alpha, beta, belief=BELIEF)
    beta.ready(msg_id, "worker", STALE)
    beta.typed(msg_id, "worker", "nothing-written")
    beta.wait(5)
    beta.put_in(msg_id, "worker")
    assert (beta.state(msg_id, "worker"), beta.row(msg_id, "worker").stale) == ("injected", "")


def test_a_belief_that_cannot_be_read_costs_its_message_the_note_and_nothing_else() -> None:
    _, alpha, beta = trees()
    parsed = by_hand(alpha, "human", beta.gid("worker"))
    hostile = alpha.sign(msgspec.structs.replace(parsed.envelope, causal=b"\xff\x00 no CBOR"), b"hello")
    beta.get(hostile)
    msg_id = hostile.envelope.msg_id
    assert not beta.row(msg_id, "worker").has_causal
    assert [(note.what, note.reason) for note in beta.journal] == [("causal", "malformed")]
    beta.put_in(msg_id, "worker")
    assert beta.state(msg_id, "worker") == "injected"


# --- pull -----------------------------------------------------------------------------------------


def test_what_a_client_fetches_is_looked_at_before_it_is_offered() -> None:
    world, alpha, beta = trees()
    msg_id = beta.send("lead@alpha", sender="worker", belief=BELIEF)
    world.settle()
    assert alpha.looks == []  # nobody could take it yet
    assert alpha.pull("lead") is None
    assert [row.msg_id for look in alpha.looks for row in look.rows] == [msg_id]
    assert told(alpha.looked(STALE)) == ["record offered", "resolve offered 1"]
    assert alpha.row(msg_id, "lead").stale == NOTE
    alpha.confirm(1)
    world.settle()
    assert (beta.fate(msg_id), beta.sent(msg_id).stale) == ("drained", NOTE)


def test_a_pull_that_waits_gets_what_comes_once_it_was_looked_at() -> None:
    world, alpha, beta = trees()
    assert alpha.pull("lead", wait=True) is None
    to_lead(world, beta, belief=BELIEF)
    assert len(alpha.looks) == 1
    alpha.looked()
    assert [type(result) for result in alpha.results.values()].count(Offered) == 1


def test_one_look_at_a_time_and_what_came_meanwhile_waits_for_the_next() -> None:
    world, alpha, beta = trees()
    first = to_lead(world, beta, belief=BELIEF)
    alpha.pull("lead", wait=True)
    second = to_lead(world, beta, body=b"more", belief=BELIEF)
    alpha.pull("lead", "other", wait=True)
    assert len(alpha.looks) == 1
    alpha.looked()
    offers = [result for result in alpha.results.values() if isinstance(result, Offered)]
    assert [key[0] for offer in offers for key in offer.keys] == [first]
    alpha.looked()
    offers = [result for result in alpha.results.values() if isinstance(result, Offered)]
    assert [key[0] for offer in offers for key in offer.keys] == [first, second]


def test_a_stale_one_that_is_to_be_dropped_is_dropped_and_the_pull_ends_without_it() -> None:
    world, alpha, beta = trees()
    msg_id = beta.send("lead@alpha", sender="worker", belief=BELIEF, on_stale="drop")
    world.settle()
    assert alpha.pull("lead") is None
    alpha.looked(STALE)
    assert list(alpha.results.values())[-1] == Offered((), 0)
    world.settle()
    assert (beta.fate(msg_id), beta.sent(msg_id).detail) == ("failed(stale-dropped)", NOTE)


def test_messages_without_a_belief_do_not_wait_for_a_look() -> None:
    world, alpha, beta = trees()
    msg_id = to_lead(world, beta)
    assert alpha.take("lead") == [msg_id]
    assert alpha.looks == []


def test_a_client_that_left_while_its_tree_was_looked_at_loses_nothing() -> None:
    world, alpha, beta = trees()
    msg_id = to_lead(world, beta, belief=BELIEF)
    alpha.pull("lead", "gone")
    alpha.run(ask.CallEnded(None, "gone", True))
    alpha.looked(STALE)
    assert alpha.pull("lead") is None
    alpha.looked()
    assert list(alpha.results.values())[-1] == Offered(((msg_id, alpha.gid("lead")),), 1)  # type: ignore[arg-type]


def test_an_answer_that_a_call_waits_for_is_given_to_it_at_once() -> None:
    _, alpha, beta = trees()
    msg_id, _ = brief(alpha, beta, sender="lead")
    beta.put_in(msg_id, "worker")
    call = alpha.await_answer(msg_id, "lead")
    beta.reply(msg_id, "worker")
    (publish,) = [p for p in beta.taken() if p.envelope.kind == "REPLY"]
    envelope = msgspec.structs.replace(publish.envelope, causal=BELIEF.causal(HEAD).to_bytes())
    alpha.get(beta.sign(envelope, publish.body))
    over = alpha.results[call]
    assert isinstance(over, WaitOver)
    assert len(over.answers) == 1


def test_a_full_disk_does_not_make_a_look_go_round_for_ever() -> None:
    world, alpha, beta = trees()
    to_lead(world, beta, belief=BELIEF)
    alpha.pull("lead")
    alpha.broken = True
    alpha.looked(STALE)
    (failed,) = [result for result in alpha.results.values() if isinstance(result, do.Fail)]
    assert FULL in failed.message
    assert alpha.looks == []
