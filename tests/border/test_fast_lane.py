"""The fast lane by itself: bytes in, lists out, bytes to write. What the broker says is written by pamqp."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from types import FrameType

import msgspec
import pamqp.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from fleettrio.broker.fastconsumer import Consumer
from fleettrio.broker.fastlane import HEARTBEAT, Lane
from fleettrio.broker.fastpublisher import Publisher
from fleettrio.broker.port import PublishVerdict, RawDelivery, RawPublish, Verdict
from fleettrio.ids import Tag
from tests.border.inbox import message

PUBLISHING, CONSUMING, OTHER = 1, 2, 3
FRAME_MAX = 4096
CONFIRMED, UNROUTABLE, NACKED, UNKNOWN = Verdict.CONFIRMED, Verdict.UNROUTABLE, Verdict.NACKED, Verdict.UNKNOWN


class Desk:
    """A lane with a publishing and a consuming channel, and everything that came out of it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.turns = 0
        self.broken: list[str] = []
        self.verdicts: list[list[PublishVerdict]] = []
        self.deliveries: list[list[RawDelivery]] = []
        self.lane = Lane(self.written.append, self.ask, self.broken.append)
        self.lane.begin(FRAME_MAX)
        self.publisher: Publisher = self.lane.publisher(PUBLISHING, self.verdicts.append)
        self.consumer: Consumer = self.lane.consumer(CONSUMING, 7, 40)
        self.consumer.begin("inbox", self.deliveries.append)

    def ask(self) -> None:
        self.turns += 1

    def hear(self, *frames: bytes, now: float = 0.0) -> bytes:
        return self.lane.hear(b"".join(frames), now)

    def publish(self, count: int = 1) -> list[RawPublish]:
        messages = [message() for _ in range(count)]
        self.publisher.publish(messages)
        return messages

    def deliver(self, *tags: int) -> None:
        self.hear(*(delivered(tag) for tag in tags))

    def told(self) -> dict[int, Verdict]:
        """Every verdict there was, by publish id; none of them twice."""
        verdicts = [verdict for batch in self.verdicts for verdict in batch]
        assert len({verdict.id for verdict in verdicts}) == len(verdicts)
        return {verdict.id: verdict.verdict for verdict in verdicts}

    def settled(self) -> list[tuple[str, int, bool]]:
        """What was written on the consuming channel, frame by frame, at the end of this turn."""
        before = len(self.written)
        self.lane.flush()
        assert len(self.written) - before <= 1, "one write a turn"
        return [settlement(frame) for frame in frames_of(b"".join(self.written[before:]))]


def said(frame: object, channel: int) -> bytes:
    return pamqp.frame.marshal(frame, channel)  # type: ignore[arg-type]


def ack(tag: int, *, multiple: bool = False) -> bytes:
    return said(Basic.Ack(tag, multiple), PUBLISHING)


def nack(tag: int, *, multiple: bool = False) -> bytes:
    return said(Basic.Nack(tag, multiple), PUBLISHING)


def content(channel: int, body: bytes, message_id: str = "", step: int = FRAME_MAX) -> bytes:
    properties = Basic.Properties(headers={"fleet": bytearray(b"header")}, message_id=message_id or None)
    bodies = [said(ContentBody(body[at : at + step]), channel) for at in range(0, len(body), step)]
    return said(ContentHeader(0, len(body), properties), channel) + b"".join(bodies)


def returned(publish_id: int) -> bytes:
    return said(Basic.Return(312, "NO_ROUTE", "msg", "key"), PUBLISHING) + content(
        PUBLISHING, b"hello", f"{publish_id}"
    )


def delivered(tag: int, body: bytes = b"hello", step: int = FRAME_MAX) -> bytes:
    return said(Basic.Deliver("tag", tag, False, "msg", "key"), CONSUMING) + content(CONSUMING, body, step=step)


def frames_of(data: bytes) -> list[bytes]:
    frames = []
    while data:
        size = 8 + int.from_bytes(data[3:7], "big")
        frames.append(data[:size])
        data = data[size:]
    return frames


