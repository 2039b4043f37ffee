"""A message that no library can decode costs itself and nothing else: the good one behind it comes at once."""

from __future__ import annotations

import pytest
import trio

from fleettrio.broker.port import BrokerSession
from fleettrio.core.topology import MSG, ROSTER, Queue, roster_queue
from fleettrio.ids import HostId
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.raw_client import RawClient, field, nested_arrays, properties, table
from tests.border.inbox import GID, LIMIT_S, consume, message, take

ENVELOPE = (field("fleet", b"header"), field("sig", b"signature"))

HARMLESS = {
    "a timestamp of the year 584 billion": properties(table(*ENVELOPE), timestamp=2**64 - 1),
    "a timestamp in the table": properties(table(field("when", b"\xff" * 8, b"T"), *ENVELOPE)),
    "2 000 nested arrays": properties(table(field("deep", nested_arrays(2_000), b"A"), *ENVELOPE)),
    "a key that is not UTF-8": properties(table(field(b"\xff\xfe", b"value"), *ENVELOPE)),
    "a text that is not UTF-8": properties(table(field("text", b"\0\0\0\2\xff\xfe", b"S"), *ENVELOPE)),
    "a decimal of 255 digits": properties(table(field("d", b"\xff\xff\xff\xff\xff", b"D"), *ENVELOPE)),
}
SPOILT = {
    "fleet twice": properties(table(*ENVELOPE, field("fleet", b"another"))),
    "sig twice": properties(table(*ENVELOPE, field("sig", b"another"))),
    "fleet as a number": properties(table(field("fleet", b"\0\0\0\1", b"I"), field("sig", b"signature"))),
}


@pytest.fixture
def raw(broker: BrokerNode, vhost: str, session: BrokerSession) -> RawClient:
    """Connected once the session has declared what the tests publish to."""
    return RawClient(broker.port, vhost)


@pytest.mark.parametrize("poison", HARMLESS.values(), ids=HARMLESS)
async def test_what_pamqp_cannot_decode_is_skipped_by_length(
    session: BrokerSession, raw: RawClient, poison: bytes
) -> None:
    received = await consume(session)
    with raw:
        assert raw.publish(MSG, GID, poison, b"poison") == "ack"
        assert raw.publish(MSG, GID, properties(table(*ENVELOPE)), b"good") == "ack"
    got = await take(received)
    assert (got.body, got.headers.fleet, got.headers.sig) == (b"poison", b"header", b"signature")
    assert got.headers.problem == ""
    good = await take(received)
    assert (good.body, good.tag.channel) == (b"good", got.tag.channel)


@pytest.mark.parametrize("poison", SPOILT.values(), ids=SPOILT)
async def test_what_cannot_be_read_one_way_only_arrives_with_its_problem(
    session: BrokerSession, raw: RawClient, poison: bytes
) -> None:
    received = await consume(session)
    with raw:
        assert raw.publish(MSG, GID, poison, b"poison") == "ack"
        assert raw.publish(MSG, GID, properties(table(*ENVELOPE)), b"good") == "ack"
    got = await take(received)
    assert got.body == b"poison"
    assert got.headers.problem
    session.reject(got.tag)
    assert (await take(received)).body == b"good"


async def test_properties_without_any_table_arrive_as_no_headers(session: BrokerSession, raw: RawClient) -> None:
    received = await consume(session)
    with raw:
        raw.publish(MSG, GID, properties(), b"bare")
    got = await take(received)
    assert (got.headers.fleet, got.headers.problem) == (None, "")


async def test_a_visible_cc_is_seen(session: BrokerSession, raw: RawClient) -> None:
    received = await consume(session)
    with raw:
        copy_to = field("CC", b"\0\0\0\6S\0\0\0\1x", b"A")
        raw.publish(MSG, GID, properties(table(*ENVELOPE, copy_to)), b"copied")
    assert (await take(received)).headers.has_cc


async def test_a_routing_key_that_is_not_utf8_belongs_to_nobody(session: BrokerSession, raw: RawClient) -> None:
    queue, bindings = roster_queue(HostId("here"), "nonce")
    await session.declare((), (queue,), bindings)
    received = await consume(session, queue.name)
    with raw:
        assert raw.publish(ROSTER, b"roster.\xff\xfe", properties(table(*ENVELOPE)), b"poison", mandatory=True) == "ack"
        assert raw.publish(ROSTER, "roster.there", properties(table(*ENVELOPE)), b"good") == "ack"
    assert (await take(received)).routing_key == r"roster.\xff\xfe"
    assert (await take(received)).routing_key == "roster.there"


async def test_tables_in_method_frames_still_work(session: BrokerSession) -> None:
    arguments: dict[str, str | int] = {"x-queue-type": "classic", "x-max-length": 3, "x-overflow": "reject-publish"}
    queue = Queue("with-arguments", arguments)
    await session.declare((), (queue,), ())
    await session.declare((), (queue,), ())
    sent = message()
    session.publish([sent])
    with trio.fail_after(LIMIT_S):
        assert [each.id for each in await session.verdicts.receive()] == [sent.id]
