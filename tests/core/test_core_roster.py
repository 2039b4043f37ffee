"""Presence: what is announced, what is believed, and what is asked for."""

from __future__ import annotations

import dataclasses

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.compose import presence
from fleettrio.core.roster import MOST_ENTITIES, Target, UnknownRecipient
from fleettrio.core.rows import Entity
from fleettrio.ids import Gid
from fleettrio.wire.bodies import EntityPresence, GatewayPresence
from fleettrio.wire.signing import Parsed
from tests.core.builders import TRACE, Host, World, agent, fleet_of, gid_of, pair, salt_of, told


def beat(host: Host) -> Parsed:
    host.run(ev.BeatDue())
    return host.signed([p for p in host.taken() if p.envelope.to.endswith("_gateway")][-1])


def entry(
    host: Host, name: str, *, lives_on: str = "", rev: int = 0, gid: Gid | None = None, renamed: bytes = b""
) -> Parsed:
    """An entity entry as `host` signs it."""
    where = lives_on or str(host.name)
    body = EntityPresence(
        gid=gid or gid_of(name, where),
        salt=salt_of(name),
        name=name,
        takes="push",
        status="idle",
        since=host.clock.now.wall,
        rev=rev or host.gateway.roster.rev + 1,
    )
    me = host.gateway.settings.me
    envelope = presence(me, body.gid, trace_id=TRACE, now=host.clock.now)
    data = body.to_bytes().replace(name.encode(), renamed) if renamed else body.to_bytes()
    return host.sign(dataclasses.replace(envelope, msg_id=host.new_id()), data)


def names(host: Host) -> list[str]:
    return sorted(e.name for e in host.gateway.roster.others.values())


def test_two_hosts_learn_of_each_others_agents() -> None:
    _, alpha, beta = pair()
    assert names(alpha) == ["human", "worker"]
    assert names(beta) == ["human", "lead"]
    assert alpha.gateway.roster.peers[beta.name].roster_rev == beta.gateway.roster.rev


def test_a_replayed_beat_changes_nothing() -> None:
    _, alpha, beta = pair()
    old = beat(beta)
    alpha.get(old)
    alpha.get(beat(beta))
    before = alpha.gateway.roster.peers[beta.name]
    assert told(alpha.get(old)) == ["ack"]
    assert alpha.gateway.roster.peers[beta.name] == before


def test_a_restarted_host_is_heard_though_its_count_begins_anew() -> None:
    _, alpha, beta = pair()
    beta.clock.advance(1)
    beta.start()
    beta.open()
    assert told(alpha.get(beat(beta)))[0] == "peer beta"


def test_a_new_agent_is_announced_within_a_second_and_needs_no_question() -> None:
    world, alpha, beta = pair()
    beta.run(ev.Attached(beta.call(), agent("second", "beta")))
    assert told(beta.wait(1.01)) == ["publish PRESENCE agent"]
    world.settle()
    assert names(alpha) == ["human", "second", "worker"]
    assert alpha.gateway.roster.peers[beta.name].roster_rev == beta.gateway.roster.rev
    assert "peer beta" in told(alpha.get(beat(beta)))
    alpha.wait(4)
    assert [p for p in alpha.taken() if p.envelope.kind == "ROSTER_ASK"] == []


def test_another_revision_than_the_known_one_is_asked_for_and_answered_to_the_asker_alone() -> None:
    world, alpha, beta = pair()
    beta.run(ev.Attached(beta.call(), agent("second", "beta")))
    beta.wait(1.01)
    beta.taken()  # nobody heard it
    alpha.get(beat(beta))
    assert told(alpha.wait(3.1)) == ["publish ROSTER_ASK beta"]
    world.settle()
    assert names(alpha) == ["human", "second", "worker"]


def test_a_question_without_an_answer_is_asked_again() -> None:
    _, alpha, beta = pair()
    beta.clock.advance(1)
    beta.start()
    beta.open()
    beta.taken()
    alpha.get(beat(beta))
    assert told(alpha.wait(3.1)) == ["publish ROSTER_ASK beta"]
    alpha.taken()
    alpha.get(beat(beta))
    alpha.wait(3)
    alpha.get(beat(beta))
    assert told(alpha.wait(4)) == ["publish ROSTER_ASK beta"]


