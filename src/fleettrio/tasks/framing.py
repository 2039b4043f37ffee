"""The text of a message as its agent gets it: what the daemon knows of it at that moment, around its stored body."""

from __future__ import annotations

import msgspec

from fleettrio.core.compose import human_of
from fleettrio.core.rows import InboxRow
from fleettrio.errors import StoreError
from fleettrio.ids import Now, short_id
from fleettrio.local.frame import FrameFacts, frame
from fleettrio.local.nonces import fresh
from fleettrio.local.port import Text
from fleettrio.perform import Performer

__all__ = ("frame_facts", "framed", "framed_to_read")


async def framed(row: InboxRow, performer: Performer, room: int | None = None, *, by_tool: bool = False) -> Text:
    """Read its body and frame it, in at most `room` characters if given. Raises `StoreError` without a body.

    `by_tool`: whoever reads it answers with a tool of MCP, and not with a command.
    """
    stored = await performer.store.message(row.msg_id, row.gid)
    if stored is None:
        raise StoreError("it is not in the store", reason="refused")
    nonce = performer.nonces.draw(row.msg_id, row.gid)
    facts = frame_facts(row, performer, performer.clock.now(), nonce)
    return frame(msgspec.structs.replace(facts, by_tool=by_tool), stored.body, room)


def framed_to_read(row: InboxRow, body: bytes, performer: Performer) -> Text:
    """All of a message for whoever looks it up. That is no delivery: its nonce is evidence of none."""
    return frame(frame_facts(row, performer, performer.clock.now(), fresh()), row.about or body)


def frame_facts(row: InboxRow, performer: Performer, now: Now, nonce: str) -> FrameFacts:
    """What the daemon knows of a message at the moment it lands."""
    gateway = performer.gateway
    return FrameFacts(
        sender=gateway.coordination.correspondent(row),
        is_person=row.sender == human_of(gateway.settings.me.fleet_id, row.from_host),
        verified=row.from_host != gateway.settings.me.host,
        kind=row.kind,
        intent=row.intent,
        age_ms=max(0, now.wall - row.ts),
        short_id=short_id(row.msg_id),
        nonce=nonce,
        wants_reply=row.wants_reply,
        auto=row.auto,
        repeat=row.repeat,
        stale=row.stale,
        when=row.when,
    )
