"""A public key for people to compare: as six words, and as hex digits of the same digest."""

from __future__ import annotations

import hashlib

from fleettrio.wire.wordlist import WORDS

__all__ = ("fingerprint", "words")


def words(key: bytes) -> str:
    """Six words for a public key: 48 bits of its BLAKE2b-256, to read out and compare. The hex is `fingerprint`."""
    return " ".join(WORDS[number] for number in _digest(key)[:6])


def fingerprint(key: bytes) -> str:
    """32 hex digits (128 bits) of the same digest, in groups of four."""
    digits = _digest(key)[:16].hex()
    return " ".join(digits[at : at + 4] for at in range(0, len(digits), 4))


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(b"fleettrio/1 words\0" + key, digest_size=32).digest()
