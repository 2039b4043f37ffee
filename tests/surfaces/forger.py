"""Messages as somebody with a login and the right (or a wrong) key could make them: every field in their hands."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Mapping
from typing import Any

from fleettrio import keyfiles
from fleettrio._accel import encode_header
from fleettrio.core.topology import CONTROL, MSG
from fleettrio.ids import FleetId, Gid, HostId
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.raw_client import RawClient, field, properties, table
from fleettrio.wire.gids import HUMAN_SALT, derive_gid, new_msg_id
from fleettrio.wire.signing import Signer

FLEET = FleetId("test")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Forged:
    """One message as it goes out; everything can be replaced."""

    fields: Mapping[str, Any]
    body: bytes
    signer: Signer
    header: bytes | None = None
    """Instead of the encoded fields."""
    sig: bytes | None = None
    """Instead of the signature."""
    extra: tuple[bytes, ...] = ()
    """More entries of the header table."""
    exchange: str = MSG
    key: str = ""
    """Routing key instead of `to`."""

    def bytes(self) -> tuple[bytes, bytes]:
        header = encode_header(self.fields) if self.header is None else self.header
        sig = self.signer.sign([(header, self.body)])[0][0] if self.sig is None else self.sig
        return header, sig

    def send(self, raw: RawClient) -> str:
        header, sig = self.bytes()
        entries = (field("fleet", header), field("sig", sig), *self.extra)
        return raw.publish(self.exchange, self.key or self.fields["to"], properties(table(*entries)), self.body)


def signer_of(host: Host, *, gen: int = 1, fleet: str = FLEET, seed: bytes = b"") -> Signer:
    """Signs with the key of `host`, unless other things are given."""
    key = keyfiles.read_host_key(host.paths)
    assert key is not None
    return Signer(FleetId(fleet), HostId(host.name), gen, seed or key.seed_bytes)


def good(host: Host, to: Gid | str, body: bytes = b"a good message", **changes: Any) -> Forged:
    """A SEND of the person at `host` as its own gateway would make it; `changes` are fields of the envelope."""
    now = time.time_ns() // 1_000_000
    fields: dict[str, Any] = {
        "v": 1,
        "kind": "SEND",
        "msgId": new_msg_id(now, secrets.token_bytes(10)),
        "traceId": secrets.token_hex(16),
        "from": derive_gid(FLEET, host.name, HUMAN_SALT),
        "fromSalt": HUMAN_SALT,
        "to": to,
        "host": host.name,
        "keyGen": 1,
        "ts": now,
        "expiresAt": now + 60_000,
        "depth": 0,
        **changes,
    }
    return Forged(fields=fields, body=body, signer=signer_of(host))


def raw_client(fleet: Fleet, host: str = "alpha") -> RawClient:
    """A connection with that host's login."""
    assert fleet.broker is not None
    user, password = fleet.logins[host]
    return RawClient(fleet.broker.port, fleet.vhost, user=user, password=password)


__all__ = ("CONTROL", "FLEET", "Forged", "good", "raw_client", "signer_of")
