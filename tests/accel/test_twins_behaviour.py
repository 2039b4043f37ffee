"""What both implementations do beside the vectors: limits, errors and their texts, the seen-set."""

from __future__ import annotations

import enum
import random
from collections import OrderedDict, deque
from types import MappingProxyType, ModuleType
from typing import Any

import nacl.signing
import pytest

from fleettrio.errors import MalformedEnvelope
from tests.accel.twins import TWINS

each_twin = pytest.mark.parametrize("twin", TWINS, ids=lambda module: module.__name__.rpartition("_")[2])


class Word(enum.StrEnum):
    SEND = "SEND"


class Number(enum.IntEnum):
    TWO = 2


@each_twin
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({1: 1}, "header: a field name is not text"),
        ({"k" * 24: 1}, "header: field 'kkkkkkkkkkkkkkkkkkkkkkkk' has a name over 23 bytes"),
        ({"a": 1.0}, "header: field 'a' is not int, text, bytes or bool"),
        ({"a": None}, "header: field 'a' is not int, text, bytes or bool"),
        ({"é": [1]}, "header: field '\\xe9' is not int, text, bytes or bool"),
        ({"a": bytearray(1)}, "header: field 'a' is not int, text, bytes or bool"),
        ({"a": 2**64}, "header: field 'a' is a number over 64 bits"),
        ({"a": -(2**64) - 1}, "header: field 'a' is a number over 64 bits"),
        ({"a": "\ud800"}, "header: field 'a' is not valid text"),
        ({"\ud800": 1}, "header: field '\\ud800' is not valid text"),
        ({"a": bytes(4090)}, "header: 4096 bytes, the most is 4096"),
        ({"a": bytes(4092)}, "header: 4098 bytes, the most is 4096"),
        ({f"{n:04}": 1 for n in range(1000)}, "header: 6003 bytes, the most is 4096"),
    ],
)
def test_encode_refuses(twin: ModuleType, fields: Any, text: str) -> None:
    if text.startswith("header: 4096 "):
        assert len(twin.encode_header(fields)) == 4096
        return
    with pytest.raises(MalformedEnvelope) as caught:
        twin.encode_header(fields)
    assert str(caught.value) == text


@each_twin
def test_encode_takes_any_mapping_and_subclasses_of_plain_types(twin: ModuleType) -> None:
    plain = twin.encode_header({"kind": "SEND", "n": 2})
    assert twin.encode_header(MappingProxyType({"n": 2, "kind": Word.SEND})) == plain
    assert twin.encode_header(OrderedDict(n=Number.TWO, kind="SEND")) == plain


@each_twin
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "header: not a map at byte 0"),
        (bytes(4097), "header: 4097 bytes, the most is 4096"),
        (bytes.fromhex("a16161f6"), "header: a value is not int, text, bytes or bool at byte 3"),
        (bytes.fromhex("a2616201616101"), "header: fields are not in order at byte 4"),
        (bytes.fromhex("a2616101616101"), "header: a field appears twice at byte 4"),
        (bytes.fromhex("a161611801"), "header: not the shortest form at byte 3"),
        (bytes.fromhex("a1616161ff"), "header: text is not UTF-8 at byte 3"),
        (bytes.fromhex("a16161"), "header: ends early at byte 3"),
        (bytes.fromhex("a161615f4161ff"), "header: an indefinite or reserved length at byte 3"),
        (bytes.fromhex("a000"), "header: bytes are left over at byte 1"),
    ],
)
def test_decode_names_the_byte(twin: ModuleType, data: bytes, text: str) -> None:
    with pytest.raises(MalformedEnvelope) as caught:
        twin.decode_header(data)
    assert str(caught.value) == text


@each_twin
def test_a_batch_has_1_to_256_leaves(twin: ModuleType) -> None:
    for leaves in ([], [bytes(32)] * 257, [bytes(31)], [bytes(32), bytes(33)]):
        with pytest.raises(ValueError, match=r"leaves|32 bytes"):
            twin.merkle(leaves)
    with pytest.raises(ValueError, match="32 bytes"):
        twin.root_of(bytes(31), b"")


@each_twin
def test_every_proof_leads_to_the_root_and_no_other_place(twin: ModuleType) -> None:
    for count in range(2, 40):
        leaves = [twin.leaf_of(b"", bytes([number])) for number in range(count)]
        root, proofs = twin.merkle(leaves)
        for number, (leaf, proof) in enumerate(zip(leaves, proofs, strict=True)):
            assert twin.root_of(leaf, proof) == (root, count)
            assert twin.root_of(leaves[number - 1], proof) != (root, count)


