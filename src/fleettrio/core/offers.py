"""The reply lane: messages handed to clients that fetch them, at least once, seen once.

    waiting ──pull, or a call that waits for it──► offered ──client confirms──► drained
       ▲                                              │
       └──2 min without a word, or its client gone────┘   (marked: may be a repeat)

Rules:
1. `offered` is committed before the client gets the message, so that a crash in between makes a marked repeat and never
   an unmarked one.
2. What a client got is confirmed by its own word alone (`confirm(cursor)`), never by having been sent.
3. Called back, replaced or expired while offered: with the end of the lease it is `unconfirmed(offered)`, since nobody
   can know whether it was read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fleettrio.core.actions import Action, Record, Resolve
from fleettrio.core.calls import Key, Offered, PullCall, WaitCall, WaitOver, Waits
from fleettrio.core.ledger import Ledger
from fleettrio.core.rows import InboxRow, InboxState
from fleettrio.core.timers import Timers
from fleettrio.ids import Gid, Now, Seconds
from fleettrio.wire.envelope import Kind

__all__ = ("LEASE_S", "ReplyLane")

LEASE_S = 120.0


@dataclasses.dataclass(frozen=True, slots=True)
class _Offer:
    session: str
    keys: tuple[Key, ...]


class ReplyLane:
    def __init__(self, ledger: Ledger, waits: Waits, timers: Timers) -> None:
        self._offers: dict[int, _Offer] = {}
        self._holder: dict[Key, int] = {}
        """Which offer has a row now: an older one has lost its say."""
        self._cursor = 0
        self._over: set[Key] = set()
        """Offered rows that must not be offered again (rule 3)."""
        self._ledger = ledger
        self._waits = waits
        self._timers = timers

    def pull(self, call: PullCall, now: Now) -> list[Action]:
        """Offer what waits to a pulling client; nothing there: the call stays open."""
        actions: list[Action] = []
        rows: list[InboxRow] = []
        for row in list(self._ledger.lane(call.gid).in_order(call.sender)):
            if row.expires_at <= now.wall:
                actions += self._ledger.finish_undelivered(row, now, InboxState.EXPIRED)
            elif len(rows) < call.limit:
                rows.append(row)
        if not rows:
            return actions
        self._waits.end(call.call)
        cursor, records = self._offer(call.session, rows, now)
        keys = tuple((row.msg_id, row.gid) for row in rows)
        return [*actions, *records, Resolve(call.call, Offered(keys, cursor))]

    def answer(self, wait: WaitCall, rows: list[InboxRow], now: Now) -> list[Action]:
        """The answers that a waiting call waits for are the result of that call."""
        self._waits.end(wait.call)
        cursor, records = self._offer(wait.session, rows, now)
        keys = tuple((row.msg_id, row.gid) for row in rows)
        by = {(row.re, row.sender): row.msg_id for row in rows}
        sent = tuple(
            dataclasses.replace(row, answered_by=by.get(key, row.answered_by)) for key, row in wait.rows.items()
        )
        return [*records, Resolve(wait.call, WaitOver(sent, keys, cursor))]

    def answers_here(self, wait: WaitCall) -> list[InboxRow]:
        """What a call that begins to wait waits for may have come already."""
        lane = self._ledger.lane(wait.gid).in_order()
        return [row for row in lane if row.kind == Kind.REPLY and (row.re, row.sender) in wait.rows]

    def confirmed(self, session: str, cursor: int, now: Now) -> list[Action]:
        """The client has what was offered to its session up to `cursor`."""
        actions: list[Action] = []
        for number in [n for n, o in self._offers.items() if o.session == session and n <= cursor]:
            for row in self._close(number):
                self._over.discard((row.msg_id, row.gid))
                actions += self._ledger.finish(row, now, InboxState.DRAINED, via="pull")
                actions += self._ledger.check_full(row.gid, now)
        return actions

    def lease_over(self, cursor: int, now: Now) -> list[Action]:
        """Not confirmed in time, or the client is gone: offered again, as a repeat."""
        actions: list[Action] = []
        for row in self._close(cursor):
            key = (row.msg_id, row.gid)
            if key in self._over or row.expires_at <= now.wall:
                self._over.discard(key)
                actions += self._ledger.finish(row, now, InboxState.UNCONFIRMED, reason="offered")
                continue
            actions += self._ledger.back_to_waiting(row, now, repeat=True)
            actions += self._ledger.check_full(row.gid, now)
            if pull := self._waits.pull_for(row.gid, row.sender):
                actions += self.pull(pull, now)
        return actions

    def end(self, rows: Iterable[InboxRow], now: Now) -> list[Action]:
        """Of these, what is offered ends at once: its inbox or the trust in its sender is gone."""
        actions: list[Action] = []
        for row in [row for row in rows if row.state is InboxState.OFFERED]:
            self._over.discard((row.msg_id, row.gid))
            actions += self._ledger.finish(row, now, InboxState.UNCONFIRMED, reason="offered")
        return actions

    def gids_of(self, session: str) -> set[Gid]:
        """Whose mail is offered to this session."""
        return {gid for offer in self._offers.values() if offer.session == session for _, gid in offer.keys}

    def gids_in(self, cursor: int) -> set[Gid]:
        """Whose mail this offer has."""
        offer = self._offers.get(cursor)
        return {gid for _, gid in (offer.keys if offer else ())}

    def session_gone(self, session: str, now: Now) -> list[Action]:
        """A client's connection died: its calls are forgotten, what it was offered waits again."""
        self._waits.end_session(session)
        cursors = [number for number, offer in self._offers.items() if offer.session == session]
        return [action for cursor in cursors for action in self.lease_over(cursor, now)]

    def undo(self, row: InboxRow, before: InboxRow | None, now: Now) -> None:
        """The store could not record a step: what stays offered has a lease of its own from now on."""
        key = (row.msg_id, row.gid)
        self._holder.pop(key, None)
        if before is not None and before.state is InboxState.OFFERED:
            self._lease("", (key,), now)

    def end_with_lease(self, row: InboxRow) -> None:
        self._over.add((row.msg_id, row.gid))

    def _offer(self, session: str, rows: list[InboxRow], now: Now) -> tuple[int, list[Action]]:
        self._lease(session, tuple((row.msg_id, row.gid) for row in rows), now)
        return self._cursor, [Record(self._ledger.take_out(row, now, InboxState.OFFERED), row) for row in rows]

    def _lease(self, session: str, keys: tuple[Key, ...], now: Now) -> None:
        self._cursor += 1
        self._offers[self._cursor] = _Offer(session, keys)
        self._holder.update(dict.fromkeys(keys, self._cursor))
        self._timers.set(("lease", str(self._cursor)), Seconds(now.mono + LEASE_S))

    def _close(self, cursor: int) -> list[InboxRow]:
        """Take an offer back; returns those of its rows that are still offered by it."""
        self._timers.cancel(("lease", str(cursor)))
        offer = self._offers.pop(cursor, None)
        keys = [key for key in (offer.keys if offer else ()) if self._holder.get(key) == cursor]
        for key in keys:
            del self._holder[key]
        rows = [self._ledger.rows.get(key) for key in keys]
        return [row for row in rows if row is not None and row.state is InboxState.OFFERED]
