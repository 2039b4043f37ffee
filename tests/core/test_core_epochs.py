"""Epochs: what is too old is refused and told, a copy of a host stops both, and who leaves says so."""

from __future__ import annotations

import msgspec

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.compose import control, presence
from fleettrio.core.epochs import read_number
from fleettrio.ids import Leaf, WallMs
from fleettrio.wire.bodies import Failed, GatewayPresence
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import Parsed
from tests.core.builders import TRACE, Host, World, pair, told

DAY_MS = 86_400_000


def beat(host: Host) -> Parsed:
    """The next beat of a host, as it is on the wire."""
    host.run(ev.BeatDue())
    return host.signed([p for p in host.taken() if p.envelope.to.endswith("_gateway")][-1])


def beat_of(host: Host, **changes: object) -> Parsed:
    """A beat under the key of `host` that says something else than the host would."""
    host.run(ev.BeatDue())
    publish = [p for p in host.taken() if p.envelope.to.endswith("_gateway")][-1]
    body = msgspec.structs.replace(GatewayPresence.from_bytes(publish.body), **changes)
    envelope = presence(host.gateway.settings.me, None, trace_id=TRACE, now=host.clock.now)
    return host.sign(msgspec.structs.replace(envelope, msg_id=host.new_id()), body.to_bytes())


def stale(by: Host, about: Host, known: str) -> Parsed:
    """What `by` says when it refuses a beat of `about`."""
    body = Failed(
        gid=about.gateway.settings.me.gid,
        leaf=Leaf(bytes(32)),
        reason=f"refused: stale-epoch at {by.name}",
        detail=known,
        at=WallMs(by.clock.wall),
    )
    me = by.gateway.settings.me
    envelope = control(me, Kind.FAILED, about.name, trace_id=TRACE, now=by.clock.now, re=about.new_id())
    return by.sign(msgspec.structs.replace(envelope, msg_id=by.new_id()), body.to_bytes())


# --- too old


def test_a_host_whose_store_was_put_back_is_told_and_goes_on_above_what_is_known() -> None:
    world, alpha, beta = pair()
    known = alpha.gateway.roster.peers[beta.name]
    beta.clock.turn(-3600)
    beta.epoch, beta.settings = known.epoch - 5_000_000, {}
    beta.start()
    beta.open()
    beta.clock.turn(3600)
    beta.taken()
    assert "note refused stale-epoch" in told(alpha.get(beat(beta)))
    world.settle()
    assert beta.gateway.epochs.epoch == known.epoch + 1
    assert int(beta.settings["epoch"]) == known.epoch + 1
    assert alpha.gateway.roster.peers[beta.name].epoch == known.epoch + 1


def test_the_next_epoch_is_recorded_before_anything_is_said_under_it() -> None:
    _, alpha, beta = pair()
    number = f"{beta.gateway.epochs.epoch + 7}/3"
    words = told(beta.get(stale(alpha, beta, number)))
    assert words == ["setting epoch", "note epoch stale-epoch", "publish PRESENCE gateway", "ack"]


def test_a_repeated_old_beat_makes_nobody_jump() -> None:
    world, alpha, beta = pair()
    old = beat(beta)
    alpha.get(old)
    alpha.get(beat(beta))
    epoch = beta.gateway.epochs.epoch
    alpha.get(old)
    world.settle()
    assert beta.gateway.epochs.epoch == epoch
    assert [note.reason for note in beta.journal] == []


def test_nobody_is_sent_more_than_a_day_ahead() -> None:
    _, alpha, beta = pair()
    epoch = beta.gateway.epochs.epoch
    for known in (f"{beta.clock.wall + 2 * DAY_MS}/1", "1e99/1", "-1/1", "", f"{2**70}/0"):
        beta.get(stale(alpha, beta, known))
    assert beta.gateway.epochs.epoch == epoch
    assert [note.reason for note in beta.journal] == ["too-far"]
    assert read_number("12") is None


def test_a_stale_epoch_is_told_at_most_once_a_second() -> None:
    _, alpha, beta = pair()
    old = [beat(beta) for _ in range(3)]
    alpha.get(beat(beta))
    said = [told(alpha.get(each)) for each in old]
    assert sum("publish FAILED beta" in words for words in said) == 1
    alpha.clock.advance(1.5)
    assert "publish FAILED beta" in told(alpha.get(old[0]))