def settlement(frame: bytes) -> tuple[str, int, bool]:
    _, channel, method = pamqp.frame.unmarshal(frame)
    assert channel == CONSUMING
    if isinstance(method, Basic.Ack):
        return "ack", method.delivery_tag or 0, bool(method.multiple)
    assert isinstance(method, Basic.Reject)
    return "reject", method.delivery_tag or 0, bool(method.requeue)


# Publishing -------------------------------------------------------------------------------------


def test_what_is_handed_over_together_is_one_write() -> None:
    desk = Desk()
    desk.publish(20)
    (write,) = desk.written
    frames = frames_of(write)
    assert [frame[0] for frame in frames] == [1, 2, 3] * 20
    assert {int.from_bytes(frame[1:3], "big") for frame in frames} == {PUBLISHING}


def test_one_read_is_one_list_of_verdicts_in_the_order_of_the_broker() -> None:
    desk = Desk()
    first, second, third, fourth = (each.id for each in desk.publish(4))
    assert desk.hear(ack(2), nack(1), returned(fourth), ack(4), ack(3)) == b""
    assert [[(each.id, each.verdict) for each in batch] for batch in desk.verdicts] == [
        [(second, CONFIRMED), (first, NACKED), (fourth, UNROUTABLE), (third, CONFIRMED)]
    ]


@pytest.mark.parametrize("tag", [3, 0, 2**63 - 1])
def test_many_are_confirmed_by_one_frame_and_zero_or_too_much_means_all(tag: int) -> None:
    desk = Desk()
    sent = desk.publish(3)
    desk.hear(ack(tag, multiple=True))
    assert desk.told() == dict.fromkeys((each.id for each in sent), CONFIRMED)
    later = desk.publish(2)
    desk.hear(nack(5, multiple=True))
    assert [desk.told()[each.id] for each in later] == [NACKED, NACKED]


def test_a_confirm_of_many_looks_at_no_tag_for_a_third_time() -> None:
    desk = Desk()
    sent = desk.publish(300)
    odd, many = [ack(tag) for tag in range(1, 300, 2)], [ack(tag, multiple=True) for tag in range(1, 301)]
    looked_at = 0

    def count(_frame: FrameType, event: str, called: object) -> None:
        nonlocal looked_at
        looked_at += event == "c_call" and getattr(called, "__name__", "") == "pop"

    sys.setprofile(count)
    try:
        desk.hear(*odd, *many)
    finally:
        sys.setprofile(None)
    assert len(desk.told()) == len(sent)
    assert 300 <= looked_at <= 2 * 300


def test_a_return_behind_its_confirm_or_of_nobodys_publish_changes_nothing() -> None:
    desk = Desk()
    (sent,) = desk.publish()
    desk.hear(ack(1), returned(sent.id), returned(sent.id + 1), ack(1), nack(1), ack(17))
    desk.hear(said(Basic.Return(312, "NO_ROUTE", "msg", "key"), PUBLISHING) + content(PUBLISHING, b"", "\u00b2"))
    assert desk.told() == {sent.id: CONFIRMED}


def test_what_is_open_when_the_channel_closes_is_unknown_and_what_comes_behind_it_too() -> None:
    desk = Desk()
    first, second = desk.publish(2)
    rest = desk.hear(ack(1), said(commands.Channel.Close(404, "no exchange", 60, 40), PUBLISHING))
    assert len(frames_of(rest)) == 1, "closing is the library's"
    unwritten = desk.publish(2)
    assert len(desk.written) == 1
    desk.publisher.give_up("no exchange")
    late = desk.publish()
    desk.publisher.give_up("no exchange")
    assert desk.told() == {first.id: CONFIRMED} | dict.fromkeys(
        (each.id for each in (second, *unwritten, *late)), UNKNOWN
    )


