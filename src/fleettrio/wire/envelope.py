"""The envelope: what the signed header of a message says, checked field by field (`10-wire`, Envelope fields).

Rules:

1. A field that is absent is `None`. Defaults (`when` is `idle`, …) are the reader's; nothing is filled in here, or the
   bytes would change.
2. The same checks hold for what we encode and for what we decode.
3. A known field is checked on every kind that carries it; which kinds must carry it is said in `_REQUIRED`. Unknown
   fields of this major version are kept in `extra` and come out again.
4. A kind that this version does not know is decoded all the same: its sender is to be told `unknown-kind`, and that
   takes a verified envelope.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from fleettrio._accel import Value, decode_header, encode_header
from fleettrio.errors import MalformedEnvelope, UnsupportedVersion
from fleettrio.ids import Gid, HostId, MsgId, SpawnId, TraceId, TurnId, WallMs
from fleettrio.wire.gids import GATEWAY_SALT, is_gid, is_msg_id, is_name, is_trace_id
from fleettrio.wire.kinds import (
    CONTROL_KINDS,
    MESSAGE_KINDS,
    NOTICE_KINDS,
    Kind,
    default_lifetime_ms,
    longest_lifetime_ms,
)

__all__ = (
    "CONTROL_KINDS",
    "MESSAGE_KINDS",
    "NOTICE_KINDS",
    "VERSION",
    "Envelope",
    "Kind",
    "decode_envelope",
    "default_lifetime_ms",
    "encode_envelope",
    "longest_lifetime_ms",
)

VERSION = 1
"""Schema major version."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One header, in attributes. Times are ms since the epoch; nothing is checked before it is encoded."""

    kind: str
    msg_id: MsgId
    trace_id: TraceId
    sender: Gid
    """`from` on the wire."""
    sender_salt: bytes
    """`fromSalt`: with the signing host it gives `sender`."""
    to: str
    """The routing key: a gid, `broadcast.…`, a host, `roster.…` or `lead.…`."""
    host: HostId
    """The signing host, where notices go."""
    key_gen: int
    ts: WallMs
    expires_at: WallMs
    re: MsgId | None = None
    turn_id: TurnId | None = None
    spawn_id: SpawnId | None = None
    depth: int | None = None
    when: str | None = None
    on_stale: str | None = None
    priority: int | None = None
    intent: str | None = None
    wants_reply: bool | None = None
    auto: bool | None = None
    causal: bytes | None = None
    claim: str | None = None
    supersedes: MsgId | None = None
    extra: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    """Fields of a later minor version: covered by the signature, otherwise ignored."""

    @property
    def expects_reply(self) -> bool:
        """`wantsReply`, with its default: true for a SEND that is not a warning."""
        if self.wants_reply is not None:
            return self.wants_reply
        return self.kind == Kind.SEND and self.intent != "warning"


def encode_envelope(envelope: Envelope) -> bytes:
    """The canonical header of `envelope`. Raises `MalformedEnvelope`, naming the field, when a check fails."""
    fields: dict[str, Value] = {"v": VERSION}
    for name, attribute in _ATTRIBUTES.items():
        value = getattr(envelope, attribute)
        if value is not None:
            fields[name] = value
    for name, value in envelope.extra.items():
        if name == "v" or name in _ATTRIBUTES:
            raise MalformedEnvelope(f"field {name!a} has an attribute of its own and cannot be extra")
        fields[name] = value
    _check(fields)
    return encode_header(fields)


def decode_envelope(header: bytes) -> Envelope:
    """The envelope in `header`.

    Raises `MalformedEnvelope` for bytes that are not canonical and for fields that are missing, of a wrong type or out
    of bounds, and `UnsupportedVersion` for a newer major version.
    """
    fields = decode_header(header)
    _check(fields)
    known: dict[str, Any] = {}
    extra: dict[str, Value] = {}
    for name, value in fields.items():
        attribute = _ATTRIBUTES.get(name)
        if attribute is not None:
            known[attribute] = value
        elif name != "v":
            extra[name] = value
    return Envelope(**known, extra=extra)


