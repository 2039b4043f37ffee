"""Somebody with a host's broker login who builds messages by hand, to show that the login alone is worth nothing."""

from __future__ import annotations

import dataclasses
import os
import time

from fleettrio.core.topology import MSG
from fleettrio.ids import FleetId, Gid, HostId, MsgId, TraceId, WallMs, short_id
from fleettrio.testing.raw_client import RawClient, field, properties, table
from fleettrio.wire.envelope import Envelope, Kind, encode_envelope
from fleettrio.wire.gids import HUMAN_SALT, derive_gid, new_msg_id
from fleettrio.wire.signing import Signer

__all__ = ("Forged", "Forger")

_LIFE_MS = 600_000


@dataclasses.dataclass(frozen=True, slots=True)
class Forged:
    """What was put on the broker."""

    msg_id: MsgId
    trace_id: TraceId

    @property
    def short(self) -> str:
        return short_id(self.msg_id)


@dataclasses.dataclass(frozen=True, slots=True)
class Forger:
    """Logs in as `host`, and says that the person at `host` wrote it."""

    port: int
    vhost: str
    password: str = dataclasses.field(repr=False)
    fleet: FleetId
    host: HostId

    def publish(self, body: bytes, *, seed: bytes, to: Gid, inbox: Gid) -> Forged:
        """A message signed with `seed` and addressed `to`, put into `inbox`."""
        now = WallMs(time.time_ns() // 1_000_000)
        envelope = Envelope(
            kind=Kind.SEND,
            msg_id=new_msg_id(now, os.urandom(10)),
            trace_id=TraceId(os.urandom(16).hex()),
            sender=derive_gid(self.fleet, self.host, HUMAN_SALT),
            sender_salt=HUMAN_SALT,
            to=to,
            host=self.host,
            key_gen=1,
            ts=now,
            expires_at=WallMs(now + _LIFE_MS),
            depth=0,
        )
        header = encode_envelope(envelope)
        ((signature, _),) = Signer(self.fleet, self.host, 1, seed).sign([(header, body)])
        headers = table(field("fleet", header), field("sig", signature))
        with RawClient(self.port, self.vhost, user=self.host, password=self.password) as client:
            verdict = client.publish(MSG, inbox, properties(headers), body, mandatory=True)
        assert verdict == "ack", f"the broker said {verdict}"
        return Forged(envelope.msg_id, envelope.trace_id)
