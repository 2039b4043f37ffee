"""Properties of the wire on random input: both implementations agree, and what is taken is canonical."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleettrio import _pure
from fleettrio.errors import MalformedEnvelope
from fleettrio.wire import records
from fleettrio.wire.bodies import Outcome, RosterPart, RpcBody
from fleettrio.wire.envelope import decode_envelope
from fleettrio.wire.headers import RawHeaders
from fleettrio.wire.plain import dump_plain, load_plain
from fleettrio.wire.signing import Parsed, Refusal, parse_delivery
from tests.accel.twins import COMPILED, TWINS, outcome
from tests.wire.test_wire_bodies import BODIES

keys = st.text(max_size=23).filter(lambda text: len(text.encode("utf-8", "surrogatepass")) <= 23)
values = st.one_of(
    st.booleans(),
    st.integers(-(2**64), 2**64 - 1),
    st.text(max_size=300),
    st.binary(max_size=300),
)
headers = st.dictionaries(keys, values, max_size=30)
anything = st.one_of(values, st.integers(), st.floats(), st.none(), st.lists(st.integers()), st.text("\ud800a"))
wild_headers = st.dictionaries(st.one_of(st.text(max_size=30), st.text("\ud800a"), st.integers()), anything)


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A canonical header with a few bytes changed, taken out or put in."""
    data = bytearray(_pure.encode_header(draw(headers)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["change", "take", "put", "cut"])):
            case "change" if at < len(data):
                data[at] = draw(st.integers(0, 255))
            case "take":
                del data[at : at + 1]
            case "put":
                data[at:at] = draw(st.binary(min_size=1, max_size=3))
            case "cut":
                del data[at:]
    return bytes(data)


hostile_bytes = st.one_of(st.binary(max_size=200), spoilt(), st.binary(max_size=100).map(lambda data: b"\xa1" + data))


def agree(name: str, *arguments: object) -> tuple[str, object]:
    """Both twins give the same result or the same error with the same text."""
    expected = outcome(_pure, name, *arguments)
    for twin in COMPILED:
        assert outcome(twin, name, *arguments) == expected
    return expected


@given(headers)
def test_encoding_is_what_cbor2_calls_canonical(fields: dict[str, _pure.Value]) -> None:
    how, header = agree("encode_header", fields)
    if how == "result":
        assert header == cbor2.dumps(fields, canonical=True)
        assert agree("decode_header", header) == ("result", fields)


@given(wild_headers)
def test_encoding_anything_gives_canonical_bytes_or_the_same_error(fields: dict[str, _pure.Value]) -> None:
    how, header = agree("encode_header", fields)
    assert how in ("result", "MalformedEnvelope")
    if how == "result":
        assert header == cbor2.dumps(fields, canonical=True)


@settings(max_examples=400)
@given(hostile_bytes)
def test_decoding_takes_canonical_bytes_and_nothing_else(data: bytes) -> None:
    how, fields = agree("decode_header", data)
    assert how in ("result", "MalformedEnvelope")
    if how == "result":
        assert agree("encode_header", fields) == ("result", data)
        assert cbor2.loads(data) == fields


@given(st.binary(max_size=500), st.binary(max_size=500))
def test_leaves_agree(header: bytes, body: bytes) -> None:
    agree("leaf_of", header, body)


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=40), st.data())
def test_trees_agree_and_a_spoilt_proof_never_leads_to_the_root(leaves: list[bytes], data: st.DataObject) -> None:
    how, _ = agree("merkle", leaves)
    assert how == "result"
    root, proofs = _pure.merkle(leaves)
    at = data.draw(st.integers(0, len(leaves) - 1))
    assert agree("root_of", leaves[at], proofs[at]) == ("result", (root, len(leaves)))
    spoilt_proof = bytearray(proofs[at]) + data.draw(st.binary(max_size=40))
    if spoilt_proof:
        spoilt_proof[data.draw(st.integers(0, len(spoilt_proof) - 1))] ^= data.draw(st.integers(1, 255))
    agree("root_of", leaves[at], bytes(spoilt_proof))


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=300))
def test_random_proofs_agree(leaf: bytes, proof: bytes) -> None:
    assert agree("root_of", leaf, proof)[0] in ("result", "MalformedEnvelope")


