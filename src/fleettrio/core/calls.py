"""Calls of local clients that wait: what they wait for and what ends them.

A client that waits for the answer to its send is a waiter: a REPLY whose `re` names that send is offered to the very
call, whatever way its entity otherwise takes mail. A call that waits for receipts ends when every recipient's side has
spoken, or nothing can come any more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec

from fleettrio.core.entity import Entity
from fleettrio.core.rows import ENDED, InboxRow, Key, SentRow, SentState
from fleettrio.ids import Gid, HostId

__all__ = (
    "NOBODY",
    "NO_VERDICT_YET",
    "Accepted",
    "AttachedAs",
    "HandoutCall",
    "Offered",
    "PongHeard",
    "PullCall",
    "SendCall",
    "TraceHeard",
    "Unanswered",
    "WaitCall",
    "WaitOver",
)

NOBODY = 0
"""The call of what this host sends by itself: nobody waits for what comes of it."""
NO_VERDICT_YET = frozenset({SentState.ACCEPTED, SentState.WRITTEN})
NO_RECEIPT_YET = NO_VERDICT_YET | {SentState.OUTCOME_UNKNOWN, SentState.CONFIRMED, SentState.UNKNOWN}
NO_ANSWER_COMES = frozenset({SentState.FAILED, SentState.EXPIRED, SentState.RECALLED, SentState.SUPERSEDED})


class Accepted(msgspec.Struct, frozen=True):
    """Result of a send, reply or retry: every recipient has a verdict."""

    rows: tuple[SentRow, ...]


class Offered(msgspec.Struct, frozen=True):
    """Result of a pull: these messages, confirmed by the client's `confirm(cursor)`."""

    keys: tuple[Key, ...]
    cursor: int


class WaitOver(msgspec.Struct, frozen=True):
    """Result of a wait: how the messages stand, and the answers offered with `cursor`.

    `questions` were asked of the waiting one meanwhile: they are shown to it, and it goes on waiting.
    """

    rows: tuple[SentRow, ...]
    answers: tuple[Key, ...]
    cursor: int
    questions: tuple[Key, ...] = ()


class PongHeard(msgspec.Struct, frozen=True):
    host: HostId
    rtt_ms: float
    version: str
    offset_ms: int
    refused: str = ""


class TraceHeard(msgspec.Struct, frozen=True):
    """What each host that answered told of a trace, and whether it has more; then those that did not answer."""

    answers: Mapping[HostId, tuple[tuple[Mapping[str, Any], ...], bool]]
    silent: tuple[HostId, ...]


class Unanswered(msgspec.Struct, frozen=True):
    """Messages that an agent took in the turn that is about to end, and did not answer."""

    rows: tuple[InboxRow, ...]


class AttachedAs(msgspec.Struct, frozen=True):
    entity: Entity


@dataclasses.dataclass(slots=True)
class PullCall:
    call: int
    session: str
    gid: Gid
    limit: int
    sender: Gid | None
    wait: bool = True
    """False: over at once when nothing is there."""
    only_questions: bool = False
    """Of an agent that messages are pushed into: the rest it takes by a `HandoutCall` of the same number."""


class HandoutCall(msgspec.Struct, frozen=True):
    """A call of an agent that takes what may land in it (`handouts`)."""

    call: int
    session: str
    gid: Gid
    whens: frozenset[str]
    room: int
    most: int
    via: str
    sender: Gid | None = None
    wait: bool = True


@dataclasses.dataclass(slots=True, eq=False)
class SendCall:
    """A send, reply or retry: over when every recipient has a verdict."""

    call: int
    rows: dict[Key, SentRow]
    pending: set[Key] = dataclasses.field(init=False)
    """What is waited for still."""

    def __post_init__(self) -> None:
        self.pending = {key for key, row in self.rows.items() if self.waits_for(row)}

    @property
    def is_over(self) -> bool:
        return not self.pending

    def waits_for(self, row: SentRow) -> bool:
        return row.state in NO_VERDICT_YET

    def changed(self, key: Key, row: SentRow) -> None:
        self.rows[key] = row
        if self.waits_for(row):
            self.pending.add(key)
        else:
            self.pending.discard(key)

    def result(self) -> Accepted | WaitOver:
        return Accepted(tuple(self.rows.values()))


@dataclasses.dataclass(slots=True, eq=False)
class WaitCall(SendCall):
    """Over when every message has what is waited for, or cannot get it any more."""

    session: str
    gid: Gid
    until: str

    def waits_for(self, row: SentRow) -> bool:
        if self.until == "delivered":
            return row.state in NO_RECEIPT_YET
        if self.until == "final":
            return row.recalling
        return row.answered_by is None and row.answer != ENDED and row.state not in NO_ANSWER_COMES

    def result(self) -> Accepted | WaitOver:
        return WaitOver(tuple(self.rows.values()), (), 0)
