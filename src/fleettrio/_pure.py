"""Reference implementation of the hot path; `_fast.pyx` is its compiled twin: same names, results, errors and texts.

Rules (`10-wire`, Canonical bytes and Signature):

1. A header is one canonical CBOR map of short text keys to int, text, bytes or bool. `decode_header` takes exactly
   what `encode_header` gives, so `encode_header(decode_header(b)) == b` for every `b` that is taken.
2. A leaf is what a message *is*. One signature covers a tree of up to 256 leaves; a proof leads from leaf to root.
3. What a peer can cause is `MalformedEnvelope`, or `False` for a signature; what only we can cause is `ValueError`.

Change this file first, and `_fast.pyx` in the same commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

from fleettrio.errors import MalformedEnvelope

__all__ = (
    "MAX_BATCH",
    "MAX_HEADER",
    "SeenSet",
    "Value",
    "decode_header",
    "encode_header",
    "leaf_of",
    "merkle",
    "root_of",
    "verify_many",
)

Value = int | str | bytes | bool

MAX_HEADER = 4096
"""Bytes of a header."""
MAX_BATCH = 256
"""Messages under one signature."""

_MAX_KEY = 23
"""Bytes of a key: below this the two sort orders in use for canonical CBOR agree."""
_UINT, _NEGATIVE, _BYTES, _TEXT, _MAP = 0, 1, 2, 3, 5
_FALSE, _TRUE = 0xF4, 0xF5


# --- header -------------------------------------------------------------------------------------


def encode_header(fields: Mapping[str, Value]) -> bytes:
    """The canonical bytes of `fields`.

    Raises `MalformedEnvelope`, naming the field, for anything that a header cannot hold, and for over 4 KiB.
    """
    entries = []
    for key, value in fields.items():
        if not isinstance(key, str):
            raise MalformedEnvelope("header: a field name is not text")
        name = _utf8(key, key)
        if len(name) > _MAX_KEY:
            raise MalformedEnvelope(f"header: field {key!a} has a name over 23 bytes")
        entries.append((_head(_TEXT, len(name)) + name, _encode_value(key, value)))
    entries.sort()
    header = _head(_MAP, len(entries)) + b"".join(name + value for name, value in entries)
    if len(header) > MAX_HEADER:
        raise MalformedEnvelope(f"header: {len(header)} bytes, the most is 4096")
    return header


def _encode_value(key: str, value: object) -> bytes:
    if isinstance(value, bool):
        return bytes((_TRUE if value else _FALSE,))
    if isinstance(value, int):
        major, number = (_UINT, value) if value >= 0 else (_NEGATIVE, -1 - value)
        if number >= 1 << 64:
            raise MalformedEnvelope(f"header: field {key!a} is a number over 64 bits")
        return _head(major, number)
    if isinstance(value, str):
        text = _utf8(key, value)
        return _head(_TEXT, len(text)) + text
    if isinstance(value, bytes):
        return _head(_BYTES, len(value)) + value
    raise MalformedEnvelope(f"header: field {key!a} is not int, text, bytes or bool")


def _utf8(key: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise MalformedEnvelope(f"header: field {key!a} is not valid text") from None


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes((major << 5 | number,))
    if number < 1 << 8:
        return bytes((major << 5 | 24, number))
    if number < 1 << 16:
        return bytes((major << 5 | 25,)) + number.to_bytes(2, "big")
    if number < 1 << 32:
        return bytes((major << 5 | 26,)) + number.to_bytes(4, "big")
    return bytes((major << 5 | 27,)) + number.to_bytes(8, "big")


def decode_header(data: bytes) -> dict[str, Value]:
    """The fields of a header, in the order of its bytes.

    Raises `MalformedEnvelope`, naming the byte, for anything that is not canonical to the last bit.
    """
    if len(data) > MAX_HEADER:
        raise MalformedEnvelope(f"header: {len(data)} bytes, the most is 4096")
    if not data or data[0] >> 5 != _MAP:
        raise _bad("not a map", 0)
    count, at = _read_head(data, 0)
    fields: dict[str, Value] = {}
    last = b""
    for _ in range(count):
        start = at
        if at < len(data) and data[at] >> 5 != _TEXT:
            raise _bad("a field name is not text", at)
        length, at = _read_head(data, at)
        if length > _MAX_KEY:
            raise _bad("a field name is over 23 bytes", start)
        key, at = _read_text(data, start, at, length)
        encoded = data[start:at]
        if encoded <= last:
            raise _bad("a field appears twice" if encoded == last else "fields are not in order", start)
        last = encoded
        fields[key], at = _read_value(data, at)
    if at != len(data):
        raise _bad("bytes are left over", at)
    return fields


def _read_value(data: bytes, start: int) -> tuple[Value, int]:
    if start == len(data):
        raise _bad("ends early", start)
    if data[start] in (_FALSE, _TRUE):
        return data[start] == _TRUE, start + 1
    major = data[start] >> 5
    if major > _TEXT:
        raise _bad("a value is not int, text, bytes or bool", start)
    number, at = _read_head(data, start)
    if major == _UINT:
        return number, at
    if major == _NEGATIVE:
        return -1 - number, at
    if major == _TEXT:
        return _read_text(data, start, at, number)
    if number > len(data) - at:
        raise _bad("ends early", start)
    return data[at : at + number], at + number


def _read_head(data: bytes, start: int) -> tuple[int, int]:
    """Number of the item at `start`, and where its content begins."""
    if start == len(data):
        raise _bad("ends early", start)
    number = data[start] & 0x1F
    if number < 24:
        return number, start + 1
    if number > 27:
        raise _bad("an indefinite or reserved length", start)
    size = 1 << number - 24
    end = start + 1 + size
    if end > len(data):
        raise _bad("ends early", start)
    number = int.from_bytes(data[start + 1 : end], "big")
    if number < (24 if size == 1 else 1 << 4 * size):
        raise _bad("not the shortest form", start)
    return number, end


def _read_text(data: bytes, start: int, at: int, length: int) -> tuple[str, int]:
    if length > len(data) - at:
        raise _bad("ends early", start)
    try:
        return data[at : at + length].decode(), at + length
    except UnicodeDecodeError:
        raise _bad("text is not UTF-8", start) from None


def _bad(what: str, at: int) -> MalformedEnvelope:
    return MalformedEnvelope(f"header: {what} at byte {at}")


# --- leaves and trees ---------------------------------------------------------------------------


def leaf_of(header: bytes, body: bytes) -> bytes:
    """BLAKE2b-256 over the exact bytes of header and body (32 bytes)."""
    return hashlib.blake2b(b"\0" + len(header).to_bytes(4, "big") + header + body, digest_size=32).digest()


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


# --- what was seen ------------------------------------------------------------------------------


class SeenSet:
    """Bounded set of ids: it remembers the last `capacity` that were new, and forgets the oldest first."""

    __slots__ = ("_ids", "_next", "_ring", "capacity")

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a SeenSet holds at least one id")
        self.capacity = capacity
        self._ids: set[bytes] = set()
        # A ring beside the set: a dict would scan over its deleted entries to find the oldest.
        self._ring: list[bytes] = []
        self._next = 0

    def add(self, key: bytes) -> bool:
        """Remember `key`; False when it was known (it does not become younger by that)."""
        if key in self._ids:
            return False
        self._ids.add(key)
        if len(self._ring) < self.capacity:
            self._ring.append(key)
            return True
        self._ids.remove(self._ring[self._next])
        self._ring[self._next] = key
        self._next = (self._next + 1) % self.capacity
        return True

    def __contains__(self, key: object) -> bool:
        return key in self._ids

    def __len__(self) -> int:
        return len(self._ids)
