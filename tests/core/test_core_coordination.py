"""Lead to lead: what crosses between two fleets, what never does, and that every word of it is honest."""

from __future__ import annotations

import msgspec
import pytest

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.compose import message
from fleettrio.core.ledger import queue_owner
from fleettrio.core.topology import ControlQueue
from fleettrio.ids import Gid, Leaf, MsgId, Tag, WallMs
from fleettrio.wire.bodies import Failed, Fate, Outcome
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import Parsed, VerifiedEnvelope
from tests.core.builders import TRACE, Clock, agent, told
from tests.core.leads import Lead, carry, leads_fleet, mailbox_gid, two_leads


def failure(host: Lead) -> do.Fail:
    """How the last call of `host` failed."""
    (fail,) = [action for action in host.last if isinstance(action, do.Fail)]
    return fail


def outcome(sender: Lead, to: Lead, about: MsgId, gid: Gid, leaf: Leaf, state: str = "drained") -> Parsed:
    fate = Fate(msg_id=about, gid=gid, leaf=leaf, state=state, at=WallMs(sender.clock.wall))
    return sender.by_hand(Kind.OUTCOME, to.name, Outcome(fates=(fate,)).to_bytes(), re=about, depth=None)


# --- the way of one


def test_what_a_lead_says_is_taken_by_the_other_and_the_word_comes_back() -> None:
    alpha, beta, _ = two_leads()
    msg_id = alpha.coord("lead-b")
    assert told(alpha.last) == ["coordinator: publish COORD"]
    assert alpha.out == []
    assert told(carry(alpha, beta)) == [
        "commit waiting",
        "coordinator: ack",
        "coordinator: publish OUTCOME alpha held",
    ]
    carry(beta, alpha)
    assert alpha.fate(msg_id) == "held"
    assert beta.take("lead") == [msg_id]
    carry(beta, alpha)
    assert alpha.fate(msg_id) == "drained"
    assert (alpha.out, beta.out) == ([], [])


def test_a_lead_in_a_pane_gets_it_when_it_is_idle_once() -> None:
    alpha, beta, _ = two_leads(takes="push")
    beta.run(ev.AgentSeen(beta.gid("lead"), "working"))
    msg_id = alpha.coord("lead-b")
    assert told(carry(alpha, beta)) == ["commit waiting", "coordinator: ack", "reserve"]
    beta.put_in(msg_id, "lead")
    carry(beta, alpha)
    assert alpha.fate(msg_id) == "injected"
    assert beta.injected == [(msg_id, beta.gid("lead"))]


def test_its_header_says_the_lead_under_the_coordinators_fleet_and_lives_14_days() -> None:
    alpha, beta, _ = two_leads()
    alpha.coord("lead-b")
    (publish,) = alpha.taken_abroad()
    envelope = publish.envelope
    assert (publish.exchange, publish.mandatory, publish.persistent) == ("fleet.ops", True, True)
    assert (envelope.to, envelope.kind) == ("lead.lead-b", "COORD")
    assert envelope.expires_at - envelope.ts == 14 * 24 * 3_600_000
    assert envelope.sender != alpha.gid("lead")
    assert told(beta.get_abroad(alpha.hand_abroad(publish)))[0] == "commit waiting"


def test_the_other_lead_is_shown_by_its_coord_id_on_both_sides() -> None:
    alpha, beta, _ = two_leads()
    msg_id = alpha.coord("lead-b")
    carry(alpha, beta)
    assert alpha.gateway.coordination.correspondent(alpha.sent(msg_id)) == "lead.lead-b"
    assert beta.gateway.coordination.correspondent(beta.row(msg_id, "lead")) == "lead.lead-a"


def test_a_word_that_was_not_confirmed_is_told_again_in_the_next_session() -> None:
    alpha, beta, _ = two_leads()
    msg_id = alpha.coord("lead-b")
    carry(alpha, beta)
    (publish,) = beta.taken_abroad()
    beta.hand_abroad(publish, verdict="")
    beta.at_leads(ev.SessionClosed(1, "gone"))
    assert not beta.row(msg_id, "lead").notified
    assert "coordinator: publish OUTCOME alpha held" in told(beta.open_leads())
    carry(beta, alpha)
    assert alpha.fate(msg_id) == "held"
    assert beta.row(msg_id, "lead").notified


