"""The call that stays behind to wake an agent: the newest waits, and none of them loses what it was given."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from fleettrio.api.callers import Caller
from fleettrio.api.digests import Digests
from fleettrio.api.handing import Handing
from fleettrio.api.hooks.evidence import Evidence
from fleettrio.api.hooks.hooks import Hooks
from fleettrio.api.rpc import Connection
from fleettrio.api.schema import Hook, HookAnswer
from fleettrio.api.sessions import Sessions
from fleettrio.broker.memory import MemoryBroker
from tests.core.builders import agent
from tests.tasks.shell import Shell, running, until

STOPPED = json.dumps({"hook_event_name": "Stop", "session_id": "s-1", "transcript_path": "", "cwd": "/"}).encode()


class Waking:
    """The calls of one agent, and what each came to."""

    def __init__(self, shell: Shell) -> None:
        performer = shell.performer
        self.hooks = Hooks(performer, Sessions(performer), Evidence(Handing(performer)), Digests(performer))
        self.caller = Caller(shell.gid("worker"), "worker")
        self.said: dict[int, HookAnswer] = {}

    async def call(self, number: int) -> None:
        self.said[number] = await self.hooks.wait(Hook("claude", STOPPED), self.caller, Connection(pid=number, uid=1))


@pytest.fixture
async def beta(tmp_path: Path) -> AsyncIterator[Shell]:
    """A host whose agent is reached by its own calls alone."""
    worker = agent("worker", "beta")
    async with running("beta", tmp_path, MemoryBroker(), [worker], connected=False, deliver=False) as shell:
        yield shell


async def test_a_newer_call_takes_over_and_the_older_one_ends_with_nothing(beta: Shell) -> None:
    waking = Waking(beta)
    async with trio.open_nursery() as nursery:
        for number in (1, 2):
            nursery.start_soon(waking.call, number)
            await trio.testing.wait_all_tasks_blocked()
        assert waking.said == {1: HookAnswer()}
        await beta.send("worker", b"wake up")
    assert b"wake up" in waking.said[2].stderr
    assert waking.said[2].code == 2


async def test_an_older_call_that_was_given_a_message_wakes_the_agent_with_it(
    beta: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer call comes while what the older one was given is read, as when a turn ends just then."""
    waking, is_reading, may_read = Waking(beta), trio.Event(), trio.Event()
    read = beta.store.known

    async def slow(keys: object) -> object:
        is_reading.set()
        await may_read.wait()
        return await read(keys)  # type: ignore[arg-type]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(waking.call, 1)
        await trio.testing.wait_all_tasks_blocked()
        monkeypatch.setattr(beta.store, "known", slow)
        nursery.start_soon(functools.partial(beta.send, "worker", b"wake up"))
        await is_reading.wait()
        nursery.start_soon(waking.call, 2)
        await trio.testing.wait_all_tasks_blocked()
        may_read.set()
        await until(lambda: 1 in waking.said, "the answer to the first call")
        assert b"wake up" in waking.said[1].stderr
        assert 2 not in waking.said
        nursery.cancel_scope.cancel()
