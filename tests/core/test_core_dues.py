"""What is due later: made at its time, once, across restarts; reminders for what nobody answered."""

from __future__ import annotations

from fleettrio.core import events as ev
from fleettrio.core.requests import DueCancelled, LaterAsked, SendAsked
from fleettrio.core.rows import Due
from fleettrio.ids import MsgId
from tests.core.builders import TRACE, Host, pair, told
from tests.core.test_core_guard import deep, land


def later(host: Host, to: str, after_s: float, sender: str = "human", **fields: object) -> MsgId:
    asked = SendAsked(
        call=host.call(),
        sender=host.gid(sender),
        to=(to,),
        body=b"later",
        msg_ids=(host.new_id(),),
        trace_id=TRACE,
        **fields,  # type: ignore[arg-type]
    )
    host.last = host.run(LaterAsked(asked.call, asked, int(after_s * 1000)))
    return asked.msg_ids[0]


def lines(host: Host, name: str = "human") -> list[bytes]:
    """What this host's gateway told somebody here."""
    gateway, gid = host.gateway.settings.me.gid, host.gid(name)
    return [host.bodies[key] for key, row in host.ledger.items() if row.gid == gid and row.sender == gateway]


def test_a_message_is_made_when_it_is_due_and_not_before() -> None:
    world, alpha, beta = pair()
    msg_id = later(alpha, "worker@beta", 600, expires_in_ms=60_000)
    assert told(alpha.last)[-1].startswith("resolve")
    alpha.wait(599)
    world.settle()
    assert not beta.ledger
    alpha.wait(2)
    world.settle()
    row = beta.row(msg_id, "worker")
    assert row.expires_at - row.ts == 60_000
    assert land(world, beta, msg_id, "worker")
    alpha.wait(3600)
    assert not alpha.dues


def test_it_goes_out_once_across_restarts_and_late_when_nothing_ran_at_its_time() -> None:
    _, alpha, _ = pair()
    msg_id = later(alpha, "worker@beta", 600)
    alpha.start()
    alpha.clock.advance(1_000)
    alpha.start()
    alpha.open()
    alpha.expire()
    assert not alpha.dues
    alpha.start()
    alpha.open()
    alpha.expire()
    assert not [publish for publish in alpha.out if publish.sent]
    assert alpha.fate(msg_id).startswith("outcome-unknown")  # it may have gone out with the process that made it


def test_what_was_due_while_nothing_ran_waits_at_the_start_for_the_first_session() -> None:
    world, alpha, beta = pair()
    msg_id = later(alpha, "worker@beta", 600)
    alpha.clock.advance(1_000)
    alpha.start()
    alpha.expire()
    assert alpha.dues
    alpha.open()
    alpha.expire()
    world.settle()
    assert beta.row(msg_id, "worker").msg_id == msg_id
    assert not alpha.dues


def test_it_waits_for_no_broker_that_stays_away_nor_for_one_that_it_does_not_need() -> None:
    _, alpha, _ = pair()
    msg_id, here = later(alpha, "worker@beta", 600), later(alpha, "lead@alpha", 600)
    alpha.clock.advance(1_000)
    alpha.start()
    alpha.expire()
    assert [row.id for row in alpha.dues.values()] == [msg_id]
    assert here in {msg_id for msg_id, _ in alpha.ledger}
    alpha.wait(11)
    assert not alpha.dues
    assert alpha.fate(msg_id).startswith("failed(broker-unreachable")


def test_what_failed_at_its_time_is_kept_for_its_sender_since_no_call_waited_for_it() -> None:
    _, alpha, _ = pair()
    msg_id = later(alpha, "worker@beta", 600)
    alpha.run(ev.SessionClosed(1, "link lost"))
    alpha.wait(601)
    assert alpha.fate(msg_id).startswith("failed(broker-unreachable")
    assert [row.msg_id for row in alpha.gateway.failures.of(alpha.gid("human"))] == [msg_id]


