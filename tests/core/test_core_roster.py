"""Presence: what is announced, what is believed, and what is asked for."""

from __future__ import annotations

import msgspec

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.compose import control, presence
from fleettrio.core.entity import Entity
from fleettrio.core.presence import entry_of
from fleettrio.core.roster import MOST_ENTITIES, MOST_GONE, Target, UnknownRecipient
from fleettrio.ids import Gid
from fleettrio.wire.bodies import EntityPresence, GatewayPresence, RosterPart
from fleettrio.wire.envelope import Kind
from fleettrio.wire.gids import derive_gid
from fleettrio.wire.signing import Parsed
from tests.core.builders import FLEET, TRACE, Host, World, agent, fleet_of, gid_of, pair, salt_of, told


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
    return host.sign(msgspec.structs.replace(envelope, msg_id=host.new_id()), data)


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
    assert told(alpha.get(old)) == ["note refused stale-epoch", "publish FAILED beta", "ack"]
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


def test_a_roster_cannot_name_an_agent_of_another_host() -> None:
    _, alpha, beta = pair()
    listed = [entry_of(e) for e in beta.gateway.roster.entities.values()]
    theirs = entry_of(alpha.gateway.roster.entities[alpha.gid("lead")])
    part = RosterPart(roster_rev=beta.gateway.roster.rev + 1, part=0, parts=1, entities=(*listed, theirs))
    me, now = beta.gateway.settings.me, beta.clock.now
    envelope = control(me, Kind.ROSTER, alpha.name, trace_id=TRACE, now=now)
    alpha.get(beta.sign(msgspec.structs.replace(envelope, msg_id=beta.new_id()), part.to_bytes()))
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
        roster.announced(msgspec.structs.replace(template, gid=Gid(f"g{number}"), rev=first + number))
    assert len(roster.of_host(beta.name)) == MOST_ENTITIES


def test_a_host_cannot_fill_the_disk_of_others_by_a_roster_without_end() -> None:
    """Only what is kept in memory is recorded, in however many parts it comes."""
    _, alpha, beta = pair()
    me, now, template = (
        beta.gateway.settings.me,
        beta.clock.now,
        entry_of(beta.gateway.roster.entities[gid_of("worker", "beta")]),
    )
    parts = MOST_ENTITIES // 1_000 + 2
    recorded: set[Gid] = set()
    for part in range(parts):
        salts = [(part * 1_000 + number).to_bytes(16, "big") for number in range(2, 1_002)]
        named = [msgspec.structs.replace(template, gid=derive_gid(FLEET, me.host, salt), salt=salt) for salt in salts]
        body = RosterPart(roster_rev=beta.gateway.roster.rev + 1, part=part, parts=parts, entities=tuple(named))
        envelope = control(me, Kind.ROSTER, alpha.name, trace_id=TRACE, now=now)
        done = alpha.get(beta.sign(msgspec.structs.replace(envelope, msg_id=beta.new_id()), body.to_bytes()))
        recorded |= {e.gid for action in done if isinstance(action, do.RecordPeerEntities) for e in action.entities}
    assert len(recorded) == MOST_ENTITIES
    assert recorded == {entity.gid for entity in alpha.gateway.roster.of_host(beta.name)}


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
    alpha.gateway.roster.put(msgspec.structs.replace(entity, full=True))
    alpha.gateway.presence.changed(entity.gid, alpha.clock.now)
    alpha.wait(1.01)
    (publish,) = [p for p in alpha.taken() if not p.envelope.to.endswith("_gateway")]
    assert EntityPresence.from_bytes(publish.body).full


def test_a_beat_says_what_a_host_is_and_which_kinds_it_speaks() -> None:
    _, alpha, _ = pair()
    body = GatewayPresence.from_bytes(beat(alpha).body)
    assert body.roster_rev == alpha.gateway.roster.rev
    assert {"SEND", "REPLY", "RECALL", "QUERY"} <= set(body.kinds)
    assert "COORD" not in body.kinds


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


