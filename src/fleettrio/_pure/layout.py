"""A header laid out: which fields there are, what must hold for each, and for each kind of message.

Rules:

1. What is read and what is written is checked alike: fields by themselves, then which there must be, where that kind
   may go, and how long it may live.
2. A field without an entry is kept as it is; a kind without an entry is taken with whatever it brings.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from fleettrio._pure.forms import is_gid, is_key, is_msg_id, is_name, is_trace_id, is_word
from fleettrio._pure.header import Value, decode_header, encode_header
from fleettrio.errors import MalformedEnvelope, UnsupportedVersion

__all__ = ("Field", "Form", "KindRule", "Layout")

T = TypeVar("T")


class Form(enum.IntEnum):
    """What a value must be, beside the bounds of its field."""

    WORD = 0
    MSG_ID = 1
    TRACE_ID = 2
    GID = 3
    NAME = 4
    KEY = 5
    PRINTABLE = 6
    """Text of `least` to `most` characters."""
    CHOICE = 7
    """One of `choices`."""
    BYTES = 8
    """`least` to `most` of them."""
    NUMBER = 9
    """From `least` to `most`."""
    FLAG = 10


_TEXTS = {
    Form.WORD: is_word,
    Form.MSG_ID: is_msg_id,
    Form.TRACE_ID: is_trace_id,
    Form.GID: is_gid,
    Form.NAME: is_name,
    Form.KEY: is_key,
}
_TYPES: Mapping[Form, tuple[type, str]] = {
    **dict.fromkeys(Form, (str, "text")),
    Form.BYTES: (bytes, "bytes"),
    Form.NUMBER: (int, "a number"),
    Form.FLAG: (bool, "true or false"),
}


class Field(msgspec.Struct, frozen=True):
    """One field: its name on the wire, the attribute that it fills, and in words what it must be."""

    name: str
    attribute: str
    form: Form
    must: str
    least: int = 0
    most: int = 0
    choices: frozenset[str] = frozenset()

    def holds(self, value: Any) -> bool:
        """Whether `value`, of the right type, is within the form and its bounds."""
        match self.form:
            case Form.NUMBER:
                return bool(self.least <= value <= self.most)
            case Form.BYTES:
                return self.least <= len(value) <= self.most
            case Form.PRINTABLE:
                return self.least <= len(value) <= self.most and value.isprintable()
            case Form.CHOICE:
                return value in self.choices
            case Form.FLAG:
                return True
            case form:
                return _TEXTS[form](value)


class KindRule(msgspec.Struct, frozen=True):
    """What one kind asks for, beyond what every message has."""

    longest_ms: int
    """The most that `expiresAt` may lie after `ts`."""
    longest_now_ms: int
    """The same where `when` is `now`."""
    needs: tuple[str, ...] = ()
    target: str = ""
    """Where it goes: `inbox` (a gid), `host`, or the first word of a key; empty: anywhere."""
    target_name: str = ""
    salt: bytes = b""
    """The only `fromSalt` it may have; empty: any."""


class Layout(Generic[T]):
    """Reads headers into instances of `cls`, a struct, and writes them."""

    def __init__(
        self,
        cls: type[T],
        version: int,
        fields: Sequence[Field],
        always: Sequence[str],
        kinds: Mapping[str, KindRule],
        other_kind: KindRule,
    ) -> None:
        """`cls` has an attribute for each of `fields`, in order, None where it is absent, and `extra` for all others.

        Raises `TypeError` for a class that has others.
        """
        if getattr(cls, "__struct_fields__", ()) != (*(field.attribute for field in fields), "extra"):
            raise TypeError(f"{cls.__name__} has not the attributes of this layout")
        self._cls: Callable[..., T] = cls
        self._version = version
        self._fields = {field.name: field for field in fields}
        self._always = tuple(always)
        self._kinds = dict(kinds)
        self._other_kind = other_kind

    def read(self, header: bytes) -> T:
        """The record in `header`.

        Raises `MalformedEnvelope` for bytes that are not canonical and for fields that are missing, of a wrong type or
        out of bounds, and `UnsupportedVersion` for a newer major version.
        """
        fields = decode_header(header)
        self._check(fields)
        extra = {name: value for name, value in fields.items() if name not in self._fields and name != "v"}
        return self._cls(*map(fields.get, self._fields), extra)

    def write(self, record: T) -> bytes:
        """The canonical header of `record`. Raises `MalformedEnvelope`, naming the field, when a check fails."""
        fields: dict[str, Value] = {"v": self._version}
        for name, field in self._fields.items():
            value = getattr(record, field.attribute)
            if value is not None:
                fields[name] = value
        extra: Mapping[str, Value] = record.extra  # type: ignore[attr-defined]
        for name, value in extra.items():
            if name == "v" or name in self._fields:
                raise MalformedEnvelope(f"field {name!a} has an attribute of its own and cannot be extra")
            fields[name] = value
        self._check(fields)
        return encode_header(fields)

    def _check(self, fields: Mapping[str, Value]) -> None:
        version = fields.get("v")
        if type(version) is not int or version < 1:
            raise MalformedEnvelope("field 'v' must be the version, a number from 1")
        if version != self._version:
            raise UnsupportedVersion(f"version {version}; this gateway speaks {self._version}")
        for name, value in fields.items():
            field = self._fields.get(name)
            if field is None:
                continue
            kind, kind_name = _TYPES[field.form]
            # bool is an int to isinstance, but not on the wire; an enumeration of words is text to both.
            if isinstance(value, bool) is not (kind is bool) or not isinstance(value, kind):
                raise MalformedEnvelope(f"field '{name}' must be {kind_name}")
            if not field.holds(value):
                raise MalformedEnvelope(f"field '{name}' must be {field.must}")
        for name in self._always:
            if name not in fields:
                raise MalformedEnvelope(f"field '{name}' is missing")
        self._check_kind(fields, self._kinds.get(str(fields["kind"]), self._other_kind))

    def _check_kind(self, fields: Mapping[str, Value], rule: KindRule) -> None:
        kind, to = str(fields["kind"]), str(fields["to"])
        for name in rule.needs:
            if name not in fields:
                raise MalformedEnvelope(f"field '{name}' is missing; {kind} needs it")
        if rule.salt and fields["fromSalt"] != rule.salt:
            raise MalformedEnvelope(f"field 'fromSalt' must be the gateway's: {kind} is always from the gateway")
        # A kind travels by one sort of key: what lands in an inbox is never a control message, nor the other way round.
        target = to.partition(".")[0] if "." in to else ("inbox" if is_gid(to) else "host")
        if rule.target and target != rule.target:
            raise MalformedEnvelope(f"field 'to' must be {rule.target_name} for {kind}")
        lifetime = int(fields["expiresAt"]) - int(fields["ts"])
        if lifetime < 0:
            raise MalformedEnvelope("field 'expiresAt' must not be before 'ts'")
        most = rule.longest_now_ms if fields.get("when") == "now" else rule.longest_ms
        if lifetime > most:
            raise MalformedEnvelope(f"field 'expiresAt' must be at most {most} ms after 'ts' for {kind}")
