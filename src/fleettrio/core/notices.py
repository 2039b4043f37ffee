"""What this host owes others: the word about each of their messages, told until it is confirmed.

Rules:
1. A row whose word is owed has `notified` false. It is told again at every session's start until the broker
   confirmed it.
2. What is due to one host while a publish to it is under way goes together, up to 256 in one notice; nothing waits
   for a list to fill.
3. INJECTED and FAILED tell one message; what has a reason beside its state, or company, goes as OUTCOME.
4. A neighbour's message is told without a broker: its sender's row is on this host.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from fleettrio.core.actions import Action, Publish, Record
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
        detail=row.detail,
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

    def owe(self, row: InboxRow, now: Now) -> list[Action]:
        """The sender of `row` is to be told its state as it is now. The row itself is recorded by the caller."""
        if row.from_host == self._me.host:
            told = dataclasses.replace(row, notified=True)
            return [*self._tell_neighbour(row, now), Record(told, row)]
        self._owed.setdefault(row.from_host, {})[(row.msg_id, row.gid)] = row
        return self._tell(row.from_host, now)

    def session_opened(self, now: Now) -> list[Action]:
        self._under_way.clear()
        return [action for host in list(self._owed) for action in self._tell(host, now)]

    def retry(self, host: HostId, now: Now) -> list[Action]:
        return self._tell(host, now)

    def verdict(self, purpose: ForNotice, verdict: str, now: Now) -> list[Action]:
        """The notice about these rows was confirmed, or not."""
        self._under_way.discard(purpose.host)
        if verdict != "confirmed":
            self._timers.set(("notice", purpose.host), Seconds(now.mono + RETRY_S))
            return []
        owed = self._owed.get(purpose.host, {})
        actions: list[Action] = []
        for row in purpose.rows:
            key = (row.msg_id, row.gid)
            if owed.get(key) == row:
                del owed[key]
                actions.append(Record(dataclasses.replace(row, notified=True), row))
        if not owed:
            self._owed.pop(purpose.host, None)
        return [*actions, *self._tell(purpose.host, now)]

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
            failed = Failed(gid=first.gid, leaf=first.leaf, reason=first.reason, detail=first.detail, at=first.at)
            envelope = control(self._me, Kind.FAILED, host, trace_id=first.trace_id, now=now, re=first.msg_id)
            return self._link.publish(purpose, envelope, failed.to_bytes())
        outcome = Outcome(fates=tuple(fate_of(row, takes=self._takes(row)) for row in rows))
        envelope = control(self._me, Kind.OUTCOME, host, trace_id=first.trace_id, now=now, re=first.msg_id)
        return self._link.publish(purpose, envelope, outcome.to_bytes())