def test_after_a_restart_the_word_is_owed_at_the_coordinators_broker_alone() -> None:
    alpha, beta, _ = two_leads()
    alpha.coord("lead-b")
    carry(alpha, beta)
    beta.start()
    assert "publish" not in " ".join(told(beta.open())).replace("publish PRESENCE", "").replace("publish ROSTER", "")
    assert "coordinator: publish OUTCOME alpha held" in told(beta.open_leads())


def test_the_same_bytes_again_are_acknowledged_and_do_nothing() -> None:
    alpha, beta, _ = two_leads()
    alpha.coord("lead-b")
    (publish,) = alpha.taken_abroad()
    parsed = alpha.hand_abroad(publish)
    beta.get_abroad(parsed)
    assert told(beta.get_abroad(parsed)) == ["coordinator: ack"]
    beta.start()
    assert told(beta.get_abroad(parsed)) == ["coordinator: ack"]


def test_one_key_is_one_message() -> None:
    alpha, _, _ = two_leads()
    first = alpha.coord("lead-b", key="k")
    publish = alpha.taken_abroad()[0]
    assert publish.keyed is not None
    alpha.hand_abroad(publish)
    alpha.coord("lead-b", key="k")
    assert alpha.taken_abroad() == []
    assert [row.msg_id for row in alpha.outbox.values()] == [first]
    alpha.coord("lead-b", body=b"another", key="k")
    assert failure(alpha).reason == "key-conflict"


# --- no way


def test_without_the_coordinators_broker_it_fails_at_once_and_the_fleet_goes_on() -> None:
    alpha, _, _ = two_leads()
    alpha.at_leads(ev.SessionClosed(1, "the port refuses"))
    msg_id = alpha.coord("lead-b")
    assert alpha.fate(msg_id) == "failed(broker-unreachable)"
    assert "the coordinator's broker" in alpha.sent(msg_id).detail
    neighbour = alpha.send("worker")
    assert alpha.fate(neighbour) == "confirmed"


def test_what_failed_goes_out_again_as_the_same_bytes_by_the_same_way() -> None:
    alpha, beta, _ = two_leads()
    alpha.at_leads(ev.SessionClosed(1, "gone"))
    msg_id = alpha.coord("lead-b", body=b"again")
    alpha.open_leads()
    alpha.run(ask.RetryAsked(alpha.call(), alpha.sent(msg_id), b"again"))
    assert alpha.out == []
    assert told(carry(alpha, beta))[0] == "commit waiting"
    carry(beta, alpha)
    assert alpha.fate(msg_id) == "held"


def test_a_mailbox_that_nobody_made_yet_is_an_honest_failure() -> None:
    alpha, _, _ = two_leads()
    msg_id = alpha.coord("lead-b")
    alpha.hand_abroad(alpha.taken_abroad()[0], verdict="unroutable")
    assert alpha.fate(msg_id) == "failed(unroutable)"


def test_a_lost_link_makes_it_unknown_until_the_other_host_says_more() -> None:
    alpha, beta, _ = two_leads()
    msg_id = alpha.coord("lead-b")
    (publish,) = alpha.taken_abroad()
    parsed = alpha.hand_abroad(publish, verdict="")
    alpha.at_leads(ev.SessionClosed(1, "gone"))
    assert alpha.fate(msg_id).startswith("outcome-unknown")
    beta.get_abroad(parsed)
    alpha.open_leads()
    carry(beta, alpha)
    assert alpha.fate(msg_id) == "held"


def test_silence_is_unknown_after_its_time_and_nobody_is_asked_or_called_back() -> None:
    alpha, _, _ = two_leads()
    alpha.open()
    msg_id = alpha.coord("lead-b")
    alpha.hand_abroad(alpha.taken_abroad()[0])
    alpha.wait(120)
    assert alpha.fate(msg_id) == "confirmed"
    alpha.wait(14 * 24 * 3600 + 60)
    assert alpha.fate(msg_id) == "unknown(no word from beta)"
    kinds = {publish.envelope.kind for publish in (*alpha.out, *alpha.abroad)}
    assert not kinds & {Kind.QUERY, Kind.RECALL}


def test_what_was_held_is_unknown_after_its_time_until_the_word_about_its_end_comes() -> None:
    alpha, beta, _ = two_leads()
    msg_id = alpha.coord("lead-b", expires_in_ms=60_000)
    carry(alpha, beta)
    carry(beta, alpha)
    assert alpha.fate(msg_id) == "held"
    alpha.wait(100)
    assert alpha.fate(msg_id) == "unknown(no word from beta)"
    beta.expire()
    carry(beta, alpha)
    assert alpha.fate(msg_id) == "expired"


