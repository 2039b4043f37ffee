"""One by one, what a session hands over in lists."""

from __future__ import annotations

from typing import Generic, TypeVar

import trio

from fleettrio.broker.port import BrokerSession, PublishVerdict, RawDelivery

__all__ = ("Singly", "consume_singly", "receive_verdicts")

T = TypeVar("T")


class Singly(Generic[T]):
    """The receiving end of a memory channel of lists."""

    def __init__(self, lists: trio.MemoryReceiveChannel[list[T]]) -> None:
        self._lists = lists
        self._taken: list[T] = []

    async def receive(self) -> T:
        """After cancellation nothing was taken."""
        if not self._taken:
            self._taken = await self._lists.receive()
        return self._taken.pop(0)

    def receive_nowait(self) -> T:
        """Raises `trio.WouldBlock`."""
        if not self._taken:
            self._taken = self._lists.receive_nowait()
        return self._taken.pop(0)

    def close(self) -> None:
        self._lists.close()


async def consume_singly(
    session: BrokerSession, queue: str, *, prefetch: int, capacity: int, exclusive: bool = True
) -> Singly[RawDelivery]:
    deliveries, received = trio.open_memory_channel[list[RawDelivery]](capacity)
    await session.consume(queue, prefetch=prefetch, deliveries=deliveries, exclusive=exclusive)
    return Singly(received)


async def receive_verdicts(session: BrokerSession, count: int) -> dict[int, PublishVerdict]:
    """The next `count` verdicts by publish id. Those that came with the last one must have been waited for, too."""
    verdicts: list[PublishVerdict] = []
    while len(verdicts) < count:
        verdicts += await session.verdicts.receive()
    assert len(verdicts) == count
    return {verdict.id: verdict for verdict in verdicts}
