"""Every publish has exactly one verdict, and it is the broker's."""

from __future__ import annotations

import pytest
import trio

from fleettrio.broker.amqp import open_session
from fleettrio.broker.port import BrokerSession, BrokerSettings, Verdict
from fleettrio.core.topology import MSG, Binding, Queue
from fleettrio.errors import ProtocolMisuse, SessionLost
from fleettrio.wire.headers import MAX_TABLE
from tests.border.inbox import GID, INBOX, LIMIT_S, consume, message, send, take, verdict, verdicts


async def test_a_message_to_a_bound_key_is_confirmed_and_arrives_as_it_was_sent(session: BrokerSession) -> None:
    received = await consume(session)
    headers: dict[str, bytes | str] = {
        "fleet": bytes(range(256)), "sig": b"s" * 64, "proof": b"\0\1", "fleet-id": "dev", "kind": "SEND",
    }  # fmt: skip
    sent = message(b"\0\xffbody", headers=headers)
    assert (await send(session, sent))[sent.id].verdict is Verdict.CONFIRMED
    got = await take(received)
    assert (got.queue, got.exchange, got.routing_key, got.body) == (INBOX.name, MSG, GID, b"\0\xffbody")
    assert (got.headers.fleet, got.headers.sig, got.headers.proof) == (bytes(range(256)), b"s" * 64, b"\0\1")
    assert (got.headers.hop, got.headers.fleet_id, got.headers.problem) == (None, "dev", "")
    assert got.tag.epoch == session.epoch
    assert not got.redelivered


async def test_a_body_larger_than_a_frame_arrives_whole(session: BrokerSession) -> None:
    received = await consume(session)
    body = bytes(range(256)) * 2048
    await send(session, message(body))
    assert (await take(received)).body == body


async def test_a_message_nobody_is_bound_to_is_unroutable_once_and_only_once(session: BrokerSession) -> None:
    lost, arrived = message(to="nobody"), message()
    verdicts = await send(session, lost, arrived)
    assert verdicts[lost.id].verdict is Verdict.UNROUTABLE
    assert verdicts[arrived.id].verdict is Verdict.CONFIRMED
    with pytest.raises(trio.WouldBlock):
        session.verdicts.receive_nowait()


async def test_returns_and_confirms_in_one_burst_keep_to_their_messages(session: BrokerSession) -> None:
    burst = [message(to=GID if number % 3 else "nobody") for number in range(200)]
    verdicts = await send(session, *burst)
    for sent in burst:
        expected = Verdict.CONFIRMED if sent.routing_key == GID else Verdict.UNROUTABLE
        assert verdicts[sent.id].verdict is expected


async def test_without_mandatory_an_unroutable_message_counts_as_taken(session: BrokerSession) -> None:
    sent = message(to="nobody", mandatory=False)
    assert (await send(session, sent))[sent.id].verdict is Verdict.CONFIRMED


async def test_a_full_queue_nacks(session: BrokerSession) -> None:
    small = Queue("small", {"x-queue-type": "classic", "x-max-length": 1, "x-overflow": "reject-publish"})
    await session.declare((), (small,), (Binding("small", MSG, "small"),))
    fits, does_not = message(to="small"), message(to="small")
    assert (await send(session, fits))[fits.id].verdict is Verdict.CONFIRMED
    assert (await send(session, does_not))[does_not.id].verdict is Verdict.NACKED
    assert await session.message_count("small") == 1


async def test_messages_arrive_in_the_order_they_were_handed_over(session: BrokerSession) -> None:
    received = await consume(session)
    session.publish([message(b"%d" % number) for number in range(20)])
    session.publish([message(b"%d" % number) for number in range(20, 40)])
    assert [int((await take(received)).body) for _ in range(40)] == list(range(40))


async def test_a_header_table_over_the_cap_is_refused_here_and_the_connection_lives(session: BrokerSession) -> None:
    large, good = message(headers={"fleet": b"x" * MAX_TABLE, "sig": b""}), message()
    verdicts = await send(session, large, good)
    assert verdicts[large.id].verdict is Verdict.NACKED
    assert verdicts[large.id].detail.startswith("not sent")
    assert verdicts[good.id].verdict is Verdict.CONFIRMED


async def test_a_key_too_long_for_amqp_is_refused_here(session: BrokerSession) -> None:
    sent = message(to="é" * 128)
    assert (await send(session, sent))[sent.id].verdict is Verdict.NACKED


async def test_a_missing_exchange_ends_the_session_and_leaves_the_outcome_unknown(session: BrokerSession) -> None:
    sent = message(exchange="nowhere")
    assert (await send(session, sent))[sent.id].verdict is Verdict.UNKNOWN
    with trio.fail_after(LIMIT_S), pytest.raises(SessionLost, match="no exchange 'nowhere'"):
        await session.run_until_lost()


async def test_what_the_session_leaves_open_has_its_verdict_all_the_same(
    border: None, settings: BrokerSettings
) -> None:
    sent = [message(exchange="amq.topic", mandatory=False) for _ in range(50)]
    async with open_session(settings, 1) as session:
        session.publish(sent)
    late = message()
    session.publish([late])
    given = await verdicts(session, 51)
    assert given.keys() == {each.id for each in (*sent, late)}
    assert given[late.id].verdict is Verdict.UNKNOWN
    with pytest.raises(trio.WouldBlock):
        session.verdicts.receive_nowait()


async def test_one_publish_id_cannot_be_open_twice(session: BrokerSession) -> None:
    sent = message()
    with pytest.raises(ProtocolMisuse, match="open already"):
        session.publish([sent, sent])
    session.publish([sent])
    with pytest.raises(ProtocolMisuse, match="open already"):
        session.publish([message(), sent])
    assert (await verdict(session)).id == sent.id
