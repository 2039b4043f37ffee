"""Transport made of several ways into one agent, best first: its harness's own API, then herdr, then tmux.

Rules:

1. The first way that is there delivers. A way is skipped only because it is not there (`NotReady.gone`: no such
   server, session or pane).
2. Who is not ready on one way is not ready on all: nothing goes around a draft, a dialog or a running turn. So every
   way that is there is looked at, also below the one that would deliver.
3. A reservation belongs to the way that gave it, and only that way delivers on it. What it did not write waits, and
   is reserved anew; it never falls through to another way with the message in hand.
4. Gone is an agent only when all its ways say so.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fleettrio.local.port import AgentState, Delivery, NotReady, Reserved, Text, Transport

__all__ = ("Ladder",)


class Ladder:
    """The ways into one agent. `ways` must not be empty; their names differ."""

    def __init__(self, ways: Sequence[Transport]) -> None:
        self._ways = tuple(ways)

    @property
    def name(self) -> str:
        """All of them, in order: `http, tmux`. Which one it was says `Delivery.via`."""
        return ", ".join(way.name for way in self._ways)

    @property
    def wakes(self) -> bool:
        return any(way.wakes for way in self._ways)

    async def state(self) -> AgentState:
        """Blocked if any way sees that, else what the first sees that sees anything. Changes nothing."""
        seen = [await way.state() for way in self._ways]
        if AgentState.BLOCKED in seen:
            return AgentState.BLOCKED
        known = [state for state in seen if state not in (AgentState.GONE, AgentState.UNKNOWN)]
        if known:
            return known[0]
        return AgentState.UNKNOWN if AgentState.UNKNOWN in seen else AgentState.GONE

    async def reserve(self, when: str) -> Reserved | NotReady:
        """Look by all ways. Writes nothing."""
        chosen: Reserved | None = None
        absent: NotReady | None = None
        for way in self._ways:
            match await way.reserve(when):
                case NotReady(gone=True) as found:
                    absent = absent or found
                case NotReady() as found:
                    return found
                case found:
                    chosen = chosen or msgspec.structs.replace(found, generation=f"{way.name}:{found.generation}")
        return chosen or absent or NotReady(AgentState.GONE, "there is no way to it", gone=True)

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        """By the way that reserved. What holds after cancellation is what that way says."""
        name, _, generation = reserved.generation.partition(":")
        for way in self._ways:
            if way.name == name:
                done = await way.deliver(msgspec.structs.replace(reserved, generation=generation), text)
                return msgspec.structs.replace(done, via=done.via or name)
        return Delivery.nothing("the way it was to take is not one of its ways any more")

    async def close(self) -> None:
        for way in self._ways:
            await way.close()
