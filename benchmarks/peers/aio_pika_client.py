"""aio-pika as its documentation shows it, with many publishes in flight; `--uvloop` runs it on uvloop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aio_pika
import job
from aio_pika.abc import AbstractChannel, AbstractExchange, AbstractIncomingMessage


def message(content: bytes) -> aio_pika.Message:
    return aio_pika.Message(content, headers=job.HEADERS, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[tuple[AbstractChannel, AbstractExchange]]:
    async with await aio_pika.connect(job.URL) as connection:
        channel = await connection.channel(publisher_confirms=True)
        await channel.set_qos(prefetch_count=job.WINDOW)
        yield channel, await channel.get_exchange(job.EXCHANGE)


async def publish() -> None:
    async with connected() as (_, exchange):
        meter = job.Meter()
        await job.keep_in_flight(lambda number: exchange.publish(message(job.body(number)), job.HOP, mandatory=True))
        meter.end()


async def consume() -> None:
    got, over = job.Got(), asyncio.Event()

    async def delivered(found: AbstractIncomingMessage) -> None:
        await found.ack()
        if got.note(found.body):
            over.set()

    async with connected() as (channel, _):
        await (await channel.get_queue(job.HOP)).consume(delivered)
        job.ready()
        await over.wait()
        got.tell()


async def serve() -> None:
    answered, over = 0, asyncio.Event()

    async with connected() as (channel, exchange):

        async def delivered(found: AbstractIncomingMessage) -> None:
            nonlocal answered
            await exchange.publish(message(found.body), job.ANSWER, mandatory=True)
            await found.ack()
            answered += 1
            if answered == job.COUNT + job.WARM:
                over.set()

        await (await channel.get_queue(job.ASK)).consume(delivered)
        job.ready()
        await over.wait()


async def call() -> None:
    trips, answers = job.Trips(), asyncio.Queue[int]()

    async def delivered(found: AbstractIncomingMessage) -> None:
        await found.ack()
        answers.put_nowait(job.number_of(found.body))

    async with connected() as (channel, exchange):
        await (await channel.get_queue(job.ANSWER)).consume(delivered)
        is_over = False
        while not is_over:
            number = trips.begin()
            await exchange.publish(message(job.body(number)), job.ASK, mandatory=True)
            assert await answers.get() == number
            is_over = trips.end()
        trips.tell()


job.run({"publish": publish, "consume": consume, "serve": serve, "call": call})
