"""What was called back before it came: the traces that RECALLs leave where there is no message yet.

Rules:
1. A host that is told `recalled` has a promise: what it named, a message with that leaf, is never delivered.
2. Who the message comes from is not known before it is here, and any host of the fleet may call back anything. So the
   traces of several hosts stand beside each other in one row: none takes away another one's promise, and each stands
   in the way of its own host's message alone.
3. A message that is here, or was, is no trace: nobody but its own host has a say in it.
4. What one host may leave behind is bounded (`PER_HOST`). Over it nothing is promised: the message is `absent`, and
   lands when it comes. Whoever called it back does so again, as for any that is not settled.
"""

from __future__ import annotations

import msgspec

from fleettrio.core.rates import Pace
from fleettrio.core.rows import InboxRow, InboxState
from fleettrio.ids import Gid, HostId, Leaf, MsgId, Now, TraceId, WallMs
from fleettrio.wire.envelope import Kind, longest_lifetime_ms

__all__ = ("PER_HOST", "RECALL_LIMIT", "as_told", "is_trace", "leaf_for", "trace")

PER_HOST = Pace(at_once=4_096, every_ms=120_000)
"""Traces: more than an honest host calls back after a day without the broker, and few enough to keep of each."""
RECALL_LIMIT = "recall-limit"
"""Why a message that has not come is not marked as called back."""
_BETWEEN = ", "


def is_trace(row: InboxRow) -> bool:
    """True for a row that a RECALL made."""
    return row.state is InboxState.RECALLED and not row.kind


def leaf_for(row: InboxRow, host: HostId) -> Leaf | None:
    """The leaf under which a message of `host` is known by this row; None when the row is not in its way."""
    return _named(row).get(host) if is_trace(row) else row.leaf


def as_told(row: InboxRow, host: HostId) -> InboxRow:
    """A trace as `host` is told of it: as if there were no other."""
    return msgspec.structs.replace(row, from_host=host, leaf=_named(row)[host], detail="")


def trace(
    before: InboxRow | None,
    msg_id: MsgId,
    gid: Gid,
    leaf: Leaf,
    host: HostId,
    expires_at: WallMs,
    trace_id: TraceId,
    now: Now,
) -> InboxRow:
    """`host` calls back what has not come; `before` is what is here in its place.

    Kept no longer than any message may live, whatever the other host says.
    """
    named = _named(before) if before is not None and is_trace(before) else {}
    named = {host: leaf, **{other: theirs for other, theirs in named.items() if other != host}}
    until = min(expires_at, WallMs(now.wall + longest_lifetime_ms(Kind.REPLY)))
    return InboxRow(
        msg_id=msg_id,
        gid=gid,
        leaf=leaf,
        state=InboxState.RECALLED,
        kind="",
        sender=Gid(""),
        from_host=host,
        trace_id=trace_id,
        ts=now.wall,
        expires_at=max(until, before.expires_at) if before is not None and len(named) > 1 else until,
        arrived_at=now.wall,
        at=now.wall,
        seq=0,
        size=0,
        detail=_BETWEEN.join(f"{other} {theirs.hex()}" for other, theirs in named.items() if other != host),
    )


def _named(row: InboxRow) -> dict[HostId, Leaf]:
    """Who has called it back, and the leaf that each of them named: the latest first, the others in `detail`."""
    others = [item.partition(" ") for item in row.detail.split(_BETWEEN) if item]
    return {row.from_host: row.leaf, **{HostId(host): Leaf(bytes.fromhex(leaf)) for host, _, leaf in others}}