def test_publishes_wait_while_the_broker_takes_none_and_settling_goes_on() -> None:
    desk = Desk()
    desk.deliver(1)
    desk.lane.hold("alarm")
    desk.lane.hold("socket")
    sent = desk.publish(2)
    desk.lane.release("alarm")
    assert desk.written == []
    desk.consumer.ack(1)
    assert desk.settled() == [("ack", 1, False)]
    desk.lane.release("socket")
    assert len(desk.written) == 2
    desk.hear(ack(2, multiple=True))
    assert desk.told() == dict.fromkeys((each.id for each in sent), CONFIRMED)


def test_what_fills_the_socket_waits_unencoded() -> None:
    desk = Desk()
    writes: list[bytes] = []

    def write(data: bytes) -> None:
        writes.append(data)
        desk.lane.hold("socket")

    desk.lane.write = write
    desk.publisher.publish([message(b"x" * 100_000) for _ in range(7)])
    assert len(writes) == 1
    assert len(writes[0]) < 400_000
    desk.lane.release("socket")
    desk.lane.release("socket")
    assert len(writes) == 3
    assert sum(frame[0] == 1 for frame in frames_of(b"".join(writes))) == 7


def test_what_amqp_cannot_carry_is_refused_by_itself() -> None:
    desk = Desk()
    large, good = message(headers={"fleet": b"x" * 9000}), message()
    desk.publisher.publish([large, good])
    assert desk.told() == {large.id: NACKED}
    assert desk.verdicts[0][0].detail.startswith("not sent: ")
    desk.hear(ack(1))
    assert desk.told()[good.id] is CONFIRMED


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_each_publish_has_one_verdict_and_it_is_the_brokers(data: st.DataObject) -> None:
    """Confirms, one or many at a time, in any order; returns before them; publishes between them."""
    desk = Desk()
    ids: dict[int, int] = {}
    open_tags: list[int] = []
    expected: dict[int, Verdict] = {}
    for _ in range(data.draw(st.integers(1, 12))):
        for sent in desk.publish(data.draw(st.integers(0, 4))):
            ids[len(ids) + 1] = sent.id
            open_tags.append(len(ids))
        if not open_tags:
            continue
        tag, is_good = data.draw(st.sampled_from(open_tags)), data.draw(st.booleans())
        multiple = data.draw(st.booleans())
        decided = [each for each in open_tags if each <= tag] if multiple else [tag]
        lost = data.draw(st.lists(st.sampled_from(decided), unique=True))
        for each in decided:
            expected[ids[each]] = UNROUTABLE if each in lost else CONFIRMED if is_good else NACKED
        desk.hear(
            *(returned(ids[each]) for each in lost),
            ack(tag, multiple=multiple) if is_good else nack(tag, multiple=multiple),
        )
        open_tags = [each for each in open_tags if each not in decided]
    assert desk.told() == expected
    desk.publisher.give_up("over")
    assert desk.told() == expected | {ids[each]: UNKNOWN for each in open_tags}


# Consuming --------------------------------------------------------------------------------------


def test_one_read_is_one_list_of_deliveries() -> None:
    desk = Desk()
    body = bytes(range(256)) * 40
    desk.hear(delivered(1, body, step=FRAME_MAX - 8), delivered(2, b""))
    ((first, second),) = desk.deliveries
    assert (first.tag, first.queue, first.exchange, first.routing_key) == (Tag(7, 40, 1), "inbox", "msg", "key")
    assert (first.redelivered, first.headers.fleet, first.body) == (False, b"header", body)
    assert (second.tag.delivery, second.body) == (2, b"")


def test_a_run_of_acks_from_the_lowest_in_hand_is_one_frame() -> None:
    desk = Desk()
    desk.deliver(1, 2, 3, 4, 5)
    for tag in (2, 1, 3, 5):
        desk.consumer.ack(tag)
    assert desk.turns == 1, "the first of a turn asks for its end"
    assert desk.settled() == [("ack", 3, True), ("ack", 5, False)]
    desk.consumer.ack(4)
    assert desk.settled() == [("ack", 4, False)]
    assert desk.settled() == []
    assert desk.turns == 2


