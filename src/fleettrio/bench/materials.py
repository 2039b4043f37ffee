"""What the small benchmarks work on: messages of one host as they are in life, 1 KiB each, the same in every run."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

from fleettrio.ids import FleetId, HostId, TraceId, WallMs
from fleettrio.wire.envelope import Envelope, Kind, encode_envelope
from fleettrio.wire.fleet import Fleet, FleetHost, HostKey
from fleettrio.wire.gids import derive_gid, new_msg_id
from fleettrio.wire.headers import table_for
from fleettrio.wire.signing import Signer

if TYPE_CHECKING:
    from fleettrio.broker.port import RawPublish

__all__ = (
    "BATCH",
    "CHANNEL",
    "FRAME_MAX",
    "NOW",
    "OTHER",
    "Queue",
    "delivered_bytes",
    "envelopes",
    "fleet",
    "publishes",
    "signed_alone",
    "signed_batch",
    "signer",
)

BATCH = 64
CHANNEL, FRAME_MAX = 1, 131_072
NOW = WallMs(1_800_000_000_000)
_FLEET_ID, _HOST = FleetId("bench"), HostId("alpha")
_BODY_BYTES = 1024
_chosen = random.Random(80)  # noqa: S311 - the same bytes in every run
_SALT = _chosen.randbytes(16)
_SENDER = derive_gid(_FLEET_ID, _HOST, _SALT)
OTHER = derive_gid(_FLEET_ID, HostId("beta"), _chosen.randbytes(16))
_BODIES = [_chosen.randbytes(_BODY_BYTES) for _ in range(BATCH)]
_IDS = [(new_msg_id(NOW, _chosen.randbytes(10)), TraceId(_chosen.randbytes(16).hex())) for _ in range(BATCH)]
_SEED = bytes(range(32))


class Queue:
    """The queue of one inbox."""

    def takes(self, to: str) -> bool:
        return to == OTHER


def envelopes() -> list[Envelope]:
    return [
        Envelope(
            kind=Kind.SEND,
            msg_id=msg_id,
            trace_id=trace_id,
            sender=_SENDER,
            sender_salt=_SALT,
            to=OTHER,
            host=_HOST,
            key_gen=1,
            ts=NOW,
            expires_at=WallMs(NOW + 3_600_000),
            depth=1,
            when="idle",
            intent="directive",
            wants_reply=True,
        )
        for msg_id, trace_id in _IDS
    ]


def signer() -> Signer:
    return Signer(_FLEET_ID, _HOST, 1, _SEED)


def fleet() -> Fleet:
    key = HostKey(_HOST, 1, signer().public_key)
    return Fleet(_FLEET_ID, 1, WallMs(0), {_HOST: FleetHost(_HOST, (key,))}, frozenset(), bytes(32))


def signed_alone() -> list[tuple[bytes, bytes, bytes]]:
    """`(public key, signature, message)`: each of the messages signed by itself, without a tree."""
    public_key, secret_key = crypto_sign_seed_keypair(_SEED)
    messages = [encode_envelope(envelope) + body for envelope, body in zip(envelopes(), _BODIES, strict=True)]
    return [(public_key, crypto_sign(message, secret_key)[:64], message) for message in messages]


def signed_batch() -> list[tuple[bytes, bytes, bytes, bytes]]:
    """`(header, body, signature, proof)` of the messages, signed as one batch."""
    messages = [(encode_envelope(envelope), body) for envelope, body in zip(envelopes(), _BODIES, strict=True)]
    return [(*message, *signed) for message, signed in zip(messages, signer().sign(messages), strict=True)]


def publishes(sent: Sequence[Envelope], by: Signer) -> list[RawPublish]:
    """The messages encoded, signed as one batch, with their header tables: as the publisher hands them over."""
    # Here, since it brings Trio with it, whose import would be most of the instructions that are counted.
    from fleettrio.broker.port import CONTENT_TYPE, RawPublish

    messages = [(encode_envelope(envelope), body) for envelope, body in zip(sent, _BODIES, strict=True)]
    signed = by.sign(messages)
    return [
        RawPublish(
            number,
            "fleet.direct",
            envelope.to,
            True,
            True,
            3_660_000,
            CONTENT_TYPE,
            table_for(
                header,
                sig,
                proof,
                hints={
                    "fleet-id": by.fleet_id,
                    "kind": envelope.kind,
                    "msgId": envelope.msg_id,
                    "traceId": envelope.trace_id,
                    "from": envelope.sender,
                    "to": envelope.to,
                },
            ),
            body,
        )
        for number, (envelope, (header, body), (sig, proof)) in enumerate(zip(sent, messages, signed, strict=True))
    ]


def delivered_bytes(published: bytes) -> bytes:
    """What the broker makes of published frames: the same contents, with a Basic.Deliver before each."""
    frames, at, tag = [], 0, 0
    while at < len(published):
        end = at + 8 + int.from_bytes(published[at + 3 : at + 7], "big")
        frame = published[at:end]
        if frame[0] == 1:
            tag += 1
            names = b"".join(bytes((len(name),)) + name for name in (b"fleet.direct", OTHER.encode()))
            method = struct.pack(">HH", 60, 60) + b"\6ctag-1" + struct.pack(">QB", tag, 0) + names
            frame = struct.pack(">BHI", 1, CHANNEL, len(method)) + method + b"\xce"
        frames.append(frame)
        at = end
    return b"".join(frames)
