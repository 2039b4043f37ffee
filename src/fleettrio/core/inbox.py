"""The recipient's side: from arrival to the one word that is told about a message.

Rules:
1. Recorded first, acknowledged then. From the commit on the store is the truth, and the broker has nothing to say.
2. What it becomes is the affair of a lane: `forward` for push entities, `offers` for pull entities and for what a
   waiting call waits for.
3. A final row answers every event and never changes. Nothing is delivered after `expiresAt`, by this host's clock.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fleettrio.core.actions import Action, Commit, Record
from fleettrio.core.calls import Key, PullCall, WaitCall, Waits
from fleettrio.core.forward import ForwardLane
from fleettrio.core.ledger import Ledger
from fleettrio.core.notices import Notices
from fleettrio.core.offers import ReplyLane
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, InboxState
from fleettrio.core.timers import Timers, at_wall
from fleettrio.core.wallmark import WallMark
from fleettrio.ids import Gid, HostId, Leaf, MsgId, Now, TraceId, WallMs, short_id
from fleettrio.wire.envelope import Kind, longest_lifetime_ms
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("LEDGER_LOST", "Inbox")

DEFAULT_PRIORITY = 4
LEDGER_LOST = "ledger-lost"
"""Older than this store: nobody knows whether it was delivered before."""


class Inbox:
    def __init__(
        self,
        ledger: Ledger,
        roster: Roster,
        notices: Notices,
        waits: Waits,
        timers: Timers,
        mark: WallMark,
        *,
        seq: int,
        born: WallMs,
    ) -> None:
        self.ledger = ledger
        self.forward = ForwardLane(ledger, roster, timers, mark)
        self.offers = ReplyLane(ledger, waits, timers)
        self._born = born
        self._unrecorded: dict[Key, InboxRow] = {}
        """What came of writes whose result the store could not take."""
        self._roster = roster
        self._notices = notices
        self._waits = waits
        self._timers = timers
        self._seq = seq

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
                actions += self._notices.owe(self.ledger.rows.get((row.msg_id, row.gid), row), now)
        for gid in list(self._roster.entities):
            actions += [*self.ledger.check_full(gid, now), *self.forward.pump(gid, now)]
        return actions

    # --- arrival

    def arrive(self, message: VerifiedEnvelope, gid: Gid, now: Now) -> list[Action]:
        """Take a verified message for `gid`: commit it, and offer or deliver it when it may be."""
        entity = self._roster.entities[gid]
        is_push = entity.takes == "push"
        row = self._row_for(message, gid, now)
        commit = Commit(row, message.header, message.body, message.sig, message.proof)
        if is_push and row.repeat:
            return [commit, *self.ledger.finish(row, now, InboxState.UNCONFIRMED, reason=LEDGER_LOST)]
        actions: list[Action] = [commit]
        if message.envelope.supersedes is not None:
            actions += self._supersede(message.envelope.supersedes, row, now)
        self.ledger.wait(row, now)
        wait = self._waits.answer_wait(gid, row.re, row.sender) if row.kind == Kind.REPLY else None
        pull = None if is_push else self._waits.pull_for(gid, row.sender)
        if wait is not None:
            actions += self.offers.answer(wait, [row], now)
        elif pull is not None:
            actions += self.offers.pull(pull, now)
        elif is_push:
            actions += self.forward.pump(gid, now)
        else:
            actions += self._notices.owe(row, now)
        return [*actions, *self.ledger.check_full(gid, now)]

    def _supersede(self, older: MsgId, by: InboxRow, now: Now) -> list[Action]:
        """What its own sender replaces is not delivered any more, as long as nobody was shown it.

        An older message that is not here yet is delivered when it comes: the tombstone that would stop it belongs to
        the rule set of the next issue.
        """
        row = self.rows.get((older, by.gid))
        if row is None or row.sender != by.sender or row.state is not InboxState.WAITING or row.repeat:
            return []
        return self.ledger.finish(row, now, InboxState.SUPERSEDED, detail=f"by {short_id(by.msg_id)}")

    def is_before_birth(self, ts: int, host: HostId) -> bool:
        """True for what was sent, by our clock, before this store was made: it may have been delivered already.

        Never a neighbour's: it came straight into this store, and no broker gives it again.
        """
        if not self._notices.is_owed(host):
            return False
        peer = self._roster.peers.get(host)
        return ts - (peer.offset_ms if peer else 0) < self._born

    def _row_for(self, message: VerifiedEnvelope, gid: Gid, now: Now) -> InboxRow:
        envelope = message.envelope
        self._seq += 1
        is_push = self._roster.entities[gid].takes == "push"
        return InboxRow(
            msg_id=envelope.msg_id,
            gid=gid,
            leaf=Leaf(message.leaf),
            state=InboxState.WAITING,
            kind=envelope.kind,
            sender=envelope.sender,
            from_host=envelope.host,
            trace_id=envelope.trace_id,
            ts=envelope.ts,
            expires_at=envelope.expires_at,
            arrived_at=now.wall,
            at=now.wall,
            seq=self._seq,
            size=len(message.body),
            re=envelope.re,
            when=envelope.when or "idle",
            priority=DEFAULT_PRIORITY if envelope.priority is None else envelope.priority,
            intent=envelope.intent or "directive",
            wants_reply=envelope.expects_reply,
            auto=bool(envelope.auto),
            depth=envelope.depth or 0,
            repeat=self.is_before_birth(envelope.ts, envelope.host),
            notified=is_push or not self._notices.is_owed(envelope.host),
        )

    # --- calls

    def pull(self, call: PullCall, now: Now) -> list[Action]:
        return self.offers.pull(call, now)

    def answers(self, wait: WaitCall, now: Now) -> list[Action]:
        """A call begins to wait: what it waits for may be here already."""
        rows = self.offers.answers_here(wait)
        return self.offers.answer(wait, rows, now) if rows else []

    def lease_over(self, cursor: int, now: Now) -> list[Action]:
        """An offer was not confirmed in time."""
        gids = self.offers.gids_in(cursor)
        return [*self.offers.lease_over(cursor, now), *self._pump_all(gids, now)]

    def session_gone(self, session: str, now: Now) -> list[Action]:
        """A client's connection died: what it was offered waits again, for its agent too."""
        gids = self.offers.gids_of(session)
        return [*self.offers.session_gone(session, now), *self._pump_all(gids, now)]

    def _pump_all(self, gids: Iterable[Gid], now: Now) -> list[Action]:
        return [action for gid in gids for action in self.forward.pump(gid, now)]

    # --- ends

    def expired(self, key: Key, now: Now) -> list[Action]:
        """The timer of `expiresAt` went off; the wall clock decides."""
        row = self.rows.get(key)
        if row is None or row.state is not InboxState.WAITING:
            return []
        if row.expires_at > now.wall:
            self._timers.set(("expiry", *key), at_wall(row.expires_at, now))
            return []
        ended = self.ledger.finish_undelivered(row, now, InboxState.EXPIRED)
        return [*ended, *self.ledger.check_full(row.gid, now)]

    def recall(self, row: InboxRow, now: Now) -> tuple[InboxRow, list[Action]]:
        """Its sender's host calls it back: only what was never shown to anybody can be `recalled`."""
        row = self.ledger.get((row.msg_id, row.gid)) or row
        if row.state is InboxState.OFFERED:
            self.offers.end_with_lease(row)
        if row.state is not InboxState.WAITING:
            return row, []
        state, reason = (InboxState.UNCONFIRMED, "offered") if row.repeat else (InboxState.RECALLED, "")
        actions = self.ledger.finish(row, now, state, reason=reason, tell=False)
        after = dataclasses.replace(row, state=state, reason=reason, at=now.wall, notified=True)
        return after, [*actions, *self.ledger.check_full(row.gid, now)]

    def tombstone(
        self, msg_id: MsgId, gid: Gid, leaf: Leaf, host: HostId, expires_at: WallMs, trace_id: TraceId, now: Now
    ) -> tuple[InboxRow, list[Action]]:
        """Called back before it came: if it comes, it is acknowledged and nothing else.

        Kept no longer than any message may live, whatever the other host says.
        """
        row = InboxRow(
            msg_id=msg_id,
            gid=gid,
            leaf=leaf,
            state=InboxState.RECALLED,
            kind="",
            sender=Gid(""),
            from_host=host,
            trace_id=trace_id,
            ts=now.wall,
            expires_at=min(expires_at, WallMs(now.wall + longest_lifetime_ms(Kind.REPLY))),
            arrived_at=now.wall,
            at=now.wall,
            seq=0,
            size=0,
        )
        self.ledger.recent.put((msg_id, gid), row)
        return row, [Record(row)]

    def close(self, gid: Gid, reason: str, now: Now) -> list[Action]:
        """The entity is gone for good: what waits for it ends."""
        actions: list[Action] = []
        for row in list(self.ledger.lane(gid)):
            actions += self.ledger.finish_undelivered(row, now, InboxState.FAILED, reason)
        actions += self.offers.end([row for row in self.rows.values() if row.gid == gid], now)
        self.ledger.forget_lane(gid)
        self.forward.forget(gid)
        return actions

    def revoke(self, host: HostId, now: Now) -> list[Action]:
        """The key of `host` is no longer trusted: nothing of it that still waits is delivered."""
        theirs = [row for row in self.rows.values() if row.from_host == host]
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
        if before is not None and before.state is InboxState.INJECTING:
            self._unrecorded[(row.msg_id, row.gid)] = row

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
        return [*actions, *self._pump_all(list(self._roster.entities), now)]
