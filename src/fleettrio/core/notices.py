"""What this host owes others: the word about each of their messages, told until it is confirmed.

Rules:
1. A row whose word is owed has `notified` false. It is told again at every session's start until the broker
   confirmed it. Only the newest word about a message is owed.
2. What is due to one host while a publish to it is under way goes together, up to 256 in one notice; nothing waits
   for a list to fill.
3. INJECTED and FAILED tell one message; what has a reason beside its state, or company, goes as OUTCOME.
4. A neighbour's message is told without a broker: its sender's row is on this host.
"""

from __future__ import annotations

from collections.abc import Callable

from fleettrio.core.actions import Action, Publish
from fleettrio.core.calls import Key
from fleettrio.core.compose import Identity, control
from fleettrio.core.link import ForNotice, Link
from fleettrio.core.rows import InboxRow, InboxState
from fleettrio.core.timers import Timers
from fleettrio.ids import HostId, Now, Seconds
from fleettrio.wire.bodies import Failed, Fate, Injected, Outcome
from fleettrio.wire.envelope import Kind

__all__ = ("MOST_IN_ONE", "Notices", "fate_of")

MOST_IN_ONE = 256
RETRY_S = 30.0
DETAIL_MOST, DETAIL_OF_ONE = 120, 1_024
"""Characters of detail: 256 of the short ones fit into a body."""

TellNeighbour = Callable[[InboxRow, Now], list[Action]]


def fate_of(row: InboxRow, *, takes: str) -> Fate:
    """A row in the words of an OUTCOME: `held` is the word for what waits for a pull client."""
    state = str(row.state)
    if takes == "pull" and row.state in (InboxState.WAITING, InboxState.OFFERED):
        state = "held"
    return Fate(
        msg_id=row.msg_id,
        gid=row.gid,
        leaf=row.leaf,
        state=state,
        reason=row.reason,
        detail=row.detail[:DETAIL_MOST],
        via=row.via,
        at=row.at,
    )


class Notices:
    def __init__(
        self, me: Identity, link: Link, timers: Timers, takes: Callable[[InboxRow], str], neighbour: TellNeighbour
    ) -> None:
        self._me = me
        self._link = link
        self._timers = timers
        self._takes = takes
        self._tell_neighbour = neighbour
        self._owed: dict[HostId, dict[Key, InboxRow]] = {}
        self._under_way: set[HostId] = set()

    def is_owed(self, host: HostId) -> bool:
        """True for hosts that are told by a notice, which takes until it is confirmed."""
        return host != self._me.host

    def owe(self, row: InboxRow, now: Now) -> list[Action]:
        """The sender of `row` is to be told its state as it is now. The row itself is recorded by the caller."""
        if not self.is_owed(row.from_host):
            return self._tell_neighbour(row, now)
        self.remember(row)
        return self._tell(row.from_host, now)

    def remember(self, row: InboxRow) -> None:
        """Owe it with the next notice to that host."""
        self._owed.setdefault(row.from_host, {})[(row.msg_id, row.gid)] = row

    def settle(self, row: InboxRow) -> None:
        """Nothing is owed about this message any more: it is told in another way, or what was to be told is undone."""
        owed = self._owed.get(row.from_host, {})
        owed.pop((row.msg_id, row.gid), None)
        if not owed:
            self._owed.pop(row.from_host, None)

    def session_opened(self, now: Now) -> list[Action]:
        self._under_way.clear()
        return [action for host in list(self._owed) for action in self._tell(host, now)]

    def retry(self, host: HostId, now: Now) -> list[Action]:
        return self._tell(host, now)

    def verdict(self, purpose: ForNotice, verdict: str, now: Now) -> tuple[list[InboxRow], list[Action]]:
        """The notice was confirmed, or not: the rows whose newest word is told by it, and what is told next."""
        self._under_way.discard(purpose.host)
        if verdict != "confirmed":
            self._timers.set(("notice", purpose.host), Seconds(now.mono + RETRY_S))
            return [], []
        owed = self._owed.get(purpose.host, {})
        told = [row for row in purpose.rows if owed.get((row.msg_id, row.gid)) == row]
        for row in told:
            self.settle(row)
        return told, self._tell(purpose.host, now)

    def _tell(self, host: HostId, now: Now) -> list[Action]:
        owed = self._owed.get(host)
        if not owed or host in self._under_way or not self._link.is_open:
            return []
        rows = tuple(owed.values())[:MOST_IN_ONE]
        self._under_way.add(host)
        return [self._notice(host, rows, now)]

    def _notice(self, host: HostId, rows: tuple[InboxRow, ...], now: Now) -> Publish:
        first, purpose = rows[0], ForNotice(host, rows)
        if len(rows) == 1 and first.state is InboxState.INJECTED:
            told = Injected(gid=first.gid, leaf=first.leaf, state="confirmed", via=first.via, at=first.at)
            envelope = control(self._me, Kind.INJECTED, host, trace_id=first.trace_id, now=now, re=first.msg_id)
            return self._link.publish(purpose, envelope, told.to_bytes())
        if len(rows) == 1 and first.state is InboxState.FAILED:
            detail = first.detail[:DETAIL_OF_ONE]
            failed = Failed(gid=first.gid, leaf=first.leaf, reason=first.reason, detail=detail, at=first.at)
            envelope = control(self._me, Kind.FAILED, host, trace_id=first.trace_id, now=now, re=first.msg_id)
            return self._link.publish(purpose, envelope, failed.to_bytes())
        outcome = Outcome(fates=tuple(fate_of(row, takes=self._takes(row)) for row in rows))
        envelope = control(self._me, Kind.OUTCOME, host, trace_id=first.trace_id, now=now, re=first.msg_id)
        return self._link.publish(purpose, envelope, outcome.to_bytes())
