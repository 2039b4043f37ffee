"""Who may attach what, take a name back, and let an agent go: on a host with its real store and real panes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fleettrio.api import schema
from fleettrio.api.agents import Agents
from fleettrio.api.callers import Caller, CallerRules, Process, TokenUse, lineage
from fleettrio.api.health import Health
from fleettrio.api.processes import read_process
from fleettrio.api.rpc import CallError, Connection
from fleettrio.api.trust import Trust
from fleettrio.broker.memory import MemoryBroker
from fleettrio.config import load_config
from fleettrio.identity import load_identity
from fleettrio.ids import WallMs
from fleettrio.tasks.notify import Notifier
from fleettrio.testing.agents.room import TmuxRoom
from tests.tasks.shell import Shell, running

HARNESS = (
    Process(900_002, 900_001, "", ("CLAUDECODE",)),
    Process(900_001, 900_000),
    Process(900_000, 1, "/dev/pts/900"),
)
"""A command of a harness (900001), which a person's shell started (900000)."""
PERSON = (Process(910_000, 1, "/dev/pts/910"),)
NOBODY = (Process(920_000, 1),)


class Desk:
    """The daemon's side of `attach` and `detach`, for callers made up of processes and tokens."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.seconds = 1_000.0
        uses = TokenUse(lambda: self.seconds)
        self.agents = Agents(shell.performer, uses)
        roster = shell.gateway.roster
        human = shell.gateway.settings.me.human
        self.rules = CallerRules(
            uid=os.getuid(), human=human, entities=roster.entities.values, read=read_process, uses=uses
        )

    def who(self, processes: tuple[Process, ...], token: str = "") -> Caller:
        return self.rules.decide(processes, os.getuid(), token)

    async def attach(self, processes: tuple[Process, ...], token: str = "", **params: Any) -> schema.Attached:
        connection = Connection(pid=processes[0].pid, uid=os.getuid(), ancestors=processes)
        request = schema.Attach(**params)
        return await self.agents.attach(request, self.who(processes, token), connection)

    async def detach(self, processes: tuple[Process, ...], name: str, token: str = "") -> schema.Done:
        connection = Connection(pid=processes[0].pid, uid=os.getuid(), ancestors=processes)
        return await self.agents.detach(schema.Detach(name), self.who(processes, token), connection)

    async def refused(self, processes: tuple[Process, ...], token: str = "", **params: Any) -> CallError:
        with pytest.raises(CallError) as refused:
            await self.attach(processes, token, **params)
        return refused.value


@pytest.fixture
def desk(tmp_path: Path) -> Callable[[], AbstractAsyncContextManager[Desk]]:
    @asynccontextmanager
    async def open_desk() -> AsyncIterator[Desk]:
        async with running("alpha", tmp_path, MemoryBroker(), connected=False) as shell:
            yield Desk(shell)

    return open_desk


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Iterator[TmuxRoom]:
    with TmuxRoom() as room:
        monkeypatch.setenv("TMUX_TMPDIR", str(room.folder))
        yield room


Desks = Callable[[], AbstractAsyncContextManager[Desk]]


def in_pane(room: TmuxRoom, pane: str, *marks: str) -> tuple[Process, ...]:
    """A command in that pane, started by its first process."""
    tty, pid = room.fact(pane, "pane_tty"), int(room.fact(pane, "pane_pid"))
    return Process(900_003, pid, tty, marks, pid), Process(pid, 1, tty, (), pid)


async def test_without_terminal_token_or_harness_nobody_gets_an_identity(desk: Desks) -> None:
    async with desk() as it:
        refused = await it.refused(NOBODY, name="x")
        assert (refused.reason, "no terminal and no token" in str(refused)) == ("no-identity", True)
        assert (await it.refused(PERSON, "a token nobody knows", name="x")).reason == "no-identity"
        assert it.shell.gateway.roster.by_name("x") is None


async def test_an_agent_that_is_not_attached_gets_a_new_name_for_itself_alone(desk: Desks, room: TmuxRoom) -> None:
    async with desk() as it:
        pane = f"{room.socket}:{room.run(['cat'])}"
        assert (await it.refused(HARNESS, name="x", pane=pane)).reason == "not-yours"
        assert (await it.refused(HARNESS, name="x", command=["cat"])).reason == "not-a-person"
        assert (await it.refused(HARNESS, name="x", take=True)).reason == "not-a-person"
        attached = await it.attach(HARNESS, name="x")
        assert it.who(HARNESS, attached.token).name == "x"
        assert (await it.refused(HARNESS, attached.token, name="y")).reason == "attached-already"


async def test_an_agent_attaches_the_pane_it_runs_in(desk: Desks, room: TmuxRoom) -> None:
    async with desk() as it:
        pane = room.run(["cat"])
        caller = in_pane(room, pane, "CLAUDECODE")
        await it.attach(caller, name="x", pane=f"{room.socket}:{pane}")
        assert (it.who(caller).name, it.who(caller[1:]).name) == ("x", "x")


async def test_a_process_must_be_a_living_one_of_this_user_and_none_the_daemon_descends_from(desk: Desks) -> None:
    async with desk() as it:
        for process in lineage(os.getpid(), read_process):
            assert (await it.refused(PERSON, name="x", pid=process.pid)).reason == "bad-pid"
        assert (await it.refused(PERSON, name="x", pid=1)).reason == "bad-pid"
        refused = await it.refused(PERSON, name="x", pid=2**31 - 1)
        assert "no process 2147483647 of this user is running" in str(refused)


@pytest.mark.parametrize("role", ["r" * 65, "two\nlines", "\x1b[31mred"])
async def test_a_role_that_cannot_be_told_to_other_hosts_is_refused(desk: Desks, role: str) -> None:
    async with desk() as it:
        refused = await it.refused(PERSON, name="x", role=role)
        assert (refused.exit_code, str(refused)) == (2, "a role is at most 64 printable characters")


async def test_a_command_whose_program_does_not_exist_is_refused_at_once(desk: Desks) -> None:
    async with desk() as at:
        refused = await at.refused(PERSON, name="batch", command=["cat;", "exit", "3"])
        assert (refused.reason, refused.exit_code) == ("no-program", 2)
        await at.attach(PERSON, name="batch", command=["cat"])


async def test_only_a_person_detaches_an_agent(desk: Desks) -> None:
    async with desk() as it:
        token = (await it.attach(PERSON, name="x")).token
        for processes, shown in ((HARNESS, token), (HARNESS, ""), (NOBODY, "")):
            with pytest.raises(CallError, match="only a person detaches"):
                await it.detach(processes, "x", shown)
        assert (await it.detach(PERSON, "x")).detail.startswith("x is away")


async def test_the_terminal_of_an_agent_that_is_away_takes_only_that_pane_back(desk: Desks, room: TmuxRoom) -> None:
    async with desk() as it:
        pane = room.run(["cat"])
        target, there = f"{room.socket}:{pane}", in_pane(room, pane)
        await it.attach(PERSON, name="worker", pane=target)
        await it.detach(PERSON, "worker")
        assert it.who(there).hint == "fleettrio attach --name worker --here"
        assert (await it.refused(there, name="worker")).reason == "no-identity"
        other = f"{room.socket}:{room.run(['cat'])}"
        assert (await it.refused(there, name="worker", pane=other)).reason == "not-yours"
        again = await it.attach(there, name="worker", pane=target)
        assert (again.is_new, it.who(there).name) == (False, "worker")


async def test_an_agent_with_its_token_cannot_leave_its_pane_and_become_the_person(desk: Desks, room: TmuxRoom) -> None:
    """Its program left the pane's processes behind, and shows the token that it has."""
    async with desk() as it:
        pane = room.run(["cat"])
        token = (await it.attach(PERSON, name="worker", pane=f"{room.socket}:{pane}")).token
        assert (await it.refused(NOBODY, token, name="worker")).reason == "name-held"
        assert it.who(in_pane(room, pane)).name == "worker"


