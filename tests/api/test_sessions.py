"""Which agent a hook or an MCP server is for: on a host with its real store."""

from __future__ import annotations

import os
from pathlib import Path

from fleettrio.api.callers import CallerRules, Process, hash_token
from fleettrio.api.processes import read_process
from fleettrio.api.rpc import Connection
from fleettrio.api.sessions import Sessions
from fleettrio.broker.memory import MemoryBroker
from fleettrio.core import events as ev
from fleettrio.core.entity import Entity
from fleettrio.wire.gids import derive_gid
from tests.tasks.shell import Shell, running

TTY = "/dev/pts/7"
SERVER = Process(60, 40, is_server=True, token=hash_token("first"))


class Hooks:
    """The daemon's side of a hook whose ancestors and token are made up."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.sessions = Sessions(shell.performer)
        roster, human = shell.gateway.roster, shell.gateway.settings.me.human
        self.rules = CallerRules(uid=os.getuid(), human=human, entities=roster.entities.values, read=read_process)

    async def agent(self, name: str, *, token: str = "", pid: int = 0, program: int = 0, **facts: str) -> Entity:
        me, salt = self.shell.gateway.settings.me, name.encode().ljust(16)
        gid, hashed = derive_gid(me.fleet_id, me.host, salt), hash_token(token) if token else b""
        entity = Entity(gid=gid, name=name, salt=salt, pid=pid, program=program, token_hash=hashed, **facts)  # type: ignore[arg-type]
        await self.shell.performer.handle(ev.Attached(self.shell.performer.calls.new(), entity))
        return entity

    def name(self, *chain: Process, token: str = "", session: str = "", harness: str = "", program: int = 0) -> str:
        connection = Connection(pid=chain[0].pid, uid=os.getuid(), ancestors=chain)
        caller = self.rules.decide(chain, os.getuid(), token)
        found = self.sessions.entity_of(caller, connection, harness=harness, session=session, program=program)
        return found.name if found else ""


async def test_a_hook_is_for_the_agent_whose_process_started_it_then_for_the_session_then_for_the_token(
    tmp_path: Path,
) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), connected=False) as shell:
        hooks = Hooks(shell)
        await hooks.agent("a", pid=40, program=45, session="s-a", token="token-a")
        await hooks.agent("b", session="s-b", token="token-b")
        ours = Process(50, 45), Process(45, 40), Process(40, 1, TTY)
        stranger = Process(70, 1)
        assert hooks.name(*ours, token="token-b", session="s-b") == "a"
        assert hooks.name(stranger, token="token-a", session="s-b") == "b"
        assert hooks.name(stranger, token="token-a", session="s-unknown") == "a"
        assert hooks.name(stranger, session="s-b") == "b"
        assert hooks.name(stranger, session="s-unknown") == ""
        assert hooks.name(Process(71, 1, TTY), session="s-unknown") == "", "a person at a terminal is no agent"


async def test_a_shared_server_of_codex_hands_no_session_the_mail_of_the_one_that_started_it(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), connected=False) as shell:
        hooks = Hooks(shell)
        await hooks.agent("first", pid=40, program=40, session="s-1", token="first", harness="codex")
        await hooks.agent("second", session="s-2", harness="codex")
        chain = Process(61, 60), SERVER, Process(40, 1, TTY)
        assert hooks.name(*chain, token="first", session="s-1", harness="codex") == "first"
        assert hooks.name(*chain, token="first", session="s-2", harness="codex") == "second"
        assert hooks.name(*chain, token="first", session="s-3", harness="codex") == ""


async def test_a_harness_that_an_agent_starts_is_not_that_agent(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), connected=False) as shell:
        hooks = Hooks(shell)
        await hooks.agent("a", pid=40, program=45, harness="claude")
        inner = Process(50, 49), Process(49, 47), Process(47, 45), Process(45, 40), Process(40, 1, TTY)
        assert hooks.name(*inner, program=45) == "a"
        assert hooks.name(*inner, program=47) == ""
        assert hooks.name(*inner, harness="codex") == "", "another program than the one that has the name"


async def test_the_session_that_was_noted_is_kept_over_a_restart_of_the_daemon(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), connected=False) as shell:
        hooks = Hooks(shell)
        agent = await hooks.agent("a", session="s-1")
        await hooks.sessions.note(agent.gid, session="s-2", api="http://127.0.0.1:4096")
    async with running("alpha", tmp_path, MemoryBroker(), connected=False) as shell:
        found = shell.gateway.roster.of_session("s-2")
        assert found is not None
        assert (found.name, found.api) == ("a", "http://127.0.0.1:4096")
        assert shell.gateway.roster.of_session("s-1") is None
