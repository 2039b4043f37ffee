"""The link to the broker, and every publish that has no verdict yet.

Rules:
1. Each publish gets exactly one verdict, at the latest when the session ends; a late one may follow `outcome-unknown`
   and still counts.
2. A publish unconfirmed after 4 s is `outcome-unknown` for its sender. If nothing at all was heard from the broker
   since it was written, the link is *suspect*: remote sends fail at once until something is heard. Only the session's
   end closes the link.
3. Nothing is kept for a link that is down: what was not handed over never goes out.
"""

from __future__ import annotations

import enum
from typing import TypeVar

import msgspec

from fleettrio.core.actions import Action, AtCoordinator, Note, Publish, RecordKey, Relay
from fleettrio.core.compose import exchange_for
from fleettrio.core.events import LinkBlocked, LinkHeard
from fleettrio.core.roster import BEAT_S
from fleettrio.core.rows import InboxRow, Key, SentRow
from fleettrio.core.rules import Rules
from fleettrio.core.timers import Timers
from fleettrio.ids import HostId, Now, Seconds
from fleettrio.wire.envelope import Envelope, Kind

__all__ = (
    "CONFIRM_LIMIT_S",
    "TRANSIENT",
    "ForBeat",
    "ForCall",
    "ForControl",
    "ForNotice",
    "ForOwed",
    "ForSent",
    "Link",
    "LinkState",
    "Purpose",
)

P = TypeVar("P", Publish, Relay)

CONFIRM_LIMIT_S = 4.0
SETTLING_S = 2 * BEAT_S
TRANSIENT = frozenset({Kind.PRESENCE, Kind.ASK, Kind.ANSWER})


class LinkState(enum.StrEnum):
    STANDALONE = "standalone"
    DOWN = "down"
    UP = "up"
    SUSPECT = "suspect"
    BLOCKED = "blocked"


class ForSent(msgspec.Struct, frozen=True, gc=False):
    """The publish carries a message of an entity here: to one recipient, or to all that a broadcast has."""

    keys: tuple[Key, ...]


class ForNotice(msgspec.Struct, frozen=True, gc=False):
    """The publish tells `host` about these rows."""

    host: HostId
    rows: tuple[InboxRow, ...]


class ForOwed(msgspec.Struct, frozen=True):
    """The publish tells the host of this message of ours what it is owed about it."""

    key: Key


class ForControl(msgspec.Struct, frozen=True):
    """A question, an answer or a refusal: nobody waits for its verdict."""


class ForCall(msgspec.Struct, frozen=True):
    """A call waits for the verdict; `told` is noted once the broker has it."""

    call: int
    told: Note | None = None


class ForBeat(msgspec.Struct, frozen=True):
    pass


Purpose = ForSent | ForNotice | ForOwed | ForControl | ForCall | ForBeat


class _Open(msgspec.Struct, gc=False):
    purpose: Purpose
    handed_at: Seconds | None = None
    is_late: bool = False
    is_over: bool = False
    """Its session has ended."""


