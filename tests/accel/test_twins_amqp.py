"""AMQP as pamqp writes it, cut anywhere, and as nobody should: both implementations read and write the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pamqp.body
import pamqp.commands
import pamqp.frame
import pamqp.header
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleettrio import _accel, _pure
from tests.accel.twins import TWINS

each_twin = pytest.mark.parametrize("twin", TWINS, ids=lambda module: module.__name__.rpartition("_")[2])
Basic = pamqp.commands.Basic
OURS, OTHER = 7, 8


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    id: int = 12
    exchange: str = "fleet.direct"
    routing_key: str = "4a6f"
    mandatory: bool = True
    persistent: bool = True
    expiration_ms: int = 60_000
    content_type: str = "application/octet-stream"
    headers: Mapping[str, bytes | str] = dataclasses.field(default_factory=dict)
    body: bytes = b"body"


def written(channel: int, *frames: Any) -> bytes:
    return b"".join(pamqp.frame.marshal(frame, channel) for frame in frames)


def as_pamqp(channel: int, message: Message, step: int) -> bytes:
    table = {key: value if isinstance(value, str) else bytearray(value) for key, value in message.headers.items()}
    properties = Basic.Properties(
        content_type=message.content_type or None,
        headers=table,  # type: ignore[arg-type]
        delivery_mode=2 if message.persistent else 1,
        expiration=str(message.expiration_ms) if message.expiration_ms > 0 else None,
        message_id=str(message.id),
    )
    body = message.body
    return written(
        channel,
        Basic.Publish(0, message.exchange, message.routing_key, message.mandatory),
        pamqp.header.ContentHeader(body_size=len(body), properties=properties),
        *(pamqp.body.ContentBody(body[at : at + step]) for at in range(0, len(body), step)),
    )


def delivery(tag: int, body: bytes = b"body", *, channel: int = OURS, step: int = 4096) -> bytes:
    properties = Basic.Properties(headers={"fleet": bytearray(b"header")}, message_id="m")
    return written(
        channel,
        Basic.Deliver("consumer", tag, True, "fleet.direct", "key"),
        pamqp.header.ContentHeader(body_size=len(body), properties=properties),
        *(pamqp.body.ContentBody(body[at : at + step]) for at in range(0, len(body), step)),
    )


def reader(twin: ModuleType, frame_max: int = 0) -> _pure.FrameReader:
    made: _pure.FrameReader = twin.FrameReader(frame_max)
    made.take(OURS)
    return made


# --- writing ------------------------------------------------------------------------------------

messages = st.builds(
    Message,
    id=st.integers(0, 2**63 - 1),
    exchange=st.text("abcXYZ019-_.:", max_size=20),
    routing_key=st.text(max_size=60),
    mandatory=st.booleans(),
    persistent=st.booleans(),
    expiration_ms=st.integers(-1, 2**40),
    content_type=st.sampled_from(["", "application/octet-stream"]),
    headers=st.dictionaries(st.text(max_size=12), st.binary(max_size=300) | st.text(max_size=30), max_size=6),
    body=st.binary(max_size=40),
)


@given(st.integers(1, 2**16 - 1), st.lists(messages, max_size=4), st.sampled_from([0, 4096, 20 + 8]))
def test_publishes_are_what_pamqp_writes(channel: int, batch: list[Message], frame_max: int) -> None:
    if frame_max == 28:  # so small that bodies are split, and hardly a header fits
        batch = [dataclasses.replace(message, headers={}, content_type="") for message in batch]
    for twin in TWINS:
        data, left_out = twin.encode_publishes(channel, frame_max, 8192, batch)
        sent = [message for index, message in enumerate(batch) if index not in left_out]
        assert data == b"".join(as_pamqp(channel, message, (frame_max or 4096) - 8) for message in sent)
        assert (data, left_out) == _pure.encode_publishes(channel, frame_max, 8192, batch)


@each_twin
@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Message(routing_key="k" * 256), "a name in it has 256 bytes, the most is 255"),
        (Message(exchange="e" * 300), "a name in it has 300 bytes, the most is 255"),
        (Message(headers={"h" * 300: b""}), "a name in it has 300 bytes, the most is 255"),
        (Message(headers={"fleet": bytes(8182)}), "the header table has 8197 of 8192 bytes"),
        (Message(headers={"fleet": bytes(4070)}), "its content header has 4134 bytes and cannot be split"),
        (Message(routing_key="\ud800"), "a name or a header of it is not valid text"),
        (Message(headers={"kind": "\ud800"}), "a name or a header of it is not valid text"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_amqp_cannot_carry_is_left_out_and_the_others_go(twin: ModuleType, message: Message, why: str) -> None:
    data, left_out = twin.encode_publishes(3, 4096, 8192, [Message(), message, Message()])
    assert left_out == {1: why}
    assert data == as_pamqp(3, Message(), 4088) * 2


@each_twin
def test_the_largest_table_goes(twin: ModuleType) -> None:
    message = Message(headers={"fleet": bytes(8177)})
    data, left_out = twin.encode_publishes(3, 0, 8192, [message])
    assert (data, left_out) == (as_pamqp(3, message, 4088), {})
    assert twin.table_size(message.headers) == 8192


def test_acknowledgements_are_what_pamqp_writes() -> None:
    for tag in (1, 2**32, 2**63 - 1):
        for flag in (True, False):
            assert _accel.encode_ack(OURS, tag, flag) == written(OURS, Basic.Ack(tag, flag))
            assert _accel.encode_reject(OURS, tag, flag) == written(OURS, Basic.Reject(tag, flag))


# --- reading ------------------------------------------------------------------------------------

RETURN = written(
    OURS,
    Basic.Return(312, "NO_ROUTE", "fleet.direct", "key"),
    pamqp.header.ContentHeader(body_size=4, properties=Basic.Properties(message_id="12")),
    pamqp.body.ContentBody(b"body"),
)
HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"
STREAM = b"".join(
    (
        delivery(1),
        HEARTBEAT,
        delivery(2, b""),
        written(OURS, Basic.Ack(5, True), Basic.Nack(6, False)),
        RETURN,
        delivery(9, channel=OTHER),
        delivery(3, bytes(range(200)), step=60),
        written(OURS, Basic.Cancel("consumer")),
    )
)
HEADERS = _pure.RawHeaders(fleet=b"header")
FOUND: list[object] = [
    _pure.Delivered(OURS, "consumer", 1, True, "fleet.direct", "key", HEADERS, b"body"),
    HEARTBEAT,
    _pure.Delivered(OURS, "consumer", 2, True, "fleet.direct", "key", HEADERS, b""),
    _pure.Confirm(OURS, 5, True, False),
    _pure.Confirm(OURS, 6, False, True),
    _pure.Returned(OURS, 312, "NO_ROUTE", "fleet.direct", "key", "12"),
    written(OTHER, Basic.Deliver("consumer", 9, True, "fleet.direct", "key")),
    None,
    written(OTHER, pamqp.body.ContentBody(b"body")),
    _pure.Delivered(OURS, "consumer", 3, True, "fleet.direct", "key", HEADERS, bytes(range(200))),
    written(OURS, Basic.Cancel("consumer")),
]


def agrees(found: list[_accel.Incoming]) -> None:
    assert len(found) == len(FOUND)
    assert all(expected is None or expected == item for expected, item in zip(FOUND, found, strict=True))


@each_twin
def test_frames_cut_at_every_byte_are_read_the_same(twin: ModuleType) -> None:
    agrees(reader(twin, 4096).feed(STREAM))
    for cut in range(len(STREAM)):
        frames = reader(twin, 4096)
        agrees([*frames.feed(STREAM[:cut]), *frames.feed(STREAM[cut:])])


@each_twin
def test_one_byte_at_a_time(twin: ModuleType) -> None:
    frames = reader(twin)
    agrees([item for byte in STREAM for item in frames.feed(bytes([byte]))])


@each_twin
def test_contents_of_two_channels_may_be_interleaved(twin: ModuleType) -> None:
    def parts(channel: int) -> list[bytes]:
        frames, data = [], delivery(channel, bytes(100), channel=channel, step=40)
        while data:
            end = int.from_bytes(data[3:7], "big") + 8
            frames.append(data[:end])
            data = data[end:]
        return frames

    frames = reader(twin)
    frames.take(OTHER)
    mixed = [part for pair in zip(parts(OURS), parts(OTHER), strict=True) for part in pair]
    mixed.insert(3, HEARTBEAT)
    heartbeat, *found = frames.feed(b"".join(mixed))
    assert heartbeat == HEARTBEAT
    assert [(item.delivery_tag, item.body) for item in found if isinstance(item, _pure.Delivered)] == [
        (OURS, bytes(100)),
        (OTHER, bytes(100)),
    ]


@each_twin
def test_a_channel_that_closes_in_the_middle_of_a_content_drops_it(twin: ModuleType) -> None:
    frames = reader(twin)
    close = written(OURS, pamqp.commands.Channel.Close(404, "gone", 0, 0))
    assert frames.feed(delivery(1)[:-12] + close + delivery(2)) == [close, FOUND[0].__class__(*_fields(2))]


def _fields(tag: int) -> tuple[object, ...]:
    return OURS, "consumer", tag, True, "fleet.direct", "key", HEADERS, b"body"


@each_twin
def test_a_channel_that_was_left_comes_out_as_frames(twin: ModuleType) -> None:
    frames = reader(twin)
    data = delivery(1)
    assert frames.feed(data[:-12]) == []
    frames.leave(OURS)
    frames.leave(OURS)
    assert frames.feed(data[-12:]) == [data[-12:]]


@each_twin
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x01\0\7\0\0\0\0\0", "a frame without its end"),
        (b"\x01\0\7\xff\xff\xff\xff", "a frame of 4294967303 bytes, the most is 4096"),
        (written(OURS, Basic.Deliver("c", 1, False, "e", "k"), Basic.Ack(1)), "content: a frame of type 1 where"),
        (delivery(1)[: -12 - 8] + b"\0\0\0\0" + delivery(1)[-12:], None),
        (b"\x01\0\7\0\0\0\4\0\x3c\0\x3c\xce", "method: 1 bytes announced, 0 left"),
        (b"\x01\0\7\0\0\0\5\0\x3c\0\x50\0\xce", "method: 8 bytes announced, 1 left"),
        (delivery(1).replace(b"\0\0\0\0\0\0\0\4", b"\0\0\0\0\0\0\0\3"), "content: 4 bytes of body, 3 are missing"),
    ],
)
def test_a_broker_that_breaks_the_protocol_is_broken_for_good(twin: ModuleType, data: bytes, why: str | None) -> None:
    frames = reader(twin, 4096)
    found = frames.feed(HEARTBEAT + data)
    if why is not None:
        assert found[0] == HEARTBEAT
        assert isinstance(found[-1], _pure.Broken)
        assert found[-1].why.startswith(why)
        assert frames.feed(STREAM) == []


@each_twin
def test_bytes_of_a_publisher_that_are_no_text_cost_nothing(twin: ModuleType) -> None:
    data = delivery(1).replace(b"\3key", b"\3k\xffy")
    [item] = reader(twin).feed(data)
    assert isinstance(item, _pure.Delivered)
    assert item.routing_key == "k\\xffy"
    [item] = reader(twin).feed(delivery(1).replace(b"\5fleet", b"\x7ffleet"))
    assert isinstance(item, _pure.Delivered)
    assert item.headers.problem.startswith("header table: ")


pieces = st.lists(
    st.sampled_from([delivery(1), RETURN, HEARTBEAT, delivery(9, channel=OTHER), written(OURS, Basic.Ack(5, True))])
    | st.binary(max_size=30),
    max_size=8,
)


@given(pieces, st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=4), st.integers(1, 400))
def test_any_bytes_are_read_alike_and_never_raise(parts: list[bytes], spoilt: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(b"".join(parts))
    for at, byte in spoilt:
        if at < len(data):
            data[at] = byte
    expected = [reader(_pure, 4096).feed(bytes(data))]
    for twin in TWINS:
        assert reader(twin, 4096).feed(bytes(data)) == expected[0]
        frames = reader(twin, 4096)
        assert [
            item for at in range(0, len(data), cut) for item in frames.feed(bytes(data[at : at + cut]))
        ] == expected[0]


@given(st.binary(max_size=200), st.integers(0, 2**64 - 1), st.integers(0, 2**16 - 1))
def test_any_content_header_is_read_alike(data: bytes, size: int, flags: int) -> None:
    payload = b"\0\x3c\0\0" + size.to_bytes(8, "big") + flags.to_bytes(2, "big") + data
    expected = _pure.read_content_header(payload)
    for twin in TWINS:
        got = twin.read_content_header(payload)
        assert (got, got.headers.x_death) == (expected, expected.headers.x_death)
        table = twin.read_header_table(data)
        assert (table, table.x_death) == (_pure.read_header_table(data), _pure.read_header_table(data).x_death)
