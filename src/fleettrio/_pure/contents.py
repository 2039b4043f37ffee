"""Reading the content header of a message: its size, and of its properties the table of ours.

Reading never raises and never recurses: any account that may write one exchange can put any bytes into a content
header, and a reader that fails on them takes the whole connection with it, again after every reconnect. So what is ours
is taken, everything else is skipped by its length, and what cannot be walked is a `problem` of that one message.
"""

from __future__ import annotations

import msgspec

from fleettrio._pure.tables import Cut, take, take_counted, take_value

__all__ = ("ContentHeader", "RawHeaders", "read_content_header", "read_header_table")

_BYTES = frozenset(b"Sx")
_ARRAY = ord("A")
_OURS = {b"fleet": "fleet", b"sig": "sig", b"proof": "proof", b"hop": "hop"}
_ONCE = frozenset({b"fleet", b"sig", b"proof"})
_FLEET_ID_LIMIT = 63
_DEAD_LIMIT = 400


class RawHeaders(msgspec.Struct, frozen=True, gc=False):
    """What the poison-proof reader took from a header table; everything else was skipped by length.

    `problem` says why the table could not be walked to its end (empty when it could).
    """

    fleet: bytes | None = None
    sig: bytes | None = None
    proof: bytes | None = None
    hop: bytes | None = None
    fleet_id: str = ""
    """The unsigned hint, for the wording of `wrong-fleet` alone."""
    dead: str = ""
    """What the reporter noted when it set a dead letter aside: reason, queue, wall ms, its host. A hint."""
    has_cc: bool = False
    problem: str = ""
    x_death: bytes = b""
    """What the broker notes when it dead-letters a message, unread; or what a publisher put there."""


class ContentHeader(msgspec.Struct, frozen=True):
    """What is taken from the content header of a delivery or a return."""

    body_size: int
    message_id: str
    """Set by the AMQP client library of the publisher; matches a return to its publish, proves nothing."""
    headers: RawHeaders


def read_header_table(table: bytes) -> RawHeaders:
    """Read an AMQP field table, its four bytes of length first. Never raises; see `RawHeaders.problem`."""
    taken: dict[bytes, bytes] = {}
    fleet_id, dead, has_cc, problem, x_death = "", "", False, "", b""
    try:
        payload, end = take_counted(table, 0, 4)
        if end != len(table):
            raise Cut(f"{len(table) - end} bytes behind its end")
        at = 0
        while at < len(payload):
            key, at = take_counted(payload, at, 1)
            kind, value, at = take_value(payload, at)
            if key in _OURS:
                if kind not in _BYTES:
                    problem = problem or f"header {key.decode()} is not a byte array"
                elif key not in taken:
                    taken[key] = value
                elif key in _ONCE:
                    problem = problem or f"header {key.decode()} is there twice"
            elif key in (b"CC", b"BCC"):
                has_cc = True
            elif key == b"x-death" and kind == _ARRAY:
                x_death = value
            elif key == b"fleet-id" and kind in _BYTES and not fleet_id:
                fleet_id = value[:_FLEET_ID_LIMIT].decode("ascii", "replace")
            elif key == b"dead" and kind in _BYTES and not dead:
                dead = value[:_DEAD_LIMIT].decode("ascii", "replace")
    except Cut as cut:
        problem = problem or f"header table: {cut}"
    return RawHeaders(
        **{name: taken.get(key) for key, name in _OURS.items()},
        fleet_id=fleet_id,
        dead=dead,
        has_cc=has_cc,
        problem=problem,
        x_death=x_death,
    )


_SHORT, _TABLE = -1, -4
_PROPERTIES = (
    ("content_type", _SHORT),
    ("content_encoding", _SHORT),
    ("headers", _TABLE),
    ("delivery_mode", 1),
    ("priority", 1),
    ("correlation_id", _SHORT),
    ("reply_to", _SHORT),
    ("expiration", _SHORT),
    ("message_id", _SHORT),
    ("timestamp", 8),
    ("type", _SHORT),
    ("user_id", _SHORT),
    ("app_id", _SHORT),
    ("cluster_id", _SHORT),
)
"""The basic properties in the order of their flags, from bit 15 down: a fixed size, or what carries its own length."""


def read_content_header(payload: bytes) -> ContentHeader:
    """Read the payload of a content header frame: class, weight, body size, flags, properties.

    Raises `ValueError` only where the first twelve bytes are missing. Those are the broker's own, not a publisher's,
    and without the body size nothing behind this frame can be read.
    """
    if len(payload) < 12:
        raise ValueError(f"a content header of {len(payload)} bytes: the broker does not speak AMQP 0-9-1")
    headers, message_id = RawHeaders(), ""
    try:
        flags, at = _take_flags(payload)
        for index, (name, size) in enumerate(_PROPERTIES):
            if not flags & (0x8000 >> index):
                continue
            if name == "headers":
                start = at
                _, at = take_counted(payload, at, -size)
                headers = read_header_table(payload[start:at])
            elif size == _SHORT:
                value, at = take_counted(payload, at, -size)
                if name == "message_id":
                    message_id = value.decode("utf-8", "replace")
            else:
                _, at = take(payload, at, size)
    except Cut as cut:
        headers = msgspec.structs.replace(headers, problem=headers.problem or f"message properties: {cut}")
    return ContentHeader(int.from_bytes(payload[4:12], "big"), message_id, headers)


def _take_flags(payload: bytes) -> tuple[int, int]:
    """The first word of flags and where the properties begin; further words (lowest bit set) name none we know."""
    word, at = take(payload, 12, 2)
    first = int.from_bytes(word, "big")
    while word[1] & 1:
        word, at = take(payload, at, 2)
    return first, at
