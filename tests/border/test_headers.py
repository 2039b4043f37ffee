"""The reader of header tables takes what is ours and never raises, whatever the bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleettrio.errors import MalformedEnvelope
from fleettrio.testing.raw_client import field, nested_arrays, properties, table
from fleettrio.wire.headers import (
    MAX_TABLE,
    RawHeaders,
    read_content_header,
    read_header_table,
    table_for,
    table_size,
)

ENVELOPE = table(field("fleet", b"header"), field("sig", b"signature"))


def content_header(flags_and_values: bytes, size: int = 3) -> bytes:
    return struct.pack(">HHQ", 60, 0, size) + flags_and_values


@given(st.binary(max_size=200))
@example(b"\xff\xff\xff\xff")
@example(table(b"\xff"))
@example(table(field("fleet", b"", b"Q")))
def test_no_bytes_make_it_raise(data: bytes) -> None:
    assert isinstance(read_header_table(data), RawHeaders)
    read_content_header(content_header(data))


@given(st.integers(0, len(ENVELOPE) - 1))
def test_every_cut_is_a_problem(end: int) -> None:
    assert read_header_table(ENVELOPE[:end]).problem


def test_the_empty_table_is_no_problem() -> None:
    assert read_header_table(table()) == RawHeaders()


def test_everything_of_ours_is_taken_and_the_rest_skipped() -> None:
    sizes = {"V": 0, "tbB": 1, "su": 2, "Iif": 4, "D": 5, "lLdT": 8}
    others = [field(f"x-{kind}", b"\xff" * size, kind.encode()) for kinds, size in sizes.items() for kind in kinds]
    deaths = nested_arrays(3)
    others += [field("x-death", deaths, b"A"), field("x-table", table(field("fleet", b"inner")), b"F")]
    ours = [field("fleet", b"1"), field("sig", "2"), field("proof", b"3"), field("hop", b"4"), field("fleet-id", "dev")]
    assert read_header_table(table(*others, *ours, field("BCC", "x"))) == RawHeaders(
        fleet=b"1", sig=b"2", proof=b"3", hop=b"4", fleet_id="dev", has_cc=True, x_death=deaths[4:]
    )


@pytest.mark.parametrize("name", ["fleet", "sig", "proof"])
def test_of_two_the_first_counts_and_it_is_a_problem(name: str) -> None:
    got = read_header_table(table(field(name, b"first"), field(name, b"second")))
    assert (getattr(got, name), got.problem) == (b"first", f"header {name} is there twice")


def test_bytes_behind_the_table_are_a_problem() -> None:
    assert read_header_table(ENVELOPE + b"x").problem


def test_what_was_read_before_a_problem_is_kept() -> None:
    got = read_header_table(table(field("fleet", b"header"), field("x", b"", b"Q")))
    assert got.fleet == b"header"
    assert "unknown field type" in got.problem


def test_properties_of_every_kind_are_passed_over() -> None:
    got = read_content_header(
        content_header(
            properties(ENVELOPE, content_type="a/b", expiration="1", message_id="m", timestamp=2**64 - 1), size=2**40
        )
    )
    assert (got.body_size, got.message_id, got.headers) == (2**40, "m", read_header_table(ENVELOPE))


def test_further_flag_words_are_passed_over() -> None:
    flags = struct.pack(">HHH", 0x2001, 0x0001, 0x0000)
    assert read_content_header(content_header(flags + ENVELOPE)).headers == read_header_table(ENVELOPE)


def test_a_cut_behind_the_table_keeps_it_and_is_a_problem() -> None:
    got = read_content_header(content_header(struct.pack(">H", 0x2080) + ENVELOPE + b"\xffabc"))
    assert (got.headers.fleet, got.message_id) == (b"header", "")
    assert got.headers.problem.startswith("message properties")


def test_a_content_header_without_its_size_is_the_brokers_fault() -> None:
    with pytest.raises(ValueError, match="does not speak AMQP"):
        read_content_header(b"\0" * 11)


def test_the_table_for_publishing_holds_what_the_reader_takes() -> None:
    made = table_for(b"header", b"sig", b"proof", hop=b"hop", hints={"fleet-id": "dev", "kind": "SEND"})
    assert made == {
        "fleet": b"header", "sig": b"sig", "proof": b"proof", "hop": b"hop", "fleet-id": "dev", "kind": "SEND",
    }  # fmt: skip
    on_the_wire = table(*(field(key, value) for key, value in made.items()))
    assert table_size(made) == len(on_the_wire)
    assert read_header_table(on_the_wire) == RawHeaders(b"header", b"sig", b"proof", b"hop", "dev")


def test_empty_proof_and_hop_are_left_out() -> None:
    assert table_for(b"header", b"sig") == {"fleet": b"header", "sig": b"sig"}


def test_a_table_over_the_cap_is_refused() -> None:
    room = MAX_TABLE - table_size(table_for(b"", b""))
    table_for(b"x" * room, b"")
    with pytest.raises(MalformedEnvelope, match=f"the limit is {MAX_TABLE}"):
        table_for(b"x" * (room + 1), b"")
