"""FastStream on RabbitMQ: decorated subscribers that acknowledge by hand, persistent and confirmed publishes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import job
from faststream import AckPolicy
from faststream.rabbit import Channel, ExchangeType, RabbitBroker, RabbitExchange, RabbitMessage, RabbitQueue

EXCHANGE = RabbitExchange(job.EXCHANGE, type=ExchangeType.TOPIC, durable=True, declare=False)
BROKER = RabbitBroker(job.URL, default_channel=Channel(prefetch_count=job.WINDOW), logger=None)


def subscribe(name: str, take: Callable[[bytes], Awaitable[bool]]) -> asyncio.Event:
    """Call `take` for each delivery, then acknowledge it; the event is set behind the one for which it said True."""
    over = asyncio.Event()
    queue = RabbitQueue(name, durable=True, declare=False, routing_key=name)

    @BROKER.subscriber(queue, EXCHANGE, ack_policy=AckPolicy.MANUAL)
    async def delivered(content: bytes, found: RabbitMessage) -> None:
        is_over = await take(content)
        await found.ack()
        if is_over:
            over.set()

    return over


async def send(key: str, content: bytes) -> Any:
    return await BROKER.publish(
        content, exchange=EXCHANGE, routing_key=key, headers=job.HEADERS, persist=True, mandatory=True
    )


async def publish() -> None:
    async with BROKER:
        meter = job.Meter()
        await job.keep_in_flight(lambda number: send(job.HOP, job.body(number)))
        meter.end()


async def consume() -> None:
    got = job.Got()

    async def take(content: bytes) -> bool:
        return got.note(content)

    over = subscribe(job.HOP, take)
    async with BROKER:
        await BROKER.start()
        job.ready()
        await over.wait()
        got.tell()


async def serve() -> None:
    answered = 0

    async def take(content: bytes) -> bool:
        nonlocal answered
        await send(job.ANSWER, content)
        answered += 1
        return answered == job.COUNT + job.WARM

    over = subscribe(job.ASK, take)
    async with BROKER:
        await BROKER.start()
        job.ready()
        await over.wait()


async def call() -> None:
    trips, answers = job.Trips(), asyncio.Queue[int]()

    async def take(content: bytes) -> bool:
        answers.put_nowait(job.number_of(content))
        return False

    subscribe(job.ANSWER, take)
    async with BROKER:
        await BROKER.start()
        is_over = False
        while not is_over:
            number = trips.begin()
            await send(job.ASK, job.body(number))
            assert await answers.get() == number
            is_over = trips.end()
        trips.tell()


job.run({"publish": publish, "consume": consume, "serve": serve, "call": call})