def test_an_epoch_more_than_a_day_ahead_is_refused_and_not_remembered() -> None:
    _, alpha, beta = pair()
    known = alpha.gateway.roster.peers[beta.name]
    far = beat_of(beta, epoch=beta.clock.wall + 2 * DAY_MS)
    assert told(alpha.get(far)) == ["note refused future-epoch", "ack"]
    assert alpha.gateway.roster.peers[beta.name] == known
    assert told(alpha.get(beat(beta)))[0] == "peer beta"


def test_what_was_taken_under_a_clock_that_was_ahead_does_not_bind() -> None:
    _, alpha, beta = pair()
    alpha.clock.turn(5 * 86_400)
    alpha.get(beat_of(beta, epoch=beta.clock.wall))
    alpha.clock.turn(-5 * 86_400)
    assert told(alpha.get(beat(beta)))[0] == "peer beta"


def test_a_running_host_whose_clock_was_set_back_by_days_begins_anew() -> None:
    world = World("alpha", "beta")
    alpha, beta = world.hosts
    world.clock.turn(5 * 86_400)
    alpha.start(), beta.start()
    world.open()
    world.clock.turn(-5 * 86_400)
    assert told(beta.run(ev.BeatDue())) == ["setting epoch", "note epoch clock", "publish PRESENCE gateway"]
    world.settle()
    assert alpha.gateway.roster.peers[beta.name].epoch == beta.clock.wall


# --- another machine with our key


def test_a_beat_under_our_key_that_is_not_ours_ends_the_session_after_we_were_heard_once_more() -> None:
    _, alpha, _ = pair()
    other = beat_of(alpha, epoch=alpha.clock.wall + 77)
    assert told(alpha.get(other)) == ["note epoch clone", "publish PRESENCE gateway", "ack"]
    assert told(alpha.get(other)) == ["ack"]
    assert told(alpha.run(ev.BeatDue())) == []
    assert told(alpha.wait(1.1)) == ["endsession"]
    assert "another machine" in alpha.gateway.why_no_session


def test_the_running_copy_of_a_running_host_shows_itself_by_a_count_that_was_not_reached() -> None:
    _, alpha, _ = pair()
    ahead = beat_of(alpha, seq=alpha.gateway.epochs.seq + 2)
    assert "note epoch clone" in told(alpha.get(ahead))


def test_own_beats_are_ours_also_late_ones_of_the_process_before() -> None:
    _, alpha, _ = pair()
    before = beat(alpha)
    alpha.clock.advance(1)
    alpha.start()
    alpha.open()
    for late in (before, beat(alpha), before):
        assert told(alpha.get(late)) == ["ack"]


def test_own_beats_are_ours_also_those_of_a_process_whose_clock_was_ahead() -> None:
    _, alpha, _ = pair()
    alpha.clock.turn(90)
    before = beat(alpha)
    alpha.clock.turn(-15)
    alpha.start()
    alpha.open()
    assert told(alpha.get(before)) == ["ack"]


def test_of_two_copies_both_stop_and_a_person_lets_one_go_on() -> None:
    _, alpha, _ = pair()
    world = World("alpha")
    (copy,) = world.hosts
    copy.clock.advance(3)
    copy.start()
    knock = copy.run(ev.ControlLocked())
    assert told(knock) == ["publish PRESENCE gateway"]
    for publish in copy.taken():
        alpha.get(copy.signed(publish))
    for publish in alpha.taken():
        copy.get(alpha.signed(publish))
    assert alpha.gateway.why_no_session
    assert copy.gateway.why_no_session
    assert told(copy.open()) == ["endsession"]
    seen = alpha.gateway.epochs.epoch
    assert told(alpha.run(ask.CopyEnded(alpha.call()))) == ["setting epoch", "resolve"]
    assert alpha.gateway.epochs.epoch > seen
    assert not alpha.gateway.why_no_session
    assert "publish PRESENCE gateway" in told(alpha.open())


def test_local_mail_goes_on_while_another_machine_has_our_key() -> None:
    _, alpha, _ = pair()
    alpha.get(beat_of(alpha, epoch=alpha.clock.wall + 77))
    alpha.run(ev.SessionClosed(1, alpha.gateway.why_no_session))
    msg_id = alpha.send("lead@alpha")
    assert alpha.take("lead") == [msg_id]


