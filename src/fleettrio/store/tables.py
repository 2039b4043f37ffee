"""How a row of `core.rows` lies in its table: one column per field, under the field's name.

Tuples of words are kept as JSON; enums and booleans as plain words and numbers: those the driver binds several times
quicker than what it must ask first for how it wants to be bound.
"""

# ruff: noqa: S608  (SQL is put together from constants of this package; values are always bound)

from __future__ import annotations

import enum
import json
import typing
from collections.abc import Callable, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec

from fleettrio.core.entity import Entity
from fleettrio.core.peer import Peer, PeerEntity
from fleettrio.core.rows import Claim, Due, InboxRow, JournalRow, SentRow
from fleettrio.core.spawned import SpawnRow

__all__ = (
    "BUS",
    "CLAIM",
    "DUE",
    "ENTITY",
    "JOURNAL",
    "LEDGER",
    "OUTBOX",
    "PEER",
    "PEER_ENTITY",
    "SPAWN",
    "MessageTable",
    "StoredMessage",
    "Table",
)


class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """The bytes of a message as they came: what was signed, and the body."""

    header: bytes
    sig: bytes
    proof: bytes
    body: bytes


R = TypeVar("R", bound=msgspec.Struct)


def _decoder(kind: object) -> Callable[[Any], object] | None:
    if kind is bool:
        return bool
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind
    if typing.get_origin(kind) is tuple:
        return lambda text: tuple(json.loads(text))
    return None


def _plain(field: str, kind: object) -> str:
    """The attribute of a field that SQLite's driver takes as it is."""
    if kind is bool:
        return f"{field}.real"
    is_enum = isinstance(kind, type) and issubclass(kind, enum.Enum)
    return f"{field}._value_" if is_enum else field


class Table(Generic[R]):
    """Column list and codec of one table."""

    def __init__(self, name: str, row: type[R]) -> None:
        self.name = name
        self.fields = row.__struct_fields__
        self.columns = ", ".join(f'"{field}"' for field in self.fields)
        self._row = row
        hints = typing.get_type_hints(row)
        self._values = attrgetter(*(_plain(field, hints[field]) for field in self.fields))
        decoders = ((index, _decoder(hints[field])) for index, field in enumerate(self.fields))
        self._decoders = tuple((index, decoder) for index, decoder in decoders if decoder is not None)
        self._tuples = tuple(i for i, field in enumerate(self.fields) if typing.get_origin(hints[field]) is tuple)

    def replacing(self) -> str:
        """The statement that writes a row whole, in the place of any other with its key."""
        marks = ", ".join("?" * len(self.fields))
        return f"INSERT OR REPLACE INTO {self.name}({self.columns}) VALUES ({marks})"

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


class MessageTable(Table[R]):
    """A table of messages, by message and entity; beside the fields of its rows it has their steps (`store.journal`).

    `changing`: the fields that change while a row is about the same message, by its leaf. `kept_if_empty`: those of
    which a row keeps what it has where the new value is empty.
    """

    def __init__(self, name: str, row: type[R], changing: Sequence[str], kept_if_empty: Sequence[str] = ()) -> None:
        super().__init__(name, row)
        hints = typing.get_type_hints(row)
        self.changing_values = attrgetter(*(_plain(field, hints[field]) for field in changing))
        marks = ", ".join("?" * len(self.fields))
        insert = f"INSERT INTO {name}({self.columns}, steps) VALUES ({marks}, ?) ON CONFLICT(msg_id, gid) DO "
        replaced = ", ".join(
            f'"{field}" = iif(length(excluded."{field}"), excluded."{field}", "{field}")'
            if field in kept_if_empty
            else f'"{field}" = excluded."{field}"'
            for field in self.fields
            if field not in ("msg_id", "gid")
        )
        is_said = "substr(steps, -length(excluded.steps)) = excluded.steps"
        self.whole = f"{insert} UPDATE SET {replaced}, steps = iif({is_said}, steps, steps || excluded.steps)"
        """Writes a row whole, in the place of any other with its key; what it said last is not said again."""
        self.whole_if_missing = f"{insert} NOTHING"
        self._changing = tuple(changing)
        self._kept_if_empty = tuple(kept_if_empty)
        self._changes: dict[tuple[bool, ...], str] = {}

    def over(self, row: R, newer: R) -> R:
        """What is there when `newer` is written over `row`."""
        if not self._kept_if_empty:
            return newer
        kept = {field: getattr(row, field) for field in self._kept_if_empty if not getattr(newer, field)}
        return msgspec.structs.replace(newer, **kept) if kept else newer

    def change(self, which: tuple[bool, ...]) -> str:
        """The statement that writes those of the changing fields, of a row that is there: an index is touched only for
        what is written."""
        if not (sql := self._changes.get(which)):
            changes = "".join(f'"{field}" = ?, ' for field in compress(self._changing, which))
            sql = f"UPDATE {self.name} SET {changes}steps = steps || ? WHERE msg_id = ? AND gid = ?"
            self._changes[which] = sql
        return sql


LEDGER = MessageTable(
    "ledger",
    InboxRow,
    changing=("state", "reason", "detail", "via", "at", "repeat", "notified", "held", "stale", "answer"),
)
OUTBOX = MessageTable(
    "outbox",
    SentRow,
    changing=(
        "state",
        "reason",
        "detail",
        "via",
        "said_by",
        "at",
        "answered_by",
        "recalling",
        "answer",
        "owes",
        "stale",
    ),
    kept_if_empty=("leaf", "header", "sig", "proof"),
)
ENTITY = Table("entity", Entity)
CLAIM = Table("claim", Claim)
DUE = Table("due", Due)
PEER = Table("peer", Peer)
PEER_ENTITY = Table("peer_entity", PeerEntity)
SPAWN = Table("spawn", SpawnRow)
JOURNAL = Table("journal", JournalRow)
BUS = Table("bus", StoredMessage)