@each_twin
def test_verify_never_raises_for_what_a_peer_sends(twin: ModuleType) -> None:
    key = nacl.signing.SigningKey(bytes(32))
    public, message = bytes(key.verify_key), b"message"
    good = key.sign(message).signature
    order = 2**252 + 27742317777372353535851937790883648493
    malleable = good[:32] + (int.from_bytes(good[32:], "little") + order).to_bytes(32, "little")
    assert twin.verify_many([]) == []
    assert twin.verify_many(
        deque(
            [
                (public, good, message),
                (public, good, b""),
                (public, good[:63], message),
                (public, good + b"\0", message),
                (public, b"", message),
                (public[:31], good, message),
                (b"", good, message),
                (bytes(32), good, message),
                (b"\1" + bytes(31), bytes(64), message),
                (public, malleable, message),
                (public, good, message),
            ]
        )
    ) == [True, *[False] * 9, True]


def an_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


@each_twin
def test_seen_set_forgets_the_oldest(twin: ModuleType) -> None:
    a, b, c, d = (an_id(number) for number in range(4))
    seen = twin.SeenSet(3)
    assert [seen.add(key) for key in (a, b, a, c)] == [True, True, False, True]
    assert (len(seen), seen.capacity, a in seen, d in seen) == (3, 3, True, False)
    assert seen.add(d)
    assert (len(seen), a in seen, b in seen, d in seen) == (3, False, True, True)
    for number in range(1000):
        assert seen.add(an_id(10 + number))
        assert len(seen) == 3
    assert an_id(1008) in seen
    assert an_id(1006) not in seen
    assert seen.add_many([an_id(1008), a, an_id(1009), an_id(1007)]) == [False, True, False, True]


@each_twin
def test_a_seen_set_has_ids_of_16_bytes_and_room_for_one(twin: ModuleType) -> None:
    seen = twin.SeenSet(3)
    for key in (b"", bytes(15), bytes(17)):
        with pytest.raises(ValueError, match="16 bytes"):
            seen.add(key)
        assert key not in seen
    with pytest.raises(ValueError, match="16 bytes"):
        seen.add_many([bytes(16), b"", b"1" * 16])
    assert "0" * 16 not in seen
    assert (bytes(16) in seen, b"1" * 16 in seen) == (True, False)
    assert not seen.add(bytes(16))
    for capacity in (0, -1, 2**28 + 1):
        with pytest.raises(ValueError, match="at least one id"):
            twin.SeenSet(capacity)


@each_twin
def test_a_seen_set_of_many_holds_exactly_its_last_ones(twin: ModuleType) -> None:
    chosen = random.Random(1)
    seen, last = twin.SeenSet(500), OrderedDict[bytes, None]()
    for _ in range(20_000):
        key = an_id(chosen.randrange(2000))
        assert seen.add(key) is (key not in last)
        last.setdefault(key)
        if len(last) > 500:
            last.popitem(last=False)
    assert [an_id(number) in seen for number in range(2000)] == [an_id(number) in last for number in range(2000)]


@each_twin
def test_neighbours_in_a_batch_share_the_way_up_and_nothing_else(twin: ModuleType) -> None:
    chosen = random.Random(2)
    for count in (2, 3, 5, 64, 255, 256):
        messages = [(b"header", bytes([number])) for number in range(count)]
        root, proofs = twin.merkle(twin.leaves_of(messages))
        items = [(*message, proof) for message, proof in zip(messages, proofs, strict=True)]
        for _ in range(20):
            spoilt = [*items]
            chosen.shuffle(spoilt)
            for at in chosen.sample(range(count), min(count, 3)):
                header, body, proof = spoilt[at]
                changed = bytearray(proof)
                changed[chosen.randrange(len(changed))] ^= 1 << chosen.randrange(8)
                spoilt[at] = chosen.choice(
                    [(header, body, bytes(changed)), (header, body, proof[:-32]), (b"other", body, proof)]
                )
            for item, found in zip(spoilt, twin.roots_of(spoilt), strict=True):
                assert found == twin.roots_of([item])[0]
                assert (found[1:] == (root, count)) is (item in items)


@each_twin
def test_leaves_and_roots_of_many_are_those_of_each(twin: ModuleType) -> None:
    messages = [(b"header", bytes([number]) * 700) for number in range(40)]
    leaves = twin.leaves_of(messages)
    assert leaves == [twin.leaf_of(*message) for message in messages]
    root, proofs = twin.merkle(leaves)
    wrong = proofs[0][:-1]
    found = twin.roots_of([(*message, proof) for message, proof in zip(messages, [wrong, *proofs[1:]], strict=True)])
    assert found[0] == (leaves[0], "proof: wrong number of siblings")
    assert found[1:] == [(leaf, root, 40) for leaf in leaves[1:]]
    assert twin.roots_of([(b"header", b"", b"")]) == [(twin.leaf_of(b"header", b""),) * 2 + (1,)]
    assert twin.roots_of([]) == twin.leaves_of([]) == []
