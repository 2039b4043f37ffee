"""The inbox that the border's tests use, and the few steps they share."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import trio

from fleettrio.broker.port import BrokerSession, PublishVerdict, RawDelivery, RawPublish
from fleettrio.core.topology import MSG, InboxQueue, inbox_queue
from fleettrio.ids import Gid, HostId

GID = "00000000-0000-8000-8000-000000000001"
INBOX, INBOX_BINDINGS = inbox_queue(HostId("here"), InboxQueue(Gid(GID)))
PREFETCH = 64
LIMIT_S = 5.0
_IDS = itertools.count(1)


def message(
    body: bytes = b"hello",
    *,
    to: str = GID,
    exchange: str = MSG,
    mandatory: bool = True,
    headers: Mapping[str, bytes | str] | None = None,
) -> RawPublish:
    """A message for the inbox unless said otherwise."""
    return RawPublish(
        id=next(_IDS),
        exchange=exchange,
        routing_key=to,
        mandatory=mandatory,
        persistent=True,
        expiration_ms=60_000,
        content_type="text/plain",
        headers={"fleet": b"header", "sig": b"s" * 64} if headers is None else headers,
        body=body,
    )


async def verdict(session: BrokerSession) -> PublishVerdict:
    with trio.fail_after(LIMIT_S):
        return await session.verdicts.receive()


async def send(session: BrokerSession, *messages: RawPublish) -> dict[int, PublishVerdict]:
    """Publish and wait for all verdicts, by publish id."""
    session.publish(messages)
    verdicts = [await verdict(session) for _ in messages]
    return {each.id: each for each in verdicts}


async def consume(session: BrokerSession, queue: str = INBOX.name) -> trio.MemoryReceiveChannel[RawDelivery]:
    deliveries, received = trio.open_memory_channel[RawDelivery](2 * PREFETCH)
    await session.consume(queue, prefetch=PREFETCH, deliveries=deliveries)
    return received


async def take(received: trio.MemoryReceiveChannel[RawDelivery], limit_s: float = LIMIT_S) -> RawDelivery:
    with trio.fail_after(limit_s):
        return await received.receive()


async def wait_for_count(session: BrokerSession, queue: str, count: int) -> None:
    """Wait until that many messages are ready in `queue`."""
    with trio.fail_after(LIMIT_S):
        while await session.message_count(queue) != count:
            await trio.lowlevel.checkpoint()
