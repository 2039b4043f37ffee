"""What the wire tests send to each other: alpha's lead and beta's worker, their keys and their fleet."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from fleettrio.ids import FleetId, HostId, MsgId, TraceId, WallMs
from fleettrio.wire.envelope import Envelope, Kind, encode_envelope
from fleettrio.wire.fleet import Fleet, FleetHost, HostKey
from fleettrio.wire.gids import GATEWAY_SALT, derive_gid, new_msg_id
from fleettrio.wire.headers import RawHeaders
from fleettrio.wire.signing import Parsed, Signer, parse_delivery

__all__ = (
    "ALPHA",
    "BETA",
    "FLEET_ID",
    "LEAD",
    "LEAD_SALT",
    "NOW",
    "OWNER_SEED",
    "WORKER",
    "Queue",
    "delivered",
    "envelope",
    "fleet",
    "presence",
    "reply_id",
    "signer",
)

FLEET_ID = FleetId("prod")
ALPHA, BETA = HostId("alpha"), HostId("beta")
NOW = WallMs(1_800_000_000_000)
OWNER_SEED = b"\2" * 32
LEAD_SALT, WORKER_SALT = b"\3" * 16, b"\4" * 16
LEAD, WORKER = derive_gid(FLEET_ID, ALPHA, LEAD_SALT), derive_gid(FLEET_ID, BETA, WORKER_SALT)


@dataclasses.dataclass(frozen=True)
class Queue:
    """A queue with one key."""

    key: str = WORKER

    def takes(self, to: str) -> bool:
        return to == self.key


def envelope(**changes: Any) -> Envelope:
    """A SEND from alpha's lead to beta's worker, or what `changes` make of it."""
    made: dict[str, Any] = {
        "kind": Kind.SEND,
        "msg_id": new_msg_id(NOW, bytes(9) + b"\1"),
        "trace_id": TraceId("0af7651916cd43dd8448eb211c80319c"),
        "sender": LEAD,
        "sender_salt": LEAD_SALT,
        "to": WORKER,
        "host": ALPHA,
        "key_gen": 1,
        "ts": NOW,
        "expires_at": WallMs(NOW + 10_000),
        "depth": 0,
    }
    return Envelope(**(made | changes))


def presence(to: str) -> Envelope:
    gateway = derive_gid(FLEET_ID, ALPHA, GATEWAY_SALT)
    return envelope(kind=Kind.PRESENCE, to=to, sender=gateway, sender_salt=GATEWAY_SALT, depth=None)


def signer(host: HostId = ALPHA, gen: int = 1, fleet_id: FleetId = FLEET_ID) -> Signer:
    return Signer(fleet_id, host, gen, (f"{host}{gen}".encode() * 32)[:32])


def fleet(**changes: Any) -> Fleet:
    hosts = {
        host: FleetHost(host, (HostKey(host, 1, signer(host).public_key), HostKey(host, 2, signer(host, 2).public_key)))
        for host in (ALPHA, BETA)
    }
    made = Fleet(FLEET_ID, 3, WallMs(NOW + 1000), hosts, frozenset({(BETA, 2)}), signer(HostId("owner")).public_key)
    return msgspec.structs.replace(made, **changes)


def delivered(
    sent: Envelope, body: bytes = b"body\n", *, by: Signer | None = None, hint: str = "prod", cc: bool = False
) -> Parsed:
    """`sent` as a delivery that was read."""
    header = encode_envelope(sent)
    [(sig, _)] = (by or signer()).sign([(header, body)])
    headers = RawHeaders(fleet=header, sig=sig, fleet_id=hint, has_cc=cc)
    parsed = parse_delivery(headers, body, body_limit=1000)
    assert isinstance(parsed, Parsed)
    return parsed


def reply_id() -> MsgId:
    return new_msg_id(NOW, bytes(9) + b"\2")
