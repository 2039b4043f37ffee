"""How a body is declared: a frozen dataclass whose fields each have a reader (`wire.bodies`).

A reader takes what CBOR gave and returns what the attribute holds, or raises `ValueError` with what it must be. On the
wire names are in camel case, and a field that equals its default is absent.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, Self

from fleettrio.errors import MalformedEnvelope
from fleettrio.ids import Gid, MsgId
from fleettrio.wire.gids import is_gid, is_msg_id, is_name
from fleettrio.wire.plain import dump_plain, load_plain

__all__ = (
    "MAX_BODY",
    "Body",
    "Record",
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
    "anything",
    "list_of",
    "may",
    "must",
    "one_of",
    "text_up_to",
)

MAX_BODY = 256 * 1024
_MAX_DEPTH = 4
_MAX_NUMBER = 2**53
_MAX_LIST = 20_000


# --- readers: from what CBOR gave to what the attribute holds; `ValueError` says what it must be -----


def a_number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_NUMBER:
        raise ValueError("a number from 0")
    return value


def a_signed_number(value: object) -> int:
    if type(value) is not int or not -_MAX_NUMBER <= value <= _MAX_NUMBER:
        raise ValueError("a number")
    return value


def a_flag(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError("true or false")
    return value


def text_up_to(most: int) -> Callable[[object], str]:
    def read(value: object) -> str:
        if type(value) is not str or len(value) > most:
            raise ValueError(f"text of at most {most} characters")
        return value

    return read


def bytes_of(length: int) -> Callable[[object], bytes]:
    def read(value: object) -> bytes:
        if type(value) is not bytes or len(value) != length:
            raise ValueError(f"{length} bytes")
        return value

    return read


def a_gid(value: object) -> Gid:
    if type(value) is not str or not is_gid(value):
        raise ValueError("a gid")
    return Gid(value)


def a_msg_id(value: object) -> MsgId:
    if type(value) is not str or not is_msg_id(value):
        raise ValueError("a msgId")
    return MsgId(value)


def one_of(*words: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError("one of " + ", ".join(words))
        return str(value)

    return read


def list_of(read_item: Callable[[object], Any], most: int = _MAX_LIST) -> Callable[[object], tuple[Any, ...]]:
    def read(value: object) -> tuple[Any, ...]:
        if type(value) is not list or len(value) > most:
            raise ValueError(f"a list of at most {most}")
        return tuple(read_item(item) for item in value)

    return read


def a_map(value: object) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError("a map")
    return value


def a_word(value: object) -> str:
    if type(value) is not str or len(value) > 64 or not value.isprintable():
        raise ValueError("at most 64 printable characters")
    return value


def an_entity_name(value: object) -> str:
    if type(value) is not str or not (is_name(value) or value == "human"):
        raise ValueError("an agent's name")
    return value


def anything(value: object) -> Any:
    return value


a_line = text_up_to(4096)
a_leaf = bytes_of(32)
a_salt = bytes_of(16)


# --- what all bodies have -----------------------------------------------------------------------


def must(read: Callable[[object], Any]) -> Any:
    return dataclasses.field(metadata={"read": read})


def may(read: Callable[[object], Any], default: Any) -> Any:
    return dataclasses.field(default=default, metadata={"read": read})


class Record:
    """A map with a reader for each of its keys."""

    __slots__ = ()

    def to_map(self) -> dict[str, Any]:
        values = ((field, getattr(self, field.name)) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return {_camel(field.name): _simple(value) for field, value in values if value != field.default}

    @classmethod
    def from_map(cls, value: object) -> Self:
        fields = a_map(value)
        read: dict[str, Any] = {}
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            name = _camel(field.name)
            if name in fields:
                try:
                    read[field.name] = field.metadata["read"](fields[name])
                except ValueError as error:
                    raise MalformedEnvelope(f"body: `{name}` must be {error}") from None
            elif field.default is dataclasses.MISSING:
                raise MalformedEnvelope(f"body: `{name}` is missing")
        return cls(**read)


class Body(Record):
    """A record that is a whole body."""

    __slots__ = ()

    def to_bytes(self) -> bytes:
        """The canonical bytes. Raises `MalformedEnvelope` for what `from_bytes` would not take."""
        data = dump_plain(self.to_map())
        self.from_bytes(data)
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The body in `data`. Raises `MalformedEnvelope`; the size is judged first."""
        return cls.from_map(load_plain(data, what="body", limit=MAX_BODY, depth=_MAX_DEPTH))


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


def _simple(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_map()
    if isinstance(value, tuple):
        return [_simple(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value
