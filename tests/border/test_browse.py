"""A queue can be looked through without a consumer: taken one by one, settled or given back."""

from __future__ import annotations

from fleettrio.broker.port import BrokerSession
from fleettrio.wire.deaths import read_deaths
from tests.border.inbox import INBOX, consume, message, send, take, wait_for_count


async def test_what_was_taken_and_not_settled_is_given_back_in_order(session: BrokerSession) -> None:
    await send(session, *[message(b"%d" % number) for number in range(4)])
    got = [await session.get(INBOX.name) for _ in range(4)]
    assert await session.get(INBOX.name) is None
    assert [each.body for each in got if each] == [b"0", b"1", b"2", b"3"]
    assert got[2] is not None
    session.ack(got[2].tag)
    await session.release(INBOX.name)
    received = await consume(session)
    again = [await take(received) for _ in range(3)]
    assert [(each.body, each.redelivered) for each in again] == [(b"0", True), (b"1", True), (b"3", True)]


async def test_an_empty_queue_gives_nothing_and_releasing_it_does_no_harm(session: BrokerSession) -> None:
    assert await session.get(INBOX.name) is None
    await session.release(INBOX.name)
    await session.release(INBOX.name)
    await session.release("unknown")
    assert await session.get(INBOX.name) is None


async def test_a_dead_letter_says_how_it_died_and_moves_on_with_all_its_headers(session: BrokerSession) -> None:
    headers: dict[str, bytes | str] = {"fleet": b"header", "sig": b"s" * 64, "proof": b"p", "kind": "SEND"}
    await send(session, message(b"body", headers=headers))
    received = await consume(session)
    session.reject((await take(received)).tag)
    await wait_for_count(session, "fleet.dlq", 1)
    dead = await session.get("fleet.dlq")
    assert dead is not None
    (death,) = read_deaths(dead.headers.x_death)
    assert (death.reason, death.queue, death.exchange, death.count) == ("rejected", INBOX.name, "fleet.msg", 1)
    moved = message(dead.body, exchange="fleet.ops", to="dlq.reported", headers={**headers, "reported": "yes"})
    assert (await send(session, moved))[moved.id].verdict == "confirmed"
    session.ack(dead.tag)
    await session.release("fleet.dlq")
    assert await session.message_count("fleet.dlq") == 0
    kept = await session.get("fleet.dlq.reported")
    assert kept is not None
    assert (kept.headers.fleet, kept.headers.sig, kept.headers.proof) == (b"header", b"s" * 64, b"p")
    assert read_deaths(kept.headers.x_death) == ()