@pytest.mark.parametrize(
    ("coord_id", "sender", "code", "reason"),
    [
        ("lead-x", "lead", 3, "no-such-recipient"),
        ("lead-a", "lead", 2, "own-coord-id"),
        ("lead-b", "worker", 3, "not-the-lead"),
        ("lead-b", "human", 3, "not-the-lead"),
    ],
)
def test_who_may_not_say_it_or_to_nobody_is_told_at_once(coord_id: str, sender: str, code: int, reason: str) -> None:
    alpha, _, _ = two_leads()
    alpha.coord(coord_id, sender=sender)
    fail = failure(alpha)
    assert (fail.code, fail.reason) == (code, reason)
    assert fail.message
    assert fail.hint
    assert (alpha.abroad, alpha.outbox) == ([], {})


def test_a_near_miss_is_suggested() -> None:
    alpha, _, _ = two_leads(third="reviewers")
    alpha.coord("reviewer")
    assert failure(alpha).hint == "did you mean reviewers?"


def test_a_host_without_a_coordinator_says_so() -> None:
    alpha, _, _ = two_leads()
    alpha.start = super(Lead, alpha).start  # type: ignore[method-assign]
    alpha.coordinator = None
    alpha.start()
    alpha.coord("lead-b")
    assert (failure(alpha).code, failure(alpha).reason) == (2, "no-coordinator")


def test_a_person_is_the_lead_where_the_configuration_says_so() -> None:
    alpha, beta, _ = two_leads()
    assert beta.gateway.coordination.lead() is not None
    beta.gateway.coordination.lead_name = "human"
    beta.coord("lead-a", sender="human")
    assert told(beta.last) == ["coordinator: publish COORD"]
    carry(beta, alpha)
    assert len(alpha.take("lead")) == 1


def test_coordination_is_neither_replied_to_nor_called_back() -> None:
    alpha, beta, _ = two_leads()
    msg_id = alpha.coord("lead-b")
    carry(alpha, beta)
    beta.reply(msg_id, "lead")
    assert failure(beta).reason == "not-repliable"
    assert failure(beta).hint == "fleettrio send --coord lead-a 'text'"
    (fail,) = alpha.cancel(msg_id)
    assert isinstance(fail, do.Fail)
    assert fail.reason == "not-recallable"


# --- what does not come in


@pytest.mark.parametrize("kind", [Kind.SEND, Kind.ASK, Kind.BROADCAST, Kind.SPAWN])
def test_another_kind_in_the_mailbox_is_refused_and_its_host_told(kind: Kind) -> None:
    alpha, beta, _ = two_leads()
    by_hand = {
        Kind.SEND: lambda: alpha.by_hand(kind, beta.gid("lead")),
        Kind.ASK: lambda: alpha.by_hand(kind, beta.gid("worker"), turn_id="t"),
        Kind.BROADCAST: lambda: alpha.by_hand(kind, "broadcast.all"),
        Kind.SPAWN: lambda: alpha.by_hand(kind, "beta", spawn_id=beta.gid("new")),
    }
    actions = beta.get_abroad(by_hand[kind](), beta.mailbox)
    assert told(actions) == [
        "note refused wrong-recipient",
        "coordinator: publish FAILED alpha",
        "coordinator: reject",
    ]
    assert (beta.ledger, beta.asked, beta.out) == ({}, [], [])


@pytest.mark.parametrize("kind", [Kind.SPAWN, Kind.STOP, Kind.PAUSE, Kind.QUERY, Kind.RECALL, Kind.PING, Kind.RPC])
def test_no_control_kind_is_taken_from_there_whatever_was_granted(kind: Kind) -> None:
    alpha, beta, _ = two_leads()
    spawn_id = beta.gid("new") if kind in (Kind.SPAWN, Kind.STOP) else None
    actions = beta.get_abroad(alpha.by_hand(kind, "beta", spawn_id=spawn_id))
    assert told(actions) == ["note refused unknown-kind", "coordinator: publish FAILED alpha", "coordinator: reject"]
    assert (beta.spawns, beta.out) == ({}, [])


def test_a_refusal_there_is_known_as_one_to_the_sender() -> None:
    alpha, beta, _ = two_leads()
    msg_id = alpha.coord("lead-b")
    beta.trust_leads(leads_fleet({"alpha": "", "beta": "lead-b", "gamma": ""}, rev=2))
    actions = carry(alpha, beta)
    assert told(actions) == [
        "note refused not-authorised",
        "coordinator: publish FAILED alpha",
        "coordinator: reject",
    ]
    carry(beta, alpha)
    assert alpha.fate(msg_id) == "failed(refused: not-authorised at beta)"
    assert beta.peers.get(alpha.name) is None


