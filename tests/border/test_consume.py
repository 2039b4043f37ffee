"""Consumers: exclusive, bounded, each on a channel of its own, so that the fault of one is nobody else's."""

from __future__ import annotations

import pytest
import trio

from fleettrio.broker.amqp import open_session
from fleettrio.broker.port import (
    BrokerSession,
    BrokerSettings,
    ConsumerCancelled,
    ConsumerLocked,
    QueueMismatch,
    RawDelivery,
    SessionEvent,
)
from fleettrio.core.topology import MSG, Binding, InboxQueue, Queue, inbox_queue, roster_queue
from fleettrio.errors import ProtocolMisuse
from fleettrio.ids import Gid, HostId, Tag
from tests.border.inbox import (
    GID,
    INBOX,
    INBOX_BINDINGS,
    LIMIT_S,
    PREFETCH,
    consume,
    message,
    send,
    take,
    wait_for_count,
)
from tests.singly import consume_singly

OTHER, OTHER_BINDINGS = inbox_queue(HostId("here"), InboxQueue(Gid("other")))


async def event(session: BrokerSession) -> SessionEvent:
    with trio.fail_after(LIMIT_S):
        return await session.events.receive()


async def test_a_second_gateway_is_locked_out_and_the_first_does_not_notice(
    session: BrokerSession, settings: BrokerSettings
) -> None:
    received = await consume(session)
    async with open_session(settings, 8) as second:
        with pytest.raises(ConsumerLocked, match=INBOX.name):
            await consume(second)
        with pytest.raises(trio.WouldBlock):
            second.events.receive_nowait()
        await send(second, message())
        await take(received)


async def test_a_lock_that_was_let_go_can_be_taken(session: BrokerSession, settings: BrokerSettings) -> None:
    await consume(session)
    async with open_session(settings, 8) as second:
        with pytest.raises(ConsumerLocked):
            await consume(second)
        await session.stop_consuming(INBOX.name)
        await send(second, message())
        await take(await consume(second))


async def test_an_exclusive_queue_of_another_connection_is_locked(
    session: BrokerSession, settings: BrokerSettings
) -> None:
    roster, bindings = roster_queue(HostId("here"), "nonce")
    await session.declare((), (roster,), bindings)
    async with open_session(settings, 8) as second:
        with pytest.raises(ConsumerLocked, match="RESOURCE_LOCKED"):
            await second.declare((), (roster,), ())


async def test_a_queue_with_other_arguments_is_a_mismatch_and_consumers_go_on(session: BrokerSession) -> None:
    received = await consume(session)
    with pytest.raises(QueueMismatch, match="x-max-length"):
        await session.declare((), (Queue(INBOX.name, {**INBOX.arguments, "x-max-length": 5}),), ())
    await session.declare((), (OTHER,), OTHER_BINDINGS)
    await send(session, message())
    await take(received)


async def test_a_deleted_queue_cancels_its_consumer_alone(session: BrokerSession, settings: BrokerSettings) -> None:
    await session.declare((), (OTHER,), OTHER_BINDINGS)
    await consume(session)
    received = await consume(session, OTHER.name)
    async with open_session(settings, 8) as second:
        assert await second.delete_queue(INBOX.name)
    assert await event(session) == ConsumerCancelled(INBOX.name, "the broker cancelled it: its queue is gone")
    await session.declare((), (INBOX,), INBOX_BINDINGS)
    await consume(session)
    await send(session, message(to="other"))
    await take(received)


async def test_a_channel_that_the_broker_closes_costs_its_own_consumer_alone(session: BrokerSession) -> None:
    await session.declare((), (OTHER,), OTHER_BINDINGS)
    received, others = await consume(session), await consume(session, OTHER.name)
    await send(session, message())
    got = await take(received)
    session.ack(got.tag)
    session.ack(got.tag)  # unknown now: the broker closes the channel
    ended = await event(session)
    assert isinstance(ended, ConsumerCancelled)
    assert (ended.queue, "unknown delivery tag" in ended.reason) == (INBOX.name, True)
    await send(session, message(to="other"))
    await take(others)
    again = await consume(session)
    await send(session, message(b"again"))
    assert (await take(again)).body == b"again"


async def test_a_rejected_message_goes_to_the_dead_letters(session: BrokerSession) -> None:
    received = await consume(session)
    await send(session, message())
    session.reject((await take(received)).tag)
    await wait_for_count(session, "fleet.dlq", 1)


async def test_an_acknowledged_message_does_not_come_again_after_a_clean_end(
    session: BrokerSession, settings: BrokerSettings
) -> None:
    async with open_session(settings, 8) as first:
        received = await consume(first)
        await send(session, *[message(b"%d" % number) for number in range(50)])
        for _ in range(49):
            first.ack((await take(received)).tag)
    left = await take(await consume(session))
    assert (left.body, left.redelivered) == (b"49", True)
    assert await session.message_count(INBOX.name) == 0


