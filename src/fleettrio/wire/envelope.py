"""The envelope: what the signed header of a message says, checked field by field (`docs/wire.md`, Fields).

Rules:

1. A field that is absent is `None`. Defaults (`when` is `idle`, …) are the reader's; nothing is filled in here, or the
   bytes would change.
2. The same checks hold for what we encode and for what we decode.
3. A known field is checked on every kind that carries it; which kinds must carry it is said in `_NEEDS`. Unknown
   fields of this major version are kept in `extra` and come out again.
4. A kind that this version does not know is decoded all the same: its sender is to be told `unknown-kind`, and that
   takes a verified envelope.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fleettrio._accel import MAX_HEADER, Field, Form, KindRule, Layout, Value
from fleettrio.ids import Gid, HostId, MsgId, SpawnId, TraceId, TurnId, WallMs
from fleettrio.wire.gids import GATEWAY_SALT
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


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """One header, in attributes. Times are ms since the epoch; nothing is checked before it is encoded.

    The attributes are in the order of `_FIELDS`: the layout fills them by their places.
    """

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
    extra: Mapping[str, Value] = msgspec.field(default_factory=dict)
    """Fields of a later minor version: covered by the signature, otherwise ignored."""

    @property
    def expects_reply(self) -> bool:
        """`wantsReply`, with its default: true for a SEND that is not a warning."""
        if self.wants_reply is not None:
            return self.wants_reply
        return self.kind == Kind.SEND and self.intent != "warning"


# --- what must hold -----------------------------------------------------------------------------

_MAX_KEY_GEN = 2**31
_MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""
_MSG_ID = "a UUID version 7 in lower case"

_FIELDS = (
    Field("kind", "kind", Form.WORD, "a word in capitals"),
    Field("msgId", "msg_id", Form.MSG_ID, _MSG_ID),
    Field("traceId", "trace_id", Form.TRACE_ID, "32 hex digits"),
    Field("from", "sender", Form.GID, "a gid"),
    Field("fromSalt", "sender_salt", Form.BYTES, "16 bytes", least=16, most=16),
    Field("to", "to", Form.KEY, "a gid, a host, or a broadcast, roster or lead key"),
    Field("host", "host", Form.NAME, "a host id"),
    Field("keyGen", "key_gen", Form.NUMBER, "a generation from 1", least=1, most=_MAX_KEY_GEN),
    Field("ts", "ts", Form.NUMBER, "ms since the epoch", most=_MAX_MS),
    Field("expiresAt", "expires_at", Form.NUMBER, "ms since the epoch", most=_MAX_MS),
    Field("re", "re", Form.MSG_ID, _MSG_ID),
    Field("turnId", "turn_id", Form.PRINTABLE, "1 to 64 printable characters", least=1, most=64),
    Field("spawnId", "spawn_id", Form.GID, "a gid"),
    Field("depth", "depth", Form.NUMBER, "0 to 65536", most=2**16),
    Field("when", "when", Form.CHOICE, "idle, turn or now", choices=frozenset({"idle", "turn", "now"})),
    Field("onStale", "on_stale", Form.CHOICE, "note or drop", choices=frozenset({"note", "drop"})),
    Field("priority", "priority", Form.NUMBER, "0 to 9", most=9),
    Field(
        "intent",
        "intent",
        Form.CHOICE,
        "directive, handoff or warning",
        choices=frozenset({"directive", "handoff", "warning"}),
    ),
    Field("wantsReply", "wants_reply", Form.FLAG, "true or false"),
    Field("auto", "auto", Form.FLAG, "true or false"),
    Field("causal", "causal", Form.BYTES, "canonical CBOR", least=1, most=MAX_HEADER),
    Field("claim", "claim", Form.PRINTABLE, "1 to 200 printable characters", least=1, most=200),
    Field("supersedes", "supersedes", Form.MSG_ID, _MSG_ID),
)

_ALWAYS = ("kind", "msgId", "traceId", "from", "fromSalt", "to", "host", "keyGen", "ts", "expiresAt")
_NEEDS: Mapping[str, tuple[str, ...]] = {
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
_TARGETS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys((Kind.SEND, Kind.REPLY, Kind.ASK, Kind.ANSWER), ("inbox", "a gid")),
    Kind.BROADCAST: ("broadcast", "a broadcast key"),
    Kind.COORD: ("lead", "a lead key"),
    Kind.PRESENCE: ("roster", "a roster key"),
    **dict.fromkeys(CONTROL_KINDS | NOTICE_KINDS, ("host", "a host id")),
}


def _rule(kind: str) -> KindRule:
    target, target_name = _TARGETS.get(kind, ("", ""))
    return KindRule(
        longest_ms=longest_lifetime_ms(kind),
        longest_now_ms=longest_lifetime_ms(kind, "now"),
        needs=_NEEDS.get(kind, ()),
        target=target,
        target_name=target_name,
        salt=GATEWAY_SALT if kind == Kind.PRESENCE else b"",
    )


_LAYOUT = Layout(Envelope, VERSION, _FIELDS, _ALWAYS, {kind: _rule(kind) for kind in Kind}, _rule(""))


def encode_envelope(envelope: Envelope) -> bytes:
    """The canonical header of `envelope`. Raises `MalformedEnvelope`, naming the field, when a check fails."""
    return _LAYOUT.write(envelope)


def decode_envelope(header: bytes) -> Envelope:
    """The envelope in `header`.

    Raises `MalformedEnvelope` for bytes that are not canonical and for fields that are missing, of a wrong type or out
    of bounds, and `UnsupportedVersion` for a newer major version.
    """
    return _LAYOUT.read(header)