def test_its_row_is_recorded_together_with_the_end_of_its_due() -> None:
    _, alpha, _ = pair()
    later(alpha, "worker@beta", 10)
    alpha.clock.advance(11)
    words = told(alpha.expire())
    assert words.index("sent accepted") < words.index("publish SEND")


def test_it_can_be_called_off() -> None:
    world, alpha, beta = pair()
    msg_id = later(alpha, "worker@beta", 600)
    call = alpha.call()
    alpha.run(DueCancelled(call, msg_id))
    assert isinstance(alpha.results[call], Due)
    alpha.wait(700)
    world.settle()
    assert not beta.ledger
    call = alpha.call()
    alpha.run(DueCancelled(call, msg_id))
    assert alpha.results[call] is None


def test_what_cannot_be_sent_is_told_when_it_is_asked_for_or_at_its_time() -> None:
    _, alpha, beta = pair()
    later(alpha, "nobody@beta", 10)
    assert "fail 3 no-such-recipient" in told(alpha.last)
    later(alpha, "worker@beta", 10)
    alpha.run(ev.Detached(alpha.call(), alpha.gid("lead"), False))
    alpha.gateway.roster.others.clear()
    alpha.wait(11)
    assert b"could not be sent at its time" in lines(alpha)[0]
    assert not beta.ledger


def test_its_depth_is_that_of_the_turn_in_which_it_was_asked_for() -> None:
    world, alpha, beta = pair()
    alpha.gateway.depths.landed(deep(alpha.gid("lead"), 6))
    msg_id = later(alpha, "worker@beta", 60, sender="lead")
    alpha.gateway.depths.forget(alpha.gid("lead"))
    alpha.wait(61)
    world.settle()
    assert beta.row(msg_id, "worker").depth == 7
    assert beta.row(msg_id, "worker").trace_id == "f" * 32


def test_who_is_not_answered_is_reminded_once() -> None:
    world, alpha, beta = pair()
    brief = alpha.send("worker@beta", remind_ms=1_800_000)
    world.settle()
    land(world, beta, brief, "worker")
    alpha.wait(1_801)
    (line,) = lines(alpha)
    assert line.startswith(f"no answer to {brief[-8:]} from worker@beta after 30 min".encode())
    alpha.wait(10_000)
    assert len(lines(alpha)) == 1


def test_nobody_is_reminded_of_what_was_answered_or_failed() -> None:
    world, alpha, beta = pair()
    answered = alpha.send("worker@beta", remind_ms=60_000)
    land(world, beta, answered, "worker")
    beta.reply(answered, "worker")
    world.settle()
    called_back = alpha.send("worker@beta", remind_ms=60_000)
    world.settle()
    alpha.cancel(called_back)
    world.settle()
    alpha.wait(61)
    assert lines(alpha) == []


def test_a_reminder_outlives_a_restart_and_can_be_called_off() -> None:
    world, alpha, beta = pair()
    first = alpha.send("worker@beta", remind_ms=60_000)
    world.settle()
    land(world, beta, first, "worker")
    alpha.start()
    alpha.open()
    alpha.wait(61)
    assert len(lines(alpha)) == 1


def test_what_could_not_be_recorded_is_not_due() -> None:
    _, alpha, _ = pair()
    alpha.broken = True
    later(alpha, "worker@beta", 10)
    assert "fail 3 store" in told(alpha.last)
    assert not list(alpha.gateway.dues)


def test_a_list_that_is_full_says_so() -> None:
    _, alpha, _ = pair()
    for _ in range(1_000):
        later(alpha, "worker@beta", 3_600)
    later(alpha, "worker@beta", 3_600)
    assert "fail 3 too-many" in told(alpha.last)


def test_a_drop_that_could_not_be_recorded_is_due_again() -> None:
    _, alpha, _ = pair()
    msg_id = later(alpha, "worker@beta", 10)
    alpha.broken = True
    alpha.wait(11)
    assert [due.id for due in alpha.gateway.dues] == [msg_id]
    alpha.broken = False
    alpha.run(ev.StoreRecovered())
    alpha.open()
    alpha.wait(30)
    assert [row.msg_id for publish in alpha.out for row in publish.sent] == [msg_id]
