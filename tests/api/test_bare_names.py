"""A bare name on a command that does harm means an agent of this host, whoever else is called so."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleettrio.api import schema
from fleettrio.api.agents import Agents
from fleettrio.api.callers import Caller, TokenUse
from fleettrio.api.pauses import Pauses
from fleettrio.api.rpc import CallError, Connection, Handler
from fleettrio.api.schema.pauses import Pause
from fleettrio.api.spawns import Spawns
from fleettrio.broker.memory import MemoryBroker
from fleettrio.core.peer import PeerEntity
from fleettrio.ids import HostId
from tests.core.builders import gid_of
from tests.tasks.shell import running

HERE = Connection(pid=1, uid=0)


@pytest.mark.parametrize("command", ["stop", "pause", "resume", "detach"])
async def test_nobody_elsewhere_is_ended_or_held_by_a_bare_name(tmp_path: Path, command: str) -> None:
    async with running("alpha", tmp_path, MemoryBroker(), [], connected=False) as shell:
        twin = PeerEntity(gid=gid_of("twin", "beta"), host=HostId("beta"), name="twin")
        shell.gateway.roster.others[twin.gid] = twin
        person = Caller(shell.gid("human"), "human", True)
        orders: dict[str, tuple[Handler, object]] = {
            "stop": (Spawns(shell.performer).stop, schema.Stop("twin")),
            "pause": (Pauses(shell.performer).pause, Pause(target="twin")),
            "resume": (Pauses(shell.performer).resume, Pause(target="twin")),
            "detach": (Agents(shell.performer, TokenUse()).detach, schema.Detach("twin", True)),
        }
        method, params = orders[command]
        with pytest.raises(CallError) as refused:
            await method(params, person, HERE)
        assert (refused.value.exit_code, refused.value.hint) == (3, "did you mean twin@beta?")
