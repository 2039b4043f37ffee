"""A message as the model broker keeps it, and what dead-lettering writes into its header table."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from fleettrio.wire.headers import RawHeaders, read_header_table

__all__ = ("Message", "Seconds64", "Value", "encode_table", "is_cycle", "with_death")

Value: TypeAlias = "bytes | str | int | Seconds64 | Sequence[Value] | Mapping[str, Value]"
"""What a header can be: `int` travels as 64 bits, a sequence as an array, a mapping as a table."""


class Seconds64(msgspec.Struct, frozen=True):
    """A moment of AMQP's own kind, in seconds since the epoch."""

    at: int


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What a publisher gave. `expiration_ms` None: it has none; 0: to a waiting consumer or not at all."""

    exchange: str
    routing_key: str
    body: bytes = b""
    headers: Mapping[str, Value] = msgspec.field(default_factory=dict)
    expiration_ms: int | None = None
    content_type: str = ""
    persistent: bool = True
    copies: tuple[str, ...] = ()
    """Further routing keys, out of CC and BCC; the broker takes BCC out of the table and remembers its keys."""

    @property
    def keys(self) -> tuple[str, ...]:
        return self.routing_key, *self.copies

    def read_headers(self) -> RawHeaders:
        """The table on the wire, read by the shipped reader."""
        return read_header_table(encode_table(self.headers))

    def received(self) -> Message:
        """As the broker has it: the copies' keys noted, BCC out of sight."""
        copies = tuple(
            key
            for name in ("CC", "BCC")
            if isinstance(keys := self.headers.get(name), list | tuple)
            for key in keys
            if isinstance(key, str)
        )
        if not copies and "BCC" not in self.headers:
            return self
        headers = {name: value for name, value in self.headers.items() if name != "BCC"}
        return msgspec.structs.replace(self, headers=headers, copies=copies)


def with_death(message: Message, *, queue: str, reason: str, at_ms: int, exchange: str, key: str | None) -> Message:
    """The message as it goes to the dead-letter `exchange`, under `key` where the queue has one of its own for that."""
    visible = message.headers.get("CC", ())
    keys = [message.routing_key, *(visible if isinstance(visible, list | tuple) else ())]
    death: dict[str, Value] = {
        "count": 1,
        "reason": reason,
        "queue": queue,
        "time": Seconds64(at_ms // 1000),
        "exchange": message.exchange,
        "routing-keys": keys,
    }
    if message.expiration_ms is not None:
        death["original-expiration"] = str(message.expiration_ms)
    headers = dict(message.headers)
    deaths = _deaths(message)
    same = [each for each in deaths if (each["queue"], each["reason"]) == (queue, reason)]
    if same:
        death = {**same[0], "count": _count(same[0]) + 1}
    if deaths:
        death = dict(sorted(death.items()))
    else:
        headers |= {
            "x-first-death-reason": reason,
            "x-first-death-queue": queue,
            "x-first-death-exchange": message.exchange,
        }
    headers["x-death"] = [death, *(each for each in deaths if each not in same)]
    copies = message.copies
    if key is not None:
        headers.pop("CC", None)
        copies = ()
    return msgspec.structs.replace(
        message,
        exchange=exchange,
        routing_key=message.routing_key if key is None else key,
        headers=headers,
        expiration_ms=None,
        copies=copies,
    )


def is_cycle(message: Message, queue: str) -> bool:
    """Whether a dead letter would come back to `queue` without anybody having rejected it on the way."""
    for death in _deaths(message):
        if death["reason"] == "rejected":
            return False
        if death["queue"] == queue:
            return True
    return False


def _deaths(message: Message) -> list[Mapping[str, Value]]:
    found = message.headers.get("x-death")
    if not isinstance(found, list | tuple):
        return []
    return [each for each in found if isinstance(each, Mapping) and {"queue", "reason"} <= each.keys()]


def _count(death: Mapping[str, Value]) -> int:
    count = death.get("count")
    return count if isinstance(count, int) else 0


def encode_table(table: Mapping[str, Value]) -> bytes:
    """An AMQP field table, its four bytes of length first."""
    return _counted(b"".join(_counted(key.encode(), ">B") + _encode(value) for key, value in table.items()))


def _encode(value: Value) -> bytes:
    if isinstance(value, bytes):
        return b"x" + _counted(value)
    if isinstance(value, str):
        return b"S" + _counted(value.encode())
    if isinstance(value, Seconds64):
        return b"T" + struct.pack(">Q", value.at)
    if isinstance(value, int):
        return b"l" + struct.pack(">q", value)
    if isinstance(value, Mapping):
        return b"F" + encode_table(value)
    return b"A" + _counted(b"".join(_encode(each) for each in value))


def _counted(data: bytes, width: str = ">I") -> bytes:
    return struct.pack(width, len(data)) + data
