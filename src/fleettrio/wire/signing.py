"""Signing in batches and verifying in a fixed order (`10-wire`, Signature).

Rules:

1. The first check that fails gives the reason, in the order of `REFUSAL_REASONS`; a known message is acknowledged right
   after `malformed`, whatever its signature or today's trust, or a spoilt copy would make a false FAILED.
2. Only a `VerifiedEnvelope` goes further, and nothing but the verifier makes one; neighbours on this host come in by
   `of_neighbour`, where the caller rules stand for the signature.
3. Nothing is remembered before it is verified; of the verified, only good signatures, and none past a change of trust.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

from fleettrio._accel import MAX_BATCH, SeenSet, decode_header, leaf_of, merkle, root_of, verify_many
from fleettrio.errors import MalformedEnvelope, ProtocolMisuse, UnsupportedVersion
from fleettrio.ids import FleetId, HostId, Leaf, WallMs
from fleettrio.wire.envelope import Envelope, Kind, decode_envelope
from fleettrio.wire.fleetfile import Fleet
from fleettrio.wire.gids import derive_gid, is_fleet_id, is_name, is_trace_id
from fleettrio.wire.headers import RawHeaders

__all__ = (
    "MAX_BATCH",
    "REFUSAL_REASONS",
    "SKEW_MS",
    "Duplicate",
    "Judgement",
    "KnownLeaf",
    "Parsed",
    "QueueOwner",
    "Refusal",
    "Signer",
    "VerifiedEnvelope",
    "Verifier",
    "parse_delivery",
)

REFUSAL_REASONS = (
    "malformed",
    "version",
    "wrong-fleet",
    "unknown-host",
    "revoked",
    "key-generation",
    "signature",
    "wrong-host",
    "wrong-recipient",
    "unknown-kind",
    "not-authorised",
    "conflict",
    "expired",
    "future",
)
"""Every reason, in the order in which they are judged."""

SKEW_MS = 30_000
"""How far two clocks may differ, on arrival only."""

KnownLeaf = bytes
"""Leaf of the message that is known under the same msgId and queue owner."""

_SEAL = object()
_KINDS = frozenset(Kind)


class QueueOwner(Protocol):
    """Whose queue a message was consumed from, as far as it matters here."""

    def takes(self, to: str) -> bool:
        """Whether `to` is a key of that queue."""


# --- signing ------------------------------------------------------------------------------------


class Signer:
    """Signs for one host with one generation of its key."""

    def __init__(self, fleet_id: FleetId, host: HostId, key_gen: int, seed: bytes) -> None:
        """`seed` is the 32 bytes of the host's Ed25519 key."""
        self.fleet_id = fleet_id
        self.host = host
        self.key_gen = key_gen
        self.public_key, self._secret_key = crypto_sign_seed_keypair(seed)

    def sign(self, messages: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """`(signature, proof)` for each of 1 to 256 `(header, body)`, all under one signature; proof empty for one."""
        root, proofs = merkle([leaf_of(header, body) for header, body in messages])
        signature = crypto_sign(_signed_bytes(self.fleet_id, len(messages), root), self._secret_key)[:64]
        return [(signature, proof) for proof in proofs]


def _signed_bytes(fleet_id: FleetId, count: int, root: bytes) -> bytes:
    return b"\0".join((b"fleettrio/1 root", fleet_id.encode(), count.to_bytes(2, "big") + root))


# --- what becomes of a delivery -----------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Parsed:
    """A delivery whose bytes make sense; whose they are is not judged yet."""

    envelope: Envelope
    header: bytes
    body: bytes
    sig: bytes
    proof: bytes
    leaf: Leaf
    headers: RawHeaders
    root: bytes
    count: int
    """Messages under the signature."""


@dataclasses.dataclass(frozen=True, slots=True)
class VerifiedEnvelope:
    """A message that passed every check. Made by the verifier and by `of_neighbour` alone."""

    envelope: Envelope
    header: bytes
    body: bytes
    sig: bytes
    proof: bytes
    leaf: Leaf
    seal: dataclasses.InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise ProtocolMisuse("only the verifier makes a VerifiedEnvelope")

    @classmethod
    def of_neighbour(cls, envelope: Envelope, header: bytes, body: bytes) -> VerifiedEnvelope:
        """A message of an entity of this host, unsigned: the caller rules stand for the signature."""
        return cls(envelope, header, body, b"", b"", Leaf(leaf_of(header, body)), _SEAL)


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """A delivery that goes to the dead letters."""

    reason: str
    """One of `REFUSAL_REASONS`."""
    detail: str
    envelope: Envelope | None = None
    """What it claims; None when it could not be read."""
    leaf: Leaf | None = None
    signature_good: bool = False
    """True when a trusted key of the claimed host signed it: that host is told."""
    host: str = ""
    """The host it claims to come from, empty when that cannot be read."""
    trace_id: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Duplicate:
    """A known message came again, byte for byte: to be acknowledged, nothing else."""

    envelope: Envelope
    leaf: Leaf


Judgement = VerifiedEnvelope | Refusal | Duplicate


def parse_delivery(headers: RawHeaders, body: bytes, *, body_limit: int) -> Parsed | Refusal:
    """Read a delivery without judging whose it is; `body_limit` is in bytes.

    What cannot be read is a `Refusal` for `malformed`, or for `version` when it is of a newer major version.
    """
    header, sig = headers.fleet, headers.sig
    if headers.problem:
        return _malformed(f"header table: {headers.problem}", header, None)
    if header is None:
        return _malformed("the header `fleet` is missing", None, None)
    if len(body) > body_limit:
        return _malformed(f"body: {len(body)} bytes, the most is {body_limit}", header, None)
    leaf = Leaf(leaf_of(header, body))
    if sig is None:
        return _malformed("the header `sig` is missing", header, leaf)
    try:
        envelope = decode_envelope(header)
        root, count = root_of(leaf, headers.proof or b"")
    except (MalformedEnvelope, UnsupportedVersion) as error:
        return dataclasses.replace(_malformed(str(error), header, leaf), reason=error.reason)
    return Parsed(envelope, header, body, sig, headers.proof or b"", leaf, headers, root, count)


def _malformed(detail: str, header: bytes | None, leaf: Leaf | None) -> Refusal:
    """With the claimed host and trace, where they can be read: they go into the log."""
    try:
        fields = decode_header(header or b"")
    except MalformedEnvelope:
        fields = {}
    host, trace_id = fields.get("host"), fields.get("traceId")
    return Refusal(
        "malformed",
        detail,
        leaf=leaf,
        host=host if isinstance(host, str) and is_name(host) else "",
        trace_id=trace_id if isinstance(trace_id, str) and is_trace_id(trace_id) else "",
    )


# --- verifying ----------------------------------------------------------------------------------


class Verifier:
    """Judges deliveries by the fleet file as it is now."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._good = SeenSet(_GOOD_SIGNATURES)

    def set_fleet(self, fleet: Fleet) -> None:
        """From the next `judge` on `fleet` counts; every signature is verified anew."""
        self._fleet = fleet
        self._good = SeenSet(_GOOD_SIGNATURES)

    def judge(
        self,
        parsed: Sequence[Parsed],
        owners: Sequence[QueueOwner],
        known: Sequence[KnownLeaf | None],
        now_ms: WallMs | int,
    ) -> list[Judgement]:
        """What becomes of each delivery of a batch. The three sequences are of one length, an item for each delivery.

        `known` has the leaf of the message known under this msgId and queue owner, or None. Signatures are verified in
        one call, one for all messages that share it.
        """
        open_items = [item for item, leaf in zip(parsed, known, strict=True) if leaf != item.leaf]
        self._verify(open_items)
        return [
            Duplicate(item.envelope, item.leaf) if leaf == item.leaf else self._judge(item, owner, leaf, now_ms)
            for item, owner, leaf in zip(parsed, owners, known, strict=True)
        ]

    def _verify(self, items: Sequence[Parsed]) -> None:
        """Put the good signatures of `items` among the known ones."""
        asked: dict[bytes, tuple[bytes, bytes, bytes]] = {}
        for item in items:
            key = self._fleet.key(item.envelope.host, item.envelope.key_gen)
            mark = _mark(item)
            if isinstance(key, bytes) and mark not in self._good:
                asked[mark] = key, item.sig, _signed_bytes(self._fleet.fleet_id, item.count, item.root)
        for mark, good in zip(asked, verify_many(list(asked.values())), strict=True):
            if good:
                self._good.add(mark)

    def _judge(self, item: Parsed, owner: QueueOwner, known: KnownLeaf | None, now_ms: int) -> Judgement:
        envelope = item.envelope
        problem = self._distrust(item)
        signature_good = problem is None
        if problem is None:
            problem = self._misplaced(item, owner) or self._untimely(item, known, now_ms)
        if problem is None:
            return VerifiedEnvelope(envelope, item.header, item.body, item.sig, item.proof, item.leaf, _SEAL)
        reason, detail = problem
        return Refusal(reason, detail, envelope, item.leaf, signature_good, envelope.host, envelope.trace_id)

    def _distrust(self, item: Parsed) -> tuple[str, str] | None:
        """Why no trusted key of the claimed host signed it."""
        envelope, fleet = item.envelope, self._fleet
        key = fleet.key(envelope.host, envelope.key_gen)
        who = f"{envelope.host}, key generation {envelope.key_gen}"
        if isinstance(key, bytes) and _mark(item) in self._good:
            return None
        # The hint is not signed, so it never refuses a good signature; it only says why there is none.
        theirs = item.headers.fleet_id
        if theirs and theirs != fleet.fleet_id:
            shown = theirs if is_fleet_id(theirs) else "no fleet's name"
            return "wrong-fleet", f"theirs {shown}, ours {fleet.fleet_id}"
        if isinstance(key, str):
            return key, who
        if len(item.sig) != 64:
            return "signature", f"{len(item.sig)} bytes, not 64; {who}"
        return "signature", f"not made by {who}"

    def _misplaced(self, item: Parsed, owner: QueueOwner) -> tuple[str, str] | None:
        """Why it must not come from that host, by that key, into this queue."""
        envelope, fleet = item.envelope, self._fleet
        if derive_gid(fleet.fleet_id, envelope.host, envelope.sender_salt) != envelope.sender:
            return "wrong-host", f"{envelope.sender} does not live on {envelope.host}"
        if envelope.to.startswith("roster.") and envelope.to.split(".")[1] != envelope.host:
            return "wrong-host", f"{envelope.host} speaks for {envelope.to}"
        if item.headers.has_cc:
            return "wrong-recipient", "sent with CC or BCC"
        if not owner.takes(envelope.to):
            return "wrong-recipient", f"{envelope.to} is not a key of this queue"
        if envelope.kind not in _KINDS:
            return "unknown-kind", envelope.kind
        if not fleet.allows(envelope.host, envelope.kind):
            return "not-authorised", f"{envelope.host} was not granted {envelope.kind}"
        return None

    def _untimely(self, item: Parsed, known: KnownLeaf | None, now_ms: int) -> tuple[str, str] | None:
        envelope = item.envelope
        if known is not None:
            return "conflict", f"{envelope.msg_id} is known with another content"
        if now_ms > envelope.expires_at + SKEW_MS:
            return "expired", f"{now_ms - envelope.expires_at} ms ago"
        if envelope.ts > now_ms + SKEW_MS:
            return "future", f"sent {envelope.ts - now_ms} ms from now; a clock is wrong"
        return None


_GOOD_SIGNATURES = 4096


def _mark(item: Parsed) -> bytes:
    """What a verified signature is remembered by: host, generation, size of the batch, root and signature."""
    who = f"{item.envelope.host} {item.envelope.key_gen} {item.count} ".encode()
    return who + item.root + item.sig