def about(size: int) -> st.SearchStrategy[bytes]:
    return st.one_of(st.binary(min_size=size, max_size=size), st.binary(max_size=80))


@given(st.lists(st.tuples(about(32), about(64), about(9))))
def test_random_signatures_are_false_for_both(items: list[tuple[bytes, bytes, bytes]]) -> None:
    assert agree("verify_many", items) == ("result", [False] * len(items))


@given(st.integers(1, 5), st.lists(st.integers(0, 12), max_size=60))
def test_seen_sets_agree(capacity: int, ids: list[int]) -> None:
    sets = [twin.SeenSet(capacity) for twin in TWINS]
    for number in ids:
        one = number.to_bytes(16, "big")
        assert len({(seen.add(one), len(seen), one in seen) for seen in sets}) == 1
        assert len(sets[0]) <= capacity


@given(hostile_bytes, st.binary(max_size=20), st.one_of(st.none(), st.binary(max_size=70)))
def test_any_delivery_is_read_or_refused(header: bytes, body: bytes, sig: bytes | None) -> None:
    parsed = parse_delivery(RawHeaders(fleet=header, sig=sig), body, body_limit=10)
    assert isinstance(parsed, Parsed | Refusal)
    if isinstance(parsed, Parsed):
        assert decode_envelope(header) == parsed.envelope


plain = st.recursive(
    st.one_of(st.booleans(), st.integers(-(2**64), 2**64 - 1), st.text(max_size=20), st.binary(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=5), plain, max_size=4))
def test_plain_maps_come_back(value: dict[str, object]) -> None:
    assert load_plain(dump_plain(value), what="body", limit=10_000, depth=20) == value


@given(st.one_of(st.binary(max_size=200), plain.map(dump_plain), spoilt()))
def test_any_bytes_are_a_body_or_malformed(data: bytes) -> None:
    for body in (Outcome, RosterPart, RpcBody):
        try:
            read = body.from_bytes(data)
        except MalformedEnvelope:
            continue
        assert body.from_bytes(read.to_bytes()) == read


of_bodies = plain | st.sampled_from(
    [2**53, 2**53 + 1, "x" * 64, "x" * 65, "ö" * 64, "x" * 4097, "\n", "human", b"", bytes(16), bytes(32), ["x"] * 257]
)


@st.composite
def nearly_bodies(draw: st.DrawFn) -> tuple[Any, dict[str, Any]]:
    """The type and the map of a body, some of whose fields, or of what it holds, are other ones or gone."""
    body = draw(st.sampled_from(BODIES))
    fields = load_plain(body.to_bytes(), what="body", limit=10_000, depth=20)
    within = [
        fields,
        *(item for value in fields.values() if type(value) is list for item in value if type(item) is dict),
    ]
    for at in draw(st.lists(st.sampled_from(within), max_size=2)):
        name = draw(st.sampled_from(sorted([*at, "later"])))
        at.pop(name, None)
        if draw(st.booleans()):
            at[name] = draw(of_bodies)
    return type(body), fields


@settings(max_examples=400)
@given(nearly_bodies())
def test_a_body_is_read_at_once_as_field_by_field(case: tuple[Any, dict[str, Any]]) -> None:
    cls, fields = case
    assert result_of(cls.from_map, fields) == result_of(records._read_closely, cls, fields)


def result_of(call: Callable[..., object], *arguments: object) -> object:
    try:
        return call(*arguments)
    except MalformedEnvelope as error:
        return str(error)


@pytest.mark.parametrize("twin", TWINS, ids=lambda module: module.__name__.rpartition("_")[2])
def test_every_single_byte_change_of_a_real_header_is_seen(twin: object) -> None:
    header = _pure.encode_header({"v": 1, "kind": "SEND", "fromSalt": bytes(16), "ts": 1_800_000_000_000, "auto": True})
    for at in range(len(header)):
        for byte in range(256):
            data = header[:at] + bytes([byte]) + header[at + 1 :]
            how, fields = outcome(twin, "decode_header", data)  # type: ignore[arg-type]
            assert how == "MalformedEnvelope" or _pure.encode_header(fields) == data  # type: ignore[arg-type]
