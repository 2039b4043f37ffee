"""Rows with plain values, for the tests of the store."""

from __future__ import annotations

from typing import Any

import msgspec

from fleettrio.core.actions import Commit
from fleettrio.core.entity import Entity
from fleettrio.core.peer import Peer, PeerEntity
from fleettrio.core.rows import InboxRow, InboxState, SentRow, SentState
from fleettrio.ids import Gid, HostId, Leaf, MsgId, TraceId, WallMs

NOW = WallMs(1_800_000_000_000)
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WORKER = Gid("6a1c7c3e-0000-4000-8000-00000000aaaa")
LEAD = Gid("6a1c7c3e-0000-4000-8000-00000000bbbb")
TRACE = TraceId("4bf92f3577b34da6a3ce929d0e0e4736")


def msg_id(number: int) -> MsgId:
    return MsgId(f"01979c00-0000-7000-8000-{number:012x}")


def inbox_row(number: int, **changes: Any) -> InboxRow:
    row = InboxRow(
        msg_id=msg_id(number),
        gid=WORKER,
        leaf=Leaf(number.to_bytes(32, "big")),
        state=InboxState.WAITING,
        kind="SEND",
        sender=LEAD,
        from_host=HostId("alpha"),
        trace_id=TRACE,
        ts=WallMs(NOW - 5),
        expires_at=WallMs(NOW + HOUR),
        arrived_at=NOW,
        seq=number,
        size=4,
        at=NOW,
    )
    return msgspec.structs.replace(row, **changes)


def commit(number: int, **changes: Any) -> Commit:
    return Commit(inbox_row(number, **changes), b"header %d" % number, b"body %d" % number, b"s" * 64, b"")


def sent_row(number: int, **changes: Any) -> SentRow:
    row = SentRow(
        msg_id=msg_id(number),
        gid=WORKER,
        to_host=HostId("beta"),
        sender=LEAD,
        kind="SEND",
        leaf=Leaf(b"l" * 32),
        header=b"header",
        trace_id=TRACE,
        ts=WallMs(NOW + number),
        expires_at=WallMs(NOW + HOUR),
        state=SentState.ACCEPTED,
        at=WallMs(NOW + number),
        sig=b"s" * 64,
        proof=b"p",
    )
    return msgspec.structs.replace(row, **changes)


def entity(name: str, **changes: Any) -> Entity:
    return msgspec.structs.replace(Entity(gid=Gid(f"gid-{name}"), name=name, salt=b"salt"), **changes)


def peer_entity(name: str, host: str = "beta") -> PeerEntity:
    return PeerEntity(gid=Gid(f"gid-{name}"), host=HostId(host), name=name, groups=("review",), wakes=True)


def peer(host: str) -> Peer:
    return Peer(host=HostId(host), epoch=3, seq=9, kinds=("SEND", "REPLY"), profiles=("claude",), heard_at=NOW)