def test_a_host_in_safe_mode_says_so_to_who_sends_to_another_host() -> None:
    _, alpha, _ = pair()
    alpha.run(ev.SessionClosed(1, "ended"))
    alpha.gateway.keep_safe("it ended 3 times")
    why = alpha.gateway.link.why_not()
    assert why is not None
    assert "safe mode: it ended 3 times" in why[1]
    alpha.gateway.keep_safe("")
    assert not alpha.gateway.why_no_session


# --- asleep


def test_after_a_sleep_the_session_is_made_anew_and_what_expired_meanwhile_is_told_at_once() -> None:
    world, alpha, beta = pair()
    msg_id = alpha.send("worker@beta", expires_in_ms=60_000)
    world.settle()
    beta.clock.turn(3600)  # its monotonic clock stood still
    assert told(beta.expire()) == []
    assert told(beta.run(ev.StoodStill(3600.0, 3600.0))) == ["endsession"]
    beta.run(ev.SessionClosed(1, "asleep"))
    beta.open()
    assert "record expired owed" in told(beta.expire())
    world.settle()
    assert alpha.fate(msg_id) == "expired"


def test_a_freeze_ends_the_session_and_leaves_the_timers_alone() -> None:
    _, _, beta = pair()
    due = beta.gateway.next_deadline()
    assert told(beta.run(ev.StoodStill(40.0, 0.0))) == ["endsession"]
    assert beta.gateway.next_deadline() == due


# --- leaving


def test_who_leaves_is_silent_at_once_and_back_with_its_next_beat() -> None:
    world, alpha, beta = pair()
    assert told(beta.run(ev.Leaving())) == ["publish PRESENCE gateway"]
    world.settle()
    assert alpha.gateway.roster.is_silent(beta.name, alpha.clock.now.wall)
    assert alpha.peers[beta.name].has_left
    assert told(beta.run(ev.BeatDue())) == [], "nothing follows the last beat"
    beta.clock.advance(1)
    beta.start()
    beta.open()
    world.settle()
    assert not alpha.gateway.roster.is_silent(beta.name, alpha.clock.now.wall)
    assert not alpha.peers[beta.name].has_left


# --- forgetting


def test_a_host_not_heard_for_31_days_is_forgotten_with_its_agents() -> None:
    _, alpha, _ = pair()
    alpha.run(ev.SessionClosed(1, "away"))
    assert "forget beta" not in told(alpha.wait(30 * 86_400))
    assert "forget beta" in told(alpha.wait(86_400 + 60))
    assert (alpha.peers, alpha.others) == ({}, {})


def test_a_host_that_fell_silent_while_no_daemon_ran_is_forgotten_at_the_start() -> None:
    _, alpha, _ = pair()
    alpha.clock.advance(32 * 86_400)
    assert "forget beta" in told(alpha.start())


def test_a_person_forgets_a_host_and_its_next_beat_makes_it_known_again() -> None:
    world, alpha, beta = pair()
    assert told(alpha.run(ask.ForgetAsked(alpha.call(), beta.name))) == ["forget beta", "resolve"]
    call = alpha.call()
    alpha.run(ask.ForgetAsked(call, beta.name))
    failed = alpha.results[call]
    assert isinstance(failed, do.Fail)
    assert failed.reason == "no-such-host"
    alpha.get(beat(beta))
    alpha.wait(3.1)
    world.settle()
    assert sorted(e.name for e in alpha.others.values()) == ["human", "worker"]


# --- an older version


def test_a_kind_that_the_recipients_host_does_not_speak_is_not_sent_and_the_error_says_so() -> None:
    _, alpha, beta = pair()
    alpha.get(beat_of(beta, kinds=("REPLY", "PRESENCE"), version="0.1"))
    alpha.taken()
    alpha.send("worker@beta")
    (failed,) = [result for result in alpha.results.values() if isinstance(result, do.Fail)]
    assert (failed.reason, failed.message) == ("unknown-kind", "beta runs fleettrio 0.1, which does not know SEND")
    assert failed.hint == "update fleettrio on beta"
    assert alpha.out == []
