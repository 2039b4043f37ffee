"""A message that its sender replaces before it came is not delivered any more when it comes (`core.supersedes`)."""

from __future__ import annotations

import msgspec

from fleettrio.core import actions as do
from fleettrio.ids import MsgId
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import Parsed
from tests.core.builders import Host, World, pair, told
from tests.core.messages import brief, by_hand, question

DAY_S = 86_400


def held_back(alpha: Host) -> tuple[MsgId, Parsed]:
    """A message on its way: alpha sent it, and beta does not have it."""
    msg_id = alpha.send("worker@beta")
    (publish,) = alpha.taken()
    alpha.hand(publish)
    alpha.verdict(publish)
    return msg_id, alpha.signed(publish)


def replaced() -> tuple[World, Host, Host, MsgId, MsgId, Parsed]:
    """The newer message is there, the older one is not."""
    world, alpha, beta = pair()
    older, parsed = held_back(alpha)
    newer, _ = brief(alpha, beta, supersedes=older)
    return world, alpha, beta, older, newer, parsed


def test_the_older_one_comes_late_and_ends_superseded_acknowledged_and_told() -> None:
    world, alpha, beta, older, newer, parsed = replaced()
    beta.taken()
    assert told(beta.get(parsed)) == ["record superseded owed", "ack", "publish OUTCOME alpha superseded"]
    world.settle()
    assert alpha.fate(older) == "superseded"
    assert alpha.sent(older).detail == f"by {newer[-8:]}"
    beta.put_in(newer, "worker")
    assert [msg_id for msg_id, _ in beta.injected] == [newer]


def test_it_is_so_after_a_restart_too() -> None:
    world, alpha, beta, older, _, parsed = replaced()
    beta.start()
    beta.open()
    beta.get(parsed)
    assert beta.state(older, "worker") == "superseded"
    assert told(beta.get(parsed)) == ["ack"]
    world.settle()
    assert alpha.fate(older) == "superseded"


def test_twice_in_one_batch_it_is_told_once() -> None:
    _, _, beta, older, _, parsed = replaced()
    words = told(beta.run(beta.arrival(parsed), beta.arrival(parsed)))
    assert [word for word in words if word.startswith(("record", "publish OUTCOME", "ack"))] == [
        "record superseded owed",
        "ack",
        "ack",
        "publish OUTCOME alpha superseded",
    ]
    assert beta.state(older, "worker") == "superseded"


def test_a_tombstone_of_another_sender_stands_in_nobodys_way() -> None:
    _, alpha, beta = pair()
    older, parsed = held_back(alpha)
    newer, _ = brief(alpha, beta, sender="lead", supersedes=older)
    beta.get(parsed)
    assert beta.state(older, "worker") == "waiting"
    assert beta.bodies[older, beta.gid("worker")] == b"do it"
    for msg_id in (newer, older):
        beta.put_in(msg_id, "worker")
    assert [msg_id for msg_id, _ in beta.injected] == [newer, older]


def test_what_is_over_stays_as_it_ended() -> None:
    world, alpha, beta = pair()
    older, _ = brief(alpha, beta)
    beta.put_in(older, "worker")
    world.settle()
    beta.start()
    beta.open()
    brief(alpha, beta, supersedes=older)
    assert beta.state(older, "worker") == "injected"


def test_an_offered_one_ends_with_its_lease_for_nobody_knows_whether_it_was_read() -> None:
    world, alpha, beta = pair()
    older = beta.send("lead@alpha", sender="worker")
    world.settle()
    alpha.pull("lead")
    beta.send("lead@alpha", sender="worker", supersedes=older)
    world.settle()
    assert alpha.state(older, "lead") == "offered"
    alpha.wait(121)
    assert alpha.state(older, "lead") == "unconfirmed(offered)"


def test_called_back_while_it_is_a_tombstone_it_is_recalled() -> None:
    _, alpha, beta, older, _, parsed = replaced()
    leaf = alpha.sent(older).leaf
    words = told(beta.get(question(Kind.RECALL, alpha, beta, (older, beta.gid("worker"), leaf))))
    assert "publish OUTCOME alpha recalled" in words
    assert told(beta.get(parsed)) == ["ack"]


def test_another_host_does_not_take_a_tombstone_away() -> None:
    world = World("alpha", "beta", "gamma")
    world.open()
    alpha, beta, gamma = world.hosts
    for host in world.hosts:
        host.taken()
    older, parsed = held_back(alpha)
    brief(alpha, beta, supersedes=older)
    beta.get(question(Kind.RECALL, gamma, beta, (older, beta.gid("worker"), alpha.sent(older).leaf)))
    beta.get(parsed)
    assert beta.state(older, "worker") == "superseded"


def test_a_tombstone_is_kept_no_longer_than_the_message_could_live() -> None:
    _, alpha, beta = pair()
    from_the_future = MsgId("ffffffff-ffff-7fff-bfff-ffffffffffff")
    brief(alpha, beta, supersedes=from_the_future)
    row = beta.row(from_the_future, "worker")
    assert row.expires_at <= beta.clock.wall + 14 * DAY_S * 1000
    long_ago = MsgId("00000000-0001-7000-8000-000000000000")
    brief(alpha, beta, supersedes=long_ago)
    assert (long_ago, beta.gid("worker")) not in beta.ledger


def test_a_full_disk_when_the_late_one_comes_loses_nothing() -> None:
    _, _, beta, older, _, parsed = replaced()
    beta.broken = True
    beta.get(parsed)
    assert beta.row(older, "worker").leaf == b""  # the tombstone, as it was
    beta.broken = False
    beta.wait(6)
    beta.start()
    beta.open()
    beta.get(parsed)
    assert beta.state(older, "worker") == "superseded"


def test_a_message_cannot_replace_itself() -> None:
    _, alpha, beta = pair()
    first = by_hand(alpha, "human", beta.gid("worker"))
    own = alpha.sign(msgspec.structs.replace(first.envelope, supersedes=first.envelope.msg_id), b"me")
    beta.get(own)
    assert beta.state(first.envelope.msg_id, "worker") == "waiting"
    assert [a for a in beta.asked if isinstance(a, do.Reserve)]
