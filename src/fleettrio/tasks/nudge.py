"""Typing one line that says what waits, into the pane of a client that fetches its mail. The core decides when."""

from __future__ import annotations

import secrets

import trio

from fleettrio.core.actions import Nudge
from fleettrio.core.events import AgentSeen
from fleettrio.core.nudges import Nudged
from fleettrio.local.digest import counted_by_sender
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, Reserved, Text, Transport
from fleettrio.local.sanitise import one_line
from fleettrio.perform import Performer

__all__ = ("nudge", "nudge_text")

WRITE_LIMIT_S = 60.0
LINE_LIMIT = 400


async def nudge(request: Nudge, transport: Transport, performer: Performer) -> None:
    """Type the line if the agent would take one now, and report what came of it, though cancelled meanwhile."""
    delivery = Delivery(DeliveryOutcome.UNCONFIRMED)
    try:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITE_LIMIT_S):
            delivery = await _typed(request, transport)
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITE_LIMIT_S):
            if delivery.outcome is DeliveryOutcome.SUBMITTED:
                await performer.handle(AgentSeen(request.gid, "working", looked=delivery.saw_work))
            await performer.handle(Nudged(request.gid, str(delivery.outcome)))


async def _typed(request: Nudge, transport: Transport) -> Delivery:
    found = await transport.reserve("idle")
    # An agent that nobody can see at rest is left alone: the line would be a surprise for whatever it is.
    if not isinstance(found, Reserved) or found.state is AgentState.WORKING:
        return Delivery(DeliveryOutcome.NOTHING_WRITTEN)
    return await transport.deliver(found, nudge_text(request))


def nudge_text(request: Nudge) -> Text:
    """The line, with the frame's bracket: no person typed it."""
    nonce = secrets.token_hex(4)
    counted = one_line(counted_by_sender(request.waiting), LINE_LIMIT)
    line = f"[fleettrio {nonce}] {counted}; fetch: fleettrio inbox --take"
    return Text(framed=line, notice=line, short_id=nonce, nonce=nonce)