class Link:
    def __init__(self, timers: Timers, *, standalone: bool, is_coordinator: bool = False) -> None:
        """`is_coordinator`: to the coordinator's broker (`coordination`), else to the fleet's."""
        self.state = LinkState.STANDALONE if standalone else LinkState.DOWN
        self.detail = ""
        self.opened_at: Seconds | None = None
        self._timers = timers
        self._is_coordinator = is_coordinator
        self._timer = ("coordinator-link",) if is_coordinator else ("link",)
        self._section, self._broker = ("[broker]", "the broker")
        if is_coordinator:
            self._section, self._broker = ("[coordinator]", "the coordinator's broker")
        self._open: dict[int, _Open] = {}
        self._next_id = 1
        self._heard_at = Seconds(float("-inf"))
        self.rules: Rules = {LinkBlocked: self.blocked, LinkHeard: self._bytes_came}

    @property
    def is_open(self) -> bool:
        """True while a session is there, whatever its mood: control and notices go out."""
        return self.state in (LinkState.UP, LinkState.SUSPECT, LinkState.BLOCKED)

    @property
    def is_standalone(self) -> bool:
        return self.state is LinkState.STANDALONE

    @property
    def open_count(self) -> int:
        """Publishes without a verdict."""
        return sum(1 for entry in self._open.values() if not entry.is_over)

    def is_settling(self, now: Now) -> bool:
        """True in the first 2 beats of a session, in which nothing is judged by the roster."""
        return self.opened_at is not None and now.mono < self.opened_at + SETTLING_S

    def why_not(self) -> tuple[str, str] | None:
        """Reason and sentence why a remote send fails at once; None when it may go out."""
        match self.state:
            case LinkState.UP:
                return None
            case LinkState.STANDALONE:
                return "broker-unreachable", f"this host is standalone: its configuration has no {self._section}"
            case LinkState.BLOCKED:
                return "broker-blocked", f"{self._broker} takes no messages now ({self.detail})"
            case LinkState.SUSPECT:
                return "broker-unreachable", f"{self._broker} is connected but has not answered for 4 s"
            case _:
                return "broker-unreachable", f"no connection to {self._broker} ({self.detail or 'not yet connected'})"

    def opened(self, now: Now) -> None:
        self.state, self.detail, self.opened_at = LinkState.UP, "", now.mono
        self._heard_at = now.mono
        self._open = {number: entry for number, entry in self._open.items() if not entry.is_over}

    def closed(self, reason: str) -> list[tuple[Purpose, bool]]:
        """The session is over; returns every publish without a verdict, and whether it was handed over.

        What was not never goes out. What was may have arrived: its verdict may still lie on the way here.
        """
        self.state, self.detail, self.opened_at = LinkState.DOWN, reason, None
        ended = [(entry.purpose, entry.handed_at is not None) for entry in self._open.values() if not entry.is_over]
        self._open = {number: entry for number, entry in self._open.items() if entry.handed_at is not None}
        for entry in self._open.values():
            entry.is_over = True
        return ended

    def blocked(self, event: LinkBlocked, _: Now) -> list[Action]:
        if self.is_open:
            self.state, self.detail = LinkState.BLOCKED, event.reason
        return []

    def unblocked(self) -> None:
        if self.state is LinkState.BLOCKED:
            self.state, self.detail = LinkState.UP, ""

    def _bytes_came(self, event: LinkHeard, _: Now) -> list[Action]:
        self.heard(event.at)
        return []

    def heard(self, at: Seconds) -> None:
        self._heard_at = max(self._heard_at, at)
        if self.state is LinkState.SUSPECT:
            oldest = min((p.handed_at for p in self._open.values() if p.handed_at is not None), default=None)
            if oldest is None or at > oldest:
                self.state, self.detail = LinkState.UP, ""

    def publish(
        self,
        purpose: Purpose,
        envelope: Envelope,
        body: bytes,
        *,
        sent: tuple[SentRow, ...] = (),
        keyed: RecordKey | None = None,
    ) -> Publish | AtCoordinator:
        """The action that publishes `envelope`, registered for its verdict."""
        kind = envelope.kind
        publish = Publish(
            id=self.register(purpose),
            exchange=exchange_for(kind),
            mandatory=kind not in (Kind.PRESENCE, Kind.BROADCAST),
            persistent=kind not in TRANSIENT,
            envelope=envelope,
            body=body,
            sent=sent,
            keyed=keyed,
        )
        return self.at_its_broker(publish)

    def at_its_broker(self, action: P) -> P | AtCoordinator:
        """To be done in the session that this is the link of."""
        return AtCoordinator(action) if self._is_coordinator else action

    def publish_sent(
        self, rows: tuple[SentRow, ...], envelope: Envelope, body: bytes, keyed: RecordKey | None = None
    ) -> Publish | AtCoordinator:
        """The action that publishes the message of these rows, which learn its verdict."""
        purpose = ForSent(tuple([row.key for row in rows]))
        return self.publish(purpose, envelope, body, sent=rows, keyed=keyed)

    def register(self, purpose: Purpose) -> int:
        """The number of a publish to come, under which its verdict will be known."""
        number = self._next_id
        self._next_id += 1
        self._open[number] = _Open(purpose)
        return number

    def handed(self, ids: tuple[int, ...], now: Now) -> list[Purpose]:
        """These were written; returns their purposes."""
        purposes = []
        for publish_id in ids:
            if entry := self._open.get(publish_id):
                entry.handed_at = now.mono
                purposes.append(entry.purpose)
        self._timers.set_if_unset(self._timer, Seconds(now.mono + CONFIRM_LIMIT_S))
        return purposes

    def purpose(self, publish_id: int) -> Purpose | None:
        """What an open publish is for."""
        entry = self._open.get(publish_id)
        return entry.purpose if entry else None

    def over(self, publish_id: int) -> Purpose | None:
        """A verdict came, or it was not handed over: forget the publish and return what it was for."""
        entry = self._open.pop(publish_id, None)
        return entry.purpose if entry else None

    def late(self, now: Now) -> list[Purpose]:
        """Purposes of the publishes that have just gone over the limit; re-arms its timer for those that are not yet.

        They stay registered: a late verdict is still heard.
        """
        late, next_at = [], None
        for entry in self._open.values():
            if entry.handed_at is None or entry.is_late or entry.is_over:
                continue
            due = Seconds(entry.handed_at + CONFIRM_LIMIT_S)
            if due > now.mono:
                next_at = due if next_at is None else min(next_at, due)
                continue
            entry.is_late = True
            late.append(entry.purpose)
            if self._heard_at <= entry.handed_at and self.state is LinkState.UP:
                self.state = LinkState.SUSPECT
        if next_at is not None:
            self._timers.set(self._timer, next_at)
        return late
