"""Bodies between gateways: one frozen type for each kind that has one (`10-wire`, Bodies).

Each has `to_bytes()` and `from_bytes()`, which raises `MalformedEnvelope`. On the wire names are in camel case, a field
that equals its default is absent, and unknown keys are ignored: a later minor version may add some. Times are ms since
the epoch.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, Self

from fleettrio.errors import MalformedEnvelope
from fleettrio.ids import FleetId, Gid, HostId, Leaf, MsgId, WallMs
from fleettrio.wire.gids import derive_gid, is_gid, is_msg_id, is_name
from fleettrio.wire.plain import dump_plain, load_plain

__all__ = (
    "MAX_BODY",
    "MAX_FATES",
    "EntityPresence",
    "Failed",
    "Fate",
    "GatewayPresence",
    "Injected",
    "Outcome",
    "PauseBody",
    "PingBody",
    "PongBody",
    "Question",
    "QuestionItem",
    "RosterPart",
    "RpcBody",
    "RpcCall",
    "SpawnBody",
    "StopBody",
    "TracedBody",
    "TurnNotice",
)

MAX_BODY = 256 * 1024
MAX_FATES = 256
"""Messages that one OUTCOME, QUERY or RECALL speaks of."""

_MAX_DEPTH = 4
_MAX_NUMBER = 2**53
_MAX_LIST = 20_000


# --- readers: from what CBOR gave to what the attribute holds; `ValueError` says what it must be -----


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_NUMBER:
        raise ValueError("a number from 0")
    return value


def _signed(value: object) -> int:
    if type(value) is not int or not -_MAX_NUMBER <= value <= _MAX_NUMBER:
        raise ValueError("a number")
    return value


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError("true or false")
    return value


def _text(most: int) -> Callable[[object], str]:
    def read(value: object) -> str:
        if type(value) is not str or len(value) > most:
            raise ValueError(f"text of at most {most} characters")
        return value

    return read


def _bytes(length: int) -> Callable[[object], bytes]:
    def read(value: object) -> bytes:
        if type(value) is not bytes or len(value) != length:
            raise ValueError(f"{length} bytes")
        return value

    return read


def _gid(value: object) -> Gid:
    if type(value) is not str or not is_gid(value):
        raise ValueError("a gid")
    return Gid(value)


def _msg_id(value: object) -> MsgId:
    if type(value) is not str or not is_msg_id(value):
        raise ValueError("a msgId")
    return MsgId(value)


def _one_of(*words: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError("one of " + ", ".join(words))
        return str(value)

    return read


def _list_of(read_item: Callable[[object], Any], most: int = _MAX_LIST) -> Callable[[object], tuple[Any, ...]]:
    def read(value: object) -> tuple[Any, ...]:
        if type(value) is not list or len(value) > most:
            raise ValueError(f"a list of at most {most}")
        return tuple(read_item(item) for item in value)

    return read


def _map(value: object) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError("a map")
    return value


def _word(value: object) -> str:
    if type(value) is not str or len(value) > 64 or not value.isprintable():
        raise ValueError("at most 64 printable characters")
    return value


def _entity_name(value: object) -> str:
    if type(value) is not str or not (is_name(value) or value == "human"):
        raise ValueError("an agent's name")
    return value


def _plain(value: object) -> Any:
    return value


_line = _text(4096)
_leaf = _bytes(32)
_salt = _bytes(16)


# --- what all bodies have -----------------------------------------------------------------------


def _must(read: Callable[[object], Any]) -> Any:
    return dataclasses.field(metadata={"read": read})


def _may(read: Callable[[object], Any], default: Any) -> Any:
    return dataclasses.field(default=default, metadata={"read": read})


class _Record:
    """A map with a reader for each of its keys."""

    __slots__ = ()

    def _to_map(self) -> dict[str, Any]:
        values = ((field, getattr(self, field.name)) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return {_camel(field.name): _simple(value) for field, value in values if value != field.default}

    @classmethod
    def _from_map(cls, value: object) -> Self:
        fields = _map(value)
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


class _Body(_Record):
    """A record that is a whole body."""

    __slots__ = ()

    def to_bytes(self) -> bytes:
        """The canonical bytes. Raises `MalformedEnvelope` for what `from_bytes` would not take."""
        data = dump_plain(self._to_map())
        self.from_bytes(data)
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The body in `data`. Raises `MalformedEnvelope`; the size is judged first."""
        return cls._from_map(load_plain(data, what="body", limit=MAX_BODY, depth=_MAX_DEPTH))


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


