"""Bodies between gateways: one frozen type for each kind that has one (`10-wire`, Bodies).

Each has `to_bytes()` and `from_bytes()`, which raises `MalformedEnvelope`. On the wire names are in camel case, a field
that equals its default is absent, and unknown keys are ignored: a later minor version may add some. Times are ms since
the epoch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from fleettrio.errors import MalformedEnvelope
from fleettrio.ids import FleetId, Gid, HostId, Leaf, MsgId, WallMs
from fleettrio.wire.gids import derive_gid
from fleettrio.wire.records import (
    Body,
    Record,
    a_flag,
    a_gid,
    a_leaf,
    a_line,
    a_map,
    a_msg_id,
    a_number,
    a_salt,
    a_signed_number,
    a_word,
    an_entity_name,
    anything,
    list_of,
    may,
    must,
    one_of,
    text_up_to,
)

__all__ = (
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

MAX_FATES = 256
"""Messages that one OUTCOME, QUERY or RECALL speaks of."""

# --- presence -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPresence(Body):
    """PRESENCE of a gateway: its host is there."""

    epoch: int = must(a_number)
    seq: int = must(a_number)
    roster_rev: int = must(a_number)
    trust_rev: int = must(a_number)
    entities: int = must(a_number)
    """How many entities the host has."""
    profiles: tuple[str, ...] = may(list_of(a_word, 256), ())
    kinds: tuple[str, ...] = must(list_of(a_word, 256))
    version: str = must(a_word)
    clock: WallMs = must(a_number)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EntityPresence(Body):
    """PRESENCE of an entity, and its line in a ROSTER."""

    gid: Gid = must(a_gid)
    salt: bytes = must(a_salt)
    name: str = must(an_entity_name)
    role: str = may(a_word, "")
    takes: str = must(one_of("pull", "push"))
    groups: tuple[str, ...] = may(list_of(a_word, 256), ())
    status: str = must(a_word)
    since: WallMs = must(a_number)
    harness: str = may(a_word, "")
    wakes: bool = may(a_flag, False)
    full: bool = may(a_flag, False)
    repo: str = may(a_line, "")
    head: str = may(a_line, "")
    rev: int = must(a_number)

    def lives_on(self, fleet_id: FleetId, host: HostId) -> bool:
        """Whether its salt gives its gid on `host`; an entry for which it does not is another host's, or nobody's."""
        return derive_gid(fleet_id, host, self.salt) == self.gid


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RosterPart(Body):
    """ROSTER: part `part` (from 0) of `parts` of a host's entities."""

    roster_rev: int = must(a_number)
    part: int = must(a_number)
    parts: int = must(a_number)
    entities: tuple[EntityPresence, ...] = must(list_of(EntityPresence.from_map))


# --- what became of a message -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Injected(Body):
    gid: Gid = must(a_gid)
    leaf: Leaf = must(a_leaf)
    state: str = must(one_of("confirmed", "unconfirmed"))
    via: str = may(a_word, "")
    at: WallMs = must(a_number)
    stale: str = may(a_line, "")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Body):
    gid: Gid = must(a_gid)
    leaf: Leaf = must(a_leaf)
    reason: str = must(a_word)
    detail: str = may(a_line, "")
    at: WallMs = must(a_number)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fate(Record):
    """What a host knows of one message to one recipient."""

    msg_id: MsgId = must(a_msg_id)
    gid: Gid = must(a_gid)
    leaf: Leaf = must(a_leaf)
    state: str = must(a_word)
    reason: str = may(a_word, "")
    detail: str = may(a_line, "")
    via: str = may(a_word, "")
    at: WallMs = must(a_number)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Body):
    fates: tuple[Fate, ...] = must(list_of(Fate.from_map, MAX_FATES))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QuestionItem(Record):
    msg_id: MsgId = must(a_msg_id)
    gid: Gid = must(a_gid)
    leaf: Leaf = must(a_leaf)
    expires_at: WallMs = must(a_number)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question(Body):
    """QUERY and RECALL: which messages are meant."""

    items: tuple[QuestionItem, ...] = must(list_of(QuestionItem.from_map, MAX_FATES))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TurnNotice(Body):
    """NO_WAITER, TOO_LATE, ABANDONED."""

    gid: Gid = must(a_gid)
    reason: str = may(a_word, "")
    at: WallMs = must(a_number)


# --- control ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PingBody(Body):
    at: WallMs = must(a_number)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PongBody(Body):
    at: WallMs = must(a_number)
    version: str = must(a_word)
    offset: int = must(a_signed_number)
    """Answering clock minus asking clock, in ms."""
    key_gen: int = must(a_number)
    trust_rev: int = must(a_number)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpawnBody(Body):
    profile: str = must(text_up_to(32))
    name: str = may(text_up_to(32), "")
    groups: tuple[str, ...] = may(list_of(a_word, 256), ())
    cwd: str = may(a_line, "")
    worktree: bool = may(a_flag, False)
    salt: bytes = must(a_salt)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StopBody(Body):
    gid: Gid = must(a_gid)
    reason: str = may(a_line, "")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PauseBody(Body):
    """`target` is an agent, a host, a trace or `all`; `on` is false for resume."""

    target: str = must(text_up_to(128))
    on: bool = must(a_flag)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TracedBody(Body):
    """Journal rows about a trace; `cut` when there are more."""

    rows: tuple[Mapping[str, Any], ...] = must(list_of(a_map))
    cut: bool = must(a_flag)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RpcCall(Record):
    name: str = must(a_word)
    args: Mapping[str, Any] = must(a_map)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RpcBody(Body):
    """Exactly one of the four: a call, its result (any plain value), its error, or that it is not wanted any more."""

    call: RpcCall | None = may(RpcCall.from_map, None)
    result: Any = may(anything, None)
    error: str | None = may(a_line, None)
    cancel: bool = may(a_flag, False)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        body = super(RpcBody, cls).from_bytes(data)
        if [body.call is None, body.result is None, body.error is None, not body.cancel].count(False) != 1:
            raise MalformedEnvelope("body: must have exactly one of `call`, `result`, `error` and `cancel`")
        return body
