"""Who is told of a dead letter, and of what: its signer, once, about its own message."""

from __future__ import annotations

import msgspec
import pytest

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.deadletters import report_on
from fleettrio.core.rows import Report
from fleettrio.ids import Leaf, WallMs
from fleettrio.wire.deaths import Death
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import Parsed
from tests.core.builders import Host, World, fleet_of, pair, told

FLEET_FILE = fleet_of(("alpha", "beta", "gamma"))


def death(queue: str, reason: str = "expired") -> Death:
    return Death(reason, queue, "fleet.msg", 1, WallMs(0))


def sent(alpha: Host) -> Parsed:
    alpha.send("worker@beta", sender="lead")
    return alpha.signed(alpha.taken()[-1])


@pytest.mark.parametrize(
    ("broker", "said"), [("expired", "expired"), ("maxlen", "overflow"), ("delivery_limit", "delivery-limit")]
)
def test_each_way_of_dying_has_its_word(broker: str, said: str) -> None:
    _, alpha, beta = pair()
    letter = sent(alpha)
    report = report_on(letter, death(f"agent.{beta.gid('worker')}.inbox.v2.beta", broker), FLEET_FILE)
    assert report is not None
    assert (report.reason, report.host, report.gid, report.leaf) == (said, "alpha", beta.gid("worker"), letter.leaf)


def test_what_was_refused_or_died_in_no_queue_is_not_told() -> None:
    _, alpha, beta = pair()
    letter = sent(alpha)
    assert report_on(letter, death(f"agent.{beta.gid('worker')}.inbox.v2.beta", "rejected"), FLEET_FILE) is None
    assert report_on(letter, None, FLEET_FILE) is None


def test_a_copy_that_died_in_anothers_queue_says_nothing_of_the_message() -> None:
    _, alpha, _ = pair()
    letter = sent(alpha)
    for queue in (f"agent.{alpha.gid('lead')}.inbox.v2.alpha", "control.beta", "agent.", "nothing", ""):
        assert report_on(letter, death(queue), FLEET_FILE) is None


@pytest.mark.parametrize(
    "queue", ["agent.", "agent.nobody.inbox.v2.beta", "agent.\x00\n", "control.beta", "nothing", ""]
)
def test_a_broadcast_that_died_nowhere_is_told_to_nobody(queue: str) -> None:
    _, alpha, beta = pair()
    alpha.broadcast(sender="lead")
    letter = alpha.signed(alpha.taken()[-1])
    assert report_on(letter, death(f"agent.{beta.gid('worker')}.inbox.v2.beta"), FLEET_FILE) is not None
    assert report_on(letter, death(queue), FLEET_FILE) is None


def test_a_request_that_died_in_an_inbox_is_told_to_nobody() -> None:
    _, alpha, _ = pair()
    letter = sent(alpha)
    spawn = msgspec.structs.replace(letter.envelope, kind=Kind.SPAWN, to="beta")
    request = msgspec.structs.replace(letter, envelope=spawn)
    assert report_on(request, death("control.beta"), FLEET_FILE) is not None
    assert report_on(request, death("agent.beta.inbox.v2.beta"), FLEET_FILE) is None


def test_a_presence_that_died_is_nobodys_business() -> None:
    _, alpha, _ = pair()
    alpha.run(ev.BeatDue())
    beat = next(p for p in alpha.taken() if p.envelope.kind == "PRESENCE")
    assert report_on(alpha.signed(beat), death("roster.beta.1"), FLEET_FILE) is None


def reporters(*, granted: bool = True) -> tuple[World, Host, Host, Report]:
    """gamma reports; what it will say about a message of alpha's to beta, which beta never got."""
    world = World("alpha", "beta", "gamma", reporters=("gamma",) if granted else ())
    world.open()
    alpha, beta, gamma = world.hosts
    alpha.send("worker@beta", sender="lead")
    (publish,) = [p for p in alpha.taken() if p.sent]
    alpha.hand(publish)
    report = report_on(alpha.signed(publish), death(f"agent.{beta.gid('worker')}.inbox.v2.beta"), FLEET_FILE)
    assert report is not None
    gamma.taken()
    return world, alpha, gamma, report


