"""Broadcasts: one message to all who are in a group, and one outcome for each of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.calls import Accepted, WaitOver
from fleettrio.core.entity import Entity
from fleettrio.core.ledger import Limits, queue_owner
from fleettrio.ids import MsgId
from tests.core.builders import Host, World, agent, fleet_of, gid_of, told


def crowd(**options: object) -> tuple[World, Host, Host]:
    """alpha with a lead that pulls and a worker `near`; beta with `worker`, `ui` in the group ui, and a puller."""
    world = World("alpha", "beta", **options)  # type: ignore[arg-type]
    alpha, beta = world.hosts
    attach(alpha, agent("near", "alpha"))
    attach(beta, agent("ui", "beta", groups=("ui",)))
    attach(beta, agent("puller", "beta", takes="pull", transport="pull"))
    world.open()
    for host in world.hosts:
        host.wait(2)
    world.settle()
    return world, alpha, beta


def attach(host: Host, entity: Entity) -> list[do.Action]:
    return host.run(ev.Attached(host.call(), entity))


def fates(host: Host, msg_id: MsgId) -> dict[str, str]:
    """What the sender knows: of the broadcast itself (under its key), and of each member."""
    names = {
        gid_of(name, h): f"{name}@{h}"
        for h in ("alpha", "beta")
        for name in ("near", "worker", "ui", "puller", "lead", "late")
    }
    rows = [host.gateway.outbox.get(key) or row for key, row in host.outbox.items() if key[0] == msg_id]
    return {
        row.to if row.is_head else names[row.gid]: f"{row.state}({row.reason})" if row.reason else str(row.state)
        for row in rows
    }


def publishes(actions: Sequence[do.Action]) -> list[do.Publish]:
    return [action for action in actions if isinstance(action, do.Publish)]


def test_one_publish_reaches_all_push_entities_of_all_hosts_and_each_has_its_outcome() -> None:
    world, alpha, beta = crowd()
    msg_id = alpha.broadcast()
    assert [(p.envelope.to, p.mandatory, len(p.sent)) for p in publishes(alpha.last)] == [("broadcast.all", False, 3)]
    world.settle()
    for host, name in ((alpha, "near"), (beta, "worker"), (beta, "ui")):
        host.put_in(msg_id, name)
    world.settle()
    assert fates(alpha, msg_id) == {
        "broadcast.all": "done",
        "near@alpha": "injected",
        "worker@beta": "injected",
        "ui@beta": "injected",
    }


def test_all_rows_are_recorded_before_the_first_byte_and_have_one_leaf() -> None:
    _, alpha, _ = crowd()
    msg_id = alpha.broadcast()
    rows = [row for key, row in alpha.outbox.items() if key[0] == msg_id]
    assert len(rows) == 4
    assert len({row.leaf for row in rows}) == 1
    words = told(alpha.last)
    assert words.index("publish BROADCAST") > max(i for i, word in enumerate(words) if word.startswith("sent "))


def test_a_group_is_its_members_and_nobody_else() -> None:
    world, alpha, beta = crowd()
    msg_id = alpha.broadcast("ui")
    world.settle()
    assert fates(alpha, msg_id) == {"broadcast.ui": "done", "ui@beta": "confirmed"}
    assert (msg_id, beta.gid("worker")) not in beta.ledger


def test_a_pull_client_takes_broadcasts_when_it_chose_to() -> None:
    world, alpha, beta = crowd()
    attach(beta, agent("puller", "beta", takes="pull", transport="pull", groups=("all",)))
    beta.wait(2)
    world.settle()
    msg_id = alpha.broadcast()
    world.settle()
    assert fates(alpha, msg_id)["puller@beta"] == "held"


def test_an_empty_group_is_legal_and_goes_out_all_the_same() -> None:
    world, alpha, _ = crowd()
    msg_id = alpha.broadcast("nobody")
    world.settle()
    assert fates(alpha, msg_id) == {"broadcast.nobody": "done"}
    (result,) = [r for r in alpha.results.values() if isinstance(r, Accepted) and r.rows[0].msg_id == msg_id]
    assert [row.is_head for row in result.rows] == [True]


def test_the_brokers_copy_for_a_member_here_ends_at_the_row_it_has() -> None:
    _, alpha, _ = crowd()
    msg_id = alpha.broadcast()
    (publish,) = publishes(alpha.taken())
    alpha.hand(publish)
    near = alpha.gateway.roster.by_name("near")
    assert near is not None
    assert told(alpha.get(alpha.signed(publish), queue_owner(near))) == ["ack"]
    assert alpha.asked[-1].row.msg_id == msg_id


def test_the_sender_gets_no_copy_of_its_own() -> None:
    world, _, beta = crowd()
    msg_id = beta.broadcast(sender="ui")
    world.settle()
    assert (msg_id, beta.gid("ui")) not in beta.ledger
    assert set(fates(beta, msg_id)) == {"broadcast.all", "worker@beta", "near@alpha"}


def test_with_the_broker_down_members_here_have_it_and_the_rest_failed() -> None:
    _, alpha, _ = crowd()
    alpha.run(ev.SessionClosed(1, "gone"))
    msg_id = alpha.broadcast()
    assert publishes(alpha.last) == []
    alpha.put_in(msg_id, "near")
    assert fates(alpha, msg_id) == {
        "broadcast.all": "failed(broker-unreachable)",
        "near@alpha": "injected",
        "worker@beta": "failed(broker-unreachable)",
        "ui@beta": "failed(broker-unreachable)",
    }


def test_a_nack_is_partial_nothing_failed_and_the_hosts_are_asked() -> None:
    world, alpha, beta = crowd()
    msg_id = alpha.broadcast()
    (publish,) = publishes(alpha.taken())
    alpha.hand(publish)
    beta.get(alpha.signed(publish), beta.owners(publish.envelope)[0])
    alpha.verdict(publish, "nacked")
    assert {fate for name, fate in fates(alpha, msg_id).items() if "beta" in name} == {"outcome-unknown(partly)"}
    asked = told(alpha.wait(3))
    assert "publish QUERY beta" in asked
    world.settle()
    beta.put_in(msg_id, "worker")
    world.settle()
    assert fates(alpha, msg_id)["worker@beta"] == "injected"
    assert fates(alpha, msg_id)["ui@beta"] == "outcome-unknown(partly)"


def test_a_retry_sends_the_same_bytes_once_more_to_those_who_may_lack_it() -> None:
    world, alpha, beta = crowd()
    alpha.run(ev.SessionClosed(1, "gone"))
    msg_id = alpha.broadcast()
    alpha.put_in(msg_id, "near")
    header = next(row.header for key, row in alpha.outbox.items() if key[0] == msg_id)
    alpha.open()
    rows = tuple(row for key, row in alpha.outbox.items() if key[0] == msg_id)
    alpha.run(ask.BroadcastAgainAsked(alpha.call(), rows, b"hear"))
    (publish,) = [p for p in alpha.out if p.envelope.kind == "BROADCAST"]
    assert alpha.signed(publish).header == header
    world.settle()
    beta.put_in(msg_id, "worker")
    world.settle()
    assert fates(alpha, msg_id) == {
        "broadcast.all": "done",
        "near@alpha": "injected",
        "worker@beta": "injected",
        "ui@beta": "confirmed",
    }
    refused = alpha.call()
    final = tuple(
        msgspec.structs.replace(row, state=row.state) for key, row in alpha.outbox.items() if key[0] == msg_id
    )
    alpha.run(ask.BroadcastAgainAsked(refused, final, b"hear"))
    assert isinstance(alpha.results[refused], do.Fail)


def test_a_lost_link_leaves_it_unknown_and_the_hosts_are_asked_when_they_are_heard() -> None:
    world, alpha, beta = crowd()
    msg_id = alpha.broadcast()
    (publish,) = publishes(alpha.taken())
    alpha.hand(publish)
    alpha.run(ev.SessionClosed(1, "cut"))
    assert set(fates(alpha, msg_id).values()) == {"outcome-unknown(the link was lost: cut)", "confirmed"}
    alpha.open()
    beta.run(ev.BeatDue())
    world.settle()
    alpha.wait(60 * 62)
    beta.run(ev.BeatDue())
    world.settle()
    assert {fate for name, fate in fates(alpha, msg_id).items() if "beta" in name} == {"recalled"}


def test_a_full_inbox_here_fails_alone_and_its_copy_from_the_broker_ends_there_too() -> None:
    world, alpha, _ = crowd(limits=Limits(messages=1))
    alpha.send("near")
    msg_id = alpha.broadcast()
    world.settle()
    assert fates(alpha, msg_id)["near@alpha"] == "failed(inbox-full)"
    assert fates(alpha, msg_id)["worker@beta"] == "confirmed"
    assert alpha.state(msg_id, "near") == "failed(inbox-full)"


def test_a_full_inbox_elsewhere_waits_at_the_broker_and_hinders_nobody() -> None:
    world, alpha, beta = crowd(limits=Limits(messages=1))
    alpha.send("worker@beta")
    world.settle()
    msg_id = alpha.broadcast()
    world.settle()
    beta.put_in(msg_id, "ui")
    world.settle()
    assert fates(alpha, msg_id)["ui@beta"] == "injected"


def test_a_member_that_was_not_known_is_counted_as_more() -> None:
    world, alpha, beta = crowd()
    attach(beta, agent("late", "beta"))
    msg_id = alpha.broadcast()
    world.settle()
    beta.wait(2)
    world.settle()
    beta.put_in(msg_id, "late")
    world.settle()
    row = alpha.outbox[msg_id, beta.gid("late")]
    assert (row.late, str(row.state)) == (True, "injected")


def test_a_stranger_that_reports_is_not_party() -> None:
    _, alpha, beta = crowd()
    attach(beta, agent("late", "beta"))
    msg_id = alpha.broadcast()
    (publish,) = publishes(alpha.taken())
    alpha.hand(publish)
    beta.get(alpha.signed(publish), queue_owner(agent("late", "beta")))
    beta.out.clear()
    beta.put_in(msg_id, "late")
    (notice,) = [p for p in beta.taken() if p.envelope.kind == "INJECTED"]
    words = told(alpha.get(beta.signed(notice)))
    assert "note not-party injected" in words
    assert (msg_id, beta.gid("late")) not in alpha.outbox


def test_a_worker_may_not_broadcast() -> None:
    _, _, beta = crowd()
    attach(beta, agent("worker", "beta", role="worker"))
    msg_id = beta.broadcast(sender="worker")
    (refused,) = [r for r in beta.results.values() if isinstance(r, do.Fail)]
    assert refused.reason == "not-authorised"
    assert fates(beta, msg_id) == {}


def test_a_host_that_does_not_grant_it_refuses_it_and_says_so() -> None:
    world, alpha, beta = crowd()
    fleet = fleet_of(["alpha", "beta"], rev=2)
    hosts = {**fleet.hosts}
    hosts[alpha.name] = msgspec.structs.replace(hosts[alpha.name], grants=frozenset({"send", "reply"}))
    beta.trust(msgspec.structs.replace(fleet, hosts=hosts))
    msg_id = alpha.broadcast()
    world.settle()
    assert fates(alpha, msg_id)["worker@beta"] == "failed(refused: not-authorised at beta)"


@pytest.mark.parametrize("group", ["#", "*", "a.b", "", "UI", "human", "x" * 33])
def test_a_group_with_such_a_name_is_refused(group: str) -> None:
    _, alpha, _ = crowd()
    alpha.broadcast(group)
    (refused,) = [r for r in alpha.results.values() if isinstance(r, do.Fail)]
    assert refused.reason == "bad-group"


def test_who_left_a_group_is_unbound_from_it_until_the_broker_has_done_it() -> None:
    world, alpha, beta = crowd()
    (opened,) = [a for a in attach(beta, agent("ui", "beta")) if isinstance(a, do.OpenInbox)]
    assert (opened.owner.groups, opened.owner.left) == ((), ("broadcast.ui",))
    beta.wait(2)
    world.settle()
    beta.start()
    (opened,) = [a for a in beta.open() if isinstance(a, do.OpenInbox) and a.owner.gid == beta.gid("ui")]
    assert opened.owner.left == ("broadcast.ui",)
    beta.run(ev.InboxBound(beta.gid("ui"), opened.owner.left))
    assert beta.entities[beta.gid("ui")].left == ()
    world.settle()
    msg_id = alpha.broadcast("ui")
    world.settle()
    assert fates(alpha, msg_id) == {"broadcast.ui": "done"}


def test_what_still_came_for_a_group_that_was_left_is_refused_and_told() -> None:
    world, alpha, beta = crowd()
    msg_id = alpha.broadcast("ui")
    (publish,) = publishes(alpha.taken())
    alpha.hand(publish)
    attach(beta, agent("ui", "beta"))
    beta.get(alpha.signed(publish), queue_owner(beta.entities[beta.gid("ui")]))
    world.settle()
    assert fates(alpha, msg_id)["ui@beta"] == "failed(refused: wrong-recipient at beta)"


def test_the_same_key_again_is_the_same_broadcast_whoever_is_in_it_by_now() -> None:
    world, alpha, beta = crowd()
    msg_id = alpha.broadcast(key="k")
    world.settle()
    attach(beta, agent("late", "beta"))
    beta.wait(2)
    world.settle()
    alpha.broadcast(key="k")
    assert publishes(alpha.last) == []
    alpha.broadcast(key="k", body=b"other")
    assert [r.reason for r in alpha.results.values() if isinstance(r, do.Fail)] == ["key-conflict"]
    assert alpha.keys[alpha.gid("human"), "k"] == (msg_id,)


def test_a_wait_for_receipts_is_over_when_every_member_has_its_word() -> None:
    world, alpha, beta = crowd()
    msg_id = alpha.broadcast()
    world.settle()
    call = alpha.await_answer(msg_id, until="delivered")
    for host, name in ((alpha, "near"), (beta, "worker")):
        host.put_in(msg_id, name)
    world.settle()
    assert call not in alpha.results
    alpha.wait(3601)
    beta.wait(0)
    world.settle()
    over = alpha.results[call]
    assert isinstance(over, WaitOver)
    states = sorted(str(row.state) for row in over.rows if not row.is_head)
    assert states == ["expired", "injected", "injected"]


def test_a_list_that_could_not_be_recorded_leaves_no_broadcast_behind() -> None:
    _, alpha, _ = crowd()
    alpha.broken = True
    msg_id = alpha.broadcast()
    assert fates(alpha, msg_id) == {}
    assert [r.reason for r in alpha.results.values() if isinstance(r, do.Fail)] == ["store"]
    assert (msg_id, alpha.gid("near")) not in alpha.gateway.ledger.rows


def test_replies_to_a_broadcast_are_ordinary_replies() -> None:
    world, alpha, beta = crowd()
    msg_id = alpha.broadcast(sender="lead", wants_reply=True)
    world.settle()
    for name in ("worker", "ui"):
        beta.put_in(msg_id, name)
        beta.reply(msg_id, name)
    world.settle()
    answered = {row.gid for key, row in alpha.outbox.items() if key[0] == msg_id and row.answered_by}
    assert answered == {beta.gid("worker"), beta.gid("ui")}
    assert len(alpha.take("lead")) == 2


def test_a_broadcast_of_which_nobody_heard_is_over_when_its_time_is() -> None:
    _, alpha, _ = crowd()
    msg_id = alpha.broadcast("nobody")
    (publish,) = publishes(alpha.taken())
    alpha.hand(publish)
    alpha.run(ev.SessionClosed(1, "cut"))
    assert fates(alpha, msg_id) == {"broadcast.nobody": "outcome-unknown(the link was lost: cut)"}
    alpha.wait(3600 + 31)
    assert fates(alpha, msg_id) == {"broadcast.nobody": "done(the link was lost: cut)"}
    assert list(alpha.gateway.outbox.open_rows()) == []