def test_a_host_that_is_paired_with_no_lead_speaks_for_none() -> None:
    _, beta, gamma = two_leads()
    actions = beta.get_abroad(gamma.by_hand(Kind.COORD, "lead.lead-b"))
    assert told(actions)[0] == "note refused not-authorised"
    assert beta.ledger == {}


def test_the_lead_of_another_host_cannot_be_claimed() -> None:
    """A header that says alpha, signed by gamma: no trusted key of alpha made it."""
    alpha, beta, gamma = two_leads()
    parsed = alpha.by_hand(Kind.COORD, "lead.lead-b")
    forged = gamma.sign_abroad(parsed.envelope, parsed.body)
    assert told(beta.get_abroad(forged))[0] == "note refused signature"


def test_what_is_for_another_lead_is_not_taken() -> None:
    alpha, beta, _ = two_leads()
    assert told(beta.get_abroad(alpha.by_hand(Kind.COORD, "lead.lead-x"), beta.mailbox))[0] == (
        "note refused wrong-recipient"
    )


@pytest.mark.parametrize(("claim", "causal"), [("issue-1", None), (None, b"\xa0")])
def test_coordination_orders_nothing_and_looks_at_nothing(claim: str | None, causal: bytes | None) -> None:
    alpha, beta, _ = two_leads()
    parsed = alpha.by_hand(Kind.COORD, "lead.lead-b", claim=claim, causal=causal)
    assert told(beta.get_abroad(parsed))[0] == "note refused not-authorised"
    assert beta.ledger == {}


def test_other_bytes_under_a_known_id_are_a_conflict() -> None:
    alpha, beta, _ = two_leads()
    parsed = alpha.by_hand(Kind.COORD, "lead.lead-b")
    beta.get_abroad(parsed)
    other = alpha.sign_abroad(parsed.envelope, b"other bytes")
    assert told(beta.get_abroad(other))[0] == "note refused conflict"


def test_coordination_on_the_fleets_own_vhost_is_nobodys() -> None:
    _, beta, _ = two_leads()
    beta.open()
    lead = beta.entities[beta.gid("lead")]
    envelope = message(
        beta.gateway.settings.me,
        Kind.COORD,
        lead,
        "lead.lead-b",
        msg_id=beta.new_id(),
        trace_id=TRACE,
        expires_in_ms=60_000,
        now=beta.clock.now,
        depth=0,
    )
    for owner in (queue_owner(lead), ControlQueue(beta.name)):
        assert told(beta.get(beta.sign(envelope, b"by hand"), owner))[0] == "note refused wrong-recipient"
    assert beta.ledger == {}


# --- whose word counts


def test_only_the_host_it_went_to_has_a_word_about_it() -> None:
    alpha, beta, gamma = two_leads(third="lead-c")
    msg_id = alpha.coord("lead-b")
    alpha.hand_abroad(alpha.taken_abroad()[0])
    row = alpha.sent(msg_id)
    assert row.gid == mailbox_gid("beta")
    for notice in (
        outcome(gamma, alpha, msg_id, row.gid, row.leaf),
        outcome(beta, alpha, msg_id, row.gid, Leaf(bytes(32))),
        outcome(beta, alpha, msg_id, beta.gid("lead"), row.leaf),
    ):
        words = [word for word in told(alpha.get_abroad(notice)) if word != "load"]
        assert words == ["note not-party drained", "coordinator: reject"]
    assert alpha.fate(msg_id) == "confirmed"
    assert told(alpha.get_abroad(outcome(beta, alpha, msg_id, row.gid, row.leaf))) == [
        "sent drained",
        "coordinator: ack",
    ]


def test_a_host_with_the_same_name_in_the_own_fleet_has_no_say() -> None:
    """The fleet's beta is another machine than the coordinator's."""
    alpha, beta, _ = two_leads()
    msg_id = alpha.coord("lead-b")
    alpha.hand_abroad(alpha.taken_abroad()[0])
    row = alpha.sent(msg_id)
    body = Failed(gid=row.gid, leaf=row.leaf, reason="overflow", at=WallMs(alpha.clock.wall)).to_bytes()
    judged = alpha.leads_verifier.judge(
        [beta.by_hand(Kind.FAILED, "alpha", body, re=msg_id, depth=None)],
        [ControlQueue(alpha.name)],
        [None],
        alpha.clock.wall,
    )
    # As if the own fleet's verifier had passed it.
    assert isinstance(judged[0], VerifiedEnvelope)
    event = ev.Arrived(Tag(1, 1, 99), ControlQueue(alpha.name), judged[0])
    assert told(alpha.run(event)) == ["note not-party failed", "reject"]
    assert alpha.fate(msg_id) == "confirmed"


