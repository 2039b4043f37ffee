"""Calls of local clients that wait: what they wait for and what ends them.

A client that waits for the answer to its send is a waiter: a REPLY whose `re` names that send is offered to the very
call, whatever way its entity otherwise takes mail. A call that waits for receipts ends when every recipient's side has
spoken, or nothing can come any more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fleettrio.core.actions import Action, Resolve
from fleettrio.core.rows import Entity, SentRow, SentState
from fleettrio.ids import Gid, HostId, MsgId

__all__ = (
    "NO_VERDICT_YET",
    "Accepted",
    "AttachedAs",
    "Key",
    "Offered",
    "PongHeard",
    "PullCall",
    "SendCall",
    "WaitCall",
    "WaitOver",
    "Waits",
)

Key = tuple[MsgId, Gid]

NO_VERDICT_YET = frozenset({SentState.ACCEPTED, SentState.WRITTEN})
NO_RECEIPT_YET = NO_VERDICT_YET | {SentState.OUTCOME_UNKNOWN, SentState.CONFIRMED, SentState.UNKNOWN}
NO_ANSWER_COMES = frozenset({SentState.FAILED, SentState.EXPIRED, SentState.RECALLED, SentState.SUPERSEDED})


@dataclasses.dataclass(frozen=True, slots=True)
class Accepted:
    """Result of a send, reply or retry: every recipient has a verdict."""

    rows: tuple[SentRow, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Offered:
    """Result of a pull: these messages, confirmed by the client's `confirm(cursor)`."""

    keys: tuple[Key, ...]
    cursor: int


@dataclasses.dataclass(frozen=True, slots=True)
class WaitOver:
    """Result of a wait: how the messages stand, and the answers offered with `cursor`."""

    rows: tuple[SentRow, ...]
    answers: tuple[Key, ...]
    cursor: int


@dataclasses.dataclass(frozen=True, slots=True)
class PongHeard:
    host: HostId
    rtt_ms: float
    version: str
    offset_ms: int
    refused: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class AttachedAs:
    entity: Entity


@dataclasses.dataclass(slots=True)
class PullCall:
    call: int
    session: str
    gid: Gid
    limit: int
    sender: Gid | None


@dataclasses.dataclass(slots=True)
class SendCall:
    """A send, reply or retry: over when every recipient has a verdict."""

    call: int
    rows: dict[Key, SentRow]

    @property
    def is_over(self) -> bool:
        return all(row.state not in NO_VERDICT_YET for row in self.rows.values())


@dataclasses.dataclass(slots=True)
class WaitCall:
    call: int
    session: str
    gid: Gid
    rows: dict[Key, SentRow]
    until: str

    @property
    def is_over(self) -> bool:
        """True when every message waited for has what is waited for, or cannot get it any more."""
        if self.until == "delivered":
            return all(row.state not in NO_RECEIPT_YET for row in self.rows.values())
        if self.until == "final":
            return all(not row.recalling for row in self.rows.values())
        return all(row.answered_by is not None or row.state in NO_ANSWER_COMES for row in self.rows.values())


class Waits:
    """The waiting calls of this host's clients."""

    def __init__(self) -> None:
        self._waits: dict[int, WaitCall] = {}
        self._pulls: dict[int, PullCall] = {}
        self._sends: dict[int, SendCall] = {}

    def add_send(self, send: SendCall) -> list[Action]:
        """Wait for the verdicts of a send; over at once when they are there."""
        if send.is_over:
            return [Resolve(send.call, Accepted(tuple(send.rows.values())))]
        self._sends[send.call] = send
        return []

    def end_sends_of(self, key: Key) -> list[int]:
        """The calls that wait for the verdict of a message that could not even be recorded."""
        calls = [send.call for send in self._sends.values() if key in send.rows]
        for call in calls:
            del self._sends[call]
        return calls

    def add_wait(self, wait: WaitCall) -> None:
        self._waits[wait.call] = wait

    def add_pull(self, pull: PullCall) -> None:
        self._pulls[pull.call] = pull

    def end(self, call: int) -> None:
        self._waits.pop(call, None)
        self._pulls.pop(call, None)
        self._sends.pop(call, None)

    def end_session(self, session: str) -> None:
        self._waits = {call: wait for call, wait in self._waits.items() if wait.session != session}
        self._pulls = {call: pull for call, pull in self._pulls.items() if pull.session != session}

    def answer_wait(self, gid: Gid, re: MsgId | None, by: Gid) -> WaitCall | None:
        """The call of `gid` that waits for an answer to `re` by the one whom it was sent to."""
        for wait in self._waits.values():
            if wait.gid == gid and wait.until == "answer" and (re, by) in wait.rows:
                return wait
        return None

    def pull_for(self, gid: Gid, sender: Gid) -> PullCall | None:
        """The pull of `gid` that is open and takes mail of `sender`; the one that waits longest."""
        for pull in self._pulls.values():
            if pull.gid == gid and pull.sender in (None, sender):
                return pull
        return None

    def over_already(self, wait: WaitCall) -> list[Action]:
        """End a call that has nothing to wait for."""
        if not wait.is_over or wait.call not in self._waits:
            return []
        self.end(wait.call)
        return [Resolve(wait.call, WaitOver(tuple(wait.rows.values()), (), 0))]

    def is_pulling(self, call: int) -> bool:
        return call in self._pulls

    def nothing_there(self, call: int) -> list[Action]:
        """End a pull that does not wait and found nothing."""
        self.end(call)
        return [Resolve(call, Offered((), 0))]

    def on_sent_changed(self, row: SentRow) -> Iterable[Action]:
        """A sent message changed: calls that waited for just that are over."""
        key = (row.msg_id, row.gid)
        for send in [s for s in self._sends.values() if key in s.rows]:
            send.rows[key] = row
            if send.is_over:
                self.end(send.call)
                yield Resolve(send.call, Accepted(tuple(send.rows.values())))
        for wait in [w for w in self._waits.values() if key in w.rows]:
            wait.rows[key] = row
            if wait.is_over:
                self.end(wait.call)
                yield Resolve(wait.call, WaitOver(tuple(wait.rows.values()), (), 0))
