"""Run the compiled hot path long enough that a leak shows, on good and on bad input; exit 1 and say what grew.

Run in a process of its own: what other tests keep would hide a leak, or look like one.
"""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Callable

import nacl.signing

from fleettrio import _accel
from fleettrio.errors import MalformedEnvelope

_ROUNDS = 3000


def run_all() -> None:
    fields: dict[str, _accel.Value] = {"kind": "SEND", "b": bytes(300), "n": -(2**64), "ключ": "значение", "yes": True}
    header = _accel.encode_header(fields)
    _accel.decode_header(header)
    for bad in (b"", header[:-1], header + b"\0", bytes.fromhex("a1616161ff"), bytes.fromhex("a2616201616101")):
        refused(lambda data=bad: _accel.decode_header(data))  # type: ignore[misc]
    refused(lambda: _accel.encode_header({"a": "\ud800"}))
    refused(lambda: _accel.encode_header({"a": 2**64}))
    refused(lambda: _accel.encode_header({"a": 1.5}))  # type: ignore[dict-item]
    leaves = [_accel.leaf_of(header, bytes([number])) for number in range(5)]
    root, proofs = _accel.merkle(leaves)
    assert _accel.root_of(leaves[4], proofs[4]) == (root, 5)
    refused(lambda: _accel.root_of(leaves[0], proofs[0][:-1]))
    assert _accel.verify_many([(PUBLIC, SIGNATURE[:63], b"m")]) == [False]
    SEEN.add(SEEN_COUNT[0].to_bytes(16, "big"))
    SEEN_COUNT[0] += 1


def refused(call: Callable[[], object]) -> None:
    try:
        call()
    except MalformedEnvelope:
        return
    raise AssertionError("taken")


def blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


KEY = nacl.signing.SigningKey(bytes(32))
PUBLIC, SIGNATURE = bytes(KEY.verify_key), KEY.sign(b"m").signature
SEEN, SEEN_COUNT = _accel.SeenSet(100), [0]


def main() -> int:
    assert _accel.IMPLEMENTATION == "compiled"
    for _ in range(_ROUNDS):
        run_all()
    before, size_before = blocks(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(_ROUNDS):
        run_all()
    assert _accel.verify_many([(PUBLIC, SIGNATURE, b"m")] * 500) == [True] * 500
    grown, size_grown = blocks() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size_before
    # One leaked object a round would be thousands of blocks; a leaked buffer a round, megabytes.
    if grown > _ROUNDS // 10 or size_grown > 2048:
        print(f"{grown} blocks and {size_grown} KiB more after {_ROUNDS} rounds")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
