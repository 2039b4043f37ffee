"""pika's callback client: many publishes in flight, confirms and deliveries as callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import job
import pika

HEADERS = {name: bytes(value) if isinstance(value, bytearray) else value for name, value in job.HEADERS.items()}
PROPERTIES = pika.BasicProperties(headers=HEADERS, delivery_mode=2)


def with_channel(use: Callable[[Any, Callable[[], None]], None]) -> None:
    """Connect, call `use(channel, close)` and run until `close` was called."""

    def opened(connection: Any) -> None:
        connection.channel(on_open_callback=lambda channel: use(channel, connection.close))

    def closed(connection: Any, _reason: object) -> None:
        connection.ioloop.stop()

    def refused(_connection: Any, reason: object) -> None:
        raise SystemExit(f"no connection: {reason}")

    place = pika.ConnectionParameters(job.HOST, job.PORT, job.VHOST, pika.PlainCredentials(job.USER, job.PASSWORD))
    pika.SelectConnection(place, opened, refused, closed).ioloop.start()


def send(channel: Any, key: str, content: bytes) -> None:
    channel.basic_publish(job.EXCHANGE, key, content, PROPERTIES, mandatory=True)


class Publisher:
    def __init__(self, channel: Any, close: Callable[[], None]) -> None:
        self._channel, self._close = channel, close
        self._sent = self._done = 0
        channel.confirm_delivery(self._confirmed, callback=self._begin)

    def _begin(self, _ok: object) -> None:
        self._meter = job.Meter()
        self._fill()

    def _fill(self) -> None:
        while self._sent < job.COUNT and self._sent - self._done < job.WINDOW:
            send(self._channel, job.HOP, job.body(self._sent))
            self._sent += 1

    def _confirmed(self, word: Any) -> None:
        self._done = word.method.delivery_tag if word.method.multiple else self._done + 1
        if self._done < job.COUNT:
            self._fill()
        else:
            self._meter.end()
            self._close()


def consume() -> None:
    got = job.Got()

    def use(channel: Any, close: Callable[[], None]) -> None:
        def delivered(_channel: Any, method: Any, _properties: Any, content: bytes) -> None:
            channel.basic_ack(method.delivery_tag)
            if got.note(content):
                got.tell()
                close()

        channel.basic_qos(prefetch_count=job.WINDOW)
        channel.basic_consume(job.HOP, delivered, callback=lambda _ok: job.ready())

    with_channel(use)


def serve() -> None:
    """Each request is acknowledged once its answer is confirmed."""
    open_requests: dict[int, int] = {}
    answered = 0

    def use(channel: Any, close: Callable[[], None]) -> None:
        def delivered(_channel: Any, method: Any, _properties: Any, content: bytes) -> None:
            nonlocal answered
            answered += 1
            open_requests[answered] = method.delivery_tag
            send(channel, job.ANSWER, content)

        def confirmed(word: Any) -> None:
            for tag in sorted(open_requests):
                if tag == word.method.delivery_tag or (word.method.multiple and tag < word.method.delivery_tag):
                    channel.basic_ack(open_requests.pop(tag))
            if answered == job.COUNT + job.WARM and not open_requests:
                close()

        channel.confirm_delivery(confirmed)
        channel.basic_consume(job.ASK, delivered, callback=lambda _ok: job.ready())

    with_channel(use)


class Caller:
    def __init__(self, channel: Any, close: Callable[[], None]) -> None:
        self._channel, self._close = channel, close
        self._trips = job.Trips()
        self._waiting: set[str] = set()
        channel.confirm_delivery(lambda _word: self._came("confirm"))
        channel.basic_consume(job.ANSWER, self._answered, callback=lambda _ok: self._ask())

    def _ask(self) -> None:
        self._waiting = {"confirm", "answer"}
        send(self._channel, job.ASK, job.body(self._trips.begin()))

    def _answered(self, _channel: Any, method: Any, _properties: Any, _content: bytes) -> None:
        self._channel.basic_ack(method.delivery_tag)
        self._came("answer")

    def _came(self, what: str) -> None:
        self._waiting.discard(what)
        if self._waiting:
            return
        if self._trips.end():
            self._trips.tell()
            self._close()
        else:
            self._ask()


job.run(
    {
        "publish": lambda: with_channel(Publisher),
        "consume": consume,
        "serve": serve,
        "call": lambda: with_channel(Caller),
    }
)
