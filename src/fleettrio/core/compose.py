"""Making envelopes: what this host says, with its names, lifetimes and exchange filled in.

An empty `msg_id` is minted by the publisher; only messages, which people and outboxes correlate by, have one here.
"""

from __future__ import annotations

import functools

import msgspec

from fleettrio._accel import leaf_of
from fleettrio.core import topology
from fleettrio.core.entity import Entity
from fleettrio.core.rows import SentRow, SentState
from fleettrio.ids import FleetId, Gid, HostId, Leaf, MsgId, Now, TraceId, WallMs
from fleettrio.wire.envelope import Envelope, Kind, default_lifetime_ms
from fleettrio.wire.gids import GATEWAY_SALT, HUMAN_SALT, derive_gid
from fleettrio.wire.kinds import MESSAGE_KINDS

__all__ = ("Identity", "begins", "control", "exchange_for", "gateway_of", "human_of", "message", "presence", "sent_row")

_NO_MSG_ID = MsgId("")
_SHOWN = 60
_EXCHANGES: dict[str, str] = {
    **dict.fromkeys((Kind.SEND, Kind.REPLY, Kind.ASK, Kind.ANSWER, Kind.BROADCAST), topology.MSG),
    Kind.PRESENCE: topology.ROSTER,
    Kind.COORD: topology.OPS,
}


class Identity(msgspec.Struct, frozen=True):
    """Who this gateway is on the wire."""

    host: HostId
    fleet_id: FleetId
    gid: Gid
    human: Gid
    key_gen: int


def message(
    me: Identity,
    kind: str,
    sender: Entity,
    to: str,
    *,
    msg_id: MsgId,
    trace_id: TraceId,
    expires_in_ms: int,
    now: Now,
    **fields: object,
) -> Envelope:
    """An envelope of an entity of this host; `fields` are the optional ones that are present."""
    return Envelope(
        kind=kind,
        msg_id=msg_id,
        trace_id=trace_id,
        sender=sender.gid,
        sender_salt=sender.salt,
        to=to,
        host=me.host,
        key_gen=me.key_gen,
        ts=now.wall,
        expires_at=WallMs(now.wall + expires_in_ms),
        **fields,  # type: ignore[arg-type]
    )


def sent_row(envelope: Envelope, header: bytes, body: bytes, gid: Gid, host: HostId) -> SentRow:
    """The sender's row of a message to `gid` on `host`, before anything came of it."""
    return SentRow(
        msg_id=envelope.msg_id,
        gid=gid,
        to_host=host,
        sender=envelope.sender,
        kind=envelope.kind,
        leaf=Leaf(leaf_of(header, body)),
        header=header,
        trace_id=envelope.trace_id,
        ts=envelope.ts,
        expires_at=envelope.expires_at,
        state=SentState.ACCEPTED,
        at=envelope.ts,
        re=envelope.re,
        to="" if envelope.to == gid else envelope.to,
        turn_id=envelope.turn_id or "",
        wants_reply=envelope.expects_reply,
        about=begins(body) if envelope.kind in MESSAGE_KINDS else "",
    )


def begins(body: bytes) -> str:
    """How a body begins, in at most 60 characters: what its sender sees of it in lists."""
    text = body[:_SHOWN].decode("utf-8", "ignore")
    return text if len(body) <= _SHOWN else text[:-1] + "…"


def control(
    me: Identity, kind: Kind, to_host: HostId, *, trace_id: TraceId, now: Now, re: MsgId | None = None
) -> Envelope:
    """A control kind or a notice, gateway to gateway."""
    return _of_gateway(me, kind, to_host, trace_id, now, re)


def presence(me: Identity, entity: Gid | None, *, trace_id: TraceId, now: Now) -> Envelope:
    """A presence entry: the gateway's own beat, or one of its entities."""
    return _of_gateway(me, Kind.PRESENCE, f"roster.{me.host}.{entity or '_gateway'}", trace_id, now, None)


@functools.lru_cache(maxsize=1_024)
def human_of(fleet_id: FleetId, host: HostId) -> Gid:
    """The gid of the person at `host`."""
    return derive_gid(fleet_id, host, HUMAN_SALT)


def gateway_of(fleet_id: FleetId, host: HostId) -> Gid:
    """The gid of the gateway of `host`."""
    return derive_gid(fleet_id, host, GATEWAY_SALT)


def exchange_for(kind: str) -> str:
    """The exchange that carries `kind` (`core.topology`)."""
    return _EXCHANGES.get(kind, topology.CONTROL)


def _of_gateway(me: Identity, kind: Kind, to: str, trace_id: TraceId, now: Now, re: MsgId | None) -> Envelope:
    return Envelope(
        kind=kind,
        msg_id=_NO_MSG_ID,
        trace_id=trace_id,
        sender=me.gid,
        sender_salt=GATEWAY_SALT,
        to=to,
        host=me.host,
        key_gen=me.key_gen,
        ts=now.wall,
        expires_at=WallMs(now.wall + default_lifetime_ms(kind)),
        re=re,
    )