def test_an_agent_that_is_gone_is_gone_in_the_others_store_too() -> None:
    world, alpha, beta = pair()
    beta.run(ev.Detached(beta.call(), beta.gid("worker"), forget=True))
    world.settle()
    assert names(alpha) == ["human"]
    assert sorted(e.name for e in alpha.others.values()) == ["human"]
    assert alpha.gateway.roster.peers[beta.name].roster_rev == beta.gateway.roster.rev


def test_a_replayed_entry_does_not_bring_back_an_agent_that_is_gone() -> None:
    world, alpha, beta = pair()
    old = entry(beta, "worker", rev=beta.gateway.roster.rev)
    beta.run(ev.Detached(beta.call(), beta.gid("worker"), forget=True))
    world.settle()
    assert told(alpha.get(old)) == ["ack"]
    assert names(alpha) == ["human"]


def test_an_agent_of_another_host_cannot_be_announced() -> None:
    _, alpha, beta = pair()
    for forged in (
        entry(beta, "lead", lives_on="alpha"),
        entry(beta, "spy", gid=gid_of("other", "beta")),
        entry(beta, "human", gid=gid_of("x", "beta")),
    ):
        assert told(alpha.get(forged)) == ["ack"]
    assert names(alpha) == ["human", "worker"]


def test_reserved_names_are_nobodys() -> None:
    _, alpha, beta = pair()
    assert told(alpha.get(entry(beta, "harmles", renamed=b"gateway"))) == ["note refused malformed", "ack"]
    assert names(alpha) == ["human", "worker"]


def test_a_host_cannot_fill_the_memory_of_others() -> None:
    _, alpha, beta = pair()
    roster = alpha.gateway.roster
    template = next(e for e in roster.others.values() if e.host == beta.name)
    first = roster.peers[beta.name].roster_rev + 1
    for number in range(MOST_ENTITIES + 10):
        roster.announced(dataclasses.replace(template, gid=Gid(f"g{number}"), rev=first + number))
    assert len(roster.of_host(beta.name)) == MOST_ENTITIES


def test_a_host_not_heard_for_three_beats_is_unknown_and_keeps_its_agents() -> None:
    _, alpha, beta = pair()
    alpha.get(beat(beta))
    alpha.clock.advance(14)
    assert not alpha.gateway.roster.is_silent(beta.name, alpha.clock.now.wall)
    alpha.clock.advance(2)
    assert alpha.gateway.roster.is_silent(beta.name, alpha.clock.now.wall)
    assert names(alpha) == ["human", "worker"]


def test_the_own_beat_that_does_not_come_back_ends_the_session() -> None:
    _, alpha, _ = pair()
    alpha.clock.advance(16)
    assert told(alpha.run(ev.BeatDue())) == ["endsession"]


def test_a_blocked_broker_is_no_lost_session_and_gets_three_beats_afterwards() -> None:
    _, alpha, _ = pair()
    alpha.run(ev.LinkBlocked("memory"))
    alpha.clock.advance(60)
    assert told(alpha.run(ev.BeatDue())) == ["publish PRESENCE gateway"]
    alpha.run(ev.LinkUnblocked())
    assert told(alpha.run(ev.BeatDue())) == ["publish PRESENCE gateway"]


def test_a_large_roster_is_whole_only_with_its_last_part() -> None:
    world = World("alpha", "beta")
    alpha, beta = world.hosts
    for number in range(70):
        beta.run(ev.Attached(beta.call(), agent(f"a{number}", "beta")))
    alpha.open(), beta.open()
    alpha.taken(), beta.taken()
    alpha.get(beat(beta))
    alpha.wait(0)
    (ask,) = [p for p in alpha.taken() if p.envelope.kind == "ROSTER_ASK"]
    beta.get(alpha.signed(ask))
    first, second = [beta.signed(p) for p in beta.taken() if p.envelope.kind == "ROSTER"]
    assert told(alpha.get(second)) == ["ack"]
    alpha.get(first)
    assert alpha.gateway.roster.peers[beta.name].roster_rev == -1
    alpha.get(second)
    assert alpha.gateway.roster.peers[beta.name].roster_rev == beta.gateway.roster.rev
    assert len(names(alpha)) == 72
    assert len(alpha.others) == 72


