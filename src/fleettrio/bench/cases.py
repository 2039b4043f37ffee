"""The small things that every message costs, one by one: each as a program that does it n times.

Cases of a twin can be had of either implementation in one process. The ways of a whole message use the one that this
process chose. `python -m fleettrio.bench.cases CASE N` runs one N times and says nothing, for whoever counts
instructions; without N it prints the CPU seconds of one item. What a few need is imported by them: the start of the
program would be most of what is counted.
"""

from __future__ import annotations

import hashlib
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import NamedTuple

from fleettrio import _accel, _pure
from fleettrio.bench import materials
from fleettrio.bench.materials import BATCH, CHANNEL, FRAME_MAX, NOW
from fleettrio.bench.samples import cpu_per_item
from fleettrio.ids import Tag
from fleettrio.wire.envelope import decode_envelope, encode_envelope
from fleettrio.wire.headers import MAX_TABLE
from fleettrio.wire.signing import Parsed, VerifiedEnvelope, Verifier, parse_many

__all__ = ("CASES", "PEERS", "WAYS", "Case", "cost", "made")

_MANY, _SOME = 1_000_000, 20_000
"""Ids: what a large host keeps, and what the instructions are counted for."""


class Case(NamedTuple):
    """`run(n)` does n times `items`."""

    run: Callable[[int], object]
    items: int = 1


def cost(case: Case) -> float:
    """CPU seconds of one item."""
    return cpu_per_item(case.run) / case.items


def _repeated(once: Callable[[], object], items: int = BATCH) -> Case:
    once()  # what only the first time costs, imports above all, is no cost of an item

    def run(count: int) -> None:
        for _ in range(count):
            once()

    return Case(run, items)


# --- of a twin ----------------------------------------------------------------------------------


def _headers() -> list[bytes]:
    return [encode_envelope(envelope) for envelope in materials.envelopes()]


def _encode(twin: ModuleType) -> Case:
    fields = [_accel.decode_header(header) for header in _headers()]
    encode = twin.encode_header
    return _repeated(lambda: [encode(each) for each in fields])


def _decode(twin: ModuleType) -> Case:
    headers, decode = _headers(), twin.decode_header
    return _repeated(lambda: [decode(header) for header in headers])


def _verify(twin: ModuleType) -> Case:
    """Messages of one host, signed as one batch: their leaves, the way to the root, one signature."""
    batch, signer = materials.signed_batch(), materials.signer()
    messages = [(header, body, proof) for header, body, _, proof in batch]
    signature = batch[0][2]

    def once() -> None:
        roots = twin.roots_of(messages)
        signed = b"\0".join((b"fleettrio/1 root", signer.fleet_id.encode(), BATCH.to_bytes(2, "big") + roots[0][1]))
        assert twin.verify_many([(signer.public_key, signature, signed)]) == [True]
        assert all(found[1:] == roots[0][1:] for found in roots)

    return _repeated(once)


def _verify_one(twin: ModuleType) -> Case:
    [(key, _, message)] = materials.signed_alone()[:1]
    sig = materials.signer().sign([(message, b"")])[0][0]
    fleet_id = materials.signer().fleet_id.encode()

    def once() -> None:
        [(_, root, count)] = twin.roots_of([(message, b"", b"")])
        signed = b"\0".join((b"fleettrio/1 root", fleet_id, count.to_bytes(2, "big") + root))
        assert twin.verify_many([(key, sig, signed)]) == [True]

    return _repeated(once, 1)


def _seen(twin: ModuleType, count: int = _MANY) -> Case:
    """Ids that are new, in batches as they come; then all of them again."""
    batches = _id_batches(count)

    def once() -> None:
        seen = twin.SeenSet(count)
        assert all(all(seen.add_many(batch)) for batch in batches)
        assert not any(any(seen.add_many(batch)) for batch in batches)

    return _repeated(once, 2 * count)


def _publish(twin: ModuleType) -> Case:
    sent = materials.publishes(materials.envelopes(), materials.signer())
    return _repeated(lambda: twin.encode_publishes(CHANNEL, FRAME_MAX, MAX_TABLE, sent))


def _read(twin: ModuleType) -> Case:
    data = _delivered()

    def once() -> None:
        reader = twin.FrameReader(FRAME_MAX)
        reader.take(CHANNEL)
        assert len(reader.feed(data)) == BATCH

    return _repeated(once)


CASES: Mapping[str, Callable[[ModuleType], Case]] = {
    "encode": _encode,
    "decode": _decode,
    "verify": _verify,
    "verify-one": _verify_one,
    "seen": _seen,
    "seen-few": lambda twin: _seen(twin, _SOME),
    "publish": _publish,
    "read": _read,
}


