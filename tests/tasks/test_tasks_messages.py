"""Whole sessions on two hosts: a brief and its answer through the shipped tasks, real stores and signatures."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.messages import Messages
from fleettrio.api.rpc import Connection
from fleettrio.broker.memory import MemoryBroker
from fleettrio.calls import CallFailed
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.calls import Accepted
from fleettrio.core.ledger import Limits
from fleettrio.core.topology import InboxQueue, inbox_queue
from fleettrio.errors import StoreError
from fleettrio.local.port import DeliveryOutcome
from fleettrio.tasks import publish
from tests.core.builders import agent
from tests.tasks.shell import LIMIT_S, running, two, until, until_stored


async def test_a_brief_is_typed_once_and_its_answer_comes_back(tmp_path: Path, memory: MemoryBroker) -> None:
    async with two(tmp_path, memory) as (alpha, beta):
        msg_id, result = await alpha.send("worker@beta", b"first\nsecond", sender="lead")
        assert isinstance(result, Accepted)
        assert [str(row.state) for row in result.rows] == ["confirmed"]
        pane = beta.panes[beta.gid("worker")]
        await until(lambda: pane.texts, "the text in the pane")
        await until_stored(lambda: alpha.is_fate(msg_id, beta.gid("worker"), "injected"), "injected at alpha")
        call = beta.performer.calls.new()
        (original,) = await beta.store.known([(msg_id, beta.gid("worker"))])
        assert original is not None
        await beta.performer.handle(
            ask.ReplyAsked(call=call, sender=beta.gid("worker"), original=original, body=b"done", msg_id=beta.new_id())
        )
        await beta.performer.calls.result(call)
        await until(lambda: alpha.gateway.ledger.lane(alpha.gid("lead")).count == 1, "the answer")

        async def is_answered() -> bool:
            sent = await alpha.store.sent(msg_id, beta.gid("worker"))
            return sent is not None and sent.answered_by is not None

        await until_stored(is_answered, "the answer's mark")
        assert len(pane.texts) == 1


async def test_the_row_is_on_the_disk_before_the_broker_gets_a_byte(tmp_path: Path, memory: MemoryBroker) -> None:
    async with two(tmp_path, memory) as (alpha, _):
        alpha.store.refuses_writes = True
        before = len([p for p in memory.published if p.exchange == "fleet.msg"])
        with pytest.raises(CallFailed) as failed:
            await alpha.send("worker@beta")
        assert failed.value.reason == "store"
        assert len([p for p in memory.published if p.exchange == "fleet.msg"]) == before
        assert await alpha.store.sent_rows(None) == []
        await until(lambda: alpha.link == "down", "the end of the session")
        alpha.store.refuses_writes = False
        await until(lambda: not alpha.gateway.store_fault.trouble and alpha.link == "up", "the recovery")
        _, result = await alpha.send("worker@beta")
        assert isinstance(result, Accepted)


async def test_a_disk_that_does_not_answer_the_publisher_ends_the_daemon(
    tmp_path: Path, memory: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What will become of the rows nobody knows: no sender is left to wait for a verdict that never comes."""
    monkeypatch.setattr(publish, "COMMIT_LIMIT_S", 1.0)

    async def send_on_a_stuck_disk() -> None:
        async with two(tmp_path, memory) as (alpha, _):
            alpha.store.stuck = True
            await alpha.send("worker@beta")

    with pytest.raises(BaseExceptionGroup) as ended, trio.fail_after(LIMIT_S):
        await send_on_a_stuck_disk()
    assert ended.group_contains(StoreError, match="did not answer")


async def test_what_could_not_be_committed_is_not_acknowledged_and_comes_again(
    tmp_path: Path, memory: MemoryBroker
) -> None:
    async with two(tmp_path, memory) as (alpha, beta):
        beta.store.refuses_writes = True
        msg_id, _ = await alpha.send("worker@beta")
        await until(lambda: beta.gateway.store_fault.trouble, "the trouble")
        assert await beta.store.known([(msg_id, beta.gid("worker"))]) == [None]
        beta.store.refuses_writes = False
        await until_stored(lambda: beta.is_state(msg_id, "worker", "injected"), "injected after all")
        assert len(beta.panes[beta.gid("worker")].texts) == 1


async def test_a_store_that_cannot_be_read_ends_the_session_and_not_the_daemon(
    tmp_path: Path, memory: MemoryBroker
) -> None:
    async with two(tmp_path, memory) as (alpha, beta):
        beta.store.refuses_reads = True
        msg_id, _ = await alpha.send("worker@beta")
        await until(lambda: beta.link == "down", "the end of the session")
        beta.store.refuses_reads = False
        await until_stored(lambda: beta.is_state(msg_id, "worker", "injected"), "injected after all")