# --- checks -------------------------------------------------------------------------------------

_MAX_KEY_GEN = 2**31
_MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""
_MAX_DEPTH = 2**16
_KIND = re.compile(r"[A-Z][A-Z_]{0,23}")


def _one_of(*words: str) -> Callable[[Any], bool]:
    return frozenset(words).__contains__


def _up_to(most: int, *, least: int = 0) -> Callable[[Any], bool]:
    return lambda value: least <= value <= most


def _short(most: int) -> Callable[[Any], bool]:
    return lambda value: 0 < len(value) <= most and value.isprintable()


def _is_salt(value: bytes) -> bool:
    return len(value) == 16


def _is_key(to: str) -> bool:
    """Whether `to` has the form of a routing key."""
    prefix, dot, rest = to.partition(".")
    if not dot:
        return is_gid(to) or is_name(to)
    if prefix == "roster":
        host, _, entity = rest.partition(".")
        return is_name(host) and (entity == "_gateway" or is_gid(entity))
    return (prefix == "broadcast" and rest == "all") or (prefix in ("broadcast", "lead") and is_name(rest))


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    attribute: str
    type: type
    holds: Callable[[Any], bool]
    must: str


_FIELDS: Mapping[str, _Field] = {
    "kind": _Field("kind", str, lambda kind: _KIND.fullmatch(kind) is not None, "a word in capitals"),
    "msgId": _Field("msg_id", str, is_msg_id, "a UUID version 7 in lower case"),
    "traceId": _Field("trace_id", str, is_trace_id, "32 hex digits"),
    "from": _Field("sender", str, is_gid, "a gid"),
    "fromSalt": _Field("sender_salt", bytes, _is_salt, "16 bytes"),
    "to": _Field("to", str, _is_key, "a gid, a host, or a broadcast, roster or lead key"),
    "host": _Field("host", str, is_name, "a host id"),
    "keyGen": _Field("key_gen", int, _up_to(_MAX_KEY_GEN, least=1), "a generation from 1"),
    "ts": _Field("ts", int, _up_to(_MAX_MS), "ms since the epoch"),
    "expiresAt": _Field("expires_at", int, _up_to(_MAX_MS), "ms since the epoch"),
    "re": _Field("re", str, is_msg_id, "a UUID version 7 in lower case"),
    "turnId": _Field("turn_id", str, _short(64), "1 to 64 printable characters"),
    "spawnId": _Field("spawn_id", str, is_gid, "a gid"),
    "depth": _Field("depth", int, _up_to(_MAX_DEPTH), "0 to 65536"),
    "when": _Field("when", str, _one_of("idle", "turn", "now"), "idle, turn or now"),
    "onStale": _Field("on_stale", str, _one_of("note", "drop"), "note or drop"),
    "priority": _Field("priority", int, _up_to(9), "0 to 9"),
    "intent": _Field("intent", str, _one_of("directive", "handoff", "warning"), "directive, handoff or warning"),
    "wantsReply": _Field("wants_reply", bool, lambda _: True, "true or false"),
    "auto": _Field("auto", bool, lambda _: True, "true or false"),
    "causal": _Field("causal", bytes, lambda causal: len(causal) > 0, "canonical CBOR"),
    "claim": _Field("claim", str, _short(200), "1 to 200 printable characters"),
    "supersedes": _Field("supersedes", str, is_msg_id, "a UUID version 7 in lower case"),
}
_ATTRIBUTES: Mapping[str, str] = {name: field.attribute for name, field in _FIELDS.items()}