def test_the_call_ends_with_the_verdict_and_the_journal_knows_what_was_told() -> None:
    _, _, gamma, report = reporters()
    assert told(gamma.run(ask.ReportAsked(7, report))) == ["publish FAILED alpha"]
    (notice,) = gamma.taken()
    gamma.hand(notice)
    assert told(gamma.verdict(notice)) == ["note dead-letter expired", "resolve"]
    assert gamma.results[7] == "confirmed"


def test_a_report_that_the_broker_did_not_take_is_not_in_the_journal() -> None:
    _, _, gamma, report = reporters()
    gamma.run(ask.ReportAsked(7, report))
    (notice,) = gamma.taken()
    assert told(gamma.run(ev.PublishNotHanded(notice.id, "broker-unreachable"))) == ["resolve"]
    assert gamma.results[7] == "broker-unreachable"


def test_the_sender_believes_a_reporter_until_the_recipients_host_speaks() -> None:
    world, alpha, gamma, report = reporters()
    gamma.run(ask.ReportAsked(7, report))
    world.settle()
    assert alpha.fate(report.msg_id) == "expired(expired)"
    assert alpha.sent(report.msg_id).said_by == "report"
    gamma.run(ask.ReportAsked(8, report))
    world.settle()
    assert alpha.fate(report.msg_id) == "expired(expired)"


def test_a_host_without_the_grant_is_not_believed() -> None:
    world, alpha, gamma, report = reporters(granted=False)
    gamma.run(ask.ReportAsked(7, report))
    world.settle()
    assert alpha.fate(report.msg_id) == "written"
    assert any(note.what == "not-party" for note in alpha.journal)


def test_a_report_about_other_bytes_is_not_believed() -> None:
    world, alpha, gamma, report = reporters()
    gamma.run(ask.ReportAsked(7, msgspec.structs.replace(report, leaf=Leaf(b"\0" * 32))))
    world.settle()
    assert alpha.fate(report.msg_id) == "written"


def test_a_reporter_that_is_its_recipients_host_has_no_last_word_by_a_death() -> None:
    """What died may be sent again, and taken then: that is the last word."""
    world = World("alpha", "beta", reporters=("beta",))
    world.open()
    alpha, beta = world.hosts
    msg_id = alpha.send("worker@beta", sender="lead")
    (publish,) = [p for p in alpha.taken() if p.sent]
    letter = alpha.signed(publish)
    alpha.hand(publish)
    report = report_on(letter, death(f"agent.{beta.gid('worker')}.inbox.v2.beta", "maxlen"), FLEET_FILE)
    assert report is not None
    beta.run(ask.ReportAsked(7, report))
    world.settle()
    assert (alpha.fate(msg_id), alpha.sent(msg_id).said_by) == ("failed(overflow)", "report")
    beta.get(letter)
    beta.put_in(msg_id, "worker")
    world.settle()
    assert alpha.fate(msg_id) == "injected"


def test_relayed_bytes_are_published_as_they_are_and_their_call_hears_of_it() -> None:
    _, _, beta = pair()
    asked = ask.RelayAsked(3, "fleet.ops", "dlq.reported", True, 1_000, {"fleet": b"x", "sig": b"y"}, b"body")
    (relay,) = beta.run(asked)
    assert isinstance(relay, do.Relay)
    assert (relay.headers, relay.body) == ({"fleet": b"x", "sig": b"y"}, b"body")
    beta.run(ev.PublishHanded((relay.id,)))
    beta.run(ev.VerdictGiven(relay.id, "confirmed"))
    assert beta.results[3] == "confirmed"


def test_without_a_link_nothing_is_relayed_and_the_call_ends() -> None:
    _, _, beta = pair()
    beta.run(ev.SessionClosed(1, "gone"))
    assert told(beta.run(ask.RelayAsked(3, "fleet.ops", "dlq.reported", True, 1_000, {}, b""))) == ["resolve"]
