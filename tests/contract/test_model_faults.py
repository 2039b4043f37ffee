"""How to be unkind with the model: each switch does what it says, and nothing else."""

from __future__ import annotations

import msgspec
import pytest
import trio
import trio.testing

from fleettrio.broker.memory import SETTINGS, MemoryBroker
from fleettrio.broker.model.broker import ModelBroker
from fleettrio.broker.model.client import ModelChannel, ModelConnection, Unanswered
from fleettrio.broker.model.frames import (
    Blocked,
    Cancelled,
    Confirmed,
    ConnectionClosed,
    Delivered,
    Frame,
    Returned,
    Unblocked,
)
from fleettrio.broker.model.message import Message
from fleettrio.broker.port import RawDelivery, RawPublish, Verdict
from fleettrio.core.topology import Queue
from fleettrio.errors import SessionLost


def inbox(broker: ModelBroker) -> tuple[ModelConnection, ModelChannel]:
    link = broker.connect("alpha")
    channel = link.open_channel(confirms=True)
    channel.declare_queue("inbox")
    return link, channel


def message(body: bytes = b"hello", to: str = "inbox") -> Message:
    return Message(exchange="", routing_key=to, body=body)


def kinds(frames: list[Frame]) -> list[type[Frame]]:
    return [type(frame) for frame in frames]


def bodies(frames: list[Frame]) -> list[bytes]:
    return [frame.message.body for frame in frames if isinstance(frame, Delivered)]


def test_what_nobody_took_before_a_loss_is_lost_and_comes_again_elsewhere() -> None:
    broker = ModelBroker()
    link, channel = inbox(broker)
    channel.consume("inbox", prefetch=2)
    for body in (b"1", b"2", b"3"):
        channel.publish(message(body))
    link.lose("power cut")
    assert link.take() == [ConnectionClosed("power cut")]
    other = broker.connect("beta")
    other.open_channel().consume("inbox")
    frames = other.take()
    assert bodies(frames) == [b"1", b"2", b"3"]
    assert [frame.redelivered for frame in frames if isinstance(frame, Delivered)] == [True, True, False]


def test_a_lost_connection_hears_and_says_nothing_more() -> None:
    broker = ModelBroker()
    link, channel = inbox(broker)
    link.lose()
    link.take()
    channel.publish(message())
    channel.ack(1)
    assert (link.take(), broker.queues["inbox"].bodies) == ([], [])
    with pytest.raises(Unanswered, match="lost"):
        channel.get("inbox")


def test_frames_can_be_held_back_taken_apart_and_thrown_away() -> None:
    broker = ModelBroker()
    link, channel = inbox(broker)
    channel.publish(message(to="nobody"), mandatory=True)
    channel.publish(message())
    assert kinds(list(link.outgoing)) == [Returned, Confirmed, Confirmed]
    link.outgoing.pop()
    assert kinds(link.take()) == [Returned, Confirmed]
    assert broker.queues["inbox"].bodies == [b"hello"], "only its confirm is lost"


def test_a_forgery_or_copy_can_be_put_in_without_a_connection() -> None:
    broker = ModelBroker()
    inbox(broker)
    assert broker.inject(message(b"forged"))
    assert not broker.inject(message(to="nobody"))
    assert broker.queues["inbox"].bodies == [b"forged"]


def test_a_stuffed_queue_refuses_and_keeps_what_it_has() -> None:
    broker = ModelBroker()
    link, channel = inbox(broker)
    channel.publish(message(b"before"))
    broker.queues["inbox"].is_stuffed = True
    channel.publish(message(b"refused"))
    broker.queues["inbox"].is_stuffed = False
    channel.publish(message(b"after"))
    assert [frame.ok for frame in link.take() if isinstance(frame, Confirmed)] == [True, False, True]
    assert broker.queues["inbox"].bodies == [b"before", b"after"]


def test_a_broker_that_nacks_takes_nothing() -> None:
    broker = ModelBroker()
    link, channel = inbox(broker)
    broker.nacks = True
    channel.publish(message())
    assert (link.take(), broker.queues["inbox"].bodies) == ([Confirmed(1, 1, False)], [])