def test_a_full_inbox_is_announced() -> None:
    _, alpha, _ = pair()
    entity = alpha.gateway.roster.entities[alpha.gid("lead")]
    alpha.gateway.roster.put(dataclasses.replace(entity, full=True))
    alpha.gateway.presence.changed(entity.gid, alpha.clock.now)
    alpha.wait(1.01)
    (publish,) = [p for p in alpha.taken() if not p.envelope.to.endswith("_gateway")]
    assert EntityPresence.from_bytes(publish.body).full


def test_a_beat_says_what_a_host_is_and_which_kinds_it_speaks() -> None:
    _, alpha, _ = pair()
    body = GatewayPresence.from_bytes(beat(alpha).body)
    assert body.roster_rev == alpha.gateway.roster.rev
    assert {"SEND", "REPLY", "RECALL", "QUERY"} <= set(body.kinds)
    assert "SPAWN" not in body.kinds


def test_every_agent_is_watched_and_every_inbox_opened_at_a_sessions_start() -> None:
    world = World("beta")
    (beta,) = world.hosts
    assert told(beta.start())[1:] == ["watch human", "watch worker"]
    actions = beta.open()
    assert told(actions) == ["open inbox", "open inbox", "publish PRESENCE gateway"]
    assert not [a for a in actions if isinstance(a, do.RecordPeer)]


# --- what cannot be said


def unsayable() -> Entity:
    return agent("odd", "beta", role="r" * 70_000)


def test_an_agent_that_cannot_be_announced_is_left_out_and_stops_nothing() -> None:
    _, alpha, beta = pair()
    beta.run(ev.Attached(beta.call(), unsayable()))
    assert told(beta.wait(1.01)) == ["note unsaid malformed"]
    beta.taken()
    alpha.get(beat(beta))
    alpha.wait(3.1)
    (asked,) = [p for p in alpha.taken() if p.envelope.kind == "ROSTER_ASK"]
    beta.get(alpha.signed(asked))
    (answer,) = beta.taken()
    alpha.get(beta.signed(answer))
    assert names(alpha) == ["human", "worker"]


def test_an_agent_that_cannot_be_announced_can_be_forgotten() -> None:
    _, _, beta = pair()
    beta.run(ev.Attached(beta.call(), unsayable()))
    actions = told(beta.run(ev.Detached(beta.call(), beta.gid("odd"), True)))
    assert "note unsaid malformed" in actions
    assert actions[-1] == "resolve attached odd gone"
    assert beta.gid("odd") not in beta.gateway.roster.entities


# --- hosts of the fleet that were never heard


def test_a_host_of_the_fleet_that_was_never_heard_is_told_apart_from_an_unknown_one() -> None:
    alpha, _ = World("alpha", "beta").hosts
    for address, message in (
        ("worker@beta", "worker@beta: beta is in the fleet but has not been heard yet (its agents are not known)"),
        ("worker@gamma", "no host 'gamma' is known here"),
    ):
        unknown = alpha.gateway.roster.resolve(address)
        assert isinstance(unknown, UnknownRecipient)
        assert unknown.message == message
    assert "fleettrio ping beta" in alpha.gateway.roster.resolve("worker@beta").hint  # type: ignore[union-attr]


def test_a_host_that_joins_the_fleet_is_one_of_it_at_once() -> None:
    _, alpha, _ = pair()
    alpha.trust(fleet_of(("alpha", "beta", "gamma"), rev=2))
    unknown = alpha.gateway.roster.resolve("worker@gamma")
    assert isinstance(unknown, UnknownRecipient)
    assert "has not been heard yet" in unknown.message


def test_only_addresses_that_exist_are_offered_instead() -> None:
    _, alpha, _ = pair()
    for wrong in ("worker@betta", "lead@beta", "wrker@beta"):
        unknown = alpha.gateway.roster.resolve(wrong)
        assert isinstance(unknown, UnknownRecipient)
        offered = unknown.hint.removeprefix("did you mean ").removesuffix("?").split(" or ")
        assert all(isinstance(alpha.gateway.roster.resolve(address), Target) for address in offered), unknown


def test_a_host_never_heard_is_asked_for_its_agents_when_the_session_opens() -> None:
    world = World("alpha", "beta")
    alpha, beta = world.hosts
    beta.open()
    beta.taken()
    assert told(alpha.open())[-1] == "publish ROSTER_ASK beta"
    world.settle()
    assert names(alpha) == ["human", "worker"]
    assert isinstance(alpha.gateway.roster.resolve("worker@beta"), Target)
