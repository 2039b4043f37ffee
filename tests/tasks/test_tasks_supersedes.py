"""A tombstone on the disk: what it is for comes after a restart, over the shipped tasks and a real store."""

from __future__ import annotations

from pathlib import Path

from fleettrio.broker.memory import MemoryBroker
from fleettrio.core import requests as ask
from fleettrio.ids import MsgId
from tests.core.builders import TRACE, agent
from tests.tasks.shell import Shell, running, until, until_stored


async def _send(alpha: Shell, msg_id: MsgId, supersedes: MsgId | None = None) -> None:
    call = alpha.performer.calls.new()
    await alpha.performer.handle(
        ask.SendAsked(
            call=call,
            sender=alpha.gid("human"),
            to=("worker@beta",),
            body=b"run the tests",
            msg_ids=(msg_id,),
            trace_id=TRACE,
            supersedes=supersedes,
        )
    )
    await alpha.performer.calls.result(call)


async def test_what_was_replaced_before_it_came_is_never_typed_and_its_sender_is_told(
    tmp_path: Path, memory: MemoryBroker
) -> None:
    worker = [agent("worker", "beta")]
    async with running("alpha", tmp_path, memory) as alpha:
        older, newer = alpha.new_id(), alpha.new_id()
        async with running("beta", tmp_path, memory, worker) as beta:
            await until(lambda: alpha.gateway.roster.others, "the worker's name")
            await _send(alpha, newer, supersedes=older)
            await until_stored(lambda: beta.is_state(newer, "worker", "injected"), "the newer one")
            await until_stored(lambda: beta.is_state(older, "worker", "superseded"), "the tombstone")
        async with running("beta", tmp_path, memory, worker) as beta:
            gid = beta.gid("worker")
            await _send(alpha, older)
            await until_stored(lambda: alpha.is_fate(older, gid, "superseded"), "the word about the older one")
            (row,) = await beta.store.known([(older, gid)])
            sent = await alpha.store.sent(older, gid)
            assert row is not None
            assert sent is not None
            assert row.leaf == sent.leaf
            assert await beta.store.message(older, gid) is None
            assert beta.panes[gid].texts == []