async def test_a_tag_of_another_session_is_dropped(session: BrokerSession, settings: BrokerSettings) -> None:
    async with open_session(settings, 8) as first:
        received = await consume(first)
        await send(session, message())
        stale = (await take(received)).tag
    again = await consume(session)
    got = await take(again)
    assert (got.tag.delivery, got.tag.epoch) == (stale.delivery, session.epoch)
    session.ack(stale)
    session.reject(Tag(stale.epoch, got.tag.channel, got.tag.delivery))
    await session.stop_consuming(INBOX.name, requeue=[got.tag])
    await wait_for_count(session, INBOX.name, 1)
    assert await session.message_count("fleet.dlq") == 0


async def test_stopping_gives_back_in_order_and_what_is_kept_can_still_be_acknowledged(session: BrokerSession) -> None:
    received = await consume(session)
    await send(session, *[message(b"%d" % number) for number in range(5)])
    got = [await take(received) for _ in range(5)]
    await session.stop_consuming(INBOX.name, requeue=[each.tag for each in got[1:]])
    session.ack(got[0].tag)
    await wait_for_count(session, INBOX.name, 4)
    again = await consume(session)
    assert [(await take(again)).body for _ in range(4)] == [b"1", b"2", b"3", b"4"]
    with pytest.raises(trio.WouldBlock):
        again.receive_nowait()


async def test_stopping_what_is_not_consumed_does_nothing(session: BrokerSession) -> None:
    await session.stop_consuming("unknown")
    await consume(session)
    await session.stop_consuming(INBOX.name)
    await session.stop_consuming(INBOX.name)


async def test_the_broker_sends_no_more_than_the_prefetch(session: BrokerSession) -> None:
    received = await consume_singly(session, INBOX.name, prefetch=10, capacity=20)
    await send(session, *[message() for _ in range(15)])
    got = [await take(received) for _ in range(10)]
    await wait_for_count(session, INBOX.name, 5)
    session.ack(got[0].tag)
    await take(received)
    await wait_for_count(session, INBOX.name, 4)


async def test_a_memory_channel_smaller_than_twice_the_prefetch_is_a_bug(session: BrokerSession) -> None:
    deliveries, _received = trio.open_memory_channel[list[RawDelivery]](PREFETCH)
    with pytest.raises(ProtocolMisuse, match="twice the prefetch"):
        await session.consume(INBOX.name, prefetch=PREFETCH, deliveries=deliveries)


async def test_deliveries_that_nobody_takes_any_more_stay_with_the_broker(session: BrokerSession) -> None:
    received = await consume(session)
    received.close()
    await send(session, message())
    await session.stop_consuming(INBOX.name)
    assert await session.message_count(INBOX.name) == 0  # unacked, on the consumer's channel


async def test_counts_and_deletions(session: BrokerSession) -> None:
    assert await session.message_count("unknown") is None
    await send(session, message(), message())
    assert await session.message_count(INBOX.name) == 2
    assert not await session.delete_queue(INBOX.name)
    assert await session.delete_queue(INBOX.name, if_empty=False)
    assert await session.delete_queue(INBOX.name)
    assert await session.message_count(INBOX.name) is None


async def test_an_unbound_key_reaches_the_queue_no_more(session: BrokerSession) -> None:
    gone = Binding(INBOX.name, MSG, GID)
    await session.unbind([gone, gone, Binding("unknown", MSG, GID)])
    sent = message()
    assert (await send(session, sent))[sent.id].verdict == "unroutable"


async def test_what_was_rejected_is_at_the_dead_letters_before_its_queue_is_deleted(session: BrokerSession) -> None:
    """The broker counts what is in hand for nothing: deleting the queue would drop it."""
    received = await consume(session)
    await send(session, *[message(b"%d" % number) for number in range(20)])
    got = [await take(received) for _ in range(20)]
    assert session.in_hand(INBOX.name) == 20
    await session.stop_consuming(INBOX.name)
    for each in got:
        session.reject(each.tag)
    assert session.in_hand(INBOX.name) == 0
    assert await session.delete_queue(INBOX.name)
    assert await session.message_count(INBOX.name) is None
    await wait_for_count(session, "fleet.dlq", 20)


async def test_a_queue_with_messages_in_it_is_not_deleted_after_it_was_consumed(session: BrokerSession) -> None:
    received = await consume(session)
    await send(session, message())
    got = await take(received)
    await session.stop_consuming(INBOX.name, requeue=[got.tag])
    assert session.in_hand(INBOX.name) == 0
    assert not await session.delete_queue(INBOX.name)
    assert await session.message_count(INBOX.name) == 1
    assert await session.delete_queue(INBOX.name, if_empty=False)