def test_rejects_go_before_acks_so_that_none_is_acknowledged_with_others() -> None:
    desk = Desk()
    desk.deliver(1, 2, 3)
    desk.consumer.ack(1)
    desk.consumer.ack(3)
    desk.consumer.reject(2, requeue=True)
    assert desk.settled() == [("reject", 2, True), ("ack", 3, True)]


def test_what_is_settled_twice_is_left_to_the_broker_to_judge() -> None:
    desk = Desk()
    desk.deliver(1, 2)
    desk.consumer.ack(1)
    desk.consumer.ack(2)
    desk.consumer.ack(1)
    assert desk.settled() == [("ack", 2, True), ("ack", 1, False)]


@pytest.mark.parametrize(
    "end", [commands.Channel.Close(406, "PRECONDITION_FAILED", 60, 80), commands.Channel.CloseOk()]
)
def test_nothing_is_written_on_a_channel_that_is_over_and_its_number_can_be_anothers(
    end: commands.Channel.Close,
) -> None:
    desk = Desk()
    desk.deliver(1, 2)
    desk.consumer.ack(1)
    assert desk.hear(said(end, CONSUMING)) == said(end, CONSUMING)
    desk.consumer.ack(2)
    desk.consumer.reject(2, requeue=False)
    assert desk.settled() == []
    assert desk.hear(delivered(1)) == delivered(1), "a channel that the lane does not have"
    successor = desk.lane.consumer(CONSUMING, 7, 41)
    successor.begin("other", desk.deliveries.append)
    desk.deliver(1)
    assert (desk.deliveries[-1][0].tag, desk.deliveries[-1][0].queue) == (Tag(7, 41, 1), "other")
    successor.ack(1)
    assert desk.settled() == [("ack", 1, False)]


def test_before_its_own_close_what_was_settled_is_written_and_nothing_behind_it() -> None:
    desk = Desk()
    desk.deliver(1, 2)
    desk.consumer.ack(1)
    assert desk.settled() == [("ack", 1, False)]
    desk.lane.stop(CONSUMING)
    desk.deliver(3)
    desk.consumer.ack(2)
    assert desk.settled() == []
    assert [each.tag.delivery for batch in desk.deliveries for each in batch] == [1, 2, 3]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_the_broker_settles_exactly_what_was_settled_and_as_it_was(data: st.DataObject) -> None:
    desk = Desk()
    fresh = itertools.count(1)
    in_hand: list[int] = []
    unacked: list[int] = []
    wanted: dict[int, str] = {}
    done: dict[int, str] = {}
    for _ in range(data.draw(st.integers(1, 8))):
        new = list(itertools.islice(fresh, data.draw(st.integers(0, 6))))
        desk.deliver(*new)
        in_hand += new
        unacked += new
        for _ in range(data.draw(st.integers(0, 6))):
            if in_hand:
                tag = in_hand.pop(data.draw(st.integers(0, len(in_hand) - 1)))
                wanted[tag] = data.draw(st.sampled_from(["ack", "reject"]))
                if wanted[tag] == "ack":
                    desk.consumer.ack(tag)
                else:
                    desk.consumer.reject(tag, requeue=False)
        for how, tag, multiple in desk.settled():
            assert tag in unacked, "the broker closes the channel over a tag that it does not know"
            of = [each for each in unacked if each <= tag] if how == "ack" and multiple else [tag]
            done |= dict.fromkeys(of, how)
            unacked = [each for each in unacked if each not in of]
    assert done == wanted
    assert unacked == in_hand


# What the library hears -------------------------------------------------------------------------

STREAM = b"".join(
    [
        said(Heartbeat(), 0),
        ack(1),
        delivered(1, b"x" * 300, step=100),
        said(commands.Connection.Blocked("low on memory"), 0),
        said(Basic.Deliver("theirs", 1, True, "msg", "key"), OTHER) + content(OTHER, b"not ours"),
        returned(1),
        nack(3, multiple=True),
        said(Basic.ConsumeOk("tag"), CONSUMING),
        delivered(2),
        said(Basic.Cancel("tag"), CONSUMING),
        said(commands.Queue.DeclareOk("inbox", 1, 1), OTHER),
        delivered(3, b""),
        said(commands.Channel.Close(406, "PRECONDITION_FAILED", 60, 80), CONSUMING),
        ack(4),
    ]
)
THEIRS = [0, 0, OTHER, OTHER, OTHER, CONSUMING, CONSUMING, OTHER, CONSUMING]
"""Channels of the frames of it that are the library's."""


