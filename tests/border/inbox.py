"""The inbox that the border's tests use, and the few steps they share."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import trio

from fleettrio.broker.port import BrokerSession, PublishVerdict, RawDelivery, RawPublish
from fleettrio.core.topology import MSG, InboxQueue, inbox_queue
from fleettrio.ids import Gid, HostId
from tests.singly import Singly, consume_singly, receive_verdicts

GID = "00000000-0000-8000-8000-000000000001"
INBOX, INBOX_BINDINGS = inbox_queue(HostId("here"), InboxQueue(Gid(GID)))
PREFETCH = 64
LIMIT_S = 60.0
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
    (only,) = (await verdicts(session, 1)).values()
    return only


async def verdicts(session: BrokerSession, count: int) -> dict[int, PublishVerdict]:
    """The next ones, by publish id; no more come with them."""
    with trio.fail_after(LIMIT_S):
        return await receive_verdicts(session, count)


async def send(session: BrokerSession, *messages: RawPublish) -> dict[int, PublishVerdict]:
    """Publish and wait for all verdicts, by publish id."""
    session.publish(messages)
    return await verdicts(session, len(messages))


async def consume(session: BrokerSession, queue: str = INBOX.name) -> Singly[RawDelivery]:
    return await consume_singly(session, queue, prefetch=PREFETCH, capacity=2 * PREFETCH)


async def take(received: Singly[RawDelivery], limit_s: float = LIMIT_S) -> RawDelivery:
    with trio.fail_after(limit_s):
        return await received.receive()


async def wait_for_count(session: BrokerSession, queue: str, count: int) -> None:
    """Wait until that many messages are ready in `queue`."""
    with trio.fail_after(LIMIT_S):
        while await session.message_count(queue) != count:
            await trio.lowlevel.checkpoint()
