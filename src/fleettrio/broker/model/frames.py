"""What the model broker says to a connection, in the order in which it says it."""

from __future__ import annotations

import msgspec

from fleettrio.broker.model.message import Message

__all__ = (
    "Blocked",
    "Cancelled",
    "ChannelClosed",
    "Confirmed",
    "ConnectionClosed",
    "Delivered",
    "Frame",
    "Returned",
    "Unblocked",
)


class Delivered(msgspec.Struct, frozen=True):
    channel: int
    consumer: str
    """Its tag; empty for the answer to a `get`."""
    queue: str
    delivery: int
    redelivered: bool
    message: Message


class Confirmed(msgspec.Struct, frozen=True):
    """The verdict of publish `number` of a channel: an ack, or a nack."""

    channel: int
    number: int
    ok: bool


class Returned(msgspec.Struct, frozen=True):
    """No queue takes publish `number`; its confirm follows."""

    channel: int
    number: int
    message: Message


class Cancelled(msgspec.Struct, frozen=True):
    """The broker ended a consumer, because its queue is gone."""

    channel: int
    consumer: str


class ChannelClosed(msgspec.Struct, frozen=True):
    channel: int
    code: int
    text: str


class Blocked(msgspec.Struct, frozen=True):
    reason: str


class Unblocked(msgspec.Struct, frozen=True):
    pass


class ConnectionClosed(msgspec.Struct, frozen=True):
    text: str


Frame = Delivered | Confirmed | Returned | Cancelled | ChannelClosed | Blocked | Unblocked | ConnectionClosed
