"""Deliveries read: bytes that make sense, of whom is not judged yet; what makes none is refused as `malformed`."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fleettrio._accel import decode_header, leaf_of, roots_of
from fleettrio.errors import MalformedEnvelope, UnsupportedVersion
from fleettrio.ids import Leaf
from fleettrio.wire.envelope import Envelope, decode_envelope
from fleettrio.wire.gids import is_name, is_trace_id
from fleettrio.wire.headers import RawHeaders

__all__ = ("Parsed", "Refusal", "parse_delivery", "parse_many")


class Parsed(msgspec.Struct, frozen=True, gc=False):
    """A delivery whose bytes make sense; whose they are is not judged yet."""

    envelope: Envelope
    header: bytes
    body: bytes
    sig: bytes
    proof: bytes
    leaf: Leaf
    headers: RawHeaders
    root: bytes
    count: int
    """Messages under the signature."""


class Refusal(msgspec.Struct, frozen=True):
    """A delivery that goes to the dead letters."""

    reason: str
    """One of `REFUSAL_REASONS`."""
    detail: str
    envelope: Envelope | None = None
    """What it claims; None when it could not be read."""
    leaf: Leaf | None = None
    signature_good: bool = False
    """True when a trusted key of the claimed host signed it: that host is told."""
    host: str = ""
    """The host it claims to come from, empty when that cannot be read."""
    trace_id: str = ""


def parse_delivery(headers: RawHeaders, body: bytes, *, body_limit: int) -> Parsed | Refusal:
    """Read a delivery without judging whose it is; `body_limit` is in bytes.

    What cannot be read is a `Refusal` for `malformed`, or for `version` when it is of a newer major version.
    """
    return parse_many([(headers, body)], body_limit=body_limit)[0]


def parse_many(deliveries: Iterable[tuple[RawHeaders, bytes]], *, body_limit: int) -> list[Parsed | Refusal]:
    """`parse_delivery` each; what there is to hash is hashed in one call."""
    found: list[Parsed | Refusal] = []
    whole: list[tuple[int, RawHeaders, bytes]] = []
    messages: list[tuple[bytes, bytes, bytes]] = []
    for headers, body in deliveries:
        header, sig = headers.fleet, headers.sig
        if headers.problem or header is None or sig is None or len(body) > body_limit:
            found.append(_unreadable(headers, body, body_limit))
        else:
            whole.append((len(found), headers, sig))
            messages.append((header, body, headers.proof or b""))
            found.append(_UNREAD)
    for (place, headers, sig), (header, body, proof), measured in zip(whole, messages, roots_of(messages), strict=True):
        leaf = Leaf(measured[0])
        try:
            envelope = decode_envelope(header)
        except (MalformedEnvelope, UnsupportedVersion) as error:
            found[place] = msgspec.structs.replace(_malformed(str(error), header, leaf), reason=error.reason)
            continue
        if len(measured) == 3:
            found[place] = Parsed(envelope, header, body, sig, proof, leaf, headers, measured[1], measured[2])
        else:
            found[place] = _malformed(measured[1], header, leaf)
    return found


_UNREAD = Refusal("malformed", "not read")


def _unreadable(headers: RawHeaders, body: bytes, body_limit: int) -> Refusal:
    """What is wrong with a delivery before its bytes are looked at."""
    header = headers.fleet
    if headers.problem:
        return _malformed(f"header table: {headers.problem}", header, None)
    if header is None:
        return _malformed("the header `fleet` is missing", None, None)
    if len(body) > body_limit:
        return _malformed(f"body: {len(body)} bytes, the most is {body_limit}", header, None)
    return _malformed("the header `sig` is missing", header, Leaf(leaf_of(header, body)))


def _malformed(detail: str, header: bytes | None, leaf: Leaf | None) -> Refusal:
    """With the claimed host and trace, where they can be read: they go into the log."""
    try:
        fields = decode_header(header or b"")
    except MalformedEnvelope:
        fields = {}
    host, trace_id = fields.get("host"), fields.get("traceId")
    return Refusal(
        "malformed",
        detail,
        leaf=leaf,
        host=host if isinstance(host, str) and is_name(host) else "",
        trace_id=trace_id if isinstance(trace_id, str) and is_trace_id(trace_id) else "",
    )
