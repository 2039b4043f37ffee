"""Coordination that died in a mailbox: its sender is told, by who may tell it, until the other lead's host speaks."""

from __future__ import annotations

import pytest

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.deadletters import report_on
from fleettrio.core.rows import Report
from fleettrio.ids import Leaf, MsgId, WallMs
from fleettrio.wire.bodies import Failed
from fleettrio.wire.deaths import Death
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import Parsed
from tests.core.builders import told
from tests.core.leads import Lead, carry, leads_fleet, mailbox_gid, two_leads

LEADS = {"alpha": "lead-a", "beta": "lead-b", "gamma": "lead-c"}


def death(reason: str = "maxlen", queue: str = "lead.lead-b.mailbox") -> Death:
    return Death(reason, queue, "fleet.ops", 1, WallMs(0))


def letter_of(*reporters: str) -> tuple[Lead, Lead, Lead, Parsed]:
    """alpha's lead wrote to beta's, and the broker has it; only the `reporters` are granted `report`."""
    hosts = two_leads(third="lead-c")
    for host in hosts:
        host.trust_leads(leads_fleet(LEADS, reporters=reporters, rev=2))
    alpha, beta, gamma = hosts
    alpha.coord("lead-b")
    (publish,) = alpha.taken_abroad()
    return alpha, beta, gamma, alpha.hand_abroad(publish)


def report_of(letter: Parsed, reason: str = "maxlen") -> Report:
    report = report_on(letter, death(reason), leads_fleet(LEADS))
    assert report is not None
    return report


def tell(reporter: Lead, report: Report) -> list[do.Action]:
    return reporter.at_leads(ask.ReportAsked(reporter.call(), report))


def by_hand(host: Lead, msg_id: MsgId, leaf: Leaf, reason: str = "overflow") -> Parsed:
    """What a host says of itself without having seen any dead letter."""
    body = Failed(gid=mailbox_gid("beta"), leaf=leaf, reason=reason, at=WallMs(host.clock.wall)).to_bytes()
    return host.by_hand(Kind.FAILED, "alpha", body, re=msg_id, depth=None)


@pytest.mark.parametrize(
    ("broker", "fate"),
    [
        ("maxlen", "failed(overflow)"),
        ("expired", "expired(expired)"),
        ("delivery_limit", "failed(delivery-limit)"),
    ],
)
def test_the_lead_that_sent_it_is_told_how_it_died(broker: str, fate: str) -> None:
    alpha, _, gamma, letter = letter_of("gamma")
    report = report_of(letter, broker)
    assert (report.host, report.gid) == ("alpha", mailbox_gid("beta"))
    assert told(tell(gamma, report)) == ["coordinator: publish FAILED alpha"]
    carry(gamma, alpha)
    assert (alpha.fate(report.msg_id), alpha.sent(report.msg_id).said_by) == (fate, "report")
    assert (alpha.out, gamma.out) == ([], [])


def test_who_reports_may_be_the_sender_itself() -> None:
    alpha, _, _, letter = letter_of("alpha")
    tell(alpha, report_of(letter))
    carry(alpha, alpha)
    assert alpha.fate(letter.envelope.msg_id) == "failed(overflow)"


def test_told_is_noted_once_the_broker_has_it_and_the_call_ends() -> None:
    _, _, gamma, letter = letter_of("gamma")
    gamma.at_leads(ask.ReportAsked(7, report_of(letter)))
    (publish,) = gamma.taken_abroad()
    gamma.at_leads(ev.PublishHanded((publish.id,)))
    assert told(gamma.at_leads(ev.VerdictGiven(publish.id, "confirmed"))) == ["note dead-letter overflow", "resolve"]
    assert gamma.results[7] == "confirmed"


def test_the_same_report_again_changes_nothing() -> None:
    alpha, _, gamma, letter = letter_of("gamma")
    for _ in range(2):
        tell(gamma, report_of(letter))
        carry(gamma, alpha)
    assert alpha.fate(letter.envelope.msg_id) == "failed(overflow)"
    assert [note.what for note in alpha.journal] == []


def test_a_host_that_is_not_granted_it_is_not_believed() -> None:
    alpha, _, gamma, letter = letter_of("alpha")
    msg_id = letter.envelope.msg_id
    for reason in ("overflow", "recipient-gone"):
        words = told(alpha.get_abroad(by_hand(gamma, msg_id, letter.leaf, reason)))
        assert words == ["note not-party failed", "coordinator: reject"]
    assert alpha.fate(msg_id) == "confirmed"


