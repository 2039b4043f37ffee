"""`x-death` is read when asked for, within bounds, and never raises: any publisher may have written it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleettrio.broker.model.message import Seconds64, Value, encode_table
from fleettrio.testing.raw_client import field, nested_arrays, table
from fleettrio.wire.deaths import MAX_DEATHS, Death, read_deaths
from fleettrio.wire.headers import read_header_table

GOOD: dict[str, Value] = {
    "count": 2, "reason": "expired", "queue": "inbox", "time": Seconds64(1_700_000_000), "exchange": "fleet.msg",
    "routing-keys": ["a", "b"],
}  # fmt: skip
READ = Death("expired", "inbox", "fleet.msg", 2, 1_700_000_000_000)  # type: ignore[arg-type]


def deaths_of(*entries: Value) -> tuple[Death, ...]:
    return read_deaths(read_header_table(encode_table({"fleet": b"header", "x-death": entries})).x_death)


def test_what_the_broker_wrote_is_read_latest_first() -> None:
    assert deaths_of({**GOOD, "reason": "rejected"}, GOOD) == (
        Death("rejected", "inbox", "fleet.msg", 2, READ.at), READ,
    )  # fmt: skip


def test_a_message_that_never_died_has_no_deaths() -> None:
    assert read_deaths(read_header_table(encode_table({"fleet": b"header"})).x_death) == ()


@pytest.mark.parametrize("entry", [b"bytes", 7, "text", {}, {"reason": "expired"}, {"reason": 7, "queue": "q"}, [GOOD]])
def test_an_entry_of_another_form_is_left_out(entry: Value) -> None:
    assert deaths_of(entry, GOOD) == (READ,)


def test_no_more_than_the_latest_are_read() -> None:
    assert len(deaths_of(*[GOOD] * 1000)) == MAX_DEATHS


def test_numbers_and_names_are_bounded() -> None:
    (death,) = deaths_of({"reason": "r" * 9000, "queue": "q", "count": -1, "time": Seconds64(2**64 - 1)})
    assert (len(death.reason), death.count, death.at) == (255, 2**53, 2**53)


def test_deep_nesting_is_passed_over() -> None:
    hostile = field("x-death", nested_arrays(2_000), b"A")
    got = read_header_table(table(hostile, field("fleet", b"header")))
    assert (read_deaths(got.x_death), got.problem, got.fleet) == ((), "", b"header")


@given(st.binary(max_size=200))
@example(b"F" + struct.pack(">I", 3) + b"\xff\xff\xff")
@example(b"F")
def test_no_bytes_make_it_raise(data: bytes) -> None:
    assert isinstance(read_deaths(data), tuple)
