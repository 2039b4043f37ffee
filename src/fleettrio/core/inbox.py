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
from fleettrio.ids import Gid, HostId, Leaf, MsgId, Now, TraceId, WallMs
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("Inbox",)

DEFAULT_PRIORITY = 4


class Inbox:
    def __init__(
        self, ledger: Ledger, roster: Roster, notices: Notices, waits: Waits, timers: Timers, seq: int
    ) -> None:
        self.ledger = ledger
        self.forward = ForwardLane(ledger, roster, timers)
        self.offers = ReplyLane(ledger, notices, waits, timers)
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
            elif row.state is InboxState.UNCONFIRMED:
                self.ledger.rows[(row.msg_id, row.gid)] = row
            if not row.notified and row.state is not InboxState.INJECTING:
                actions += self._notices.owe(self.ledger.rows.get((row.msg_id, row.gid), row), now)
        for entity in self._roster.entities.values():
            actions += self.forward.pump(entity.gid, now)
        return actions

    # --- arrival

    def arrive(self, message: VerifiedEnvelope, gid: Gid, now: Now) -> list[Action]:
        """Take a verified message for `gid`: commit it, and offer or deliver it when it may be."""
        entity = self._roster.entities[gid]
        is_push = entity.takes == "push"
        row = self._row_for(message, gid, now, notified=is_push)
        actions: list[Action] = [Commit(row, message.header, message.body, message.sig, message.proof)]
        self.ledger.wait(row, now)
        wait = self._waits.answer_wait(gid, row.re) if row.kind == Kind.REPLY else None
        pull = None if is_push else self._waits.pull_for(gid, row.sender)
        if wait is not None:
            actions += self.offers.answer(wait, [row], now)
        elif pull is not None:
            actions += self.offers.pull(pull, now)
        elif is_push:
            actions += self.forward.pump(gid, now)
        else:
            actions += self._notices.owe(row, now)
        return [*actions, *self.ledger.check_full(gid)]

    def _row_for(self, message: VerifiedEnvelope, gid: Gid, now: Now, *, notified: bool) -> InboxRow:
        envelope = message.envelope
        self._seq += 1
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
            notified=notified,
        )

    # --- calls

    def pull(self, call: PullCall, now: Now) -> list[Action]:
        return self.offers.pull(call, now)

    def answers(self, wait: WaitCall, now: Now) -> list[Action]:
        """A call begins to wait: what it waits for may be here already."""
        rows = self.offers.answers_here(wait)
        return self.offers.answer(wait, rows, now) if rows else []

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
        return [*ended, *self.ledger.check_full(row.gid)]

    def recall(self, row: InboxRow, now: Now) -> tuple[InboxRow, list[Action]]:
        """Its sender's host calls it back: only what was never shown to anybody can be `recalled`."""
        row = self.rows.get((row.msg_id, row.gid), row)
        if row.state is InboxState.OFFERED:
            self.offers.end_with_lease(row)
        if row.state is not InboxState.WAITING:
            return row, []
        state, reason = (InboxState.UNCONFIRMED, "offered") if row.repeat else (InboxState.RECALLED, "")
        actions = self.ledger.finish(row, now, state, reason=reason, tell=False)
        after = dataclasses.replace(row, state=state, reason=reason, at=now.wall, notified=True)
        return after, [*actions, *self.ledger.check_full(row.gid)]

    def tombstone(
        self, msg_id: MsgId, gid: Gid, leaf: Leaf, host: HostId, expires_at: WallMs, trace_id: TraceId, now: Now
    ) -> tuple[InboxRow, list[Action]]:
        """Called back before it came: if it comes, it is acknowledged and nothing else."""
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
            expires_at=expires_at,
            arrived_at=now.wall,
            at=now.wall,
            seq=0,
            size=0,
        )
        return row, [Record(row)]

    def close(self, gid: Gid, reason: str, now: Now) -> list[Action]:
        """The entity is gone for good: what waits for it ends."""
        actions: list[Action] = []
        for row in list(self.ledger.lane(gid)):
            actions += self.ledger.finish_undelivered(row, now, InboxState.FAILED, reason)
        self.ledger.forget_lane(gid)
        self.forward.forget(gid)
        return actions

    def revoke(self, host: HostId, now: Now) -> list[Action]:
        """The key of `host` is no longer trusted: nothing of it that still waits is delivered."""
        theirs = [row for row in self.ledger.waiting() if row.from_host == host]
        return [
            action
            for row in theirs
            for action in self.ledger.finish_undelivered(row, now, InboxState.FAILED, "revoked")
        ]

    def undo(self, row: InboxRow, before: InboxRow | None, now: Now) -> None:
        """The store could not record `row`: it is what it was."""
        self.ledger.undo(row, before, now)
        self.forward.interrupted(row, now)
