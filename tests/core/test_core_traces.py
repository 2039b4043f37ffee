"""One flow, told by every host that answers in time; who does not is named."""

from __future__ import annotations

import msgspec

from fleettrio.core import requests as ask
from fleettrio.core.calls import TraceHeard
from fleettrio.core.compose import control
from fleettrio.core.traces import MOST_ROWS
from fleettrio.ids import TraceId
from fleettrio.wire.bodies import TracedBody
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import Parsed
from tests.core.builders import TRACE, Host, World, pair, told


def three() -> tuple[World, Host, Host, Host]:
    world = World("alpha", "beta", "gamma")
    world.open()
    alpha, beta, gamma = world.hosts
    return world, alpha, beta, gamma


def asked(host: Host, trace_id: TraceId = TRACE) -> int:
    call = host.call()
    host.last = host.run(ask.TraceAsked(call, trace_id))
    return call


def heard(host: Host, call: int) -> TraceHeard:
    result = host.results[call]
    assert isinstance(result, TraceHeard)
    return result


def traced(host: Host, to: Host, *, rows: int, trace_id: TraceId = TRACE) -> Parsed:
    """An answer of `host`, signed."""
    envelope = control(host.gateway.settings.me, Kind.TRACED, to.name, trace_id=trace_id, now=host.clock.now)
    body = TracedBody(rows=tuple({"row": "step", "at": n} for n in range(rows)), cut=False)
    return host.sign(msgspec.structs.replace(envelope, msg_id=host.new_id()), body.to_bytes())


def test_every_host_tells_its_rows_and_no_bodies() -> None:
    world, alpha, beta, gamma = three()
    msg_id = alpha.send("worker@beta", body=b"the secret")
    world.settle()
    call = asked(gamma)
    world.settle()
    answers = heard(gamma, call).answers
    assert set(answers) == {"alpha", "beta"}
    out, into = answers[alpha.name][0][0], answers[beta.name][0][0]
    assert (out["row"], out["msgId"], out["state"], out["name"]) == ("out", msg_id, "confirmed", "human@alpha")
    assert (into["row"], into["msgId"], into["state"], into["name"]) == ("in", msg_id, "waiting", "worker@beta")
    assert "secret" not in str(answers)
    assert heard(gamma, call).silent == ()


def test_refusals_are_told_too() -> None:
    world, alpha, beta, gamma = three()
    hosts = {**beta.fleet.hosts}
    hosts[alpha.name] = msgspec.structs.replace(hosts[alpha.name], grants=frozenset({"reply"}))
    beta.trust(msgspec.structs.replace(beta.fleet, rev=2, hosts=hosts))
    msg_id = alpha.send("worker@beta")
    world.settle()
    call = asked(gamma)
    world.settle()
    steps = [row for row in heard(gamma, call).answers[beta.name][0] if row["row"] == "step"]
    assert [(s["what"], s["reason"], s["msgId"]) for s in steps] == [("refused", "not-authorised", msg_id)]


def test_a_host_that_does_not_answer_is_named_after_two_seconds() -> None:
    world, alpha, beta, gamma = three()
    call = asked(gamma)
    for publish in gamma.taken():
        if publish.envelope.to == alpha.name:
            world.carry(gamma, publish)
    for publish in alpha.taken():
        world.carry(alpha, publish)
    assert call not in gamma.results
    gamma.wait(2.1)
    assert (set(heard(gamma, call).answers), heard(gamma, call).silent) == ({alpha.name}, (beta.name,))
    late = traced(beta, gamma, rows=1)
    assert told(gamma.get(late)) == ["ack"]
    assert gamma.resolved[call] == 1


def test_silent_hosts_are_named_at_once_and_not_waited_for() -> None:
    *_, gamma = three()
    gamma.wait(60)
    call = asked(gamma)
    assert heard(gamma, call).silent == ("alpha", "beta")
    assert not [p for p in gamma.out if p.envelope.kind == "TRACE"]


def test_without_a_broker_only_this_host_knows_and_says_so() -> None:
    world = World("alpha", "beta")
    alpha = world.hosts[0]
    call = asked(alpha)
    assert heard(alpha, call) == TraceHeard({}, (world.hosts[1].name,))


def test_an_answer_that_nobody_asked_for_is_acknowledged_and_changes_nothing() -> None:
    _, alpha, beta = pair()
    assert told(alpha.get(traced(beta, alpha, rows=3))) == ["ack"]
    call = asked(alpha)
    other = TraceId("0" * 32)
    alpha.get(traced(beta, alpha, rows=3, trace_id=other))
    assert call not in alpha.results


def test_an_answer_has_its_bound_on_both_sides() -> None:
    world, alpha, beta = pair()
    for _ in range(MOST_ROWS + 5):
        beta.send("human@alpha", sender="worker")
    world.settle()
    call = asked(alpha)
    world.settle()
    rows, is_cut = heard(alpha, call).answers[beta.name]
    assert (len(rows), is_cut) == (MOST_ROWS, True)
    call = asked(alpha)
    alpha.taken()
    alpha.get(traced(beta, alpha, rows=5_000))
    assert len(heard(alpha, call).answers[beta.name][0]) == MOST_ROWS


def test_an_answer_has_no_more_rows_than_fit_however_long_others_made_them() -> None:
    """What a recipient said of a message goes into its row, at four bytes a character."""
    world, alpha, beta = pair()
    for _ in range(MOST_ROWS):
        beta.send("human@alpha", sender="worker")
    world.settle()
    word = "\N{CJK UNIFIED IDEOGRAPH-20000}" * 64
    for key, row in beta.outbox.items():
        answered = msgspec.structs.replace(row, re=row.msg_id, answered_by=row.msg_id)
        beta.outbox[key] = msgspec.structs.replace(answered, reason=word, via=word, detail=word * 2)
    call = asked(alpha)
    world.settle()
    rows, is_cut = heard(alpha, call).answers[beta.name]
    assert is_cut
    assert MOST_ROWS // 2 <= len(rows) < MOST_ROWS


def test_a_body_that_is_no_answer_is_refused_as_malformed() -> None:
    _, alpha, beta = pair()
    envelope = control(beta.gateway.settings.me, Kind.TRACED, alpha.name, trace_id=TRACE, now=beta.clock.now)
    spoilt = beta.sign(msgspec.structs.replace(envelope, msg_id=beta.new_id()), b"\xa1\x61x\x01")
    assert "note refused malformed" in told(alpha.get(spoilt))


def test_a_call_that_ended_is_not_told() -> None:
    world, alpha, _ = pair()
    call = asked(alpha)
    alpha.run(ask.CallEnded(call, "s", gone=False))
    world.settle()
    alpha.wait(3)
    assert call not in alpha.results