def test_a_host_that_is_not_trusted_here_yet_learns_the_names_and_then_that_it_is_refused() -> None:
    world, alpha, _ = pair()
    gamma = Host("gamma", world.clock, fleet_of(("alpha", "beta", "gamma"), rev=2))
    gamma.open()
    (ask,) = [p for p in gamma.taken() if p.envelope.to == alpha.name]
    assert told(alpha.get(gamma.signed(ask))) == ["note refused unknown-host", "peer gamma", "reject"]
    alpha.wait(1.1)
    for publish in alpha.taken():
        gamma.get(alpha.signed(publish))
    assert names(gamma) == ["human", "lead"]
    msg_id = gamma.send("lead@alpha")
    (publish,) = gamma.taken()
    gamma.hand(publish)
    alpha.get(gamma.signed(publish))
    (notice,) = [p for p in alpha.taken() if p.envelope.kind == "FAILED"]
    gamma.get(alpha.signed(notice))
    assert gamma.fate(msg_id) == "failed(refused: unknown-host at alpha)"


def test_strangers_make_a_host_repeat_itself_once_a_minute_at_most() -> None:
    world, alpha, _ = pair()
    gamma = Host("gamma", world.clock, fleet_of(("alpha", "beta", "gamma"), rev=2))
    gamma.open()
    (ask,) = [p for p in gamma.taken() if p.envelope.to == alpha.name]
    for _ in range(20):
        alpha.get(gamma.signed(ask))
        alpha.wait(1.1)
    assert len([p for p in alpha.taken() if not p.envelope.to.endswith("_gateway")]) == 2


def test_a_bare_name_that_does_harm_means_this_host_and_never_a_namesake_elsewhere() -> None:
    _, alpha, beta = pair()
    roster = alpha.gateway.roster
    elsewhere = roster.resolve("worker")
    assert isinstance(elsewhere, Target)
    assert elsewhere.host == beta.name
    assert roster.resolve_here("worker") == UnknownRecipient("no worker is here", "did you mean worker@beta?")
    for clear in ("worker@beta", elsewhere.gid, "human"):
        assert roster.resolve_here(clear) == roster.resolve(clear)


def test_an_address_whose_host_is_missing_behind_its_at_is_nobodys() -> None:
    """As where a variable was empty: who bears that name here was not meant."""
    _, alpha, _ = pair()
    for address in ("human@", "worker@", "role:lead@", "session:s-1@"):
        found = alpha.gateway.roster.resolve(address)
        assert isinstance(found, UnknownRecipient)
        assert "names no host" in found.message
        assert alpha.gateway.roster.resolve_here(address) == found


def test_a_session_is_an_address_on_its_own_host_and_follows_its_agent() -> None:
    _, alpha, _ = pair()
    roster = alpha.gateway.roster
    lead = alpha.gid("lead")
    assert isinstance(roster.resolve("session:s-1"), UnknownRecipient)
    told_of = alpha.run(ev.SessionSeen(lead, "s-1", "http://127.0.0.1:4096"))
    assert told(told_of) == ["agent lead idle", "watch lead"], "it may be reached by another way now"
    assert alpha.run(ev.SessionSeen(lead, "s-1")) == []
    assert roster.entities[lead].api == "http://127.0.0.1:4096"
    for address in ("session:s-1", "session:s-1@alpha"):
        assert roster.resolve(address).gid == lead  # type: ignore[union-attr]
    assert isinstance(roster.resolve("session:s-1@beta"), UnknownRecipient)
    alpha.run(ev.SessionSeen(lead, "s-2"))
    assert isinstance(roster.resolve("session:s-1"), UnknownRecipient)
    assert roster.resolve("session:s-2").gid == lead  # type: ignore[union-attr]


