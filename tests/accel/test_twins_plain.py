"""Plain canonical CBOR: what is taken at once is exactly what `dump_plain` gives, by both implementations."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleettrio.errors import MalformedEnvelope
from fleettrio.wire import plain
from fleettrio.wire.plain import dump_plain, load_plain
from tests.accel.twins import TWINS

each_twin = pytest.mark.parametrize("twin", TWINS, ids=lambda module: module.__name__.rpartition("_")[2])
DEPTH = 5
values = st.recursive(
    st.one_of(st.integers(-(2**64), 2**64 - 1), st.text(max_size=40), st.binary(max_size=300), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=30), st.dictionaries(st.text(max_size=30), inner, max_size=30)),
    max_leaves=40,
)
maps = st.dictionaries(st.text(max_size=30), values, max_size=5)


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """Good bytes with a byte changed, added or taken away."""
    data = bytearray(dump_plain(draw(maps)))
    at = draw(st.integers(0, len(data) - 1))
    match draw(st.sampled_from(("change", "add", "take"))):
        case "change":
            data[at] = draw(st.integers(0, 255))
        case "add":
            data.insert(at, draw(st.integers(0, 255)))
        case _:
            del data[at]
    return bytes(data)


def is_read(data: bytes, *, is_seen_at_once: bool) -> bool:
    """Whether it is taken when `is_plain` says that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "is_plain", lambda _data, _depth: is_seen_at_once)
        try:
            load_plain(data, what="x", limit=100_000, depth=DEPTH)
        except MalformedEnvelope:
            return False
        return True


@each_twin
@given(st.one_of(maps.map(dump_plain), spoilt(), st.binary(max_size=60)))
@example(b"\xa1\x61a\xc1\x00")  # a tag
@example(b"\xa1\x61a\xf6")  # null
@example(b"\xa1\x61a\xfb" + bytes(8))  # a float
@example(b"\xbf\x61a\x00\xff")  # an indefinite length
@example(b"\xa1\x61a\x18\x17")  # not the shortest form
@example(b"\xa2\x61b\x00\x61a\x00")  # keys out of order
@example(b"\xa2\x62aa\x00\x61b\x00")  # a longer key before a shorter one
@example(b"\xa2\x61a\x00\x61a\x00")  # a key twice
@example(b"\xa1\x00\x00")  # a key that is no text
@example(b"\xa1\x61a\x9b" + b"\xff" * 8)  # longer than anything
@example(b"\xa1\x61a\x00\x00")  # bytes left over
@example(dump_plain({"a": [[[[1]]]]}))  # as deep as allowed
@example(dump_plain({"a": [[[[[1]]]]]}))  # deeper
def test_what_is_taken_at_once_is_what_comes_back_byte_for_byte(twin: ModuleType, data: bytes) -> None:
    is_at_once = twin.is_plain(data, DEPTH) and is_read(data, is_seen_at_once=True)
    assert is_at_once == is_read(data, is_seen_at_once=False)


@given(st.one_of(maps.map(dump_plain), spoilt(), st.binary(max_size=60)), st.integers(-1, 6))
def test_both_say_the_same(data: bytes, depth: int) -> None:
    assert len({twin.is_plain(data, depth) for twin in TWINS}) == 1
