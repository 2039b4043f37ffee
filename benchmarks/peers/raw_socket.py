"""The ceiling: a socket, frames that were encoded before, and as little else as AMQP allows."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import job
from pamqp import body, commands, frame, header

METHOD, BODY = 1, 3
DELIVER, ACK = (60).to_bytes(2, "big") + (60).to_bytes(2, "big"), (60).to_bytes(2, "big") + (80).to_bytes(2, "big")


class Wire:
    """One connection with one channel, confirms on."""

    def __init__(self) -> None:
        self._socket = socket.create_connection((job.HOST, job.PORT))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self.write(b"AMQP\x00\x00\x09\x01")
        self._answer()
        self.ask(commands.Connection.StartOk({}, "PLAIN", f"\0{job.USER}\0{job.PASSWORD}", "en_US"), 0)
        self.write(frame.marshal(commands.Connection.TuneOk(2047, 131_072, 0), 0))
        self.ask(commands.Connection.Open(job.VHOST), 0)
        self.ask(commands.Channel.Open())
        self.ask(commands.Confirm.Select())
        self.ask(commands.Basic.Qos(prefetch_count=job.WINDOW))

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Type and content of the frames that one read completes."""
        chunk = self._socket.recv(1 << 20)
        if not chunk:
            raise SystemExit("the broker hung up")
        data, at = self._rest + chunk, 0
        while len(data) - at >= 8:
            after = at + 8 + int.from_bytes(data[at + 3 : at + 7], "big")
            if after > len(data):
                break
            yield data[at], data[at + 7 : after - 1]
            at = after
        self._rest = data[at:]

    def ask(self, method: frame.FrameTypes, channel: int = 1) -> None:
        """Send a method and wait for its answer."""
        self.write(frame.marshal(method, channel))
        self._answer()

    def _answer(self) -> None:
        while not list(self.read()):
            pass

    def close(self) -> None:
        self.ask(commands.Connection.Close(200, "", 0, 0), 0)


class Message:
    """A whole publish as bytes; only the number in it changes."""

    def __init__(self, key: str) -> None:
        content = job.body(0)
        properties = commands.Basic.Properties(headers=job.HEADERS, delivery_mode=2)
        method = commands.Basic.Publish(exchange=job.EXCHANGE, routing_key=key, mandatory=True)
        payload = frame.marshal(body.ContentBody(content), 1)
        self._before = (
            frame.marshal(method, 1) + frame.marshal(header.ContentHeader(0, len(content), properties), 1) + payload[:7]
        )
        self._behind = payload[15:]

    def numbered(self, numbers: range) -> bytes:
        return b"".join(self._before + number.to_bytes(8, "big") + self._behind for number in numbers)


def ack_up_to(tag: int) -> bytes:
    return frame.marshal(commands.Basic.Ack(tag, True), 1)


def delivery_tag(method: bytes) -> int:
    at = 5 + method[4]
    return int.from_bytes(method[at : at + 8], "big")


def confirmed(method: bytes, before: int) -> int:
    """How many publishes are confirmed behind this Basic.Ack; the broker confirms ours in their order."""
    tag, is_multiple = int.from_bytes(method[4:12], "big"), method[12] & 1
    return tag if is_multiple else before + 1


def publish() -> None:
    wire, message = Wire(), Message(job.HOP)
    sent = done = 0
    meter = job.Meter()
    while done < job.COUNT:
        room = min(job.WINDOW - (sent - done), job.COUNT - sent)
        if room:
            wire.write(message.numbered(range(sent, sent + room)))
            sent += room
        for kind, content in wire.read():
            if kind == METHOD and content.startswith(ACK):
                done = confirmed(content, done)
    meter.end()
    wire.close()


def consume() -> None:
    wire, got = Wire(), job.Got()
    wire.write(frame.marshal(commands.Basic.Consume(queue=job.HOP), 1))
    job.ready()
    tag, is_over = 0, False
    while not is_over:
        acked = tag
        for kind, content in wire.read():
            if kind == METHOD and content.startswith(DELIVER):
                coming = delivery_tag(content)
            elif kind == BODY:
                tag, is_over = coming, got.note(content)
        if tag > acked:
            wire.write(ack_up_to(tag))
    got.tell()
    wire.close()


def serve() -> None:
    wire, message, answered = Wire(), Message(job.ANSWER), 0
    wire.write(frame.marshal(commands.Basic.Consume(queue=job.ASK), 1))
    job.ready()
    while answered < job.COUNT + job.WARM:
        for kind, content in wire.read():
            if kind == BODY:
                number = job.number_of(content)
                wire.write(message.numbered(range(number, number + 1)))
            elif kind == METHOD and content.startswith(ACK):
                answered = confirmed(content, answered)
                wire.write(ack_up_to(answered))
    wire.close()


def call() -> None:
    wire, message, trips = Wire(), Message(job.ASK), job.Trips()
    wire.ask(commands.Basic.Consume(queue=job.ANSWER))
    is_over = False
    while not is_over:
        number = trips.begin()
        wire.write(message.numbered(range(number, number + 1)))
        waiting = {"confirm", "answer"}
        while waiting:
            for kind, content in wire.read():
                if kind == BODY:
                    assert job.number_of(content) == number
                    wire.write(ack_up_to(number + 1))
                    waiting.discard("answer")
                elif kind == METHOD and content.startswith(ACK):
                    waiting.discard("confirm")
        is_over = trips.end()
    trips.tell()
    wire.close()


job.run({"publish": publish, "consume": consume, "serve": serve, "call": call})