def test_what_a_harness_calls_its_session_is_no_news_for_other_hosts() -> None:
    _, alpha, _ = pair()
    rev = alpha.gateway.roster.rev
    alpha.run(ev.SessionSeen(alpha.gid("lead"), "s-1"))
    assert alpha.gateway.roster.rev == rev


def test_a_session_of_two_agents_is_that_of_the_one_who_is_there() -> None:
    _, alpha, _ = pair()
    for name in ("lead", "human"):
        alpha.run(ev.SessionSeen(alpha.gid(name), "s-1"))
    alpha.run(ev.AgentSeen(alpha.gid("human"), "away"))
    assert alpha.gateway.roster.of_session("s-1").name == "lead"  # type: ignore[union-attr]


def test_what_was_under_way_when_an_agent_was_let_go_does_not_bring_it_back() -> None:
    _, alpha, _ = pair()
    lead = alpha.gid("lead")
    there = msgspec.structs.replace(alpha.gateway.roster.entities[lead], takes="push", wakes=True, pid=40, program=45)
    alpha.run(ev.Attached(alpha.call(), there))
    alpha.run(ev.Detached(alpha.call(), lead, forget=False))
    for late in ("working", "idle"):
        assert alpha.run(ev.AgentSeen(lead, late, looked=True)) == []
    assert alpha.gateway.roster.entities[lead].status == "away"
    alpha.run(ev.Attached(alpha.call(), there))
    assert alpha.gateway.roster.entities[lead].status == "idle"


def test_an_agent_that_is_gone_keeps_its_name_for_showing_here_and_elsewhere_and_takes_nothing() -> None:
    world, alpha, beta = pair()
    worker = beta.gid("worker")
    beta.run(ev.Detached(beta.call(), worker, forget=True))
    world.settle()
    for host in (alpha, beta):
        assert host.gateway.roster.address(worker, beta.name) == "worker@beta"
        assert not host.gateway.roster.knows(worker)
        assert isinstance(host.gateway.roster.resolve("worker@beta"), UnknownRecipient)


def test_the_name_of_an_agent_that_is_gone_is_not_said_while_another_one_bears_it() -> None:
    _, _, beta = pair()
    roster, worker = beta.gateway.roster, beta.gid("worker")
    roster.drop(worker)
    roster.put(msgspec.structs.replace(agent("worker", "beta"), gid=Gid("f" * 32)))
    assert roster.address(worker, beta.name) == f"{worker[:8]}@beta"
    assert roster.address(Gid("f" * 32), beta.name) == "worker@beta"


def test_names_of_agents_that_are_gone_do_not_pile_up() -> None:
    _, _, beta = pair()
    roster, worker = beta.gateway.roster, beta.gid("worker")
    roster.drop(worker)
    for number in range(MOST_GONE):
        roster.drop(roster.put(msgspec.structs.replace(agent("x", "beta"), gid=Gid(f"gone{number}"))).gid)
    assert roster.address(worker, beta.name) == f"{worker[:8]}@beta"
    assert roster.address(Gid(f"gone{MOST_GONE - 1}"), beta.name) == "x@beta"


def test_an_address_means_whoever_bears_it_now() -> None:
    _, alpha, beta = pair()
    assert alpha.gateway.roster.resolve("worker").gid == beta.gid("worker")  # type: ignore[union-attr]
    alpha.gateway.roster.put(agent("worker", "alpha"))
    assert alpha.gateway.roster.resolve("worker").gid == alpha.gid("worker")  # type: ignore[union-attr]
    assert alpha.gateway.roster.resolve("worker@beta").gid == beta.gid("worker")  # type: ignore[union-attr]
    alpha.gateway.roster.drop(alpha.gid("worker"))
    assert alpha.gateway.roster.resolve("worker").gid == beta.gid("worker")  # type: ignore[union-attr]
    alpha.gateway.roster.forget(beta.name)
    assert isinstance(alpha.gateway.roster.resolve("worker"), UnknownRecipient)