def test_a_blocked_connection_is_read_again_in_order() -> None:
    broker = ModelBroker()
    link, channel = inbox(broker)
    link.block("low on disk")
    for body in (b"1", b"2"):
        channel.publish(message(body))
    assert (link.take(), broker.queues["inbox"].bodies) == ([Blocked("low on disk")], [])
    link.unblock()
    assert kinds(link.take()) == [Unblocked, Confirmed, Confirmed]
    assert broker.queues["inbox"].bodies == [b"1", b"2"]


def test_a_consumer_can_be_cancelled_though_its_queue_stays() -> None:
    broker = ModelBroker()
    link, channel = inbox(broker)
    tag = channel.consume("inbox")
    broker.cancel_consumers("inbox")
    channel.publish(message())
    assert link.take() == [Cancelled(1, tag), Confirmed(1, 1, True)]
    assert broker.queues["inbox"].bodies == [b"hello"]


def test_time_makes_things_happen_at_their_moment_in_their_order() -> None:
    broker = ModelBroker()
    _, channel = inbox(broker)
    channel.declare_exchange("dlx", "fanout")
    channel.declare_queue("dead", {"x-message-ttl": 500})
    channel.bind("dead", "dlx", "")
    channel.declare_queue("short", {"x-message-ttl": 1_000, "x-dead-letter-exchange": "dlx"})
    channel.publish(message(to="short"))
    assert broker.next_deadline() == 1_000
    broker.advance(999)
    assert broker.queues["short"].bodies == [b"hello"]
    broker.advance(1_499)
    assert (broker.queues["short"].bodies, broker.queues["dead"].bodies) == ([], [b"hello"])
    assert broker.next_deadline() == 1_500
    broker.advance(100_000)
    assert (broker.queues["dead"].bodies, broker.next_deadline(), broker.now) == ([], None, 100_000)


def test_an_expiry_is_not_forgotten_while_it_is_hidden_or_in_hand() -> None:
    broker = ModelBroker()
    _, channel = inbox(broker)
    channel.declare_queue("tick", {"x-message-ttl": 100})
    channel.publish(message(b"in front"))
    channel.publish(msgspec.structs.replace(message(b"hidden"), expiration_ms=5_000))
    channel.publish(message(to="tick"))
    broker.advance(1_000)
    in_front = channel.get("inbox")
    hidden = channel.get("inbox")
    assert in_front is not None
    assert hidden is not None
    channel.publish(message(to="tick"))
    broker.advance(2_000)
    channel.reject(hidden.delivery, requeue=True)
    broker.advance(4_999)
    assert broker.queues["inbox"].bodies == [b"hidden"]
    broker.advance(5_000)
    assert broker.queues["inbox"].bodies == []


async def test_a_link_that_is_held_back_hears_later(autojump_clock: trio.testing.MockClock) -> None:
    memory = MemoryBroker()
    async with memory.open(SETTINGS, 1) as session:
        await session.declare((), (Queue("inbox", {}),), ())
        deliveries, received = trio.open_memory_channel[list[RawDelivery]](10)
        await session.consume("inbox", prefetch=5, deliveries=deliveries)
        session.consuming.is_held = True
        session.publish([_publish(1)])
        assert [each.verdict for each in session.verdicts.receive_nowait()] == [Verdict.CONFIRMED]
        assert received.statistics().current_buffer_used == 0
        session.consuming.is_held = False
        memory.flow()
        assert [each.body for each in received.receive_nowait()] == [b"hello"]


async def test_a_blocked_link_without_an_answer_ends_the_session(autojump_clock: trio.testing.MockClock) -> None:
    memory = MemoryBroker()
    async with memory.open(SETTINGS, 1) as session:
        session.consuming.connection.block()
        with pytest.raises(SessionLost, match="did not answer within 4 s"):
            await session.message_count("inbox")
        assert trio.current_time() >= SETTINGS.call_limit_s
        with pytest.raises(SessionLost, match="did not answer"):
            await session.run_until_lost()


def _publish(number: int) -> RawPublish:
    return RawPublish(
        id=number, exchange="", routing_key="inbox", mandatory=True, persistent=True, expiration_ms=0,
        content_type="", headers={"fleet": b"header"}, body=b"hello",
    )  # fmt: skip