async def test_the_end_of_a_session_tells_every_sender_that_waits(tmp_path: Path, memory: MemoryBroker) -> None:
    async with two(tmp_path, memory) as (alpha, beta):
        memory.confirms = False
        worker = beta.panes[beta.gid("worker")]
        worker.may_look = trio.Event()  # what beta says of them must not be here before the loss
        results: list[object] = []

        async def send() -> None:
            results.append((await alpha.send("worker@beta"))[1])

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(send)
            await until(lambda: [p.headers["kind"] for p in memory.published].count("SEND") == 3, "three at the broker")
            alpha.now_open.lose()
        states = {str(row.state) for result in results if isinstance(result, Accepted) for row in result.rows}
        assert states == {"outcome-unknown"}
        memory.confirms = True
        worker.may_look.set()
        await until(lambda: alpha.link == "up", "the next session")
        await until(lambda: len(worker.texts) == 3, "all three typed")
        await until(lambda: not list(alpha.gateway.outbox.open_rows()), "every word")


async def test_a_confirm_that_came_just_before_the_loss_counts(tmp_path: Path, memory: MemoryBroker) -> None:
    async with two(tmp_path, memory) as (alpha, _):
        memory.confirms = False
        results: list[object] = []

        async def send() -> None:
            results.append((await alpha.send("worker@beta"))[1])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await until(lambda: alpha.gateway.link.open_count >= 1, "an open publish")
            session = alpha.now_open
            await until(lambda: session._open, "handed over")
            session.confirm_all()
            session.lose()
        (result,) = results
        assert isinstance(result, Accepted)
        assert str(result.rows[0].state) in ("confirmed", "held", "injected")


async def test_a_blocked_broker_gets_no_message_that_was_not_handed_over(tmp_path: Path, memory: MemoryBroker) -> None:
    async with two(tmp_path, memory) as (alpha, _):
        alpha.now_open.block()
        await until(lambda: alpha.link == "blocked", "blocked")
        _, result = await alpha.send("worker@beta")
        assert isinstance(result, Accepted)
        assert (result.rows[0].state, result.rows[0].reason) == ("failed", "broker-blocked")
        alpha.now_open.unblock()
        await until(lambda: alpha.link == "up", "unblocked")
        _, result = await alpha.send("worker@beta")
        assert isinstance(result, Accepted)
        assert result.rows[0].state != "failed"


async def test_the_same_key_at_the_same_time_is_one_message(tmp_path: Path, memory: MemoryBroker) -> None:
    async with two(tmp_path, memory) as (alpha, beta):
        messages = Messages(alpha.performer)
        caller = Caller(gid=alpha.gid("human"), name="human", is_person=True)
        results: list[schema.SendResult] = []

        async def send() -> None:
            params = schema.Send(to=["worker@beta"], body=b"once", key="k")
            results.append(await messages.sending.send(params, caller, Connection(pid=1, uid=0)))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(send)
        await send()
        assert len({view.msg_id for result in results for view in result.messages}) == 1
        assert len(results) == 6
        await until(lambda: beta.panes[beta.gid("worker")].texts, "the text")
        assert len(await alpha.store.sent_rows(None)) == 1


async def test_a_key_that_the_store_has_with_another_message_is_refused(tmp_path: Path, memory: MemoryBroker) -> None:
    async with two(tmp_path, memory) as (alpha, beta):
        messages = Messages(alpha.performer)
        caller = Caller(gid=alpha.gid("human"), name="human", is_person=True)
        connection = Connection(pid=1, uid=0)
        params = schema.Send(to=["worker@beta"], body=b"once", key="k")
        first = await messages.sending.send(params, caller, connection)
        alpha.gateway.sends.keys.clear()  # as after a restart: only the store knows it
        again = await messages.sending.send(params, caller, connection)
        assert [view.msg_id for view in again.messages] == [view.msg_id for view in first.messages]
        with pytest.raises(CallFailed, match="key k was used for another message") as refused:
            await messages.sending.send(schema.Send(to=["worker@beta"], body=b"twice", key="k"), caller, connection)
        assert (refused.value.exit_code, refused.value.reason) == (2, "key-conflict")
        await until(lambda: beta.panes[beta.gid("worker")].texts, "the text")
        assert len(await alpha.store.sent_rows(None)) == 1