def hear_in_pieces(pieces: Sequence[bytes]) -> tuple[list[PublishVerdict], list[RawDelivery], bytes]:
    desk = Desk()
    first = desk.publish(5)[0].id
    rest = b"".join(desk.hear(piece) for piece in pieces)
    assert not desk.broken
    verdicts = [msgspec.structs.replace(each, id=each.id - first + 1) for batch in desk.verdicts for each in batch]
    return verdicts, [each for batch in desk.deliveries for each in batch], rest


def test_the_library_gets_whole_frames_in_order_and_none_of_the_lanes() -> None:
    verdicts, deliveries, rest = hear_in_pieces([STREAM])
    assert [int.from_bytes(frame[1:3], "big") for frame in frames_of(rest)] == THEIRS
    assert [(each.id, each.verdict) for each in verdicts] == [(1, CONFIRMED), (2, NACKED), (3, NACKED), (4, CONFIRMED)]
    assert [(each.tag.delivery, each.body) for each in deliveries] == [(1, b"x" * 300), (2, b"hello"), (3, b"")]


def test_a_read_may_end_behind_any_byte() -> None:
    whole = hear_in_pieces([STREAM])
    for at in range(len(STREAM)):
        assert hear_in_pieces([STREAM[:at], STREAM[at:]]) == whole
    assert hear_in_pieces([STREAM[at : at + 1] for at in range(len(STREAM))]) == whole


def test_the_library_is_given_a_heartbeat_where_the_lane_took_everything() -> None:
    desk = Desk()
    assert desk.hear(said(Heartbeat(), 0), now=100.0) == HEARTBEAT
    assert desk.hear(delivered(1), now=100.5) == b""
    assert desk.hear(delivered(2)[:20], now=101.5) == b"", "nothing was taken"
    assert desk.hear(delivered(2)[20:], now=101.6) == HEARTBEAT
    assert desk.hear(delivered(3), now=101.7) == b""


def test_the_library_hears_whoever_speaks_another_protocol() -> None:
    lane = Lane(lambda _: None, lambda: None, pytest.fail)
    assert lane.hear(b"AMQP\0\0\x09\1", 0.0) == b"AMQP\0\0\x09\1"
    assert lane.hear(b"more", 0.0) == b"more"


def test_bytes_that_are_no_frame_end_the_connection_in_words() -> None:
    desk = Desk()
    desk.hear(ack(1)[:-1] + b"x", ack(2))
    assert desk.broken == ["a frame without its end"]
    desk = Desk()
    desk.hear(b"\1\0\1\xff\xff\xff\xff")
    assert len(desk.broken) == 1


@given(st.lists(st.binary(max_size=200), max_size=5))
@settings(max_examples=300, deadline=None)
def test_no_bytes_make_it_fall(pieces: list[bytes]) -> None:
    desk = Desk()
    desk.publish(3)
    for piece in pieces:
        desk.hear(piece)
    desk.lane.flush()
    assert len(desk.broken) <= 1


@given(st.integers(0, len(STREAM) - 1), st.binary(min_size=1, max_size=6))
@settings(max_examples=400, deadline=None)
def test_no_damage_to_what_a_broker_says_makes_it_fall_or_tells_a_verdict_twice(at: int, damage: bytes) -> None:
    desk = Desk()
    desk.publish(5)
    desk.hear(STREAM[:at] + damage + STREAM[at + len(damage) :])
    for batch in desk.deliveries:
        for each in batch:
            desk.consumer.ack(each.tag.delivery)
    desk.lane.flush()
    desk.told()
    assert len(desk.broken) <= 1
