"""A broker that is killed, frozen or out of memory: what a session says of it, and how soon."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec
import pytest
import trio

from fleettrio.broker.amqp import open_session
from fleettrio.broker.port import (
    BrokerSession,
    BrokerSettings,
    LinkBlocked,
    LinkUnblocked,
    PublishVerdict,
    RawDelivery,
    RawPublish,
    Verdict,
)
from fleettrio.errors import SessionLost
from fleettrio.ids import Tag
from fleettrio.testing.broker_node import BrokerNode
from tests.border.inbox import INBOX, LIMIT_S, consume, message, send, verdict, verdicts


@contextlib.contextmanager
def frozen(broker: BrokerNode) -> Iterator[None]:
    broker.freeze()
    try:
        yield
    finally:
        broker.thaw()


async def test_an_alarm_blocks_the_publishing_connection_and_not_the_other(
    session: BrokerSession, broker: BrokerNode
) -> None:
    broker.raise_memory_alarm()
    try:
        sent = await _publish_until_blocked(session)
        await consume(session)
        with pytest.raises(trio.WouldBlock):
            session.verdicts.receive_nowait()
    finally:
        broker.clear_alarm()
    with trio.fail_after(LIMIT_S):
        assert await session.events.receive() == LinkUnblocked()
    assert await verdict(session) == PublishVerdict(sent.id, Verdict.CONFIRMED)


async def _publish_until_blocked(session: BrokerSession) -> RawPublish:
    """The message that the broker did not read. An alarm needs a moment to reach a connection: some may pass first."""
    with trio.fail_after(2 * LIMIT_S):
        while True:
            sent = message()
            session.publish([sent])
            if await _wait_for_word(session):
                return sent


async def _wait_for_word(session: BrokerSession) -> bool:
    """What the broker says next: that it is blocked, or (False) what became of the one open publish."""
    while True:
        with contextlib.suppress(trio.WouldBlock):
            assert session.events.receive_nowait() == LinkBlocked("low on memory")
            return True
        with contextlib.suppress(trio.WouldBlock):
            session.verdicts.receive_nowait()
            return False
        await trio.sleep(0.01)


async def test_a_frozen_broker_leaves_a_publish_open_and_the_late_confirm_is_still_its_verdict(
    session: BrokerSession, broker: BrokerNode
) -> None:
    sent = message()
    with frozen(broker):
        session.publish([sent])
        with trio.move_on_after(1.0):
            pytest.fail(f"a frozen broker confirmed: {await session.verdicts.receive()}")
        heard = session.last_heard  # what it wrote before it froze has been read by now
        with trio.move_on_after(0.5):
            pytest.fail(f"a frozen broker confirmed: {await session.verdicts.receive()}")
        assert session.last_heard == heard
    late = await verdict(session)
    assert (late.id, late.verdict) == (sent.id, Verdict.CONFIRMED)
    assert session.last_heard > heard


async def test_a_call_to_a_frozen_broker_ends_the_session_at_its_deadline(
    border: None, broker: BrokerNode, settings: BrokerSettings
) -> None:
    hasty = msgspec.structs.replace(settings, call_limit_s=5.0)
    async with open_session(hasty, 1) as session:
        with frozen(broker):
            with trio.fail_after(LIMIT_S), pytest.raises(SessionLost, match=r"did not answer within 5 s"):
                await session.message_count(INBOX.name)
            with trio.fail_after(LIMIT_S), pytest.raises(SessionLost, match="did not answer"):
                await session.run_until_lost()


async def test_a_broker_silent_for_three_heartbeats_ends_the_session(
    border: None, broker: BrokerNode, settings: BrokerSettings
) -> None:
    sent = message(exchange="amq.topic", mandatory=False)
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session(msgspec.structs.replace(settings, heartbeat_s=1), 1))
        with frozen(broker), trio.fail_after(LIMIT_S):
            session.publish([sent])
            with pytest.raises(SessionLost, match="stopped answering"):
                await session.run_until_lost()
            await stack.aclose()  # while it is frozen: once thawed it may still confirm, before the link is closed
    assert (await verdict(session)).verdict is Verdict.UNKNOWN


async def test_after_its_end_a_session_says_so(border: None, settings: BrokerSettings) -> None:
    async with open_session(settings, 1) as session:
        deliveries, _received = trio.open_memory_channel[list[RawDelivery]](2)
    for call in (session.message_count("any"), session.consume("any", prefetch=1, deliveries=deliveries)):
        with pytest.raises(SessionLost):
            await call
    session.ack(Tag(1, 1, 1))
    with pytest.raises(SessionLost, match="over"):
        await session.run_until_lost()


async def test_leaving_a_session_with_a_frozen_broker_is_soon_over(
    border: None, broker: BrokerNode, settings: BrokerSettings
) -> None:
    sent = message(b"x" * 256_000, exchange="amq.topic", mandatory=False)
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session(settings, 1))
        with frozen(broker):
            session.publish([sent])
            begun = trio.current_time()
            await stack.aclose()
            assert trio.current_time() - begun < 15, "it waited for an answer"
    assert (await verdict(session)).verdict is Verdict.UNKNOWN


async def test_a_cancelled_caller_neither_waits_for_long_nor_breaks_the_session(session: BrokerSession) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await session.message_count(INBOX.name)
    assert await session.message_count(INBOX.name) == 0
    sent = message()
    assert (await send(session, sent))[sent.id].verdict is Verdict.CONFIRMED


async def test_a_killed_broker_ends_the_session_and_every_open_publish_is_unknown_once(
    border: None, broker: BrokerNode, settings: BrokerSettings
) -> None:
    sent = [message(exchange="amq.topic", mandatory=False) for _ in range(100)]
    try:
        async with open_session(settings, 1) as session:
            broker.freeze()
            session.publish(sent)
            broker.kill()
            with trio.fail_after(LIMIT_S), pytest.raises(SessionLost, match="connection was closed"):
                await session.run_until_lost()
            with pytest.raises(SessionLost):
                await session.message_count(INBOX.name)
        given = await verdicts(session, len(sent))
        assert given.keys() == {each.id for each in sent}
        assert {each.verdict for each in given.values()} == {Verdict.UNKNOWN}
        with pytest.raises(trio.WouldBlock):
            session.verdicts.receive_nowait()
        with pytest.raises(SessionLost, match=rf"127\.0\.0\.1:{broker.port}: "):
            async with open_session(settings, 2):
                pass
    finally:
        await trio.to_thread.run_sync(broker.start)
    async with open_session(settings, 3) as session:
        assert await session.message_count("unknown") is None
