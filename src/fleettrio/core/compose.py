"""Making envelopes: what this host says, with its names, lifetimes and exchange filled in.

An empty `msg_id` is minted by the publisher; only messages, which people and outboxes correlate by, have one here.
"""

from __future__ import annotations

import dataclasses

from fleettrio.core import topology
from fleettrio.core.rows import Entity
from fleettrio.ids import FleetId, Gid, HostId, MsgId, Now, TraceId, WallMs
from fleettrio.wire.envelope import Envelope, Kind, default_lifetime_ms
from fleettrio.wire.gids import GATEWAY_SALT, HUMAN_SALT, derive_gid

__all__ = ("Identity", "control", "exchange_for", "human_of", "message", "presence")

_NO_MSG_ID = MsgId("")


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
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
    to: Gid,
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


def control(
    me: Identity, kind: Kind, to_host: HostId, *, trace_id: TraceId, now: Now, re: MsgId | None = None
) -> Envelope:
    """A control kind or a notice, gateway to gateway."""
    return _of_gateway(me, kind, to_host, trace_id, now, re)


def presence(me: Identity, entity: Gid | None, *, trace_id: TraceId, now: Now) -> Envelope:
    """A presence entry: the gateway's own beat, or one of its entities."""
    return _of_gateway(me, Kind.PRESENCE, f"roster.{me.host}.{entity or '_gateway'}", trace_id, now, None)


def human_of(fleet_id: FleetId, host: HostId) -> Gid:
    """The gid of the person at `host`."""
    return derive_gid(fleet_id, host, HUMAN_SALT)


def exchange_for(kind: str) -> str:
    """The exchange that carries `kind` (`30-broker`)."""
    if kind in (Kind.SEND, Kind.REPLY, Kind.ASK, Kind.ANSWER, Kind.BROADCAST):
        return topology.MSG
    return topology.ROSTER if kind == Kind.PRESENCE else topology.CONTROL


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
