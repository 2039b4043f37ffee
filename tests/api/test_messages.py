"""What a client gets for its sends and its looks, on a host with its real store."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.messages import Messages
from fleettrio.api.rpc import CallError, Connection
from fleettrio.perform import CallFailed
from tests.core.builders import agent
from tests.tasks.memory_broker import MemoryBroker
from tests.tasks.shell import Shell, running

HERE = Connection(pid=1, uid=0)
NAMES = ("lead", "worker", "stranger")
AGENTS = [agent(name, "alpha", takes="pull", transport="pull") for name in NAMES]


def who(shell: Shell, name: str) -> Caller:
    return Caller(shell.gid(name), name, name == "human")


async def test_the_same_recipient_by_name_address_and_gid_gets_one_message(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        to = ["worker", "worker@alpha", shell.gid("worker"), "lead", "worker"]
        sent = await Messages(shell.performer).send(schema.Send(to=to, body=b"once"), who(shell, "human"), HERE)
        assert [view.recipient for view in sent.messages] == ["worker@alpha", "lead@alpha"]
        assert shell.gateway.ledger.lane(shell.gid("worker")).count == 1


@pytest.mark.parametrize("seconds", [0.0, -5.0])
async def test_a_message_that_is_over_before_it_begins_is_refused(tmp_path: Path, seconds: float) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        request = schema.Send(to=["worker"], body=b"x", expires_s=seconds)
        with pytest.raises(CallError, match="would never be delivered") as refused:
            await Messages(shell.performer).send(request, who(shell, "human"), HERE)
        assert (refused.value.exit_code, "10m" in refused.value.hint) == (2, True)


async def test_a_key_with_another_body_is_a_conflict_also_after_a_restart(tmp_path: Path) -> None:
    for body in (b"first", b"first", b"second"):
        async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
            request = schema.Send(to=["worker"], body=body, key="k")
            if body == b"first":
                await Messages(shell.performer).send(request, who(shell, "lead"), HERE)
            else:
                with pytest.raises(CallFailed) as refused:
                    await Messages(shell.performer).send(request, who(shell, "lead"), HERE)
                assert (refused.value.reason, refused.value.exit_code) == ("key-conflict", 2)
            assert shell.gateway.ledger.lane(shell.gid("worker")).count == 1


async def test_an_agent_sees_of_a_trace_what_it_is_party_to_and_how_much_more_there_is(tmp_path: Path) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), AGENTS, connected=False) as shell:
        messages = Messages(shell.performer)
        to_two = schema.Send(to=["worker", "human"], body=b"secret plan")
        sent = await messages.send(to_two, who(shell, "lead"), HERE)
        trace = schema.Trace(sent.trace_id)

        seen_by = {name: await messages.trace(trace, who(shell, name), HERE) for name in (*NAMES, "human")}
        ids = {view.recipient: view.msg_id for view in sent.messages}
        assert {view.msg_id for view in seen_by["worker"].messages} == {ids["worker@alpha"]}
        assert {line.msg_id for line in seen_by["worker"].journal} <= {ids["worker@alpha"]}
        assert (seen_by["stranger"].messages, seen_by["stranger"].journal) == ([], [])
        assert {name: seen.others for name, seen in seen_by.items()} == {
            "lead": 0,
            "worker": 1,
            "stranger": 2,
            "human": 0,
        }
