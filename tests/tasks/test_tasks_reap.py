"""An inbox that is taken away loses nothing: each message in it is told, and lies at the dead letters."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleettrio.broker.memory import MemoryBroker
from fleettrio.core import events as ev
from fleettrio.core.ledger import Limits
from fleettrio.core.topology import InboxQueue, inbox_queue
from fleettrio.ids import HostId
from tests.core.builders import agent
from tests.tasks.shell import Shell, running, until, until_stored


async def forget(host: Shell, name: str) -> None:
    call = host.performer.calls.new()
    await host.performer.handle(ev.Detached(call, host.gid(name), forget=True))


@pytest.mark.parametrize("most", [2, 1000])
async def test_what_waits_here_and_at_the_broker_is_told_when_its_agent_goes(
    tmp_path: Path, memory: MemoryBroker, most: int
) -> None:
    """With a full lane the queue was not consumed any more; what lies in it is refused all the same."""
    beta_side = running("beta", tmp_path, memory, [agent("worker", "beta")], limits=Limits(messages=most))
    async with running("alpha", tmp_path, memory) as alpha, beta_side as beta:
        await until(lambda: beta.gid("worker") in alpha.gateway.roster.others, "alpha hearing of worker")
        gid = beta.gid("worker")
        beta.panes[gid].not_ready = "it is at a dialog"
        sent = [(await alpha.send("worker@beta", b"%d" % number))[0] for number in range(6)]
        queue = inbox_queue(HostId("beta"), InboxQueue(gid))[0].name
        await until(lambda: beta.gateway.ledger.lane(gid).count >= min(most, 6), "the lane")
        await forget(beta, "worker")
        for msg_id in sent:
            await until_stored(lambda m=msg_id: alpha.is_fate(m, gid, "failed"), "its word")  # type: ignore[misc]
        await until(lambda: queue not in memory.model.queues, "the end of its queue")
        rows = [await alpha.store.sent(msg_id, gid) for msg_id in sent]
        assert {row.reason for row in rows if row} <= {"recipient-gone", "refused: recipient-gone at beta"}
        assert len(memory.dead) == sum(row.reason.startswith("refused") for row in rows if row)
