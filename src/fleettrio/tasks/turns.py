"""The end of a turn, as the core is told of it: with an id for each answer that its last words may become."""

from __future__ import annotations

from fleettrio.core.events import TurnEnded
from fleettrio.ids import Gid
from fleettrio.perform import Performer

__all__ = ("turn_ended",)


def turn_ended(gid: Gid, words: bytes | None, how: str, performer: Performer) -> TurnEnded:
    """`words` and `how` as in `core.events.TurnEnded`."""
    count = performer.gateway.asks.briefs.count(gid)
    return TurnEnded(gid, words, how, tuple(performer.new_msg_id() for _ in range(count)))
