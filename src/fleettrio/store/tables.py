"""How a row of `core.rows` lies in its table: one column per field, under the field's name.

Tuples of words are kept as JSON; enums and booleans as SQLite has them.
"""

# ruff: noqa: S608  (SQL is put together from constants of this package; values are always bound)

from __future__ import annotations

import dataclasses
import enum
import json
import typing
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fleettrio.core.rows import Entity, InboxRow, Peer, PeerEntity, SentRow
from fleettrio.ids import Gid, MsgId, TraceId, WallMs

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = (
    "BUS",
    "ENTITY",
    "JOURNAL",
    "LEDGER",
    "OUTBOX",
    "PEER",
    "PEER_ENTITY",
    "JournalRow",
    "StoredMessage",
    "Table",
)


@dataclasses.dataclass(frozen=True, slots=True)
class StoredMessage:
    """The bytes of a message as they came: what was signed, and the body."""

    header: bytes
    sig: bytes
    proof: bytes
    body: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class JournalRow:
    """One thing that happened. Never holds a body."""

    at: WallMs
    what: str
    """The state reached, `agent <status>` for an entity, or the word of a note."""
    msg_id: MsgId | None
    gid: Gid | None
    trace_id: TraceId | None
    peer: str
    reason: str
    detail: str
    ms: int
    """Since the message arrived here, or was sent from here; 0 where there is no such moment."""


R = TypeVar("R", bound="DataclassInstance")


def _decoder(kind: object) -> Callable[[Any], object] | None:
    if kind is bool:
        return bool
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind
    if typing.get_origin(kind) is tuple:
        return lambda text: tuple(json.loads(text))
    return None


class Table(Generic[R]):
    """Column list and codec of one table."""

    def __init__(self, name: str, row: type[R]) -> None:
        self.name = name
        self.fields = tuple(field.name for field in dataclasses.fields(row))
        self.columns = ", ".join(f'"{field}"' for field in self.fields)
        self._row = row
        self._values = attrgetter(*self.fields)
        hints = typing.get_type_hints(row)
        decoders = ((index, _decoder(hints[field])) for index, field in enumerate(self.fields))
        self._decoders = tuple((index, decoder) for index, decoder in decoders if decoder is not None)
        self._tuples = tuple(i for i, field in enumerate(self.fields) if typing.get_origin(hints[field]) is tuple)

    def replacing(self) -> str:
        """The statement that writes a row whole, in the place of any other with its key."""
        marks = ", ".join("?" * len(self.fields))
        return f"INSERT OR REPLACE INTO {self.name}({self.columns}) VALUES ({marks})"

    def upsert(self, keys: Sequence[str], kept_if_empty: Sequence[str] = ()) -> str:
        """The statement that writes a row; an existing one keeps its `kept_if_empty` where the new value is empty."""
        changes = ", ".join(
            f'"{field}" = iif(length(excluded."{field}"), excluded."{field}", "{field}")'
            if field in kept_if_empty
            else f'"{field}" = excluded."{field}"'
            for field in self.fields
            if field not in keys
        )
        marks = ", ".join("?" * len(self.fields))
        return (
            f"INSERT INTO {self.name}({self.columns}) VALUES ({marks}) "
            f"ON CONFLICT({', '.join(keys)}) DO UPDATE SET {changes}"
        )

    def values(self, row: R) -> tuple[object, ...]:
        values: tuple[object, ...] = self._values(row)
        if not self._tuples:
            return values
        changed = list(values)
        for index in self._tuples:
            changed[index] = json.dumps(changed[index])
        return tuple(changed)

    def row(self, values: Sequence[Any]) -> R:
        """The row of `values`, which are in the order of `columns`."""
        decoded = list(values)
        for index, decode in self._decoders:
            decoded[index] = decode(decoded[index])
        return self._row(**dict(zip(self.fields, decoded, strict=True)))


LEDGER = Table("ledger", InboxRow)
OUTBOX = Table("outbox", SentRow)
ENTITY = Table("entity", Entity)
PEER = Table("peer", Peer)
PEER_ENTITY = Table("peer_entity", PeerEntity)
JOURNAL = Table("journal", JournalRow)
BUS = Table("bus", StoredMessage)