# --- of whoever does the same -------------------------------------------------------------------


def _encode_cbor2() -> Case:
    import cbor2

    fields = [_accel.decode_header(header) for header in _headers()]
    return _repeated(lambda: [cbor2.dumps(each, canonical=True) for each in fields])


def _decode_cbor2() -> Case:
    import cbor2

    headers = _headers()

    def decode(header: bytes) -> object:
        fields = cbor2.loads(header)
        if cbor2.dumps(fields, canonical=True) != header:
            raise ValueError("not canonical")
        return fields

    return _repeated(lambda: [decode(header) for header in headers])


def _verify_pynacl(count: int = BATCH) -> Case:
    from nacl.signing import VerifyKey

    items = [(VerifyKey(key), signature, message) for key, signature, message in materials.signed_alone()[:count]]
    return _repeated(lambda: [key.verify(message, signature) for key, signature, message in items], count)


def _seen_ordered() -> Case:
    batches = _id_batches(_MANY)

    def once() -> None:
        seen: OrderedDict[bytes, None] = OrderedDict()
        for batch in batches:
            for key in batch:
                if key not in seen:
                    if len(seen) == _MANY:
                        seen.popitem(last=False)
                    seen[key] = None
        assert all(key in seen for batch in batches for key in batch)

    return _repeated(once, 2 * _MANY)


PEERS: Mapping[str, Callable[[], Case]] = {
    "encode": _encode_cbor2,
    "decode": _decode_cbor2,
    "verify": _verify_pynacl,
    "verify-one": lambda: _verify_pynacl(1),
    "seen": _seen_ordered,
}


def _id_batches(count: int) -> list[list[bytes]]:
    ids = [hashlib.blake2b(number.to_bytes(4, "big"), digest_size=16).digest() for number in range(count)]
    return [ids[at : at + BATCH] for at in range(0, count, BATCH)]


# --- the ways of a whole message ----------------------------------------------------------------


def _send() -> Case:
    """From envelopes to the bytes that are written: encoded, signed, with their tables, in frames."""
    sent, signer = materials.envelopes(), materials.signer()

    def once() -> None:
        data, left_out = _accel.encode_publishes(CHANNEL, FRAME_MAX, MAX_TABLE, materials.publishes(sent, signer))
        assert data
        assert not left_out

    return _repeated(once)


def _receive() -> Case:
    """From the bytes that were read to verified envelopes; each batch's signature is a new one."""
    from fleettrio.broker.port import RawDelivery

    data, fleet, queue = _delivered(), materials.fleet(), materials.Queue()

    def once() -> None:
        reader = _accel.FrameReader(FRAME_MAX)
        reader.take(CHANNEL)
        raw = [
            RawDelivery(
                Tag(1, 1, found.delivery_tag),
                "inbox",
                found.exchange,
                found.routing_key,
                found.redelivered,
                found.headers,
                found.body,
            )
            for found in reader.feed(data)
            if isinstance(found, _accel.Delivered)
        ]
        read = parse_many([(each.headers, each.body) for each in raw], body_limit=1 << 20)
        parsed = [each for each in read if isinstance(each, Parsed)]
        judged = Verifier(fleet).judge(parsed, [queue] * BATCH, [None] * BATCH, NOW)
        assert all(isinstance(each, VerifiedEnvelope) for each in judged)

    return _repeated(once)


def _envelope_out() -> Case:
    sent = materials.envelopes()
    return _repeated(lambda: [encode_envelope(envelope) for envelope in sent])


def _envelope_in() -> Case:
    headers = _headers()
    return _repeated(lambda: [decode_envelope(header) for header in headers])


WAYS: Mapping[str, Callable[[], Case]] = {
    "send": _send,
    "receive": _receive,
    "envelope-out": _envelope_out,
    "envelope-in": _envelope_in,
}


def _delivered() -> bytes:
    sent = materials.publishes(materials.envelopes(), materials.signer())
    return materials.delivered_bytes(_accel.encode_publishes(CHANNEL, FRAME_MAX, MAX_TABLE, sent)[0])


def made(name: str, *, is_pure: bool = False) -> Case:
    """The case of that name, of this process's implementation or the pure one."""
    return WAYS[name]() if name in WAYS else CASES[name](_pure if is_pure else _accel)


def main(arguments: list[str]) -> None:
    case = made(arguments[0])
    if len(arguments) > 1:
        case.run(int(arguments[1]))
    else:
        sys.stdout.write(f"{cost(case)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
