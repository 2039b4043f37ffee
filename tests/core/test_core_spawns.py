"""Agents that a host starts when it is asked to: every order of events, the wrong ones above all."""

from __future__ import annotations

import pytest

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.spawned import SpawnState
from fleettrio.ids import MsgId
from fleettrio.wire.bodies import Failed, Outcome
from fleettrio.wire.envelope import Kind
from tests.core.builders import Host, agent, told
from tests.core.messages import question
from tests.core.spawning import (
    control_state,
    hosts,
    launched,
    ready,
    spawn,
    spawn_by_hand,
    spawned,
    stop,
    stop_by_hand,
)


def refusal(actions: list[do.Action]) -> str:
    notes = [action.reason for action in actions if isinstance(action, do.Note)]
    return notes[0] if notes else ""


# --- the way it should go


def test_an_agent_is_recorded_before_the_ack_and_started_behind_it() -> None:
    _world, alpha, beta = hosts()
    spawn(alpha)
    (publish,) = alpha.taken()
    alpha.hand(publish)
    assert told(beta.get(alpha.signed(publish))) == [
        "commit waiting",
        "spawn starting",
        "agent coder starting",
        "launch",
        "ack",
    ]


def test_ready_opens_the_inbox_then_announces_then_tells() -> None:
    world, alpha, beta = hosts()
    msg_id = spawn(alpha)
    world.settle()
    assert alpha.fate(msg_id) == "confirmed"
    launched(beta)
    assert told(beta.run(ev.SpawnReady(spawned(beta)))) == [
        "spawn ready",
        "agent coder idle",
        "open inbox",
        "watch coder",
    ]
    assert told(beta.run(ev.InboxBound(spawned(beta)))) == [
        "record ready owed",
        "publish PRESENCE agent",
        "publish OUTCOME alpha ready",
    ]
    world.settle()
    assert alpha.fate(msg_id) == "ready"
    assert alpha.sent(msg_id).detail == "coder"
    assert alpha.others[spawned(beta)].name == "coder"
    assert alpha.others[spawned(beta)].groups == ("crew",)


def test_the_call_that_waits_for_it_ends_with_ready() -> None:
    world, alpha, beta = hosts()
    msg_id = spawn(alpha)
    world.settle()
    call = alpha.await_answer(msg_id, until="delivered")
    assert call not in alpha.results
    ready(beta)
    world.settle()
    assert told([do.Resolve(call, alpha.results[call])]) == ["resolve over ready answers 0"]


def test_a_brief_goes_out_as_a_message_when_it_is_ready_and_not_before() -> None:
    world, alpha, beta = hosts()
    spawn(alpha, brief=b"count the tests")
    world.settle()
    (promised,) = [row for row in alpha.outbox.values() if row.gid == spawned(beta)]
    assert (promised.state, promised.reason) == ("accepted", "starting")
    assert spawned(beta) not in {row.gid for row in beta.ledger.values()}
    ready(beta)
    world.settle()
    assert beta.asked[-1].row.msg_id == promised.msg_id
    assert beta.asked[-1].row.gid == spawned(beta)
    assert beta.bodies[beta.asked[-1].row.msg_id, spawned(beta)] == b"count the tests"


def test_on_the_own_host_an_agent_is_started_without_a_broker() -> None:
    _, _, beta = hosts(standalone=True)
    msg_id = spawn(beta, brief=b"go")
    assert told(beta.last)[-2:] == ["launch", "resolve confirmed"]
    ready(beta, bound=False)
    assert beta.fate(msg_id) == "ready"
    assert [row.row.gid for row in beta.asked] == [spawned(beta)]


def test_until_it_is_ready_nobody_can_send_to_it() -> None:
    world, alpha, beta = hosts()
    spawn(alpha, name="w9")
    world.settle()
    beta.send("w9")
    assert told(beta.last) == ["fail 3 no-such-recipient"]
    assert "is being started" in beta.results[max(beta.results)].message  # type: ignore[attr-defined]
    assert not beta.gateway.roster.knows(spawned(beta))


# --- what was promised


def brief_id(host: Host, spawn_id: MsgId) -> MsgId:
    return next(row.msg_id for row in host.outbox.values() if row.kind == Kind.SEND and row.msg_id != spawn_id)


def test_a_brief_that_was_promised_has_failed_after_a_restart_and_can_be_sent_again() -> None:
    world, alpha, beta = hosts()
    asked = spawn(alpha, brief=b"count the tests")
    world.settle()
    brief = brief_id(alpha, asked)
    alpha.start()
    assert alpha.fate(brief) == "failed(spawn-interrupted)"
    alpha.open()
    ready(beta)
    world.settle()
    assert alpha.fate(asked) == "ready"
    assert alpha.fate(brief) == "failed(spawn-interrupted)"


