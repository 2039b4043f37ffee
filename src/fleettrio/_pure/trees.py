"""What a signature covers (`docs/wire.md`): a leaf is what a message *is*, a proof leads from leaf to root."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

from fleettrio.errors import MalformedEnvelope

__all__ = ("MAX_BATCH", "leaf_of", "leaves_of", "merkle", "root_of", "roots_of", "verify_many")

MAX_BATCH = 256
"""Messages under one signature."""


def leaf_of(header: bytes, body: bytes) -> bytes:
    """BLAKE2b-256 over the exact bytes of header and body (32 bytes)."""
    return hashlib.blake2b(b"\0" + len(header).to_bytes(4, "big") + header + body, digest_size=32).digest()


def leaves_of(messages: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    """`leaf_of` each `(header, body)`."""
    return [leaf_of(header, body) for header, body in messages]


def merkle(leaves: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
    """Root over 1 to 256 leaves and a proof for each; the proof of a lone leaf is empty.

    An odd node is promoted unchanged. Raises `ValueError` for another number of leaves, or another length of one.
    """
    count = len(leaves)
    if not 1 <= count <= MAX_BATCH:
        raise ValueError(f"a batch has 1 to 256 leaves, not {count}")
    if any(len(leaf) != 32 for leaf in leaves):
        raise ValueError("a leaf has 32 bytes")
    if count == 1:
        return leaves[0], [b""]
    proofs = [bytearray(index.to_bytes(2, "big") + count.to_bytes(2, "big")) for index in range(count)]
    level, depth = list(leaves), 0
    while len(level) > 1:
        for index, proof in enumerate(proofs):
            sibling = index >> depth ^ 1
            if sibling < len(level):
                proof.extend(level[sibling])
        pairs = [_node(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level, depth = pairs + level[len(level) & ~1 :], depth + 1
    return level[0], [bytes(proof) for proof in proofs]


def root_of(leaf: bytes, proof: bytes) -> tuple[bytes, int]:
    """Root that `proof` leads to from `leaf`, and the number of messages in its batch.

    Raises `MalformedEnvelope` when the proof has another shape than a tree of that size gives.
    """
    if len(leaf) != 32:
        raise ValueError("a leaf has 32 bytes")
    if not proof:
        return leaf, 1
    if len(proof) < 4:
        raise MalformedEnvelope("proof: too short")
    index, count = int.from_bytes(proof[:2], "big"), int.from_bytes(proof[2:4], "big")
    if not 2 <= count <= MAX_BATCH:
        raise MalformedEnvelope(f"proof: for a batch of {count}, not 2 to 256")
    if index >= count:
        raise MalformedEnvelope(f"proof: index {index} in a batch of {count}")
    node, at, width = leaf, 4, count
    while width > 1:
        if index ^ 1 < width:
            sibling = proof[at : at + 32]
            at += 32
            if len(sibling) != 32:
                raise MalformedEnvelope("proof: wrong number of siblings")
            node = _node(sibling, node) if index & 1 else _node(node, sibling)
        index, width = index >> 1, width + 1 >> 1
    if at != len(proof):
        raise MalformedEnvelope("proof: wrong number of siblings")
    return node, count


def roots_of(messages: Sequence[tuple[bytes, bytes, bytes]]) -> list[tuple[bytes, bytes, int] | tuple[bytes, str]]:
    """For each `(header, body, proof)` its leaf, the root and the size of its batch; or its leaf and what is wrong.

    As `leaf_of` and `root_of` say it.
    """
    found: list[tuple[bytes, bytes, int] | tuple[bytes, str]] = []
    for header, body, proof in messages:
        leaf = leaf_of(header, body)
        try:
            found.append((leaf, *root_of(leaf, proof)))
        except MalformedEnvelope as error:
            found.append((leaf, str(error)))
    return found


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.blake2b(b"\x01" + left + right, digest_size=32).digest()


# --- signatures ---------------------------------------------------------------------------------


def verify_many(items: Sequence[tuple[bytes, bytes, bytes]]) -> list[bool]:
    """Whether each `(public key, signature, message)` holds, by libsodium; a wrong length is False, not an error."""
    return [_verify(key, signature, message) for key, signature, message in items]


def _verify(key: bytes, signature: bytes, message: bytes) -> bool:
    if len(key) != 32 or len(signature) != 64:
        return False
    try:
        crypto_sign_open(signature + message, key)
    except BadSignatureError:
        return False
    return True
