"""How a body is declared: a frozen struct whose fields each say what they must be (`wire.bodies`).

`name: Annotated[type, a_word]`. What can be said in bounds is checked by the library that makes the struct; of forms,
all values of a field are looked at together. What is not as it must be is looked at once more, field by field, for the
words of its refusal. On the wire names are in camel case, and a field that equals its default is absent.
"""

from __future__ import annotations

import functools
import itertools
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import Annotated, Any, Self, TypeVar

import msgspec

from fleettrio.errors import MalformedEnvelope
from fleettrio.wire.gids import is_gid, is_msg_id, is_name
from fleettrio.wire.plain import dump_ordered, dump_plain, load_plain

__all__ = (
    "MAX_BODY",
    "Body",
    "OpenBody",
    "Record",
    "Words",
    "a_flag",
    "a_gid",
    "a_leaf",
    "a_line",
    "a_map",
    "a_msg_id",
    "a_number",
    "a_salt",
    "a_signed_number",
    "a_word",
    "an_entity_name",
    "bytes_of",
    "form",
    "list_of",
    "one_of",
    "text_up_to",
)

MAX_BODY = 256 * 1024
_MAX_DEPTH = 4
_MAX_NUMBER = 2**53
_MAX_LIST = 20_000
_HOLDS = "holds"

R = TypeVar("R", bound="Record")


# --- what a value must be, beside its type ------------------------------------------------------


def form(words: str, holds: Callable[[Any], bool], most: int | None = None) -> msgspec.Meta:
    """What `holds` says of it, in `words`; at most so many characters."""
    return msgspec.Meta(description=words, extra={_HOLDS: holds}, max_length=most)


def text_up_to(most: int) -> msgspec.Meta:
    return msgspec.Meta(description=f"text of at most {most} characters", max_length=most)


def bytes_of(length: int) -> msgspec.Meta:
    return msgspec.Meta(description=f"{length} bytes", min_length=length, max_length=length)


def one_of(*words: str) -> msgspec.Meta:
    return form("one of " + ", ".join(words), frozenset(words).__contains__)


def list_of(most: int = _MAX_LIST) -> msgspec.Meta:
    return msgspec.Meta(description=f"a list of at most {most}", max_length=most)


def _is_entity_name(value: str) -> bool:
    return is_name(value) or value == "human"


a_number = msgspec.Meta(description="a number from 0", ge=0, le=_MAX_NUMBER)
a_signed_number = msgspec.Meta(description="a number", ge=-_MAX_NUMBER, le=_MAX_NUMBER)
a_flag = msgspec.Meta(description="true or false")
a_map = msgspec.Meta(description="a map")
a_gid = form("a gid", is_gid)
a_msg_id = form("a msgId", is_msg_id)
a_word = form("at most 64 printable characters", str.isprintable, 64)
an_entity_name = form("an agent's name", _is_entity_name)
a_line = text_up_to(4096)
a_leaf = bytes_of(32)
a_salt = bytes_of(16)
Words = Annotated[tuple[Annotated[str, a_word], ...], list_of(256)]


# --- what all bodies have -----------------------------------------------------------------------


class Record(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A map with what must hold for each of its keys."""

    def to_map(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for field in _plan(type(self)):
            value = getattr(self, field.name)
            if value != field.default:
                fields[field.encode_name] = value if type(value) in _PLAIN else _simple(value)
        return fields

    @classmethod
    def from_map(cls, value: object) -> Self:
        try:
            record = msgspec.convert(value, cls, builtin_types=(bytes,))
        except msgspec.ValidationError:
            return _read_closely(cls, value)
        return record if _all_hold(cls, (record,)) else _read_closely(cls, value)


class Body(Record, frozen=True):
    """A record that is a whole body."""

    def to_bytes(self) -> bytes:
        """The canonical bytes. Raises `MalformedEnvelope` for what `from_bytes` would not take."""
        fields = self.to_map()
        self.from_map(fields)
        return dump_ordered(fields, what="body", limit=MAX_BODY)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The body in `data`. Raises `MalformedEnvelope`; the size is judged first."""
        return cls.from_map(load_plain(data, what="body", limit=MAX_BODY, depth=_MAX_DEPTH))


class OpenBody(Body, frozen=True):
    """A body that also holds plain values of any shape, whose maps may be in any order."""

    def to_bytes(self) -> bytes:
        data = dump_plain(self.to_map())
        self.from_bytes(data)
        return data


@functools.cache
def _plan(cls: type[Record]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields in the order of canonical CBOR."""
    return tuple(sorted(msgspec.structs.fields(cls), key=lambda field: (len(field.encode_name), field.encode_name)))


_PLAIN = frozenset({str, int, bytes, bool})
_LISTS = (list, tuple)


def _simple(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_map()
    if isinstance(value, tuple):
        return [_simple(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


# --- forms, of many records at once: a notice tells of 256 messages -----------------------------

_Judge = Callable[[Iterable[Any]], bool]


def _all_hold(cls: type[Record], records: Collection[Record]) -> bool:
    return all(judge(map(get, records)) for get, judge in _judges(cls))


@functools.cache
def _judges(cls: type[Record]) -> tuple[tuple[Callable[[Record], Any], _Judge], ...]:
    """For each field that has forms, itself or in what it holds."""
    judges = ((field.name, _judge_of(field.type)) for field in msgspec.structs.fields(cls))
    return tuple((attrgetter(name), judge) for name, judge in judges if judge)


def _judge_of(kind: Any) -> _Judge | None:
    kind, meta, item = _parts(kind)
    if isinstance(kind, type) and issubclass(kind, Record):
        return lambda values: _all_hold(kind, [value for value in values if value is not None])
    if item is not None:
        judge = _judge_of(item)
        return None if judge is None else lambda values: judge(itertools.chain.from_iterable(values))
    if not meta or not meta.extra:
        return None
    holds = meta.extra[_HOLDS]
    return lambda values: all(map(holds, values))


def _parts(kind: Any) -> tuple[Any, Any, Any]:
    """The type in an annotation, what it must be, and the type of its items; one that may be absent counts as it is."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        [kind] = [one for one in typing.get_args(kind) if one is not types.NoneType]
    meta = None
    if typing.get_origin(kind) is Annotated:
        kind, meta = typing.get_args(kind)
    return kind, meta, typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else None


# --- what is not as it must be ------------------------------------------------------------------


def _read_closely(cls: type[R], value: object) -> R:
    """As `Record.from_map`, field by field."""
    if type(value) is not dict:
        raise ValueError(a_map.description)
    read: dict[str, Any] = {}
    name = ""
    try:
        for field in _plan(cls):
            name = field.encode_name
            if name in value:
                read[field.name] = _read(field.type, value[name])
            elif field.required:
                raise MalformedEnvelope(f"body: `{name}` is missing")
    except ValueError as error:
        raise MalformedEnvelope(f"body: `{name}` must be {error}") from None
    return cls(**read)


def _read(annotated: Any, value: Any) -> Any:
    """Raises `ValueError` with what it must be."""
    kind, meta, item = _parts(annotated)
    if isinstance(kind, type) and issubclass(kind, Record):
        return kind.from_map(value)
    try:
        if item is not None and type(value) in _LISTS and len(value) <= meta.max_length:
            return tuple(_read(item, one) for one in value)
        read = msgspec.convert(value, annotated, builtin_types=(bytes,))
    except msgspec.ValidationError:
        raise ValueError(meta.description) from None
    if meta and meta.extra and not meta.extra[_HOLDS](read):
        raise ValueError(meta.description)
    return read