def test_a_brief_of_a_start_that_is_stopped_or_never_begun_fails_with_it() -> None:
    world, alpha, beta = hosts()
    asked = spawn(alpha, brief=b"x")
    world.settle()
    beta.get(stop_by_hand(alpha, beta, spawned(beta)))
    world.settle()
    assert alpha.sent(brief_id(alpha, asked)).detail == "stopped"
    here = spawn(beta, profile="nothing", brief=b"y", new="n2")
    assert beta.fate(here) == "failed(spawn: no-such-profile)"
    assert beta.sent(brief_id(beta, here)).detail == "spawn: no-such-profile"


def test_a_brief_that_was_called_back_does_not_go_out() -> None:
    world, alpha, beta = hosts()
    asked = spawn(alpha, brief=b"x")
    world.settle()
    brief = brief_id(alpha, asked)
    alpha.cancel(brief)
    assert alpha.fate(brief) == "recalled"
    ready(beta)
    world.settle()
    assert alpha.fate(brief) == "recalled"
    assert beta.asked == []


# --- refused, or not even begun


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"profile": "other"}, "not-authorised"),
        ({"profile": "nothing-known"}, "not-authorised"),
        ({"spawn_id": "stranger"}, "wrong-host"),
    ],
)
def test_a_spawn_that_may_not_be_is_refused_and_told_and_leaves_no_row(how: dict[str, str], reason: str) -> None:
    _world, alpha, beta = hosts()
    fields: dict[str, object] = dict(how)
    if "spawn_id" in how:
        fields["spawn_id"] = alpha.gid("lead")
    actions = beta.get(spawn_by_hand(alpha, beta, **fields))  # type: ignore[arg-type]
    assert refusal(actions) == reason
    assert told(actions)[-2:] == ["publish FAILED alpha", "reject"]
    assert beta.spawns == {}
    assert "launch" not in told(actions)


def test_a_spawn_without_any_grant_is_refused_at_the_door() -> None:
    _, alpha, beta = hosts("stop")
    assert refusal(beta.get(spawn_by_hand(alpha, beta))) == "not-authorised"


def test_the_gid_of_an_agent_that_is_there_is_no_spawn_id() -> None:
    _, alpha, beta = hosts()
    assert refusal(beta.get(spawn_by_hand(alpha, beta, new="worker"))) == "conflict"
    assert refusal(beta.get(spawn_by_hand(alpha, beta, new="human"))) == "conflict"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": "worker"}, "spawn: name"),
        ({"name": "Not A Name"}, "spawn: name"),
        ({"groups": ("#",)}, "spawn: group"),
        ({"depth": 32}, "spawn: depth"),
    ],
)
def test_what_cannot_be_is_told_failed_with_its_reason(fields: dict[str, object], reason: str) -> None:
    _, alpha, beta = hosts()
    actions = beta.get(spawn_by_hand(alpha, beta, **fields))  # type: ignore[arg-type]
    assert told(actions) == ["commit waiting", f"record failed({reason}) owed", "ack", "publish FAILED alpha"]
    (notice,) = beta.taken()
    assert Failed.from_bytes(notice.body).reason == reason
    assert beta.spawns == {}


def test_a_granted_profile_that_does_not_exist_is_told_with_those_that_do() -> None:
    _, alpha, beta = hosts("spawn:nothing")
    beta.get(spawn_by_hand(alpha, beta, profile="nothing"))
    (notice,) = beta.taken()
    told_body = Failed.from_bytes(notice.body)
    assert told_body.reason == "spawn: no-such-profile"
    assert "coder, other" in told_body.detail


def test_the_own_gateway_spares_the_question_when_that_host_has_no_such_profile() -> None:
    _, alpha, _ = hosts()
    spawn(alpha, profile="codr")
    assert told(alpha.last) == ["fail 3 no-such-profile"]
    assert alpha.taken() == []


def test_a_worker_may_not_spawn_or_stop() -> None:
    _, _, beta = hosts()
    beta.run(ev.Attached(beta.call(), agent("hand", "beta", role="worker")))
    spawn(beta, to="beta", sender="hand")
    assert told(beta.last) == ["fail 3 not-allowed"]
    stop(beta, beta.gid("worker"), sender="hand")
    assert told(beta.last) == ["fail 3 not-allowed"]
    assert beta.spawns == {}


def test_an_order_to_a_host_that_is_not_heard_fails_at_once() -> None:
    _, alpha, _ = hosts()
    alpha.clock.advance(60)
    spawn(alpha)
    assert told(alpha.last) == ["fail 8 host-silent"]


