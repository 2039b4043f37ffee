"""What an agent takes by a call of its own, on a real store: marked on disk before it is shown, framed, cut to fit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from fleettrio.api.callers import Caller
from fleettrio.api.handing import Handed, Handing
from fleettrio.api.lookup import Lookup
from fleettrio.api.rpc import Connection
from fleettrio.api.schema import Confirm, Pull
from fleettrio.api.viewer import Viewer
from fleettrio.api.waiting import Waiting
from fleettrio.broker.memory import MemoryBroker
from fleettrio.core import events as ev
from fleettrio.ids import MsgId
from fleettrio.local.frame import unframe
from tests.core.builders import agent
from tests.core.hands import ALL
from tests.tasks.shell import Shell, running

HOOK = Connection(pid=1, uid=1)


@pytest.fixture
async def beta(tmp_path: Path) -> AsyncIterator[Shell]:
    """A host whose agent is reached by its own calls alone."""
    worker = agent("worker", "beta")
    async with running("beta", tmp_path, MemoryBroker(), [worker], connected=False, deliver=False) as shell:
        yield shell


async def take(beta: Shell, *, room: int = 9_000, via: str = "hook", wait_s: float = 0) -> list[Handed]:
    return await Handing(beta.performer).take(
        beta.gid("worker"),
        whens=ALL,
        room=room,
        most=20,
        via=via,
        connection=HOOK,
        patience=trio.move_on_after(wait_s) if wait_s else None,
    )


async def brief(beta: Shell, body: bytes = b"do it") -> MsgId:
    msg_id, _ = await beta.send("worker", body)
    return msg_id


async def test_a_hook_gets_the_framed_text_of_what_is_marked_on_disk(beta: Shell) -> None:
    msg_id = await brief(beta)
    (handed,) = await take(beta)
    assert await beta.is_state(msg_id, "worker", "injecting")
    assert (handed.msg_id, unframe(handed.text.framed)) == (msg_id, "do it")
    assert f"[fleettrio {handed.nonce}] message {handed.short} from human@beta" in handed.text.framed
    assert await take(beta) == []


async def test_its_nonce_in_the_prompt_is_evidence_and_nobody_elses_is(beta: Shell) -> None:
    msg_id = await brief(beta)
    (handed,) = await take(beta)
    handing = Handing(beta.performer)
    await handing.seen(beta.gid("worker"), nonces=["00000000"])
    await handing.seen(beta.gid("human"), nonces=[handed.nonce])
    assert await beta.is_state(msg_id, "worker", "injecting")
    await handing.seen(beta.gid("worker"), nonces=[handed.nonce])
    assert await beta.is_state(msg_id, "worker", "injected")


async def test_several_messages_share_the_room_and_none_is_lost(beta: Shell) -> None:
    ids = [await brief(beta, b"\n".join([b"%d" % n] * 500)) for n in range(5)]
    handed = await take(beta)
    assert [one.msg_id for one in handed] == ids
    assert len("\n\n".join(one.text.framed for one in handed)) <= 9_000
    assert all(f"end of {one.short}" in one.text.framed for one in handed)


async def test_a_message_that_does_not_fit_alone_goes_as_its_head(beta: Shell) -> None:
    msg_id = await brief(beta, b"x" * 200_000)
    (handed,) = await take(beta)
    assert len(handed.text.framed) <= 9_000
    assert f"whole: fleettrio show {handed.short} --framed" in handed.text.framed
    stored = await beta.store.message(msg_id, beta.gid("worker"))
    assert stored is not None
    assert len(stored.body) == 200_000


async def test_a_call_that_waits_gets_what_comes(beta: Shell) -> None:
    taken: list[Handed] = []

    async def wait() -> None:
        taken.extend(await take(beta, via="rewake", wait_s=10))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        msg_id = await brief(beta)
    assert [one.msg_id for one in taken] == [msg_id]


async def test_a_call_that_is_cancelled_takes_nothing(beta: Shell) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: take(beta, via="rewake", wait_s=10))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    msg_id = await brief(beta)
    assert [one.msg_id for one in await take(beta)] == [msg_id]


async def test_a_call_whose_client_dies_before_it_has_the_text_leaves_it_unconfirmed(
    beta: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    msg_id = await brief(beta)

    async def stuck(_: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(beta.store, "known", stuck)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take, beta)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    monkeypatch.undo()
    assert await beta.is_state(msg_id, "worker", "unconfirmed")
    assert await take(beta) == []


async def test_a_poll_of_the_agent_answers_as_a_pull_does_and_is_confirmed_so(beta: Shell) -> None:
    lookup = Lookup(beta.performer)
    waiting = Waiting(beta.performer, lookup, Viewer(beta.performer, lookup))
    worker = Caller(beta.gid("worker"), "worker")
    msg_id = await brief(beta)
    pulled = await waiting.pull(Pull(), worker, HOOK)
    assert [(one.msg_id, one.body) for one in pulled.messages] == [(msg_id, b"do it")]
    assert await beta.is_state(msg_id, "worker", "injecting")
    await waiting.confirm(Confirm(pulled.cursor), worker, HOOK)
    assert await beta.is_state(msg_id, "worker", "injected")


async def test_a_poll_whose_client_dies_before_it_confirms_is_unconfirmed_and_not_given_again(beta: Shell) -> None:
    lookup = Lookup(beta.performer)
    waiting = Waiting(beta.performer, lookup, Viewer(beta.performer, lookup))
    worker = Caller(beta.gid("worker"), "worker")
    msg_id = await brief(beta)
    await waiting.pull(Pull(), worker, HOOK)
    await waiting.gone(HOOK)
    assert await beta.is_state(msg_id, "worker", "unconfirmed")
    assert (await waiting.pull(Pull(), worker, Connection(pid=2, uid=1))).messages == []


async def test_the_end_of_a_turn_answers_each_of_its_messages_with_its_last_words(beta: Shell) -> None:
    handing, gid = Handing(beta.performer), beta.gid("worker")
    ids = [await brief(beta) for _ in range(3)]
    await handing.seen(gid, nonces=[one.nonce for one in await take(beta)])
    await handing.turn_ended(gid, b"all is well", "done")
    rows = await beta.store.known([(msg_id, gid) for msg_id in ids])
    assert [row.answer for row in rows if row] == ["auto"] * 3


async def test_an_agent_is_reminded_of_what_it_did_not_answer_by_its_id(beta: Shell) -> None:
    handing, gid = Handing(beta.performer), beta.gid("worker")
    await beta.performer.handle(ev.Attached(beta.performer.calls.new(), agent("worker", "beta", reply="nag")))
    await brief(beta)
    (handed,) = await take(beta)
    await handing.seen(gid, nonces=[handed.nonce])
    text = await handing.nag(gid)
    assert f"human@beta waits for an answer to message {handed.short}: fleettrio reply {handed.short}" in text
    assert await handing.nag(gid) == ""