async def test_a_delivery_that_breaks_the_core_costs_that_delivery_alone(
    tmp_path: Path, memory: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path, memory) as (alpha, beta):
        arrive = beta.gateway.inbox.intake.arrive

        def breaks(message: object, *rest: object) -> object:
            if message.body == b"poison":  # type: ignore[attr-defined]
                raise KeyError("a bug")
            return arrive(message, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(beta.gateway.inbox.intake, "arrive", breaks)
        bad, _ = await alpha.send("worker@beta", b"poison")
        good, _ = await alpha.send("worker@beta", b"good")
        await until_stored(lambda: beta.is_state(good, "worker", "injected"), "the good one")
        await until_stored(lambda: alpha.is_fate(bad, beta.gid("worker"), "failed"), "told")
        row = await alpha.store.sent(bad, beta.gid("worker"))
        assert row is not None
        assert row.reason == "refused: internal-error at beta"
        assert [dead.body for dead in memory.dead if dead.headers["x-first-death-exchange"] == "fleet.msg"] == [
            b"poison"
        ]


async def test_a_full_inbox_leaves_the_backlog_at_the_broker_and_takes_it_later(
    tmp_path: Path, memory: MemoryBroker
) -> None:
    lead = agent("lead", "alpha", takes="pull", transport="pull")
    async with (
        running("alpha", tmp_path, memory, [lead], limits=Limits(messages=4)) as alpha,
        running("beta", tmp_path, memory, [agent("worker", "beta")]) as beta,
    ):
        await until(lambda: alpha.gid("lead") in beta.gateway.roster.others, "the roster")
        for _ in range(4):
            await beta.send("lead@alpha")
        queue = memory.model.queues[inbox_queue(alpha.name, InboxQueue(alpha.gid("lead")))[0].name]
        await until(lambda: not queue.consumers, "the pause")
        await until(lambda: beta.gateway.roster.others[alpha.gid("lead")].full, "its presence saying so")
        for _ in range(3):
            await beta.send("lead@alpha")
        assert len(queue.ready) == 3
        for _ in range(2):
            call = alpha.performer.calls.new()
            await alpha.performer.handle(ask.PullAsked(call, "s", alpha.gid("lead"), 50, False, None))
            offered = await alpha.performer.calls.result(call)
            done = alpha.performer.calls.new()
            await alpha.performer.handle(ask.Confirmed(done, "s", offered.cursor))  # type: ignore[attr-defined]
            await until(lambda: not queue.ready, "the backlog")


async def test_opening_an_inbox_twice_consumes_it_once(tmp_path: Path, memory: MemoryBroker) -> None:
    async with two(tmp_path, memory) as (alpha, beta):
        worker = beta.gateway.roster.entities[beta.gid("worker")]
        name = inbox_queue(beta.name, InboxQueue(worker.gid))[0].name
        for groups in (("review",), ("review", "build")):
            call = beta.performer.calls.new()
            await beta.performer.handle(ev.Attached(call, agent("worker", "beta", groups=groups, token_hash=b"t" * 32)))
            await beta.performer.calls.result(call)
        await until(lambda: (name, "fleet.msg", "broadcast.build") in memory.model.bindings, "the new binding")
        assert memory.consume_calls.count(name) == 1
        msg_id, _ = await alpha.send("worker@beta")
        await until_stored(lambda: beta.is_state(msg_id, "worker", "injected"), "injected")


async def test_an_inbox_whose_consumer_the_broker_ended_is_consumed_again(tmp_path: Path, memory: MemoryBroker) -> None:
    async with two(tmp_path, memory) as (alpha, beta):
        name = inbox_queue(beta.name, InboxQueue(beta.gid("worker")))[0].name
        beta.now_open.cancel_consumer(name)
        await until(lambda: memory.consume_calls.count(name) == 2, "consumed again")
        msg_id, _ = await alpha.send("worker@beta")
        await until_stored(lambda: beta.is_state(msg_id, "worker", "injected"), "injected")


async def test_a_locked_inbox_waits_while_all_else_runs_and_opens_when_it_is_free(
    tmp_path: Path, memory: MemoryBroker
) -> None:
    name = inbox_queue("beta", InboxQueue(agent("worker", "beta").gid))[0].name  # type: ignore[arg-type]
    memory.model.locked.add(name)
    async with two(tmp_path, memory) as (alpha, beta):
        await until(lambda: beta.gateway.inbox_state.get(beta.gid("worker")) == "waiting-for-lock", "the wait")
        msg_id, _ = await alpha.send("worker@beta")
        other, _ = await alpha.send("human@beta")
        await until_stored(lambda: beta.is_state(other, "human", "waiting"), "the other inbox")
        memory.model.locked.clear()
        await until_stored(lambda: beta.is_state(msg_id, "worker", "injected"), "injected")
        assert set(beta.gateway.inbox_state.values()) == {"open"}


async def test_after_a_restart_what_waited_is_delivered_and_what_was_told_is_not_told_twice(
    tmp_path: Path, memory: MemoryBroker
) -> None:
    async with two(tmp_path, memory) as (alpha, beta):
        beta.panes[beta.gid("worker")].not_ready = "a draft"
        msg_id, _ = await alpha.send("worker@beta")
        await until_stored(lambda: beta.is_state(msg_id, "worker", "waiting"), "waiting")
    async with two(tmp_path, memory) as (alpha, beta):
        await until_stored(lambda: alpha.is_fate(msg_id, beta.gid("worker"), "injected"), "injected at alpha")
        assert len(beta.panes[beta.gid("worker")].texts) == 1
        assert beta.panes[beta.gid("worker")].outcome is DeliveryOutcome.SUBMITTED
