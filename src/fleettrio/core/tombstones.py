"""Rows of messages that are over before they came: replaced by their sender, or questions of a turn that has ended.

Rules:
1. A tombstone has no leaf, since nobody here knows the message: it is a row of its own, and the message that comes for
   it is recorded under its leaf.
2. It is kept as long as the message could live, and no longer.
"""

from __future__ import annotations

import msgspec

from fleettrio.core.rows import InboxRow, InboxState, Key
from fleettrio.ids import Gid, HostId, Leaf, MsgId, Now, WallMs
from fleettrio.wire.envelope import Envelope, Kind, longest_lifetime_ms
from fleettrio.wire.gids import msg_id_wall_ms

__all__ = ("is_tombstone", "of_abandoned", "of_replaced")

_NO_LEAF = Leaf(b"")


def is_tombstone(row: InboxRow) -> bool:
    """True for the row of a message that was replaced, or a question that was abandoned, before it came."""
    return row.leaf == _NO_LEAF


def of_replaced(older: MsgId, by: InboxRow, detail: str, now: Now) -> InboxRow | None:
    """`by` replaces a message that has not come; None for one that could not live any more."""
    until = WallMs(min(msg_id_wall_ms(older), now.wall) + longest_lifetime_ms(Kind.SEND))
    if until <= now.wall:
        return None
    return msgspec.structs.replace(
        by,
        msg_id=older,
        leaf=_NO_LEAF,
        state=InboxState.SUPERSEDED,
        detail=detail,
        expires_at=until,
        at=now.wall,
        seq=0,
        size=0,
        notified=True,
        re=None,
        has_causal=False,
        supersedes=None,
        claim="",
    )


def of_abandoned(key: Key, notice: Envelope, reason: str, now: Now) -> InboxRow:
    """`notice` overtook its question: when that comes, it is acknowledged and shown to nobody."""
    return InboxRow(
        msg_id=key[0],
        gid=key[1],
        leaf=_NO_LEAF,
        state=InboxState.RECALLED,
        kind=str(Kind.ASK),
        sender=Gid(""),
        from_host=HostId(notice.host),
        trace_id=notice.trace_id,
        ts=now.wall,
        expires_at=WallMs(now.wall + longest_lifetime_ms(Kind.ASK)),
        arrived_at=now.wall,
        at=now.wall,
        seq=0,
        size=0,
        reason=reason,
        turn_id=notice.turn_id or "",
    )
