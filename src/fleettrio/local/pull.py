"""Transport of clients that fetch their messages themselves: nothing is ever pushed into them."""

from __future__ import annotations

from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text

__all__ = ("PullTransport",)


class PullTransport:
    """Always "not ready": what waits is offered when the client pulls."""

    name = "pull"
    wakes = False

    async def state(self) -> AgentState:
        """A client that pulls shows nothing of itself."""
        return AgentState.UNKNOWN

    async def reserve(self, when: str) -> Reserved | NotReady:
        return NotReady(AgentState.UNKNOWN, "it fetches its messages itself")

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        return Delivery(DeliveryOutcome.NOTHING_WRITTEN, "it fetches its messages itself")

    async def close(self) -> None:
        """Nothing is held."""
