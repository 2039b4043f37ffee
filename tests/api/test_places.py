"""Attaching an agent that already runs, from another terminal or its own: what is found, whose its processes are."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from fleettrio.api.callers import Process
from fleettrio.api.rpc import CallError
from fleettrio.panes.scope import process_of
from fleettrio.testing.agents.room import SOURCE, StandIn, TmuxRoom, until
from fleettrio.testing.herdr_server import HerdrServer
from tests.api.test_attaching import HARNESS, PERSON, Desks, desk, in_pane, room

__all__ = ("desk", "room")  # the fixtures


def claude(room: TmuxRoom, name: str = "claude") -> str:
    """A line of shell that runs a stand-in under the program's own name, in a folder of settings of its own."""
    log = room.folder / f"{name}.jsonl"
    program = [sys.executable, "-m", "fleettrio.testing.agents.harness", name, "--log", str(log)]
    (room.folder / "settings").mkdir(exist_ok=True)
    env = f"env PYTHONPATH={SOURCE} CLAUDE_CONFIG_DIR={room.folder}/settings"
    return f"{env} bash -c 'exec -a {name} {shlex.join(program)}'"


async def pane_with(room: TmuxRoom, name: str = "claude") -> str:
    pane = room.run(["bash", "-c", f"exec {claude(room, name)}"])
    log = StandIn("", "", room.folder / f"{name}.jsonl")
    await until("the stand-in has begun", lambda: log.events("begun"))
    await until("its composer", lambda: "❯" in room.screen(pane) or "›" in room.screen(pane))
    return pane


async def test_a_running_harness_is_seen_adopted_and_speaks_for_itself_afterwards(desk: Desks, room: TmuxRoom) -> None:
    pane = await pane_with(room)
    async with desk() as it:
        attached = await it.attach(PERSON, pane=f"{room.socket}:{pane}", cwd="/srv/shop")
        assert attached.name == "claude-shop"
        assert attached.found.startswith(f"claude in pane {room.socket}:{pane}, idle, ready for a message")
        entity = it.shell.gateway.roster.by_name("claude-shop")
        assert entity is not None
        assert (entity.harness, entity.transport, entity.takes, entity.wakes) == ("claude", "tmux", "push", True)
        for process in (in_pane(room, pane), in_pane(room, pane, "CLAUDECODE")):
            assert it.who(process).name == "claude-shop"
        assert it.who(PERSON).is_person


async def test_its_session_is_told_by_the_file_that_claude_keeps(desk: Desks, room: TmuxRoom) -> None:
    pane = await pane_with(room)
    pid = int(room.fact(pane, "pane_pid"))
    file = room.folder / "settings" / "sessions" / f"{pid}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"pid": pid, "sessionId": "b7e1-22", "status": "idle", "of": ["a newer one"]}))
    async with desk() as it:
        attached = await it.attach(PERSON, name="x", pane=f"{room.socket}:{pane}")
        assert attached.found.endswith("; session b7e1-22")
        entity = it.shell.gateway.roster.by_name("x")
        assert entity is not None
        assert entity.session == "b7e1-22"
        for bad in ("{", '{"sessionId": "two\\nlines"}', '{"sessionId": 7}', '{"sessionId": "other", "pid": 1}'):
            file.write_text(bad)
            assert "session" not in (await it.attach(PERSON, name="x", pane=f"{room.socket}:{pane}")).found


async def test_one_that_was_started_at_a_prompt_is_its_own_process(desk: Desks, room: TmuxRoom) -> None:
    pane = room.run(["env", "PS1=$ ", "bash", "--norc", "--noprofile", "-i"])
    await until("its prompt", lambda: "$" in room.screen(pane))
    room.tmux("send-keys", "-l", "-t", pane, claude(room))
    room.tmux("send-keys", "-t", pane, "Enter")
    log = StandIn("", "", room.folder / "claude.jsonl")
    await until("the stand-in has begun", lambda: log.events("begun"))
    await until("its composer", lambda: "❯" in room.screen(pane))
    async with desk() as it:
        await it.attach(PERSON, name="x", pane=f"{room.socket}:{pane}")
        entity = it.shell.gateway.roster.by_name("x")
        assert entity is not None
        running = process_of(log.pid)
        assert running is not None
        assert (entity.program, entity.started) == (running.pid, running.started)


async def test_what_it_is_at_is_said(desk: Desks, room: TmuxRoom) -> None:
    agent = await room.start("--draft", "half typed")
    async with desk() as it:
        attached = await it.attach(PERSON, name="x", pane=agent.target, harness="script")
        assert attached.found == f"script in pane {agent.target}, idle: a draft is in its composer"
        assert [event["event"] for event in agent.events()] == ["begun"], "nothing was typed"


async def test_another_harness_than_was_said_is_told(desk: Desks, room: TmuxRoom) -> None:
    pane = f"{room.socket}:{await pane_with(room)}"
    async with desk() as it:
        refused = await it.refused(PERSON, name="x", pane=pane, harness="codex")
        assert (refused.reason, str(refused)) == ("wrong-harness", f"claude runs in pane {pane}, not codex")
        assert "--harness claude" in refused.hint
        assert it.shell.gateway.roster.by_name("x") is None