async def test_a_known_name_comes_back_by_its_token(desk: Desks) -> None:
    async with desk() as it:
        first = await it.attach(PERSON, name="ci")
        again = await it.attach(NOBODY, first.token, name="ci")
        assert (again.gid, again.is_new) == (first.gid, False)
        assert it.who(NOBODY, again.token).name == "ci"


async def test_a_name_whose_token_was_used_lately_is_live(desk: Desks) -> None:
    async with desk() as it:
        home = {"name": "lead", "cwd": "/home/ann/shop"}
        token = (await it.attach(HARNESS, "", **home)).token
        it.who(NOBODY, token)
        it.seconds += 599
        assert (await it.refused(HARNESS, "", **home)).reason == "name-known"
        assert (await it.refused(PERSON, "", **home)).reason == "name-held"
        it.seconds += 2
        assert (await it.refused(HARNESS, name="lead", cwd="/elsewhere")).reason == "name-known"
        assert not (await it.attach(HARNESS, "", **home)).is_new


async def test_a_person_takes_a_live_name_on_purpose(desk: Desks) -> None:
    async with desk() as it:
        token = (await it.attach(PERSON, name="lead")).token
        it.who(NOBODY, token)
        await it.attach(PERSON, name="lead", take=True)
        assert "not known" in it.who(NOBODY, token).problem


@pytest.mark.parametrize("name", ["worker", ""])
async def test_only_a_person_has_the_fleet_file_read_again(tmp_path: Path, name: str) -> None:
    config = load_config({"FLEETTRIO_HOME": str(tmp_path / "home")})
    async with running("alpha", tmp_path, MemoryBroker(), connected=False) as shell:
        trust = Trust(config, load_identity(config.paths, config), shell.verifier, shell.performer)
        notifier = Notifier(config.notify, shell.performer, {})
        health = Health(shell.performer, config, WallMs(0), trust, lambda: None, notifier, {})
        connection = Connection(pid=1, uid=os.getuid())
        with pytest.raises(CallError, match="only a person changes whom this host trusts"):
            await health.reload(schema.Empty(), Caller(gid=name, name=name), connection)
        reloaded = await health.reload(schema.Empty(), Caller("gid", "human", True), connection)
        assert reloaded.fleet_id == shell.gateway.trust.fleet.fleet_id
