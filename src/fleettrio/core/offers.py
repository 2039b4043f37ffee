"""Offers: messages handed to clients that fetch them, at least once, seen once.

    waiting ──pull, or a call that waits for it──► offered ──client confirms──► drained
       ▲                                              │
       └──2 min without a word, or its client gone────┘   (marked: may be a repeat)

Rules:
1. `offered` is committed before the client gets the message, so that a crash in between makes a marked repeat and never
   an unmarked one.
2. What a client got is confirmed by its own word alone (`confirm(cursor)`, or its reply), never by having been sent.
3. A question that its client has stays `offered`: what ends it is its answer (`asked`). It goes before all else.
4. A call that was given up before its client got anything offered nothing: that waits again, and is no repeat. Left to
   its lease, it would be drained by the client's next word about a later offer.
5. Called back, replaced or expired while offered: with the end of the lease it is `unconfirmed(offered)`, since nobody
   can know whether it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from fleettrio.core.actions import Action, Record, Resolve
from fleettrio.core.calls import Offered, PullCall, WaitCall, WaitOver
from fleettrio.core.gate import Gate, Hold
from fleettrio.core.ledger import Ledger
from fleettrio.core.looks import Looks
from fleettrio.core.picks import Picked, Picks
from fleettrio.core.rows import CALL, InboxRow, InboxState, Key
from fleettrio.core.timers import Timers, at_wall
from fleettrio.core.waits import Waits
from fleettrio.ids import Gid, Now, Seconds
from fleettrio.wire.envelope import Kind

__all__ = ("LEASE_S", "Offers")

LEASE_S = 120.0
FETCHING_S = 0.25
"""A client that has fetched or confirmed within this time is taken to come again at once."""
_ANSWERS = (Kind.REPLY, Kind.ANSWER)


class _Offer(msgspec.Struct, frozen=True):
    session: str
    keys: tuple[Key, ...]
    call: int | None


class Offers:
    def __init__(
        self,
        ledger: Ledger,
        gate: Gate,
        looks: Looks,
        waits: Waits,
        timers: Timers,
        picks: Picks,
        landed: Callable[..., None],
    ) -> None:
        self._offers: dict[int, _Offer] = {}
        self._holder: dict[Key, int] = {}
        """Which offer has a row now: an older one has lost its say."""
        self._cursor = 0
        self._over: set[Key] = set()
        """Offered rows that must not be offered again (rule 5)."""
        self._fetched: dict[Gid, Seconds] = {}
        """When the client of an entity was last heard to fetch."""
        self._ledger = ledger
        self._gate = gate
        self._looks = looks
        self._waits = waits
        self._timers = timers
        self._picks = picks
        self._landed = landed

    def is_fetching(self, gid: Gid, now: Now) -> bool:
        """True while what waits for `gid` is most likely fetched in a moment."""
        fetched_at = self._fetched.get(gid)
        return fetched_at is not None and now.mono < fetched_at + FETCHING_S

    def pull(self, call: PullCall, now: Now) -> list[Action]:
        """Offer what waits to a pulling client; nothing there: the call stays open."""
        picked = self._pick(call.gid, self._to_pull(call), now, call.limit)
        rows, actions = picked.rows, picked.actions
        if picked.unseen and not (rows and self._looks.is_at_hand):
            return [*actions, *self._looks.ask(call.gid, picked.unseen)]
        if not rows:
            return actions
        self._waits.end(call.call)
        cursor, records = self._offer(call.session, call.call, rows, now)
        keys = tuple(row.key for row in rows)
        return [*actions, *records, Resolve(call.call, Offered(keys, cursor))]

    def _to_pull(self, call: PullCall) -> Iterator[InboxRow]:
        yield from self._asks(call.gid, call.sender)
        if not call.only_questions:
            yield from (row for row in self._ledger.lane(call.gid).in_order(call.sender) if row.when != CALL)

    def _asks(self, gid: Gid, sender: Gid | None = None) -> Iterator[InboxRow]:
        return (row for row in self._ledger.lane(gid).in_order(sender, CALL) if row.kind == Kind.ASK)

    def ask(self, wait: WaitCall, now: Now) -> list[Action]:
        """Show a waiting call the questions that were asked of it; nothing there: it waits on."""
        picked = self._pick(wait.gid, self._asks(wait.gid), now)
        rows, actions = picked.rows, picked.actions
        if not rows:
            return actions
        self._waits.end(wait.call)
        cursor, records = self._offer(wait.session, wait.call, rows, now)
        keys = tuple(row.key for row in rows)
        return [*actions, *records, Resolve(wait.call, WaitOver(tuple(wait.rows.values()), (), cursor, keys))]

    def looked(self, gid: Gid, now: Now) -> list[Action]:
        """The pulls that waited for the look go on."""
        pulls = self._waits.pulls_of(gid)
        return [action for pull in pulls for action in (*self.pull(pull, now), *self._picks.not_waiting(pull))]

    def _pick(self, gid: Gid, waiting: Iterable[InboxRow], now: Now, most: int | None = None) -> Picked:
        """Which may be offered; what is held till some moment is judged again then."""

        def held(row: InboxRow, hold: Hold) -> None:
            if hold.until is not None:
                self._timers.set_if_earlier(("offer", row.gid), at_wall(hold.until, now))

        picked = self._picks.among(waiting, held, now, most=most)
        picked.actions += self._ledger.check_full(gid, now)
        return picked

    def answer(self, wait: WaitCall, rows: list[InboxRow], now: Now) -> list[Action]:
        """The answers that a waiting call waits for are the result of that call."""
        self._waits.end(wait.call)
        cursor, records = self._offer(wait.session, wait.call, rows, now)
        keys = tuple(row.key for row in rows)
        by = {(row.re, row.sender): row.msg_id for row in rows}
        sent = tuple(
            msgspec.structs.replace(row, answered_by=by.get(key, row.answered_by)) for key, row in wait.rows.items()
        )
        return [*records, Resolve(wait.call, WaitOver(sent, keys, cursor))]

    def answers_here(self, wait: WaitCall, now: Now) -> list[Action]:
        """What a call waits for may have come before it began to, or may land only now."""
        lane = self._ledger.lane(wait.gid).in_order()
        rows = [row for row in lane if row.kind in _ANSWERS and (row.re, row.sender) in wait.rows]
        free = [row for row in rows if not isinstance(self._gate.judge(row, now), Hold)]
        return self.answer(wait, free, now) if free else []

    def confirmed(self, session: str, cursor: int, now: Now) -> list[Action]:
        """The client has what was offered to its session up to `cursor`."""
        actions: list[Action] = []
        for number in [n for n, o in self._offers.items() if o.session == session and n <= cursor]:
            had = self._close(number)
            for row in had:
                self._over.discard(row.key)
                if row.kind != Kind.ASK:
                    actions += self._ledger.finish(row, now, InboxState.DRAINED, via="pull")
            for gid in dict.fromkeys(row.gid for row in had):
                self._fetched[gid] = now.mono
                actions += self._ledger.check_full(gid, now)
        return actions

    def answered(self, row: InboxRow, now: Now) -> list[Action]:
        """Its recipient replied to it: whoever was offered it has it, also when the lease is over meanwhile."""
        current = self._ledger.rows.get(row.key)
        if current is None or current.kind == Kind.ASK or not _was_offered(current):
            return []
        self.forget(current)
        drained = self._ledger.finish(current, now, InboxState.DRAINED, via="pull")
        return [*drained, *self._ledger.check_full(current.gid, now)]

    def lease_over(self, cursor: int, now: Now, *, is_seen: bool = True) -> list[Action]:
        """Not confirmed in time, or the client is gone: offered again, as a repeat unless nobody can have seen it."""
        actions: list[Action] = []
        for row in self._close(cursor):
            key = row.key
            if key in self._over or row.expires_at <= now.wall:
                self._over.discard(key)
                actions += self._ledger.finish(row, now, InboxState.UNCONFIRMED, reason="offered")
                actions += self._ledger.check_full(row.gid, now)
                continue
            actions += self._ledger.back_to_waiting(row, now, repeat=is_seen or row.repeat)
            actions += self._ledger.check_full(row.gid, now)
            if pull := self._waits.pull_for(row.gid, row.sender):
                actions += self.pull(pull, now)
        return actions

    def end(self, rows: Iterable[InboxRow], now: Now) -> list[Action]:
        """Of these, what is offered ends at once: its inbox or the trust in its sender is gone."""
        actions: list[Action] = []
        for row in [row for row in rows if row.state is InboxState.OFFERED]:
            self.forget(row)
            state = InboxState.FAILED if row.kind == Kind.ASK else InboxState.UNCONFIRMED
            actions += self._ledger.finish(row, now, state, reason="offered")
            actions += self._ledger.check_full(row.gid, now)
        return actions

    def forget(self, row: InboxRow) -> None:
        """It is over: no lease, and nobody's word, says anything of it any more."""
        key = row.key
        self._holder.pop(key, None)
        self._over.discard(key)

    def forget_client(self, gid: Gid) -> None:
        """The entity is gone for good."""
        self._fetched.pop(gid, None)

    def gids_of(self, session: str) -> set[Gid]:
        """Whose mail is offered to this session."""
        return {gid for offer in self._offers.values() if offer.session == session for _, gid in offer.keys}

    def gids_in(self, cursor: int) -> set[Gid]:
        """Whose mail this offer has."""
        offer = self._offers.get(cursor)
        return {gid for _, gid in (offer.keys if offer else ())}

    def call_ended(self, call: int, now: Now) -> list[Action]:
        """The call was given up, and its client did not get what it was resolved with."""
        cursors = [number for number, offer in self._offers.items() if offer.call == call]
        return [action for cursor in cursors for action in self.lease_over(cursor, now, is_seen=False)]

    def session_gone(self, session: str, now: Now) -> list[Action]:
        """A client's connection died: its calls are forgotten, what it was offered waits again."""
        self._waits.end_session(session)
        cursors = [number for number, offer in self._offers.items() if offer.session == session]
        return [action for cursor in cursors for action in self.lease_over(cursor, now)]

    def undo(self, row: InboxRow, before: InboxRow | None, now: Now) -> None:
        """The store could not record a step: what stays offered has a lease of its own from now on."""
        key = row.key
        self._holder.pop(key, None)
        if before is not None and before.state is InboxState.OFFERED:
            self._lease("", None, (key,), now)

    def end_with_lease(self, row: InboxRow) -> None:
        self._over.add(row.key)

    def _offer(self, session: str, call: int, rows: list[InboxRow], now: Now) -> tuple[int, list[Action]]:
        self._lease(session, call, tuple(row.key for row in rows), now)
        self._landed(*rows)
        self._fetched |= {row.gid: now.mono for row in rows}
        taken = [self._ledger.take_out(row, now, InboxState.OFFERED, self._looks.note(row)) for row in rows]
        return self._cursor, [Record(after, row) for after, row in zip(taken, rows, strict=True)]

    def next_cursor(self) -> int:
        """The number of the next offer."""
        self._cursor += 1
        return self._cursor

    def _lease(self, session: str, call: int | None, keys: tuple[Key, ...], now: Now) -> None:
        self.next_cursor()
        self._offers[self._cursor] = _Offer(session, keys, call)
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


def _was_offered(row: InboxRow) -> bool:
    return row.state is InboxState.OFFERED or (row.state is InboxState.WAITING and row.repeat)