async def test_a_shell_at_its_prompt_is_no_harness(desk: Desks, room: TmuxRoom) -> None:
    bare = room.run(["env", "PS1=$ ", "bash", "--norc", "--noprofile", "-i"])
    await until("its prompt", lambda: "$" in room.screen(bare))
    pane = f"{room.socket}:{bare}"
    async with desk() as it:
        refused = await it.refused(PERSON, name="x", pane=pane, harness="claude")
        assert str(refused) == f"a shell is at the prompt of pane {pane}, and no claude"
        assert refused.hint == "start it there: fleettrio claude"
        attached = await it.attach(PERSON, name="x", pane=pane)
        assert "a shell is at the prompt" in attached.found


async def test_a_program_nobody_described_is_named_and_gets_single_lines(desk: Desks, room: TmuxRoom) -> None:
    pane = room.run(["cat"])
    await until("it runs", lambda: room.fact(pane, "pane_current_command") == "cat")
    async with desk() as it:
        attached = await it.attach(PERSON, name="x", pane=f"{room.socket}:{pane}")
        assert "cat (nobody described it: it gets one line for each message)" in attached.found


@pytest.mark.parametrize(("harness", "what"), [("claude", "claude"), ("", "the agent")])
async def test_a_shell_attaches_its_own_pane_before_the_agent_is_started_there(
    desk: Desks, room: TmuxRoom, harness: str, what: str
) -> None:
    bare = room.run(["env", "PS1=$ ", "bash", "--norc", "--noprofile", "-i"])
    await until("its prompt", lambda: "$" in room.screen(bare))
    pane = f"{room.socket}:{bare}"
    async with desk() as it:
        attached = await it.attach(in_pane(room, bare), name="x", pane=pane, harness=harness)
        assert attached.found == f"pane {pane}; start {what} there next"
        entity = it.shell.gateway.roster.by_name("x")
        assert entity is not None
        assert entity.harness == harness


@pytest.mark.parametrize("pane", ["%4711", "no-such-server:%1"])
async def test_a_pane_that_does_not_exist_is_told(desk: Desks, room: TmuxRoom, pane: str) -> None:
    async with desk() as it:
        refused = await it.refused(PERSON, name="x", pane=pane)
        assert (refused.reason, str(refused)) == ("no-pane", f"the pane {pane} does not exist")


async def test_a_dead_pane_and_what_is_no_pane_are_told(desk: Desks, room: TmuxRoom) -> None:
    agent = await room.start()
    room.tmux("send-keys", "-t", agent.pane, "C-d")
    await until("the pane is dead", lambda: room.fact(agent.pane, "pane_dead") == "1")
    async with desk() as it:
        assert str(await it.refused(PERSON, name="x", pane=agent.target)) == f"the pane {agent.target} is dead"
        refused = await it.refused(PERSON, name="x", pane="main:0.1")
        assert (refused.reason, refused.exit_code) == ("no-pane", 2)


async def test_two_agents_do_not_live_in_one_pane(desk: Desks, room: TmuxRoom) -> None:
    agent = await room.start()
    async with desk() as it:
        await it.attach(PERSON, name="first", pane=agent.target, harness="script")
        refused = await it.refused(PERSON, name="second", pane=agent.target, harness="script")
        assert (refused.reason, str(refused)) == ("place-held", f"first lives there already ({agent.target})")
        assert "fleettrio detach first" in refused.hint
        assert not (await it.attach(PERSON, name="first", pane=agent.target, harness="script")).is_new
        await it.detach(PERSON, "first")
        await it.attach(PERSON, name="second", pane=agent.target, harness="script")


# --- herdr ----------------------------------------------------------------------------------------


async def test_an_agent_in_herdr_is_adopted_by_its_terminal(desk: Desks) -> None:
    with HerdrServer() as server:
        agent = server.add(session="b7e1")
        server.process = (os.getpid(), "/dev/pts/77")
        async with desk() as it:
            attached = await it.attach(
                PERSON, transport="herdr", target=f"{server.socket}#{agent.pane}", cwd="/srv/shop"
            )
            assert attached.name == "claude-shop"
            assert (
                attached.found == f"claude in pane {agent.pane} of herdr 0.8.2, idle, ready for a message; session b7e1"
            )
            entity = it.shell.gateway.roster.by_name("claude-shop")
            assert entity is not None
            assert (entity.transport, entity.target, entity.session) == ("herdr", server.target(agent), "b7e1")
            again = await it.refused(PERSON, name="y", transport="herdr", target=server.target(agent))
            assert again.reason == "place-held"
            inside = Process(999_999, 1, "/dev/pts/77", (), os.getpid())
            assert it.who((inside,)).name == "claude-shop"


async def test_who_is_not_in_herdr_and_what_is_another_harness_are_told(desk: Desks, tmp_path: Path) -> None:
    with HerdrServer() as server:
        agent = server.add()
        async with desk() as it:
            for target, words in (
                (f"{server.socket}#w9:p9", "agent target w9:p9 not found"),
                (f"{tmp_path}/none.sock#w1:p1", "no herdr server answers"),
                ("w1:p1", "is not an agent of herdr"),
            ):
                refused = await it.refused(PERSON, name="x", transport="herdr", target=target)
                assert words in str(refused)
                assert refused.reason == "no-agent"
            refused = await it.refused(
                PERSON, name="x", transport="herdr", target=server.target(agent), harness="codex"
            )
            assert refused.reason == "wrong-harness"


async def test_an_agent_attaches_no_terminal_of_another(desk: Desks) -> None:
    with HerdrServer() as server:
        agent = server.add()
        async with desk() as it:
            with pytest.raises(CallError) as refused:
                await it.attach(HARNESS, name="x", transport="herdr", target=server.target(agent))
            assert refused.value.reason == "not-yours"
