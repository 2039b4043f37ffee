"""Envelope ↔ AMQP header table (`10-wire`, The signed bytes travel verbatim).

Reading never raises and never recurses: any account that may write one exchange can put any bytes into a content
header, and a reader that fails on them takes the whole connection with it, again after every reconnect. So what is ours
is taken, everything else is skipped by its length, and what cannot be walked is a `problem` of that one message.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from fleettrio.errors import MalformedEnvelope

__all__ = ("MAX_TABLE", "ContentHeader", "RawHeaders", "read_content_header", "read_header_table", "table_for")

MAX_TABLE = 8 * 1024
"""Bytes of a header table on the wire. Its frame cannot be split: one over the frame size closes the connection."""

_FIXED_SIZES = {
    ord(kind): size
    for kinds, size in (("V", 0), ("tbB", 1), ("su", 2), ("Iif", 4), ("D", 5), ("lLdT", 8))
    for kind in kinds
}
_COUNTED = frozenset(b"SxAF")
"""Long string, byte array, array, table: four bytes of length, then that many bytes, whatever is nested in them."""
_BYTES = frozenset(b"Sx")
_OURS = {b"fleet": "fleet", b"sig": "sig", b"proof": "proof", b"hop": "hop"}
_ONCE = frozenset({b"fleet", b"sig", b"proof"})
_FLEET_ID_LIMIT = 63


@dataclasses.dataclass(frozen=True, slots=True)
class RawHeaders:
    """What the poison-proof reader took from a header table; everything else was skipped by length.

    `problem` says why the table could not be walked to its end (empty when it could).
    """

    fleet: bytes | None = None
    sig: bytes | None = None
    proof: bytes | None = None
    hop: bytes | None = None
    fleet_id: str = ""
    """The unsigned hint, for the wording of `wrong-fleet` alone."""
    has_cc: bool = False
    problem: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ContentHeader:
    """What is taken from the content header of a delivery or a return."""

    body_size: int
    message_id: str
    """Set by the AMQP client library of the publisher; matches a return to its publish, proves nothing."""
    headers: RawHeaders


class _Cut(Exception):
    """The bytes end, or contradict themselves, before what they announce. Never leaves this module."""


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    end = at + size
    if end > len(data):
        raise _Cut(f"{size} bytes announced, {len(data) - at} left")
    return data[at:end], end


def _take_counted(data: bytes, at: int, width: int) -> tuple[bytes, int]:
    """A value with its length in front, `width` bytes wide."""
    size, at = _take(data, at, width)
    return _take(data, at, int.from_bytes(size, "big"))


def _take_value(data: bytes, at: int) -> tuple[int, bytes, int]:
    """One field value: its type, its bytes (without the length), where the next thing begins."""
    kind, at = _take(data, at, 1)
    if kind[0] in _COUNTED:
        value, at = _take_counted(data, at, 4)
    elif kind[0] in _FIXED_SIZES:
        value, at = _take(data, at, _FIXED_SIZES[kind[0]])
    else:
        raise _Cut(f"unknown field type 0x{kind[0]:02x}")
    return kind[0], value, at


def read_header_table(table: bytes) -> RawHeaders:
    """Read an AMQP field table, its four bytes of length first. Never raises; see `RawHeaders.problem`."""
    taken: dict[bytes, bytes] = {}
    fleet_id, has_cc, problem = "", False, ""
    try:
        payload, end = _take_counted(table, 0, 4)
        if end != len(table):
            raise _Cut(f"{len(table) - end} bytes behind its end")
        at = 0
        while at < len(payload):
            key, at = _take_counted(payload, at, 1)
            kind, value, at = _take_value(payload, at)
            if key in _OURS:
                if kind not in _BYTES:
                    problem = problem or f"header {key.decode()} is not a byte array"
                elif key not in taken:
                    taken[key] = value
                elif key in _ONCE:
                    problem = problem or f"header {key.decode()} is there twice"
            elif key in (b"CC", b"BCC"):
                has_cc = True
            elif key == b"fleet-id" and kind in _BYTES and not fleet_id:
                fleet_id = value[:_FLEET_ID_LIMIT].decode("ascii", "replace")
    except _Cut as cut:
        problem = problem or f"header table: {cut}"
    return RawHeaders(
        **{name: taken.get(key) for key, name in _OURS.items()},
        fleet_id=fleet_id,
        has_cc=has_cc,
        problem=problem,
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
                _, at = _take_counted(payload, at, -size)
                headers = read_header_table(payload[start:at])
            elif size == _SHORT:
                value, at = _take_counted(payload, at, -size)
                if name == "message_id":
                    message_id = value.decode("utf-8", "replace")
            else:
                _, at = _take(payload, at, size)
    except _Cut as cut:
        headers = dataclasses.replace(headers, problem=headers.problem or f"message properties: {cut}")
    return ContentHeader(int.from_bytes(payload[4:12], "big"), message_id, headers)


def _take_flags(payload: bytes) -> tuple[int, int]:
    """The first word of flags and where the properties begin; further words (lowest bit set) name none we know."""
    word, at = _take(payload, 12, 2)
    first = int.from_bytes(word, "big")
    while word[1] & 1:
        word, at = _take(payload, at, 2)
    return first, at


def table_for(
    header: bytes,
    sig: bytes,
    proof: bytes = b"",
    *,
    hop: bytes = b"",
    hints: Mapping[str, str] | None = None,
) -> dict[str, bytes | str]:
    """The header table of a message: `header`, `sig`, `proof`, `hop` verbatim, then the unsigned `hints` as text.

    `proof` and `hop` are left out when empty. Raises `MalformedEnvelope` when the table would exceed `MAX_TABLE`.
    """
    table: dict[str, bytes | str] = {"fleet": header, "sig": sig}
    if proof:
        table["proof"] = proof
    if hop:
        table["hop"] = hop
    table.update(hints or {})
    size = table_size(table)
    if size > MAX_TABLE:
        raise MalformedEnvelope(
            f"the header table has {size} bytes, the limit is {MAX_TABLE}",
            hint="Shorten the optional fields of the envelope (causal, claim).",
        )
    return table


def table_size(table: Mapping[str, bytes | str]) -> int:
    """Bytes of `table` on the wire: its length, then each key (short string), type, length and value."""
    return 4 + sum(
        len(key.encode()) + 6 + len(value.encode() if isinstance(value, str) else value) for key, value in table.items()
    )
