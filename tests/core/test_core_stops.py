"""Ending an agent: nothing new goes in, what is in hand runs to its end, the rest is told, and the inbox is reaped."""

from __future__ import annotations

import pytest

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.spawned import SpawnState
from tests.core.builders import Host, World, agent, told
from tests.core.messages import brief
from tests.core.spawning import control_state, hosts, launched, ready, spawn, spawned, stop, stop_by_hand


def running(*grants: str) -> tuple[World, Host, Host]:
    world, alpha, beta = hosts(*grants)
    spawn(alpha)
    world.settle()
    ready(beta)
    world.settle()
    return world, alpha, beta


def test_whoever_started_it_may_stop_it_and_is_told_when_it_is_gone() -> None:
    world, alpha, beta = running()
    msg_id = stop(alpha, spawned(beta))
    world.settle()
    assert alpha.fate(msg_id) == "confirmed"
    assert beta.gateway.roster.entities[spawned(beta)].status == "stopping"
    assert alpha.others[spawned(beta)].status == "stopping"
    assert told(beta.run(ev.AgentEnded(spawned(beta), "its worktree was kept"))) == [
        "spawn ended(stopped)",
        "drop agent",
        "record done owed",
        "close inbox",
        "publish PRESENCE agent",
        "publish OUTCOME alpha done",
    ]
    world.settle()
    assert alpha.fate(msg_id) == "done"
    assert alpha.sent(msg_id).detail == "its worktree was kept"
    assert spawned(beta) not in alpha.others


def test_what_waits_ends_at_once_and_nothing_new_is_taken() -> None:
    world, alpha, beta = running()
    waiting, _ = brief(alpha, beta, "coder@beta")
    actions = beta.get(stop_by_hand(alpha, beta, spawned(beta)))
    assert told(actions) == [
        "commit waiting",
        "spawn stopping(stopped)",
        "agent coder stopping",
        "record failed(recipient-gone) owed",
        "unwatch coder",
        "publish PRESENCE agent",
        "publish FAILED alpha",
        "endagent",
        "ack",
    ]
    world.settle()
    assert alpha.fate(waiting) == "failed(recipient-gone)"
    _late, actions = brief(alpha, beta, "coder@beta")
    assert "note refused recipient-gone" in told(actions)
    beta.send("coder")
    assert told(beta.last) == ["sent failed(recipient-gone)", "resolve failed(recipient-gone)"]


@pytest.mark.parametrize(
    ("outcome", "fate"), [("submitted", "injected"), ("nothing-written", "failed(recipient-gone)")]
)
def test_a_write_that_began_is_finished_before_its_program_is_ended(outcome: str, fate: str) -> None:
    world, alpha, beta = running()
    msg_id, _ = brief(alpha, beta, "coder@beta")
    beta.run(ev.AgentReserved(spawned(beta), msg_id))
    words = told(beta.get(stop_by_hand(alpha, beta, spawned(beta))))
    assert "endagent" not in words
    actions = beta.run(ev.Injected(spawned(beta), msg_id, outcome, "tmux"))
    assert told(actions)[-1] == "endagent"
    world.settle()
    assert alpha.fate(msg_id) == fate


def test_an_agent_that_is_only_starting_is_ended_and_its_requester_told() -> None:
    world, alpha, beta = hosts()
    asked = spawn(alpha)
    world.settle()
    launched(beta)
    msg_id = stop(alpha, spawned(beta))
    world.settle()
    assert alpha.fate(asked) == "failed(stopped)"
    assert beta.run(ev.SpawnReady(spawned(beta))) == []
    beta.run(ev.AgentEnded(spawned(beta)))
    world.settle()
    assert alpha.fate(msg_id) == "done"
    assert beta.gateway.roster.starting == {}
    assert spawned(beta) not in beta.entities


@pytest.mark.parametrize("grants", [("spawn:other",), ("ask",)])
def test_without_a_grant_it_is_refused(grants: tuple[str, ...]) -> None:
    _, alpha, beta = hosts(*grants)
    words = told(beta.get(stop_by_hand(alpha, beta, beta.gid("worker"))))
    assert words[0] == "note refused not-authorised"
    assert beta.gateway.roster.entities[beta.gid("worker")].status == "idle"


def test_the_person_at_a_host_is_nobodys_to_stop() -> None:
    _, alpha, beta = hosts("stop")
    for gid in (beta.gid("human"), beta.gateway.settings.me.gid):
        assert told(beta.get(stop_by_hand(alpha, beta, gid)))[0] == "note refused not-an-agent"


@pytest.mark.parametrize("at", ["alpha", "beta"])
def test_who_asks_to_stop_a_person_or_a_daemon_is_told_in_a_sentence_and_nothing_goes_out(at: str) -> None:
    _, alpha, beta = hosts("stop")
    there = {"alpha": alpha, "beta": beta}[at]
    for gid, who in ((there.gid("human"), "the person at"), (there.gateway.settings.me.gid, "the daemon of")):
        stop(alpha, gid, at)
        (refused,) = alpha.last
        assert isinstance(refused, do.Fail)
        assert refused.reason == "not-an-agent"
        assert refused.message == f"that is {who} {at}, and only agents are stopped"
        assert refused.hint