def test_thirty_at_once_obey_max_and_the_rest_are_told() -> None:
    world, alpha, beta = hosts()
    ids = [spawn(alpha, new=f"n{number}") for number in range(30)]
    world.settle()
    fates = [alpha.fate(msg_id) for msg_id in ids]
    assert fates.count("confirmed") == 2
    assert fates.count("failed(spawn: max)") == 28
    assert len(beta.gateway.roster.starting) == 2
    names = sorted(entity.name for entity in beta.gateway.roster.starting.values())
    assert names == ["coder", "coder-2"]


def test_an_agent_whose_program_ended_leaves_its_place_to_another() -> None:
    world, alpha, beta = hosts()
    for number in (1, 2):
        spawn(alpha, new=f"n{number}")
        world.settle()
        ready(beta, f"n{number}")
    beta.run(ev.AgentSeen(spawned(beta, "n1"), "away"))
    msg_id = spawn(alpha, new="n3")
    world.settle()
    assert alpha.fate(msg_id) == "confirmed"


# --- not ready


def test_one_that_never_gets_ready_is_told_with_what_was_on_its_screen() -> None:
    world, alpha, beta = hosts()
    msg_id = spawn(alpha, brief=b"never")
    world.settle()
    launched(beta)
    actions = beta.run(ev.SpawnFailed(spawned(beta), "limit", "not ready within 60 s; on its screen: licence?"))
    assert told(actions) == [
        "spawn ended(spawn: limit)",
        "drop agent",
        "record failed(spawn: limit) owed",
        "publish FAILED alpha",
    ]
    world.settle()
    assert alpha.fate(msg_id) == "failed(spawn: limit)"
    assert "licence?" in alpha.sent(msg_id).detail
    brief = alpha.outbox[brief_id(alpha, msg_id), spawned(beta)]
    assert (brief.state, brief.reason, brief.detail) == ("failed", "spawn-failed", "spawn: limit")


@pytest.mark.parametrize("late", [ev.SpawnReady, lambda gid: ev.SpawnFailed(gid, "died"), ev.AgentEnded])
def test_what_is_reported_of_an_agent_that_is_over_changes_nothing(late: object) -> None:
    world, alpha, beta = hosts()
    spawn(alpha)
    world.settle()
    beta.run(ev.SpawnFailed(spawned(beta), "died"))
    beta.taken()
    assert [w for w in told(beta.run(late(spawned(beta)))) if not w.startswith("spawn ended")] == []  # type: ignore[operator]
    assert beta.gateway.spawns.rows[spawned(beta)].state is SpawnState.ENDED


# --- the same once more


def test_the_same_bytes_again_start_nothing_and_are_told_once_more_what_came_of_them() -> None:
    _world, alpha, beta = hosts()
    parsed = spawn_by_hand(alpha, beta)
    beta.get(parsed)
    assert told(beta.get(parsed)) == ["ack"]
    ready(beta)
    (told_first,) = [p for p in beta.taken() if p.envelope.kind == "OUTCOME"]
    beta.verdict(told_first)
    assert told(beta.get(parsed)) == ["ack", "publish OUTCOME alpha ready"]
    assert len(beta.spawns) == 1


def test_the_same_bytes_after_a_restart_start_nothing() -> None:
    _world, alpha, beta = hosts()
    parsed = spawn_by_hand(alpha, beta)
    beta.get(parsed)
    ready(beta)
    beta.start()
    beta.open()
    assert "launch" not in told(beta.get(parsed))


def test_the_same_agent_in_another_message_is_answered_from_its_row() -> None:
    _, alpha, beta = hosts()
    beta.get(spawn_by_hand(alpha, beta))
    second, third = spawn_by_hand(alpha, beta), spawn_by_hand(alpha, beta)
    assert "launch" not in told(beta.get(second))
    ready(beta)
    assert control_state(beta, second.envelope.msg_id) == "ready"
    beta.get(third)
    assert control_state(beta, third.envelope.msg_id) == "ready"


def test_an_id_that_was_used_up_is_never_used_again_also_after_a_restart() -> None:
    _world, alpha, beta = hosts()
    beta.get(spawn_by_hand(alpha, beta))
    beta.run(ev.SpawnFailed(spawned(beta), "died", "it ended"))
    beta.start()
    beta.open()
    again = spawn_by_hand(alpha, beta)
    assert "launch" not in told(beta.get(again))
    assert control_state(beta, again.envelope.msg_id) == "failed(spawn: died)"


# --- a crash in each window


def crash(beta: Host) -> list[str]:
    """The next process; what it does about agents first."""
    beta.entities = {gid: e for gid, e in beta.entities.items() if e.name != "worker"}
    return [word for word in told(beta.start()) if not word.startswith("setting")]


