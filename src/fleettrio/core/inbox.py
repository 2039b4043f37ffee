"""The recipient's side: from arrival to the one word that is told about a message.

Rules:
1. What comes is taken in (`intake`). What becomes of it is the affair of a lane: `forward` for push entities, and
   `handouts` where they take it themselves; `offers` for pull entities and for what a waiting call waits for.
2. A final row answers every event and never changes. Nothing is delivered after `expiresAt`, by this host's clock.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fleettrio.core.actions import Action
from fleettrio.core.calls import HandoutCall, PullCall
from fleettrio.core.events import TreeLookedAt
from fleettrio.core.forward import ForwardLane
from fleettrio.core.gate import Gate
from fleettrio.core.guard import Guard
from fleettrio.core.handouts import POLL, Handouts
from fleettrio.core.intake import Intake
from fleettrio.core.ledger import Ledger
from fleettrio.core.looks import Looks
from fleettrio.core.lookups import LookUps
from fleettrio.core.notices import Notices
from fleettrio.core.offers import Offers
from fleettrio.core.outbox import Outbox
from fleettrio.core.picks import Picks
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, InboxState, Key
from fleettrio.core.timers import Timers, at_wall
from fleettrio.core.waits import Waits
from fleettrio.core.wallmark import WallMark
from fleettrio.ids import Gid, HostId, Now
from fleettrio.wire.envelope import CONTROL_KINDS, Kind

__all__ = ("ALL_WHENS", "Inbox")

ALL_WHENS = frozenset({"idle", "turn", "now"})
POLL_ROOM = 2**31
"""A poll is bounded by the number of messages."""


class Inbox:
    def __init__(
        self,
        ledger: Ledger,
        roster: Roster,
        notices: Notices,
        waits: Waits,
        timers: Timers,
        mark: WallMark,
        guard: Guard,
        lookups: LookUps,
        outbox: Outbox,
        *,
        seq: int,
    ) -> None:
        self.ledger = ledger
        self.gate = Gate()
        self.looks = looks = Looks(roster)
        self.forward = ForwardLane(ledger, self.gate, roster, timers, mark, guard.landed)
        self.picks = picks = Picks(ledger, self.gate, looks, waits)
        self.offers = Offers(ledger, self.gate, looks, waits, timers, picks, guard.landed)
        self.handouts = Handouts(
            ledger, self.gate, roster, looks, waits, timers, picks, self.forward, guard.landed, self.offers.next_cursor
        )
        self.guard = guard
        self.intake = Intake(
            ledger,
            self.gate,
            roster,
            notices,
            waits,
            timers,
            mark,
            guard,
            self.forward,
            self.offers,
            lookups,
            outbox,
            seq=seq,
        )
        self._unrecorded: dict[Key, InboxRow] = {}
        """What came of writes whose result the store could not take."""
        self._roster = roster
        self._notices = notices
        self._waits = waits
        self._timers = timers

    @property
    def rows(self) -> dict[Key, InboxRow]:
        return self.ledger.rows

    def start(self, rows: Iterable[InboxRow], now: Now) -> list[Action]:
        """Take over what the store holds: half-typed messages are never typed again, offers are made again."""
        actions: list[Action] = []
        for row in sorted(rows, key=lambda r: r.seq):
            if row.state is InboxState.INJECTING:
                actions += self.ledger.finish(row, now, InboxState.UNCONFIRMED, reason="crashed")
            elif row.state is InboxState.OFFERED:
                actions += self.ledger.back_to_waiting(row, now, repeat=True)
            elif row.state is InboxState.WAITING:
                self.ledger.wait(row, now)
            if not row.notified and row.state is not InboxState.INJECTING:
                actions += self._notices.owe(self.ledger.rows.get(row.key, row), now)
        for gid in list(self._roster.entities):
            actions += [*self.ledger.check_full(gid, now), *self.forward.pump(gid, now)]
        return actions

    # --- calls

    def pull(self, call: PullCall, now: Now) -> list[Action]:
        """A client fetches. An agent that messages are pushed into is offered questions, and takes the rest."""
        entity = self._roster.entities.get(call.gid)
        call.only_questions = entity is not None and entity.takes == "push"
        actions = self.offers.pull(call, now)
        if call.only_questions and self._waits.is_pulling(call.call):
            handout = HandoutCall(
                call.call, call.session, call.gid, ALL_WHENS, POLL_ROOM, call.limit, POLL, call.sender, call.wait
            )
            actions += self.handouts.begin(handout, now)
        return actions

    def seen_answered(self, row: InboxRow, now: Now) -> list[Action]:
        """The agent answered a message: it has it, however it came to it."""
        pulled = self.offers.answered(row, now)
        return [*pulled, *self.handouts.answered(row, now), *self.forward.seen_answered(row, now)]

    def looked(self, event: TreeLookedAt, now: Now) -> list[Action]:
        """The calls that waited for a look at the work tree go on."""
        with self.looks.using(event):
            actions = [*self.handouts.looked(event.gid, now), *self.offers.looked(event.gid, now)]
        return [*actions, *self.ledger.check_full(event.gid, now)]

    def lease_over(self, cursor: int, now: Now) -> list[Action]:
        """An offer was not confirmed in time."""
        gids = self.offers.gids_in(cursor)
        return [*self.offers.lease_over(cursor, now), *self.pump_all(gids, now)]

    def session_gone(self, session: str, now: Now) -> list[Action]:
        """A client's connection died: what it was offered waits again, for its agent too."""
        gids = self.offers.gids_of(session)
        return [*self.offers.session_gone(session, now), *self.pump_all(gids, now)]

    def pump_all(self, gids: Iterable[Gid], now: Now) -> list[Action]:
        return [action for gid in gids for action in self.forward.pump(gid, now)]

    # --- ends

    def expired(self, gid: Gid, now: Now) -> list[Action]:
        """The timer of the earliest `expiresAt` of an inbox went off; the wall clock decides."""
        lane, actions = self.ledger.lane(gid), list[Action]()
        for row in [row for row in lane if row.expires_at <= now.wall]:
            actions += self.ledger.finish_undelivered(row, now, InboxState.EXPIRED)
        if lane.count:
            self._timers.set(("expiry", gid), at_wall(min(row.expires_at for row in lane), now))
        return [*actions, *self.ledger.check_full(gid, now)]

    def recall(self, row: InboxRow, now: Now) -> tuple[InboxRow, list[Action]]:
        """Its sender's host calls it back: only what was never shown to anybody can be `recalled`."""
        row = self.ledger.get(row.key) or row
        if row.kind in CONTROL_KINDS:
            return row, []  # being done; another request undoes it
        if row.state is InboxState.OFFERED:
            self.offers.end_with_lease(row)
        if row.state is not InboxState.WAITING:
            return row, []
        state, reason = (InboxState.UNCONFIRMED, "offered") if row.repeat else (InboxState.RECALLED, "")
        actions = self.ledger.finish(row, now, state, reason=reason, tell=False)
        after = msgspec.structs.replace(row, state=state, reason=reason, at=now.wall, notified=True)
        return after, [*actions, *self.ledger.check_full(row.gid, now)]

    def close(self, gid: Gid, reason: str, now: Now) -> list[Action]:
        """The entity is gone for good: what waits for it ends. That is told before anything is said of the agent."""
        actions: list[Action] = []
        for row in list(self.ledger.lane(gid)):
            actions += self.ledger.finish_undelivered(row, now, InboxState.FAILED, reason)
        actions += self.handouts.close(gid, now)
        actions += self.offers.end([row for row in self.rows.values() if row.gid == gid], now)
        self.ledger.forget_lane(gid)
        self.forward.forget(gid)
        self.offers.forget_client(gid)
        return [*actions, *self._notices.tell(now)]

    def revoke(self, host: HostId, now: Now, *, is_coordinator: bool = False) -> list[Action]:
        """The key of `host` is no longer trusted (by the coordinator): nothing of it that still waits is delivered."""
        rows = [row for row in self.rows.values() if (row.kind == Kind.COORD) is is_coordinator]
        theirs = [row for row in rows if row.from_host == host]
        actions = self.offers.end(theirs, now)
        for row in [row for row in theirs if row.state is InboxState.WAITING]:
            actions += self.ledger.finish_undelivered(row, now, InboxState.FAILED, "revoked")
        for gid in {row.gid for row in theirs}:
            actions += self.ledger.check_full(gid, now)
        return actions

    def undo(self, row: InboxRow, before: InboxRow | None, now: Now) -> None:
        """The store could not record `row`: it is what it was. What came of a write is remembered all the same."""
        self.ledger.undo(row, before, now)
        self.forward.interrupted(row, now)
        self.offers.undo(row, before, now)
        self.handouts.undo(row)
        if before is not None and before.state is InboxState.INJECTING:
            self._unrecorded[row.key] = row

    def recovered(self, now: Now) -> list[Action]:
        """The store takes writes again: what came of the writes meanwhile is recorded, and deliveries go on."""
        actions: list[Action] = []
        for key, result in self._unrecorded.items():
            row = self.rows.get(key)
            if row is None or row.state is not InboxState.INJECTING:
                continue
            if result.state is InboxState.WAITING:
                actions += self.ledger.back_to_waiting(row, now, repeat=row.repeat)
            else:
                actions += self.ledger.finish(
                    row, now, result.state, reason=result.reason, detail=result.detail, via=result.via
                )
        self._unrecorded.clear()
        return [*actions, *self.pump_all(list(self._roster.entities), now)]
