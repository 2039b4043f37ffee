"""Agents that were away when the daemon was started again: looked at, unless they were let go, and never mistaken."""

from __future__ import annotations

import os
import secrets
import shlex
from pathlib import Path

from fleettrio.testing.agents.room import StandIn, TmuxRoom, composer
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until
from tests.surfaces.workers import stand_in


def _send(host: Host, to: str, text: str) -> str:
    short: str = host.ok("send", to, text, "--json").json()["messages"][0]["short"]
    return short


def _state(host: Host, short: str) -> str:
    state: str = host.ok("show", short, "--json").json()["messages"][0]["state"]
    return state


def _is_away(host: Host, address: str) -> bool:
    found = host.agent(address)
    return found is not None and found.status == "away"


def in_a_shell(room: TmuxRoom) -> StandIn:
    """A composer started by hand in a pane's shell, which outlives it."""
    log = room.folder / f"{secrets.token_hex(4)}.jsonl"
    pane = room.run(["sh"])
    agent = StandIn(pane, f"{room.socket}:{pane}", log)
    start_by_hand(room, agent)
    return agent


def start_by_hand(room: TmuxRoom, agent: StandIn) -> None:
    begun = len(agent.events("begun"))
    room.tmux("send-keys", "-t", agent.pane, f"stty sane; {shlex.join(composer(agent.log))}", "C-j")
    wait_until("it has begun", lambda: len(agent.events("begun")) > begun)


def test_an_agent_that_was_away_at_the_restart_takes_its_mail_when_it_is_back(fleet: Fleet, room: TmuxRoom) -> None:
    beta = fleet["beta"]
    agent = in_a_shell(room)
    beta.ok("attach", "--name", "returning", "--pane", agent.target, "--harness", "script")
    os.kill(agent.events("begun")[-1]["pid"], 9)
    wait_until("the shell has its terminal", lambda: room.fact(agent.pane, "pane_current_command") in ("sh", "dash"))
    short = _send(beta, "returning", "for when you are back")
    wait_until("it is away", lambda: _is_away(beta, "returning@beta"))
    beta.stop()
    beta.up()
    wait_until("it is away still", lambda: _is_away(beta, "returning@beta"))
    start_by_hand(room, agent)
    wait_until("it has its mail", lambda: _state(beta, short) == "injected")


def test_an_agent_that_was_let_go_is_left_alone_after_a_restart(fleet: Fleet, room: TmuxRoom) -> None:
    beta = fleet["beta"]
    agent = stand_in(room, beta, "released")
    beta.ok("detach", "released")
    short = _send(beta, "released", "not now")
    beta.stop()
    beta.up()
    other = stand_in(room, beta, "witness")
    told = _send(beta, "witness", "to you")
    wait_until("others get their mail", lambda: _state(beta, told) == "injected")
    assert (_state(beta, short), agent.turns()) == ("waiting", [])
    assert len(other.turns()) == 1


def test_another_program_that_got_the_pane_while_no_daemon_ran_is_not_mistaken_for_the_agent(
    fleet: Fleet, room: TmuxRoom
) -> None:
    beta = fleet["beta"]
    agent = stand_in(room, beta, "replaced")
    beta.stop()
    log = room.folder / f"{secrets.token_hex(4)}.jsonl"
    room.tmux("respawn-pane", "-k", "-t", agent.pane, shlex.join(composer(log)))
    stranger = StandIn(agent.pane, agent.target, log)
    wait_until("it has begun", lambda: stranger.events("begun"))
    beta.up()
    short = _send(beta, "replaced", "for the agent only")
    wait_until("it is away", lambda: _is_away(beta, "replaced@beta"))
    assert (_state(beta, short), stranger.turns()) == ("waiting", [])


def test_an_agent_that_a_daemon_with_another_tmux_did_not_find_is_found_by_the_next_one(
    fleet: Fleet, room: TmuxRoom, tmp_path: Path
) -> None:
    beta = fleet["beta"]
    stand_in(room, beta, "hidden")
    beta.stop()
    usual = beta.env["TMUX_TMPDIR"]
    beta.env["TMUX_TMPDIR"] = str(tmp_path)
    beta.up()
    wait_until("it is away", lambda: _is_away(beta, "hidden@beta"))
    beta.stop()
    beta.env["TMUX_TMPDIR"] = usual
    beta.up()
    wait_until("it is there again", lambda: not _is_away(beta, "hidden@beta"))
    short = _send(beta, "hidden", "are you there?")
    wait_until("it has its mail", lambda: _state(beta, short) == "injected")