def test_a_crash_behind_the_record_looks_for_it_and_tells_that_it_was_not_there() -> None:
    world, alpha, beta = hosts()
    msg_id = spawn(alpha)
    world.settle()
    assert crash(beta)[-1] == "launch"
    (action,) = [a for a in beta.gateway.spawns.start(beta.clock.now) if isinstance(a, do.Launch)]
    assert action.again
    beta.open()
    beta.run(ev.SpawnFailed(spawned(beta), "crashed-mid-spawn", "the daemon ended"))
    world.settle()
    assert alpha.fate(msg_id) == "failed(crashed-mid-spawn)"


def test_one_that_was_adopted_mid_spawn_goes_on_to_ready() -> None:
    world, alpha, beta = hosts()
    msg_id = spawn(alpha)
    world.settle()
    launched(beta)
    assert crash(beta)[-1] == "launch"
    beta.open()
    beta.run(ev.SpawnReady(spawned(beta)))
    beta.run(ev.InboxBound(spawned(beta)))
    world.settle()
    assert alpha.fate(msg_id) == "ready"


def test_a_crash_between_ready_and_the_word_tells_it_when_the_inbox_is_open() -> None:
    world, alpha, beta = hosts()
    msg_id = spawn(alpha)
    world.settle()
    ready(beta, bound=False)
    crash(beta)
    beta.open()
    assert alpha.fate(msg_id) == "confirmed"
    beta.run(ev.InboxBound(spawned(beta)))
    world.settle()
    assert alpha.fate(msg_id) == "ready"


def test_after_a_restart_nothing_is_put_into_an_agent_before_it_was_found_again() -> None:
    world, alpha, beta = hosts()
    spawn(alpha)
    world.settle()
    ready(beta)
    words = crash(beta)
    assert "watch coder" not in words
    assert words[-1] == "launch"
    assert told(beta.run(ev.Adopted(spawned(beta), alive=True))) == ["watch coder"]


def test_an_agent_that_was_not_found_again_is_away_and_keeps_its_inbox() -> None:
    world, alpha, beta = hosts()
    spawn(alpha)
    world.settle()
    ready(beta)
    crash(beta)
    assert told(beta.run(ev.Adopted(spawned(beta), alive=False))) == ["agent coder away"]
    assert spawned(beta) in beta.gateway.roster.entities


def test_what_could_not_be_recorded_was_never_asked() -> None:
    _world, alpha, beta = hosts()
    parsed = spawn_by_hand(alpha, beta)
    beta.broken = True
    beta.get(parsed)
    assert beta.gateway.spawns.rows == {}
    assert beta.gateway.roster.starting == {}
    beta.broken = False
    beta.run(ev.StoreRecovered())
    assert "launch" in told(beta.get(parsed))


def test_a_start_that_got_ready_on_a_full_disk_is_told_when_the_disk_takes_it() -> None:
    world, alpha, beta = hosts()
    msg_id = spawn(alpha)
    world.settle()
    launched(beta)
    beta.broken = True
    beta.run(ev.SpawnReady(spawned(beta)))
    beta.run(ev.SessionClosed(1, "store"))
    beta.broken = False
    beta.run(ev.StoreRecovered())
    beta.open()
    beta.run(ev.InboxBound(spawned(beta)))
    world.settle()
    assert alpha.fate(msg_id) == "ready"
    assert beta.spawns[spawned(beta)].state is SpawnState.READY


def test_the_outcome_of_a_spawn_carries_the_name_of_the_agent() -> None:
    _, alpha, beta = hosts()
    beta.get(spawn_by_hand(alpha, beta, name="w9"))
    ready(beta)
    (outcome,) = [p for p in beta.taken() if p.envelope.kind == "OUTCOME"]
    (fate,) = Outcome.from_bytes(outcome.body).fates
    assert (fate.state, fate.detail) == ("ready", "w9")


def test_a_start_without_a_word_is_asked_for_and_reads_unknown_after_its_bound() -> None:
    world, alpha, beta = hosts()
    msg_id = spawn(alpha)
    world.settle()
    beta.run(ev.SessionClosed(1, "gone"))
    alpha.wait(700)
    assert alpha.fate(msg_id) == "unknown(no word from beta)"
    assert not alpha.sent(msg_id).recalling
    beta.open()
    launched(beta)
    beta.run(ev.SpawnReady(spawned(beta)))
    beta.run(ev.InboxBound(spawned(beta)))
    world.settle()
    assert alpha.fate(msg_id) == "ready"


def test_a_start_that_is_called_back_goes_on_and_is_answered_as_it_is() -> None:
    _, alpha, beta = hosts()
    parsed = spawn_by_hand(alpha, beta)
    beta.get(parsed)
    gateway = beta.gateway.settings.me.gid
    words = told(beta.get(question(Kind.RECALL, alpha, beta, (parsed.envelope.msg_id, gateway, parsed.leaf))))
    assert words == ["publish OUTCOME alpha waiting", "ack"]
    ready(beta)
    assert control_state(beta, parsed.envelope.msg_id) == "ready"
