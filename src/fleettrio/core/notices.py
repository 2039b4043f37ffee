"""What this host owes others: the word about each of their messages, told until it is confirmed.

Rules:
1. A row whose word is owed has `notified` false. It is told again at every session's start until the broker
   confirmed it. Only the newest word about a message is owed.
2. What is due to one host while a publish to it is under way goes together, up to 256 in one notice; nothing waits
   for a list to fill. What a client is fetching just now is told when it still waits a moment later (`offers`).
3. INJECTED and FAILED tell one message; what has a reason beside its state, or company, goes as OUTCOME.
4. That nobody listens to a question, or waits for an answer any more, has a notice of its own, and goes first.
5. A neighbour's message is told without a broker: its sender's row is on this host.
6. What came from another lead is told in the coordinator's vhost, by notices of that realm (`elsewhere`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec

from fleettrio.core.actions import Action, AtCoordinator, Publish
from fleettrio.core.compose import Identity, control
from fleettrio.core.link import ForNotice, Link
from fleettrio.core.roster import Roster
from fleettrio.core.rows import ENDED, InboxRow, InboxState, Key
from fleettrio.core.timers import Timers
from fleettrio.ids import HostId, Now, Seconds, TurnId
from fleettrio.wire.bodies import Failed, Fate, Injected, Outcome, TurnNotice
from fleettrio.wire.envelope import Kind

__all__ = ("BACKLOG", "MOST_IN_ONE", "NO_WAITER", "TOO_LATE", "Notices", "fate_of", "is_ended", "reason_of")

NO_WAITER, TOO_LATE = "no-waiter", "too-late"
"""Reasons: nobody listens to a question; nobody waits for an answer any more."""
BACKLOG = "backlog"
"""Why nobody listens: the inbox of the one who is asked is full."""
MOST_IN_ONE = 256
RETRY_S = 30.0
DETAIL_MOST, DETAIL_OF_ONE = 120, 1_024
"""Characters of detail: 256 of the short ones fit into a body."""


def is_ended(row: InboxRow) -> bool:
    """The turn that took it is over, without an answer."""
    return row.state is InboxState.INJECTED and row.answer == ENDED


def reason_of(row: InboxRow) -> str:
    """Why it came to its word; of what waits, what holds it."""
    return row.reason or (row.held if row.state is InboxState.WAITING else "")


def fate_of(row: InboxRow, *, takes: str) -> Fate:
    """A row in the words of an OUTCOME: `held` is the word for what waits for a pull client."""
    state = str(row.state)
    if takes == "pull" and row.state in (InboxState.WAITING, InboxState.OFFERED):
        state = "held"
    return Fate(
        msg_id=row.msg_id,
        gid=row.gid,
        leaf=row.leaf,
        state=ENDED if is_ended(row) else state,
        reason=reason_of(row),
        detail=row.detail[:DETAIL_MOST],
        via=row.via,
        at=row.at,
        stale=row.stale[: DETAIL_MOST - min(DETAIL_MOST, len(row.detail))],
    )


def _word_of(row: InboxRow) -> Fate:
    """What a notice says of it."""
    return fate_of(row, takes="pull")


def _turn_notice(row: InboxRow) -> Kind | None:
    """The notice that tells `row` alone."""
    return _TURN_NOTICES.get(row.reason) if row.state is InboxState.FAILED else None


_TURN_NOTICES = {NO_WAITER: Kind.NO_WAITER, TOO_LATE: Kind.TOO_LATE}


class Notices:
    timer = "notice"

    def __init__(self, me: Identity, link: Link, timers: Timers, roster: Roster) -> None:
        self._me = me
        self._link = link
        self._timers = timers
        self._roster = roster
        self.tell_neighbour: Callable[[InboxRow, Now], list[Action]] = lambda _row, _now: []
        """Its sender lives here (`neighbours`)."""
        self.elsewhere: dict[str, Notices] = {}
        """Kinds that are told by way of another broker."""
        self._owed: dict[HostId, dict[Key, InboxRow]] = {}
        """By what is told first: what has a notice of its own is in front."""
        self._due: dict[HostId, None] = {}
        """Who is told as soon as everything is decided about what has just happened."""
        self._under_way: set[HostId] = set()

    def as_sent(self, row: InboxRow) -> InboxRow:
        """The row under the gid that its sender knows."""
        return row

    def is_owed(self, host: HostId) -> bool:
        """True for hosts that are told by a notice, which takes until it is confirmed."""
        return host != self._me.host

    def owe(self, row: InboxRow, now: Now) -> list[Action]:
        """The sender of `row` is to be told its state as it is now. The row itself is recorded by the caller."""
        if other := self.elsewhere.get(row.kind):
            return other.owe(row, now)
        if not self.is_owed(row.from_host):
            return self.tell_neighbour(row, now)
        self.remember(row)
        self._due[row.from_host] = None
        return []

    def remember(self, row: InboxRow) -> None:
        """Owe it with the next notice to that host."""
        if other := self.elsewhere.get(row.kind):
            other.remember(row)
            return
        key, owed = row.key, self._owed.setdefault(row.from_host, {})
        owed[key] = row
        if _turn_notice(row):
            self._owed[row.from_host] = {key: row, **owed}

    def settle(self, row: InboxRow) -> None:
        """Nothing is owed about this message any more: it is told in another way, or what was to be told is undone."""
        if other := self.elsewhere.get(row.kind):
            other.settle(row)
            return
        owed = self._owed.get(row.from_host, {})
        owed.pop(row.key, None)
        if not owed:
            self._owed.pop(row.from_host, None)

    def session_opened(self, _: Now) -> list[Action]:
        self._under_way.clear()
        self._due = dict.fromkeys(self._owed)
        return []

    def retry(self, host: HostId, _: Now) -> list[Action]:
        self._due[host] = None
        return []

    def verdict(self, purpose: ForNotice, verdict: str, now: Now) -> tuple[list[InboxRow], list[Action]]:
        """The notice was confirmed, or not: the rows whose newest word is told by it, and what is told next."""
        if other := self.elsewhere.get(purpose.rows[0].kind):
            return other.verdict(purpose, verdict, now)
        self._under_way.discard(purpose.host)
        if verdict != "confirmed":
            self._timers.set((self.timer, purpose.host), Seconds(now.mono + RETRY_S))
            return [], []
        owed, told = self._owed.get(purpose.host, {}), list[InboxRow]()
        for row in purpose.rows:
            key = row.key
            newest = owed.get(key)
            if newest is not None and (newest is row or _word_of(newest) == _word_of(row)):
                told.append(newest)
                del owed[key]
        if not owed:
            self._owed.pop(purpose.host, None)
        self._due[purpose.host] = None
        return told, []

    def tell(self, now: Now) -> list[Action]:
        """Tell the hosts that are to be told now what they are owed."""
        due, self._due = self._due, {}
        return [action for host in due for action in self._tell(host, now)]

    def _tell(self, host: HostId, now: Now) -> list[Action]:
        owed = self._owed.get(host)
        if not owed or host in self._under_way or not self._link.is_open:
            return []
        first = next(iter(owed.values()))
        rows = (first,) if _turn_notice(first) else tuple(itertools.islice(owed.values(), MOST_IN_ONE))
        self._under_way.add(host)
        return [self._notice(host, rows, now)]

    def _notice(self, host: HostId, rows: tuple[InboxRow, ...], now: Now) -> Publish | AtCoordinator:
        purpose = ForNotice(host, rows)
        first = self.as_sent(rows[0])
        if kind := _turn_notice(first):
            said = TurnNotice(gid=first.gid, reason=first.detail[:64], at=first.at)
            envelope = control(self._me, kind, host, trace_id=first.trace_id, now=now, re=first.msg_id)
            envelope = msgspec.structs.replace(envelope, turn_id=TurnId(first.turn_id))
            return self._link.publish(purpose, envelope, said.to_bytes())
        if len(rows) == 1 and first.state is InboxState.INJECTED and not is_ended(first):
            told = Injected(
                gid=first.gid, leaf=first.leaf, state="confirmed", via=first.via, at=first.at, stale=first.stale
            )
            envelope = control(self._me, Kind.INJECTED, host, trace_id=first.trace_id, now=now, re=first.msg_id)
            return self._link.publish(purpose, envelope, told.to_bytes())
        if len(rows) == 1 and first.state is InboxState.FAILED:
            detail = first.detail[:DETAIL_OF_ONE]
            failed = Failed(gid=first.gid, leaf=first.leaf, reason=first.reason, detail=detail, at=first.at)
            envelope = control(self._me, Kind.FAILED, host, trace_id=first.trace_id, now=now, re=first.msg_id)
            return self._link.publish(purpose, envelope, failed.to_bytes())
        outcome = Outcome(fates=tuple(fate_of(self.as_sent(row), takes=self._roster.takes(row.gid)) for row in rows))
        envelope = control(self._me, Kind.OUTCOME, host, trace_id=first.trace_id, now=now, re=first.msg_id)
        return self._link.publish(purpose, envelope, outcome.to_bytes())