def _simple(value: Any) -> Any:
    if isinstance(value, _Record):
        return value._to_map()
    if isinstance(value, tuple):
        return [_simple(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


# --- presence -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPresence(_Body):
    """PRESENCE of a gateway: its host is there."""

    epoch: int = _must(_number)
    seq: int = _must(_number)
    roster_rev: int = _must(_number)
    trust_rev: int = _must(_number)
    entities: int = _must(_number)
    """How many entities the host has."""
    profiles: tuple[str, ...] = _may(_list_of(_word, 256), ())
    kinds: tuple[str, ...] = _must(_list_of(_word, 256))
    version: str = _must(_word)
    clock: WallMs = _must(_number)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EntityPresence(_Body):
    """PRESENCE of an entity, and its line in a ROSTER."""

    gid: Gid = _must(_gid)
    salt: bytes = _must(_salt)
    name: str = _must(_entity_name)
    role: str = _may(_word, "")
    takes: str = _must(_one_of("pull", "push"))
    groups: tuple[str, ...] = _may(_list_of(_word, 256), ())
    status: str = _must(_word)
    since: WallMs = _must(_number)
    harness: str = _may(_word, "")
    wakes: bool = _may(_flag, False)
    full: bool = _may(_flag, False)
    repo: str = _may(_line, "")
    head: str = _may(_line, "")
    rev: int = _must(_number)

    def lives_on(self, fleet_id: FleetId, host: HostId) -> bool:
        """Whether its salt gives its gid on `host`; an entry for which it does not is another host's, or nobody's."""
        return derive_gid(fleet_id, host, self.salt) == self.gid


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RosterPart(_Body):
    """ROSTER: part `part` (from 0) of `parts` of a host's entities."""

    roster_rev: int = _must(_number)
    part: int = _must(_number)
    parts: int = _must(_number)
    entities: tuple[EntityPresence, ...] = _must(_list_of(EntityPresence._from_map))


# --- what became of a message -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Injected(_Body):
    gid: Gid = _must(_gid)
    leaf: Leaf = _must(_leaf)
    state: str = _must(_one_of("confirmed", "unconfirmed"))
    via: str = _may(_word, "")
    at: WallMs = _must(_number)
    stale: str = _may(_line, "")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failed(_Body):
    gid: Gid = _must(_gid)
    leaf: Leaf = _must(_leaf)
    reason: str = _must(_word)
    detail: str = _may(_line, "")
    at: WallMs = _must(_number)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fate(_Record):
    """What a host knows of one message to one recipient."""

    msg_id: MsgId = _must(_msg_id)
    gid: Gid = _must(_gid)
    leaf: Leaf = _must(_leaf)
    state: str = _must(_word)
    reason: str = _may(_word, "")
    detail: str = _may(_line, "")
    via: str = _may(_word, "")
    at: WallMs = _must(_number)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(_Body):
    fates: tuple[Fate, ...] = _must(_list_of(Fate._from_map, MAX_FATES))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QuestionItem(_Record):
    msg_id: MsgId = _must(_msg_id)
    gid: Gid = _must(_gid)
    leaf: Leaf = _must(_leaf)
    expires_at: WallMs = _must(_number)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question(_Body):
    """QUERY and RECALL: which messages are meant."""

    items: tuple[QuestionItem, ...] = _must(_list_of(QuestionItem._from_map, MAX_FATES))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TurnNotice(_Body):
    """NO_WAITER, TOO_LATE, ABANDONED."""

    gid: Gid = _must(_gid)
    reason: str = _may(_word, "")
    at: WallMs = _must(_number)


# --- control ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PingBody(_Body):
    at: WallMs = _must(_number)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PongBody(_Body):
    at: WallMs = _must(_number)
    version: str = _must(_word)
    offset: int = _must(_signed)
    """Answering clock minus asking clock, in ms."""
    key_gen: int = _must(_number)
    trust_rev: int = _must(_number)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpawnBody(_Body):
    profile: str = _must(_text(32))
    name: str = _may(_text(32), "")
    groups: tuple[str, ...] = _may(_list_of(_word, 256), ())
    cwd: str = _may(_line, "")
    worktree: bool = _may(_flag, False)
    salt: bytes = _must(_salt)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StopBody(_Body):
    gid: Gid = _must(_gid)
    reason: str = _may(_line, "")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PauseBody(_Body):
    """`target` is an agent, a host, a trace or `all`; `on` is false for resume."""

    target: str = _must(_text(128))
    on: bool = _must(_flag)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TracedBody(_Body):
    """Journal rows about a trace; `cut` when there are more."""

    rows: tuple[Mapping[str, Any], ...] = _must(_list_of(_map))
    cut: bool = _must(_flag)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RpcCall(_Record):
    name: str = _must(_word)
    args: Mapping[str, Any] = _must(_map)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RpcBody(_Body):
    """Exactly one of the four: a call, its result (any plain value), its error, or that it is not wanted any more."""

    call: RpcCall | None = _may(RpcCall._from_map, None)
    result: Any = _may(_plain, None)
    error: str | None = _may(_line, None)
    cancel: bool = _may(_flag, False)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        body = super(RpcBody, cls).from_bytes(data)
        if [body.call is None, body.result is None, body.error is None, not body.cancel].count(False) != 1:
            raise MalformedEnvelope("body: must have exactly one of `call`, `result`, `error` and `cancel`")
        return body