def test_header_and_body_must_name_the_same_agent() -> None:
    _, alpha, beta = running("spawn:coder")
    words = told(beta.get(stop_by_hand(alpha, beta, beta.gid("worker"), spawned(beta))))
    assert words[0] == "note refused malformed"


def test_an_agent_that_was_attached_is_let_go_and_its_program_runs_on() -> None:
    world, alpha, beta = hosts("stop")
    msg_id = stop(alpha, beta.gid("worker"))
    world.settle()
    assert alpha.fate(msg_id) == "done"
    assert "runs on" in alpha.sent(msg_id).detail
    assert beta.gid("worker") not in beta.entities


def test_an_agent_that_is_not_there_is_told() -> None:
    world, alpha, beta = hosts("stop")
    msg_id = stop(alpha, beta.gid("nobody"))
    world.settle()
    assert alpha.fate(msg_id) == "failed(recipient-gone)"


def test_a_second_stop_gets_its_word_together_with_the_first() -> None:
    world, alpha, beta = running()
    first, second = stop(alpha, spawned(beta)), stop(alpha, spawned(beta))
    world.settle()
    assert sum(isinstance(a, do.EndAgent) for a in beta.gateway.stops.start(beta.clock.now)) == 1
    beta.run(ev.AgentEnded(spawned(beta)))
    world.settle()
    assert (alpha.fate(first), alpha.fate(second)) == ("done", "done")


def test_a_crash_while_it_is_ended_goes_on_with_it() -> None:
    world, alpha, beta = running()
    msg_id = stop(alpha, spawned(beta))
    world.settle()
    assert told(beta.start())[-1] == "endagent"
    beta.open()
    beta.run(ev.AgentEnded(spawned(beta)))
    world.settle()
    assert alpha.fate(msg_id) == "done"
    assert beta.gateway.spawns.rows[spawned(beta)].state is SpawnState.ENDED


def test_a_crash_while_a_starting_one_is_ended_goes_on_with_it() -> None:
    world, alpha, beta = hosts()
    spawn(alpha)
    world.settle()
    msg_id = stop(alpha, spawned(beta))
    world.settle()
    assert told(beta.start())[-1] == "endagent"
    beta.open()
    beta.run(ev.AgentEnded(spawned(beta)))
    world.settle()
    assert alpha.fate(msg_id) == "done"


def test_the_same_stop_again_ends_nothing_twice() -> None:
    _world, alpha, beta = running()
    parsed = stop_by_hand(alpha, beta, spawned(beta))
    beta.get(parsed)
    assert told(beta.get(parsed)) == ["ack"]
    beta.run(ev.AgentEnded(spawned(beta)))
    assert control_state(beta, parsed.envelope.msg_id) == "done"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"transport": "tmux"}, "its program was not started by a spawn, so it runs on"),
        ({"transport": "pull", "takes": "pull", "pid": 7}, "its program was not started by a spawn, so it runs on"),
        ({"transport": "pull", "takes": "pull"}, "its token is not valid any more"),
        ({"transport": "process"}, "its command is not run any more"),
    ],
)
def test_what_goes_on_after_the_end_is_said_of_each_kind_of_agent(changes: dict[str, object], said: str) -> None:
    _, _, beta = hosts()
    beta.run(ev.Attached(beta.call(), agent("more", "beta", **changes)))
    msg_id = stop(beta, beta.gid("more"))
    assert (beta.fate(msg_id), beta.sent(msg_id).detail) == ("done", said)


def test_whoever_asked_for_an_agent_that_is_stopped_is_told_which_one() -> None:
    world, alpha, beta = hosts()
    asked = spawn(alpha, name="slow2")
    world.settle()
    beta.get(stop_by_hand(alpha, beta, spawned(beta)))
    world.settle()
    assert (alpha.fate(asked), alpha.sent(asked).detail) == ("failed(stopped)", "slow2")


@pytest.mark.parametrize("how", ["attach", "detach", "forget"])
def test_an_agent_that_is_being_stopped_is_neither_attached_nor_let_go_and_its_stop_has_an_end(how: str) -> None:
    _, _, beta = hosts()
    beta.run(ev.Attached(beta.call(), agent("more", "beta")))
    msg_id = beta.send("more")
    beta.ready(msg_id, "more")
    stopped = stop(beta, beta.gid("more"))
    call, gid = beta.call(), beta.gid("more")
    asked = ev.Attached(call, agent("more", "beta")) if how == "attach" else ev.Detached(call, gid, how == "forget")
    beta.run(asked)
    refused = beta.results[call]
    assert isinstance(refused, do.Fail)
    assert refused.message == "more is being stopped"
    beta.typed(msg_id, "more")
    assert (beta.fate(stopped), beta.fate(msg_id), gid in beta.entities) == ("done", "injected", False)