_ALWAYS = ("kind", "msgId", "traceId", "from", "fromSalt", "to", "host", "keyGen", "ts", "expiresAt")
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    Kind.SEND: ("depth",),
    Kind.REPLY: ("depth", "re"),
    Kind.ASK: ("depth", "turnId"),
    Kind.ANSWER: ("depth", "re", "turnId"),
    Kind.BROADCAST: ("depth",),
    Kind.COORD: ("depth",),
    Kind.SPAWN: ("depth", "spawnId"),
    Kind.STOP: ("spawnId",),
    Kind.INJECTED: ("re",),
    Kind.FAILED: ("re",),
    Kind.NO_WAITER: ("re", "turnId"),
    Kind.TOO_LATE: ("re", "turnId"),
    Kind.ABANDONED: ("re", "turnId"),
}
"""Beyond `_ALWAYS`. An OUTCOME names its messages in its body: it may report on many."""


def _check(fields: Mapping[str, Value]) -> None:
    version = fields.get("v")
    if type(version) is not int or version < 1:
        raise MalformedEnvelope("field 'v' must be the version, a number from 1")
    if version != VERSION:
        raise UnsupportedVersion(f"version {version}; this gateway speaks {VERSION}")
    for name, value in fields.items():
        field = _FIELDS.get(name)
        if field is None:
            continue
        # bool is an int to isinstance, but not on the wire; Kind is a str to both.
        if isinstance(value, bool) is not (field.type is bool) or not isinstance(value, field.type):
            raise MalformedEnvelope(f"field '{name}' must be {_TYPE_NAMES[field.type]}")
        if not field.holds(value):
            raise MalformedEnvelope(f"field '{name}' must be {field.must}")
    _check_presence(fields)
    _check_target(fields)
    _check_lifetime(fields)


_TYPE_NAMES: Mapping[type, str] = {str: "text", bytes: "bytes", int: "a number", bool: "true or false"}


def _check_presence(fields: Mapping[str, Value]) -> None:
    for name in _ALWAYS:
        if name not in fields:
            raise MalformedEnvelope(f"field '{name}' is missing")
    kind = str(fields["kind"])
    for name in _REQUIRED.get(kind, ()):
        if name not in fields:
            raise MalformedEnvelope(f"field '{name}' is missing; {kind} needs it")
    if kind == Kind.PRESENCE and fields["fromSalt"] != GATEWAY_SALT:
        raise MalformedEnvelope("field 'fromSalt' must be the gateway's: PRESENCE is always from the gateway")


def _check_target(fields: Mapping[str, Value]) -> None:
    """A kind travels by one sort of key: what lands in an inbox is never a control message, and the other way round."""
    kind, to = str(fields["kind"]), str(fields["to"])
    prefix = to.partition(".")[0] if "." in to else ("inbox" if is_gid(to) else "host")
    wanted = _TARGETS.get(kind, prefix)
    if prefix != wanted:
        raise MalformedEnvelope(f"field 'to' must be {_TARGET_NAMES[wanted]} for {kind}")


_TARGETS: Mapping[str, str] = {
    Kind.SEND: "inbox",
    Kind.REPLY: "inbox",
    Kind.ASK: "inbox",
    Kind.ANSWER: "inbox",
    Kind.BROADCAST: "broadcast",
    Kind.COORD: "lead",
    Kind.PRESENCE: "roster",
    **dict.fromkeys(CONTROL_KINDS | NOTICE_KINDS, "host"),
}
_TARGET_NAMES: Mapping[str, str] = {
    "inbox": "a gid",
    "broadcast": "a broadcast key",
    "lead": "a lead key",
    "roster": "a roster key",
    "host": "a host id",
}


def _check_lifetime(fields: Mapping[str, Value]) -> None:
    kind, when = str(fields["kind"]), str(fields.get("when", "idle"))
    lifetime = int(fields["expiresAt"]) - int(fields["ts"])
    if lifetime < 0:
        raise MalformedEnvelope("field 'expiresAt' must not be before 'ts'")
    most = longest_lifetime_ms(kind, when)
    if lifetime > most:
        raise MalformedEnvelope(f"field 'expiresAt' must be at most {most} ms after 'ts' for {kind}")
