"""Signing in batches and verifying in a fixed order (`docs/wire.md`, The signature).

Rules:

1. The first check that fails gives the reason, in the order of `REFUSAL_REASONS`; a known message is acknowledged right
   after `malformed`, whatever its signature or today's trust, or a spoilt copy would make a false FAILED.
2. Only a `VerifiedEnvelope` goes further, and nothing but the verifier makes one; neighbours on this host come in by
   `of_neighbour`, where the caller rules stand for the signature.
3. Nothing is remembered before it is verified; of the verified, only good signatures, and none past a change of trust.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

import msgspec
from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

from fleettrio._accel import (
    MAX_BATCH,
    SeenSet,
    leaf_of,
    leaves_of,
    merkle,
    verify_many,
)
from fleettrio.errors import ProtocolMisuse
from fleettrio.ids import FleetId, Gid, HostId, Leaf, WallMs
from fleettrio.wire.envelope import NOTICE_KINDS, Envelope, Kind
from fleettrio.wire.fleet import Fleet, grant_for
from fleettrio.wire.gids import derive_gid, is_fleet_id
from fleettrio.wire.parsed import Parsed, Refusal, parse_delivery, parse_many

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
    "parse_many",
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
        return self.sign_leaves(leaves_of(messages))

    def sign_leaves(self, leaves: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """As `sign`, for messages whose leaves are known."""
        root, proofs = merkle(leaves)
        signature = crypto_sign(_signed_bytes(self.fleet_id, len(leaves), root), self._secret_key)[:64]
        return [(signature, proof) for proof in proofs]


def _signed_bytes(fleet_id: FleetId, count: int, root: bytes) -> bytes:
    return b"\0".join((b"fleettrio/1 root", fleet_id.encode(), count.to_bytes(2, "big") + root))


# --- what becomes of a delivery -----------------------------------------------------------------


class VerifiedEnvelope(msgspec.Struct, frozen=True, gc=False):
    """A message that passed every check. Made by the verifier and by `of_neighbour` alone."""

    envelope: Envelope
    header: bytes
    body: bytes
    sig: bytes
    proof: bytes
    leaf: Leaf
    seal: object

    def __post_init__(self) -> None:
        if self.seal is not _SEAL:
            raise ProtocolMisuse("only the verifier makes a VerifiedEnvelope")
        msgspec.structs.force_setattr(self, "seal", None)  # a changed copy of it is none, either

    @classmethod
    def of_neighbour(cls, envelope: Envelope, header: bytes, body: bytes) -> VerifiedEnvelope:
        """A message of an entity of this host, unsigned: the caller rules stand for the signature."""
        return cls(envelope, header, body, b"", b"", Leaf(leaf_of(header, body)), _SEAL)


class Duplicate(msgspec.Struct, frozen=True):
    """A known message came again, byte for byte: to be acknowledged, nothing else."""

    envelope: Envelope
    leaf: Leaf


Judgement = VerifiedEnvelope | Refusal | Duplicate


# --- verifying ----------------------------------------------------------------------------------


class Verifier:
    """Judges deliveries by the fleet file as it is now."""

    def __init__(self, fleet: Fleet) -> None:
        self.set_fleet(fleet)

    def set_fleet(self, fleet: Fleet) -> None:
        """From the next `judge` on `fleet` counts; every signature is verified anew."""
        self._fleet = fleet
        self._good = SeenSet(_GOOD_SIGNATURES)
        self._gids: dict[tuple[HostId, bytes], Gid] = {}
        self._allowed: dict[tuple[HostId, str], bool] = {}

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
        signed = iter(self._signed([item for item, leaf in zip(parsed, known, strict=True) if leaf != item.leaf]))
        return [
            Duplicate(item.envelope, item.leaf)
            if leaf == item.leaf
            else self._judge(item, owner, leaf, now_ms, next(signed))
            for item, owner, leaf in zip(parsed, owners, known, strict=True)
        ]

    def distrust(self, item: Parsed) -> str:
        """Why it is not the word of the host that it names, whenever and wherever it is read; empty: it is."""
        [signed] = self._signed([item])
        if not signed:
            return self._distrust(item)[0]
        return "" if self._lives_there(item.envelope) else "wrong-host"

    def _signed(self, items: Sequence[Parsed]) -> list[bool]:
        """Whether a trusted key of the host that each names signed it; messages that share a signature share a mark."""
        marks: list[bytes] = []
        asked: dict[bytes, tuple[bytes, bytes, bytes]] = {}
        last: tuple[object, ...] = ()
        mark = b""
        for item in items:
            host, key_gen = item.envelope.host, item.envelope.key_gen
            whose = (host, key_gen, item.count, item.root, item.sig)
            if whose != last:
                last = whose
                key = self._fleet.key(host, key_gen)
                mark = _mark(item) if isinstance(key, bytes) else b""
                if isinstance(key, bytes) and mark not in self._good:
                    asked[mark] = key, item.sig, _signed_bytes(self._fleet.fleet_id, item.count, item.root)
            marks.append(mark)
        bad = {b""}
        for mark, good in zip(asked, verify_many(list(asked.values())) if asked else (), strict=True):
            if good:
                self._good.add(mark)
            else:
                bad.add(mark)
        return [mark not in bad for mark in marks]

    def _judge(
        self, item: Parsed, owner: QueueOwner, known: KnownLeaf | None, now_ms: int, signed: bool
    ) -> VerifiedEnvelope | Refusal:
        envelope = item.envelope
        problem = (
            (self._misplaced(item, owner) or self._untimely(item, known, now_ms)) if signed else self._distrust(item)
        )
        if problem is None:
            return VerifiedEnvelope(envelope, item.header, item.body, item.sig, item.proof, item.leaf, _SEAL)
        reason, detail = problem
        return Refusal(reason, detail, envelope, item.leaf, signed, envelope.host, envelope.trace_id)

    def _distrust(self, item: Parsed) -> tuple[str, str]:
        """Why no trusted key of the claimed host signed it."""
        envelope, fleet = item.envelope, self._fleet
        key = fleet.key(envelope.host, envelope.key_gen)
        who = f"{envelope.host}, key generation {envelope.key_gen}"
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

    def _lives_there(self, envelope: Envelope) -> bool:
        """Whether the sender's gid proves the host that signed. What was derived is kept, within bounds."""
        named = envelope.host, envelope.sender_salt
        gid = self._gids.get(named)
        if gid is None:
            if len(self._gids) == _KEPT_GIDS:
                self._gids.clear()
            gid = self._gids[named] = derive_gid(self._fleet.fleet_id, *named)
        return gid == envelope.sender

    def _misplaced(self, item: Parsed, owner: QueueOwner) -> tuple[str, str] | None:
        """Why it must not come from that host, by that key, into this queue."""
        envelope, fleet = item.envelope, self._fleet
        if not self._lives_there(envelope):
            return "wrong-host", f"{envelope.sender} does not live on {envelope.host}"
        if envelope.to.startswith("roster.") and envelope.to.split(".")[1] != envelope.host:
            return "wrong-host", f"{envelope.host} speaks for {envelope.to}"
        if item.headers.has_cc:
            return "wrong-recipient", "sent with CC or BCC"
        if not owner.takes(envelope.to):
            return "wrong-recipient", f"{envelope.to} is not a key of this queue"
        if envelope.kind not in _KINDS:
            return "unknown-kind", envelope.kind
        named = envelope.host, envelope.kind
        allowed = self._allowed.get(named)
        if allowed is None:
            allowed = self._allowed[named] = fleet.allows(*named)
        if not allowed:
            return "not-authorised", f"{envelope.host} was not granted {grant_for(envelope.kind)}"
        return None

    def _untimely(self, item: Parsed, known: KnownLeaf | None, now_ms: int) -> tuple[str, str] | None:
        envelope = item.envelope
        if known is not None:
            return "conflict", f"{envelope.msg_id} is known with another content"
        if now_ms > envelope.expires_at + SKEW_MS:
            return "expired", f"{now_ms - envelope.expires_at} ms ago"
        # What became of our message is so whatever our clock says, and twice the same word is nothing: a host whose
        # clock is behind would never hear it.
        if envelope.ts > now_ms + SKEW_MS and envelope.kind not in NOTICE_KINDS:
            return "future", f"sent {envelope.ts - now_ms} ms from now; a clock is wrong"
        return None


_GOOD_SIGNATURES = 4096
_KEPT_GIDS = 4096


def _mark(item: Parsed) -> bytes:
    """What a verified signature is remembered by: host, generation, size of the batch, root and signature."""
    who = f"{item.envelope.host} {item.envelope.key_gen} {item.count} ".encode()
    return hashlib.blake2b(who + item.root + item.sig, digest_size=16).digest()