def test_words_about_the_fleets_messages_do_not_come_from_there() -> None:
    alpha, beta, _ = two_leads()
    msg_id = alpha.send("worker")
    row = alpha.sent(msg_id)
    words = told(alpha.get_abroad(outcome(beta, alpha, msg_id, row.gid, row.leaf)))
    assert words == ["note not-party drained", "coordinator: reject"]


# --- trust, and whether the lead is here


def test_who_is_trusted_no_more_is_not_delivered() -> None:
    alpha, beta, _ = two_leads()
    msg_id = alpha.coord("lead-b")
    carry(alpha, beta)
    beta.trust_leads(leads_fleet({"alpha": "lead-a", "beta": "lead-b", "gamma": ""}, revoked=["alpha"], rev=2))
    assert beta.state(msg_id, "lead") == "failed(revoked)"


def test_the_own_fleets_trust_has_no_say_in_coordination() -> None:
    alpha, beta, _ = two_leads()
    msg_id = alpha.coord("lead-b")
    carry(alpha, beta)
    own = msgspec.structs.replace(beta.fleet, hosts={**beta.fleet.hosts, alpha.name: alpha.fleet.hosts[alpha.name]})
    beta.trust(own)
    beta.trust(msgspec.structs.replace(own, revoked=frozenset({(alpha.name, 1)}), rev=2))
    assert beta.state(msg_id, "lead") == "waiting"


def test_the_mailbox_is_consumed_while_the_lead_is_here() -> None:
    clock = Clock()
    beta = Lead("beta", clock, leads_fleet({"alpha": "lead-a", "beta": "lead-b"}), [])
    assert beta.open_leads() == []
    assert beta.gateway.coordination.lead() is None
    entity = agent("lead", "beta", takes="pull", transport="pull")
    came = told(beta.run(ev.Attached(beta.call(), entity)))
    assert came[-1] == "coordinator: open inbox"
    assert beta.gateway.coordination.problem is None  # the lead is here, and paired
    beta.at_leads(ev.InboxBound(entity.gid))
    assert beta.gateway.coordination.mailbox.state == "open"
    gone = told(beta.run(ev.Detached(beta.call(), entity.gid, forget=True)))
    assert "coordinator: pause inbox" in gone
    assert "coordinator: open inbox" not in told(beta.open_leads())


def test_an_away_lead_keeps_its_mailbox() -> None:
    _, beta, _ = two_leads()
    beta.run(ev.Detached(beta.call(), beta.gid("lead"), forget=False))
    assert "coordinator: open inbox" in told(beta.open_leads())


def test_a_pairing_that_differs_from_the_configuration_is_said() -> None:
    _, beta, _ = two_leads()
    beta.trust_leads(leads_fleet({"alpha": "lead-a", "beta": "lead-x"}, rev=2))
    assert beta.gateway.coordination.problem is not None
    assert "'lead-x'" in beta.gateway.coordination.problem[0]


def test_a_full_disk_takes_nothing_back_and_ends_both_sessions() -> None:
    alpha, _, _ = two_leads()
    alpha.coord("lead-b")
    (publish,) = alpha.taken_abroad()
    actions = alpha.at_leads(ev.PublishNotHanded(publish.id, "store", "disk full"))
    assert [action.reason for action in actions if isinstance(action, do.EndSession)] == ["store: disk full"]
    assert [action.reason for action in actions if isinstance(action, do.Fail)] == ["store"]
    assert alpha.gateway.outbox.rows == {}


def test_two_leads_that_answer_each_other_for_ever_are_held() -> None:
    alpha, beta, _ = two_leads()
    sides = [(alpha, "lead-b", beta), (beta, "lead-a", alpha)]
    for step in range(20):
        sender, to, recipient = sides[step % 2]
        sender.coord(to, body=f"and you? {step}".encode())
        carry(sender, recipient)
        recipient.taken_abroad()
        if not recipient.take("lead"):
            break
    else:
        raise AssertionError("nobody held it")
    assert [row.held for row in recipient.ledger.values() if row.held] == ["loop"]