def test_a_report_about_other_bytes_is_not_believed() -> None:
    alpha, _, gamma, letter = letter_of("gamma")
    words = told(alpha.get_abroad(by_hand(gamma, letter.envelope.msg_id, Leaf(bytes(32)))))
    assert words == ["note not-party failed", "coordinator: reject"]
    assert alpha.fate(letter.envelope.msg_id) == "confirmed"


def test_nobody_reports_about_the_fleets_own_messages_from_there() -> None:
    alpha, _, gamma, _ = letter_of("gamma")
    msg_id = alpha.send("worker")
    row = alpha.sent(msg_id)
    before = alpha.fate(msg_id)
    words = told(alpha.get_abroad(by_hand(gamma, msg_id, row.leaf)))
    assert [word for word in words if word != "load"] == ["note not-party failed", "coordinator: reject"]
    assert alpha.fate(msg_id) == before


@pytest.mark.parametrize("reporter", ["beta", "gamma"])
def test_the_other_leads_host_has_the_last_word(reporter: str) -> None:
    """Though it was the reporter itself: what died may be sent again, and taken."""
    alpha, beta, gamma, letter = letter_of(reporter)
    msg_id = letter.envelope.msg_id
    tell(beta if reporter == "beta" else gamma, report_of(letter))
    carry(beta, alpha)
    carry(gamma, alpha)
    assert alpha.fate(msg_id) == "failed(overflow)"
    beta.get_abroad(letter)
    carry(beta, alpha)
    assert alpha.fate(msg_id) == "held"
    beta.take("lead")
    carry(beta, alpha)
    assert alpha.fate(msg_id) == "drained"
    assert [note.what for note in alpha.journal] == []


def test_a_report_behind_the_other_leads_word_changes_nothing() -> None:
    alpha, beta, gamma, letter = letter_of("gamma")
    beta.get_abroad(letter)
    carry(beta, alpha)
    tell(gamma, report_of(letter))
    carry(gamma, alpha)
    assert alpha.fate(letter.envelope.msg_id) == "held"


def test_a_reporter_finds_what_it_has_itself_under_its_own_lead() -> None:
    """The gid of the mailbox is no agent's here: the row is the lead's."""
    _, beta, _, letter = letter_of("beta")
    report = report_of(letter)
    beta.get_abroad(letter)
    assert (report.msg_id, beta.gateway.coordination.kept_as(report.gid)) in beta.ledger
    assert beta.gateway.coordination.kept_as(mailbox_gid("alpha")) == mailbox_gid("alpha")


@pytest.mark.parametrize("queue", ["lead.lead-c.mailbox", "lead.nobody.mailbox", "control.beta", "lead", "lead.", ""])
def test_a_copy_that_died_elsewhere_says_nothing_of_it(queue: str) -> None:
    *_, letter = letter_of("gamma")
    assert report_on(letter, death(queue=queue), leads_fleet(LEADS)) is None


def test_who_tells_of_deaths_is_whose_host_is_granted_it() -> None:
    alpha, _, _, _ = letter_of("beta", "gamma")
    assert alpha.gateway.coordination.reporters() == ["lead-b", "lead-c"]
    alpha.trust_leads(leads_fleet({**LEADS, "gamma": ""}, reporters=("gamma",), rev=3))
    assert alpha.gateway.coordination.reporters() == []  # it has no lead, so nothing runs there


def test_a_mailbox_that_nobody_is_paired_with_has_nobody_to_speak_of() -> None:
    *_, letter = letter_of("gamma")
    assert report_on(letter, death(), leads_fleet({**LEADS, "beta": ""})) is None


def test_what_is_relayed_there_goes_to_the_coordinators_broker() -> None:
    _, _, gamma, _ = letter_of("gamma")
    asked = ask.RelayAsked(3, "fleet.ops", "dlq.reported", True, 1_000, {"fleet": b"x", "sig": b"y"}, b"body")
    (action,) = gamma.at_leads(asked)
    assert isinstance(action, do.AtCoordinator)
    assert isinstance(action.action, do.Relay)
    gamma.at_leads(ev.VerdictGiven(action.action.id, "confirmed"))
    assert gamma.results[3] == "confirmed"


def test_without_that_link_nothing_is_relayed_and_the_call_ends() -> None:
    _, _, gamma, _ = letter_of("gamma")
    gamma.at_leads(ev.SessionClosed(1, "gone"))
    asked = ask.RelayAsked(3, "fleet.ops", "dlq.reported", True, 1_000, {}, b"")
    assert told(gamma.at_leads(asked)) == ["resolve"]
