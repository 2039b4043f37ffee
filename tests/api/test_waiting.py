"""Calls that wait, on a real store: what was decided for a call in its last moment reaches its client."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from fleettrio.api.callers import Caller
from fleettrio.api.handing import Handing
from fleettrio.api.lookup import Lookup
from fleettrio.api.rpc import Connection
from fleettrio.api.schema import Pull, Wait
from fleettrio.api.viewer import Viewer
from fleettrio.api.waiting import Waiting
from fleettrio.broker.memory import MemoryBroker
from fleettrio.core import actions as do
from fleettrio.core import requests as ask
from fleettrio.ids import MsgId, WallMs
from fleettrio.store.writer import Ticket
from tests.core.builders import agent
from tests.core.hands import ALL
from tests.tasks.shell import Shell, running, until

T = TypeVar("T")

CLIENT, HOOK = Connection(pid=1, uid=1, session="client"), Connection(pid=2, uid=1, session="hook")
MOMENT_S = 2.0
"""Long enough for something to be decided within it, also by a machine that is busy with other things."""


@pytest.fixture
async def beta(tmp_path: Path) -> AsyncIterator[Shell]:
    """A host with an agent that is reached by its own calls, and one that fetches its mail."""
    agents = [agent("worker", "beta"), agent("lead", "beta", takes="pull", transport="pull")]
    async with running("beta", tmp_path, MemoryBroker(), agents, connected=False, deliver=False) as shell:
        yield shell


@pytest.fixture
def waiting(beta: Shell) -> Waiting:
    lookup = Lookup(beta.performer)
    return Waiting(beta.performer, lookup, Viewer(beta.performer, lookup))


def caller(beta: Shell, name: str) -> Caller:
    return Caller(beta.gid(name), name)


class _Held:
    """A transaction of which nobody hears before `may_end`."""

    def __init__(self, ticket: Ticket, may_end: trio.Event) -> None:
        self._ticket, self._may_end = ticket, may_end

    async def done(self) -> object:
        await self._may_end.wait()
        return await self._ticket.done()


@contextlib.contextmanager
def busy_disk(beta: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[trio.Event]:
    """Nothing that is recorded from now on is on the disk before the event is set."""
    may_end, submit = trio.Event(), beta.store.submit

    def held(actions: Sequence[do.StoreAction], at: WallMs, *, may_wait: bool = False) -> _Held:
        return _Held(submit(actions, at, may_wait=may_wait), may_end)

    with monkeypatch.context() as patch:
        patch.setattr(beta.store, "submit", held)
        yield may_end


async def in_its_last_moment(
    beta: Shell,
    monkeypatch: pytest.MonkeyPatch,
    wait: Callable[[], Awaitable[T]],
    come: Callable[[], Awaitable[object]],
) -> T:
    """What `wait` returns when `come` is decided within its time, and on the disk only after it."""
    results: list[T] = []

    async def waits() -> None:
        results.append(await wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(waits)
        await until(lambda: any(map(beta.gateway.waits.is_open, range(99))), "the call")
        began = trio.current_time()
        with busy_disk(beta, monkeypatch) as may_end:
            nursery.start_soon(come)
            await until(lambda: trio.current_time() > began + 2 * MOMENT_S, "the end of the call's time")
            assert results == []
            may_end.set()
    return results[0]


async def brief(beta: Shell, to: str = "worker") -> MsgId:
    msg_id, _ = await beta.send(to, b"do it")
    return msg_id


async def test_an_answer_that_comes_at_the_end_of_a_wait_is_its_result(
    beta: Shell, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await brief(beta)
    handing = Handing(beta.performer)
    handed = await handing.take(beta.gid("worker"), whens=ALL, room=9_000, most=20, via="hook", connection=HOOK)
    await handing.seen(beta.gid("worker"), nonces=[handed[0].nonce])

    async def reply() -> None:
        call = beta.performer.calls.new()
        replied = ask.ReplyAsked(
            call=call, sender=beta.gid("worker"), original=handed[0].row, body=b"done", msg_id=beta.new_id()
        )
        await beta.performer.handle(replied)

    waited = await in_its_last_moment(
        beta, monkeypatch, lambda: waiting.wait(Wait([sent], "answer", MOMENT_S), caller(beta, "human"), CLIENT), reply
    )
    assert [answer.body for answer in waited.answers] == [b"done"]
    assert waited.done


async def test_a_message_that_comes_at_the_end_of_a_pull_is_its_result(
    beta: Shell, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled = await in_its_last_moment(
        beta,
        monkeypatch,
        lambda: waiting.pull(Pull(wait_s=MOMENT_S), caller(beta, "lead"), CLIENT),
        lambda: brief(beta, "lead"),
    )
    assert [message.body for message in pulled.messages] == [b"do it"]
    assert pulled.cursor


async def test_a_brief_that_comes_at_the_end_of_a_call_that_wakes_is_handed_out_by_it(
    beta: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    handing = Handing(beta.performer)
    handed = await in_its_last_moment(
        beta,
        monkeypatch,
        lambda: handing.take(
            beta.gid("worker"),
            whens=ALL,
            room=9_000,
            most=20,
            via="rewake",
            connection=HOOK,
            patience=trio.move_on_after(MOMENT_S),
        ),
        lambda: brief(beta),
    )
    assert len(handed) == 1
    assert await beta.is_state(handed[0].msg_id, "worker", "injecting")


async def test_a_call_to_which_nothing_came_is_over_and_what_comes_later_waits(beta: Shell, waiting: Waiting) -> None:
    lead = caller(beta, "lead")
    assert (await waiting.pull(Pull(wait_s=MOMENT_S), lead, CLIENT)).messages == []
    msg_id = await brief(beta, "lead")
    assert await beta.is_state(msg_id, "lead", "waiting")
    assert [message.msg_id for message in (await waiting.pull(Pull(), lead, CLIENT)).messages] == [msg_id]
