"""Refusals are told to whoever can mend them, and never answered in kind."""

from __future__ import annotations

import msgspec

from fleettrio.core import events as ev
from fleettrio.core.compose import control
from fleettrio.core.topology import ControlQueue
from fleettrio.ids import HostId, Leaf
from fleettrio.wire.bodies import Failed
from fleettrio.wire.envelope import Kind
from tests.core.builders import TRACE, World, fleet_of, pair, told
from tests.core.messages import brief, by_hand, injected


def test_a_good_signature_is_told_the_reason_and_the_delivery_rejected() -> None:
    _, alpha, beta = pair()
    gone = by_hand(alpha, "lead", beta.gid("worker"))
    stale = beta.arrival(gone)
    beta.run(ev.Detached(beta.call(), beta.gid("worker"), forget=True))
    beta.taken()
    actions = beta.run(stale)
    assert told(actions) == ["note refused recipient-gone", "publish FAILED alpha", "reject"]
    (notice,) = beta.taken()
    assert Failed.from_bytes(notice.body).reason == "refused: recipient-gone at beta"


def test_one_way_trust_is_told_and_the_sender_knows_how_to_mend_it() -> None:
    _, alpha, beta = pair()
    beta.trust(fleet_of(("beta",), rev=2))
    msg_id, actions = brief(alpha, beta)
    assert told(actions) == ["note refused unknown-host", "peer alpha", "publish FAILED alpha", "reject"]
    (notice,) = beta.taken()
    alpha.get(beta.signed(notice))
    assert alpha.fate(msg_id) == "failed(refused: unknown-host at beta)"
    assert alpha.peers[beta.name].refuses_us == "unknown-host"
    assert beta.peers[alpha.name].we_refuse == "unknown-host"


def test_the_same_bytes_go_through_once_the_trust_is_mended() -> None:
    _, alpha, beta = pair()
    beta.trust(fleet_of(("beta",), rev=2))
    parsed = by_hand(alpha, "lead", beta.gid("worker"))
    beta.get(parsed)
    assert parsed.envelope.msg_id not in {msg_id for msg_id, _ in beta.ledger}
    assert told(beta.trust(fleet_of(("alpha", "beta"), rev=3))) == ["peer alpha"]
    assert told(beta.get(parsed)) == ["commit waiting", "ack", "reserve"]


def test_an_untrusted_host_is_told_at_most_once_a_second() -> None:
    _, alpha, beta = pair()
    beta.trust(fleet_of(("beta",), rev=2))
    told_of = []
    for _ in range(4):
        actions = told(beta.get(by_hand(alpha, "lead", beta.gid("worker"))))
        told_of.append("publish FAILED alpha" in actions)
        beta.clock.advance(0.4)
    assert told_of == [True, False, False, True]


def test_a_trusted_host_is_told_every_time() -> None:
    _, alpha, beta = pair()
    for _ in range(3):
        parsed = by_hand(alpha, "lead", beta.gid("worker"))
        late = beta.arrival(parsed)
        assert isinstance(late, ev.Arrived)
        beta.clock.advance(0)
        beta.get(parsed)
        other = alpha.sign(parsed.envelope, b"other bytes")
        assert "publish FAILED alpha" in told(beta.get(other))


def test_notices_and_presence_are_refused_in_silence() -> None:
    world, alpha, beta = pair()
    beta.trust(fleet_of(("beta",), rev=2))
    alpha.run(ev.BeatDue())
    (beat,) = alpha.taken()
    assert told(beta.get(alpha.signed(beat))) == ["note refused unknown-host", "peer alpha", "ack"]
    notice = injected(alpha, beta, alpha.new_id(), beta.gid("worker"), Leaf(b"x" * 32))
    assert told(beta.get(notice)) == ["note refused unknown-host", "reject"]
    world.clock.advance(5)


def test_a_kind_that_nobody_knows_is_told_to_its_sender() -> None:
    _, alpha, beta = pair()
    envelope = control(alpha.gateway.settings.me, Kind.PING, beta.name, trace_id=TRACE, now=alpha.clock.now)
    future = alpha.sign(msgspec.structs.replace(envelope, kind="DANCE", msg_id=alpha.new_id()), b"")
    actions = told(beta.get(future, ControlQueue(beta.name)))
    assert actions == ["note refused unknown-kind", "publish FAILED alpha", "reject"]


def test_a_kind_of_a_later_version_of_ours_is_refused_as_unknown() -> None:
    _, alpha, beta = pair()
    del beta.gateway.arrivals.control[Kind.TRACE]  # as an older version
    envelope = control(alpha.gateway.settings.me, Kind.TRACE, beta.name, trace_id=TRACE, now=alpha.clock.now)
    trace = alpha.sign(msgspec.structs.replace(envelope, msg_id=alpha.new_id()), b"\xa0")
    assert told(beta.get(trace))[0] == "note refused unknown-kind"


def test_a_body_that_is_not_what_its_kind_has_is_malformed() -> None:
    _, alpha, beta = pair()
    envelope = control(alpha.gateway.settings.me, Kind.QUERY, beta.name, trace_id=TRACE, now=alpha.clock.now)
    spoilt = alpha.sign(msgspec.structs.replace(envelope, msg_id=alpha.new_id()), b"\xff")
    assert told(beta.get(spoilt)) == ["note refused malformed", "publish FAILED alpha", "reject"]


def test_made_up_names_do_not_fill_the_roster() -> None:
    world = World("beta")
    world.open()
    (beta,) = world.hosts
    strangers = World(*(f"s{number}" for number in range(80))).hosts
    for stranger in strangers:
        beta.get(by_hand(stranger, "human", beta.gid("worker")))
    assert len(beta.gateway.roster.peers) <= 64
    assert beta.gateway.refusals.by_reason["unknown-host"] == 80


def test_a_clock_that_is_off_is_seen_though_the_beat_is_refused() -> None:
    _, alpha, beta = pair()
    alpha.run(ev.BeatDue())
    (beat,) = alpha.taken()
    parsed = alpha.signed(beat)
    beta.clock.turn(-120)
    assert told(beta.get(parsed)) == ["note refused future", "peer alpha", "ack"]
    assert beta.gateway.roster.peers[HostId("alpha")].offset_ms == 120_000
