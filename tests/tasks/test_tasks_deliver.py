"""The delivery task and the performer: whatever breaks, a row says what may have been typed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from fleettrio import perform
from fleettrio.broker.memory import MemoryBroker
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.compose import message
from fleettrio.core.entity import Entity
from fleettrio.core.topology import InboxQueue
from fleettrio.errors import StoreError
from fleettrio.ids import MsgId, Tag
from fleettrio.local.port import AgentState, DeliveryOutcome
from fleettrio.tasks.deliver import run_deliver
from fleettrio.wire.envelope import Kind, encode_envelope
from fleettrio.wire.signing import VerifiedEnvelope
from tests.core.builders import TRACE, agent
from tests.tasks.shell import Pane, Shell, Stays, running, two, until, until_stored

WORKER = agent("worker", "beta")


@pytest.fixture
async def beta(tmp_path: Path, memory: MemoryBroker) -> AsyncIterator[Shell]:
    """A host whose agent has no delivery task yet."""
    async with running("beta", tmp_path, memory, [WORKER], connected=False, deliver=False) as shell:
        yield shell


async def brief(beta: Shell, body: bytes = b"do it") -> MsgId:
    """A message of the person here to the worker here."""
    msg_id, _ = await beta.send("worker", body)
    return msg_id


@contextlib.asynccontextmanager
async def delivering(beta: Shell, pane: Pane, entity: Entity = WORKER) -> AsyncIterator[trio.CancelScope]:
    async with trio.open_nursery() as nursery:
        await nursery.start(run_deliver, entity, pane, beta.performer)
        yield nursery.cancel_scope
        nursery.cancel_scope.cancel()


async def test_what_came_before_the_task_started_is_delivered_when_it_does(beta: Shell) -> None:
    msg_id = await brief(beta)
    pane = Pane()
    async with delivering(beta, pane):
        await until_stored(lambda: beta.is_state(msg_id, "worker", "injected"))
    assert len(pane.texts) == 1


async def test_the_mark_is_on_the_disk_before_the_first_byte(beta: Shell) -> None:
    pane = Pane()
    pane.may_finish = trio.Event()
    async with delivering(beta, pane):
        msg_id = await brief(beta)
        await pane.writing.wait()
        assert await beta.is_state(msg_id, "worker", "injecting")
        pane.may_finish.set()
        await until_stored(lambda: beta.is_state(msg_id, "worker", "injected"))


async def test_cancelled_while_it_types_the_write_is_finished_and_recorded(beta: Shell) -> None:
    pane = Pane()
    pane.may_finish = trio.Event()
    async with delivering(beta, pane) as scope:
        msg_id = await brief(beta)
        await pane.writing.wait()
        scope.cancel()
        pane.may_finish.set()
    assert await beta.is_state(msg_id, "worker", "injected")


async def test_a_transport_that_breaks_closes_the_row_as_unconfirmed(beta: Shell) -> None:
    pane = Pane()
    pane.breaks = True
    msg_id = await brief(beta)
    with pytest.raises(ExceptionGroup) as broken:
        await _deliver_for_ever(beta, pane)
    assert broken.group_contains(RuntimeError)
    assert await beta.is_state(msg_id, "worker", "unconfirmed")


async def test_a_write_that_never_ends_is_unconfirmed(beta: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleettrio.tasks.deliver.WRITE_LIMIT_S", 0.1)
    pane = Pane()
    pane.may_finish = trio.Event()
    async with delivering(beta, pane):
        msg_id = await brief(beta)
        await until_stored(lambda: beta.is_state(msg_id, "worker", "unconfirmed"))


async def test_cancelled_while_it_looks_the_message_goes_to_the_next_task(beta: Shell) -> None:
    slow, pane = Pane(), Pane()
    slow.may_look = trio.Event()
    async with delivering(beta, slow):
        msg_id = await brief(beta)
        await slow.looking.wait()
    async with delivering(beta, pane):
        await until_stored(lambda: beta.is_state(msg_id, "worker", "injected"))
    assert (len(slow.texts), len(pane.texts)) == (0, 1)


async def test_a_request_left_behind_by_a_task_is_given_back(beta: Shell) -> None:
    """The agent moved to another pane between the look and the write."""
    busy, pane = Pane(), Pane()
    busy.may_finish = trio.Event()
    async with delivering(beta, busy) as scope:
        first = await brief(beta)
        await busy.writing.wait()
        second = await brief(beta, b"the next one")
        scope.cancel()
        busy.may_finish.set()
    async with delivering(beta, pane):
        await until_stored(lambda: beta.is_state(second, "worker", "injected"))
    assert await beta.is_state(first, "worker", "injected")
    assert (len(busy.texts), len(pane.texts)) == (1, 1)


async def test_nothing_written_waits_and_goes_later(beta: Shell) -> None:
    pane = Pane()
    pane.outcome = DeliveryOutcome.NOTHING_WRITTEN
    async with delivering(beta, pane):
        msg_id = await brief(beta)
        await pane.writing.wait()
        await until_stored(lambda: beta.is_state(msg_id, "worker", "waiting"))
        pane.outcome = DeliveryOutcome.SUBMITTED
        await until_stored(lambda: beta.is_state(msg_id, "worker", "injected"))


async def test_an_agent_nobody_sends_to_is_seen_to_leave_and_to_come_back(
    beta: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleettrio.tasks.deliver.LOOK_IDLE_S", 0.02)
    pane = Pane()

    def is_seen(status: str) -> bool:
        return beta.gateway.roster.entities[beta.gid("worker")].status == status

    async with delivering(beta, pane):
        pane.state_now = AgentState.GONE
        await until(lambda: is_seen("away"), "away")
        msg_id = await brief(beta)
        assert await beta.is_state(msg_id, "worker", "waiting")
        pane.state_now = AgentState.IDLE
        await until_stored(lambda: beta.is_state(msg_id, "worker", "injected"))
    assert len(pane.texts) == 1


async def test_without_its_body_nothing_is_typed(beta: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(beta.store, "message", nothing)
    pane = Pane()
    async with delivering(beta, pane):
        msg_id = await brief(beta)
        await until(lambda: "body" in beta.gateway.inbox.forward.why_waiting(beta.gid("worker"))[0], "the reason")
        await until_stored(lambda: beta.is_state(msg_id, "worker", "waiting"))
    assert pane.texts == []


async def test_a_disk_that_does_not_answer_ends_the_daemon(beta: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perform, "COMMIT_LIMIT_S", 0.05)
    beta.store.stuck = True
    with pytest.raises(StoreError, match="did not answer"):
        await beta.performer.handle(_arrival(beta))
    beta.store.stuck = False


async def test_a_list_is_performed_though_its_caller_is_cancelled(beta: Shell) -> None:
    event = _arrival(beta)
    with trio.CancelScope() as scope:
        scope.cancel()
        await beta.performer.handle(event)
    await until_stored(lambda: beta.is_state(event.message.envelope.msg_id, "worker", "waiting"))


async def test_the_sweeper_wakes_for_an_earlier_moment(beta: Shell) -> None:
    """It sleeps for the 8 hours of the first message when one of half a second comes."""
    first = await brief(beta)
    msg_id = beta.new_id()
    call = beta.performer.calls.new()
    await beta.performer.handle(
        ask.SendAsked(
            call=call,
            sender=beta.gid("human"),
            to=("worker",),
            body=b"soon over",
            msg_ids=(msg_id,),
            trace_id=TRACE,
            expires_in_ms=300,
        )
    )
    await until_stored(lambda: beta.is_state(msg_id, "worker", "expired"))
    assert await beta.is_state(first, "worker", "waiting")


async def _deliver_for_ever(beta: Shell, pane: Pane) -> None:
    async with delivering(beta, pane):
        await trio.sleep_forever()


async def test_what_comes_for_a_program_at_rest_has_one_commit_and_no_look_of_its_own(
    tmp_path: Path, memory: MemoryBroker
) -> None:
    async with two(tmp_path, memory) as (alpha, beta):
        pane = beta.panes[beta.gid("worker")]
        pane.__class__ = Stays
        await until(beta.performer.lanes[beta.gid("worker")].glance, "its delivery at rest")
        await alpha.send("worker@beta", b"at once", sender="lead")
        await until(lambda: pane.texts, "the text")
        assert not pane.looking.is_set()

        pane.not_ready = "it is working"
        await alpha.send("worker@beta", b"when it is ready", sender="lead")
        await until(pane.looking.is_set, "a look, as for any other")
        pane.not_ready = ""
        await until(lambda: len(pane.texts) == 2, "the second text")


async def test_a_glance_is_no_look_while_something_else_is_done_for_the_agent(beta: Shell) -> None:
    pane = Stays()
    async with delivering(beta, pane):
        lane = beta.performer.lanes[beta.gid("worker")]
        await until(lane.glance, "its task at rest")
        pane.may_finish = trio.Event()
        await brief(beta)
        await pane.writing.wait()
        assert not lane.glance()
        pane.may_finish.set()
        await until(lane.glance, "its task at rest again")


def _arrival(beta: Shell) -> ev.Arrived:
    me, now = beta.gateway.settings.me, beta.performer.clock.now()
    person = beta.gateway.roster.entities[beta.gid("human")]
    envelope = message(
        me,
        Kind.SEND,
        person,
        beta.gid("worker"),
        msg_id=beta.new_id(),
        trace_id=TRACE,
        expires_in_ms=60_000,
        now=now,
        depth=0,
    )
    verified = VerifiedEnvelope.of_neighbour(envelope, encode_envelope(envelope), b"body")
    return ev.Arrived(Tag(0, 0, 0), InboxQueue(beta.gid("worker")), verified)
