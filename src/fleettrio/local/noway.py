"""Transport into an agent that nothing can be put into: its messages wait, and whoever asks is told why."""

from __future__ import annotations

from fleettrio.local.port import AgentState, Delivery, NotReady, Reserved, Text

__all__ = ("NoWay", "pull")


class NoWay:
    """Never ready, because of `why`. `name` is the way that would have been taken."""

    wakes = False

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self._why = why

    async def state(self) -> AgentState:
        """Nothing is seen of it."""
        return AgentState.UNKNOWN

    async def reserve(self, when: str) -> Reserved | NotReady:
        return NotReady(AgentState.UNKNOWN, self._why)

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        return Delivery.nothing(self._why)

    async def close(self) -> None:
        """Nothing is held."""


def pull() -> NoWay:
    """Of a client that fetches its messages: what waits is offered when it does."""
    return NoWay("pull", "it fetches its messages itself")
