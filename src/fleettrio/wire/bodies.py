"""Bodies between gateways: one frozen type for each kind that has one.

Each has `to_bytes()` and `from_bytes()`, which raises `MalformedEnvelope`. On the wire names are in camel case, a field
that equals its default is absent, and unknown keys are ignored: a later minor version may add some. Times are ms since
the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

import msgspec

from fleettrio.errors import MalformedEnvelope
from fleettrio.ids import FleetId, Gid, HostId, Leaf, MsgId, WallMs
from fleettrio.wire.gids import derive_gid
from fleettrio.wire.records import (
    Body,
    OpenBody,
    Record,
    Words,
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
    list_of,
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


class GatewayPresence(Body, frozen=True, kw_only=True):
    """PRESENCE of a gateway: its host is there."""

    epoch: Annotated[int, a_number]
    seq: Annotated[int, a_number]
    roster_rev: Annotated[int, a_number]
    trust_rev: Annotated[int, a_number]
    entities: Annotated[int, a_number]
    """How many entities the host has."""
    profiles: Words = ()
    kinds: Words
    version: Annotated[str, a_word]
    clock: Annotated[WallMs, a_number]
    leaving: Annotated[bool, a_flag] = False
    """The last beat of a daemon that was told to end."""


class EntityPresence(Body, frozen=True, kw_only=True):
    """PRESENCE of an entity, and its line in a ROSTER."""

    gid: Annotated[Gid, a_gid]
    salt: Annotated[bytes, a_salt]
    name: Annotated[str, an_entity_name]
    role: Annotated[str, a_word] = ""
    takes: Annotated[str, one_of("pull", "push")]
    groups: Words = ()
    status: Annotated[str, a_word]
    since: Annotated[WallMs, a_number]
    harness: Annotated[str, a_word] = ""
    wakes: Annotated[bool, a_flag] = False
    full: Annotated[bool, a_flag] = False
    repo: Annotated[str, a_line] = ""
    head: Annotated[str, a_line] = ""
    rev: Annotated[int, a_number]

    def lives_on(self, fleet_id: FleetId, host: HostId) -> bool:
        """Whether its salt gives its gid on `host`; an entry for which it does not is another host's, or nobody's."""
        return derive_gid(fleet_id, host, self.salt) == self.gid


class RosterPart(Body, frozen=True, kw_only=True):
    """ROSTER: part `part` (from 0) of `parts` of a host's entities."""

    roster_rev: Annotated[int, a_number]
    part: Annotated[int, a_number]
    parts: Annotated[int, a_number]
    entities: Annotated[tuple[EntityPresence, ...], list_of()]


# --- what became of a message -------------------------------------------------------------------


class Injected(Body, frozen=True, kw_only=True):
    gid: Annotated[Gid, a_gid]
    leaf: Annotated[Leaf, a_leaf]
    state: Annotated[str, one_of("confirmed", "unconfirmed")]
    via: Annotated[str, a_word] = ""
    at: Annotated[WallMs, a_number]
    stale: Annotated[str, a_line] = ""


class Failed(Body, frozen=True, kw_only=True):
    gid: Annotated[Gid, a_gid]
    leaf: Annotated[Leaf, a_leaf]
    reason: Annotated[str, a_word]
    detail: Annotated[str, a_line] = ""
    at: Annotated[WallMs, a_number]


class Fate(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What a host knows of one message to one recipient. Many are told at once: its fields lie as they are written, in
    the order of canonical CBOR."""

    at: Annotated[WallMs, a_number]
    gid: Annotated[Gid, a_gid]
    via: Annotated[str, a_word] = ""
    leaf: Annotated[Leaf, a_leaf]
    msg_id: Annotated[MsgId, a_msg_id]
    stale: Annotated[str, a_line] = ""
    state: Annotated[str, a_word]
    detail: Annotated[str, a_line] = ""
    reason: Annotated[str, a_word] = ""


class Outcome(Body, frozen=True, kw_only=True):
    fates: Annotated[tuple[Fate, ...], list_of(MAX_FATES)]

    def to_map(self) -> dict[str, Any]:
        fields: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(bytes,))
        return fields


class QuestionItem(Record, frozen=True, kw_only=True):
    msg_id: Annotated[MsgId, a_msg_id]
    gid: Annotated[Gid, a_gid]
    leaf: Annotated[Leaf, a_leaf]
    expires_at: Annotated[WallMs, a_number]


class Question(Body, frozen=True, kw_only=True):
    """QUERY and RECALL: which messages are meant."""

    items: Annotated[tuple[QuestionItem, ...], list_of(MAX_FATES)]


class TurnNotice(Body, frozen=True, kw_only=True):
    """NO_WAITER, TOO_LATE, ABANDONED."""

    gid: Annotated[Gid, a_gid]
    reason: Annotated[str, a_word] = ""
    at: Annotated[WallMs, a_number]


# --- control ------------------------------------------------------------------------------------


class PingBody(Body, frozen=True, kw_only=True):
    at: Annotated[WallMs, a_number]


class PongBody(Body, frozen=True, kw_only=True):
    at: Annotated[WallMs, a_number]
    version: Annotated[str, a_word]
    offset: Annotated[int, a_signed_number]
    """Answering clock minus asking clock, in ms."""
    key_gen: Annotated[int, a_number]
    trust_rev: Annotated[int, a_number]


class SpawnBody(Body, frozen=True, kw_only=True):
    profile: Annotated[str, text_up_to(32)]
    name: Annotated[str, text_up_to(32)] = ""
    groups: Words = ()
    cwd: Annotated[str, a_line] = ""
    worktree: Annotated[bool, a_flag] = False
    salt: Annotated[bytes, a_salt]


class StopBody(Body, frozen=True, kw_only=True):
    gid: Annotated[Gid, a_gid]
    reason: Annotated[str, a_line] = ""


class PauseBody(Body, frozen=True, kw_only=True):
    """`target` is an agent, a host, a trace or `all`; `on` is false for resume."""

    target: Annotated[str, text_up_to(128)]
    on: Annotated[bool, a_flag]


class TracedBody(OpenBody, frozen=True, kw_only=True):
    """Journal rows about a trace; `cut` when there are more."""

    rows: Annotated[tuple[Annotated[Mapping[str, Any], a_map], ...], list_of()]
    cut: Annotated[bool, a_flag]


class RpcCall(Record, frozen=True, kw_only=True):
    name: Annotated[str, a_word]
    args: Annotated[Mapping[str, Any], a_map]


class RpcBody(OpenBody, frozen=True, kw_only=True):
    """Exactly one of the four: a call, its result (any plain value), its error, or that it is not wanted any more."""

    call: RpcCall | None = None
    result: Any = None
    error: Annotated[str, a_line] | None = None
    cancel: Annotated[bool, a_flag] = False

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        body = super().from_bytes(data)
        if [body.call is None, body.result is None, body.error is None, not body.cancel].count(False) != 1:
            raise MalformedEnvelope("body: must have exactly one of `call`, `result`, `error` and `cancel`")
        return body
