"""What comes for the inboxes of this host is taken in: checked, committed, judged, and told where it lies.

Rules:
1. Recorded first, acknowledged then. From the commit on the store is the truth, and the broker has nothing to say.
2. Whatever came together is decided about one by one (`arrive`), then each inbox is served once (`settle`).
3. A brief that is older than this store is not typed: nobody knows whether it was before (`ledger-lost`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fleettrio.core.actions import Action, Commit, Note, Record
from fleettrio.core.forward import ForwardLane
from fleettrio.core.gate import End, Gate, Hold
from fleettrio.core.guard import Guard
from fleettrio.core.ledger import Ledger
from fleettrio.core.lookups import LookUps
from fleettrio.core.notices import Notices
from fleettrio.core.offers import FETCHING_S, Offers
from fleettrio.core.orderwords import order_words
from fleettrio.core.outbox import Outbox
from fleettrio.core.roster import Roster
from fleettrio.core.rows import AUTO, InboxRow, InboxState, Key, SentRow
from fleettrio.core.supersedes import Supersedes
from fleettrio.core.timers import Timers
from fleettrio.core.waits import Waits
from fleettrio.core.wallmark import WallMark
from fleettrio.ids import Gid, HostId, Leaf, Now, Seconds
from fleettrio.wire.causal import read_causal
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("LEDGER_LOST", "Intake")

DEFAULT_PRIORITY = 4
LEDGER_LOST = "ledger-lost"
"""Older than this store: nobody knows whether it was delivered before."""


class Intake:
    def __init__(
        self,
        ledger: Ledger,
        gate: Gate,
        roster: Roster,
        notices: Notices,
        waits: Waits,
        timers: Timers,
        mark: WallMark,
        guard: Guard,
        forward: ForwardLane,
        offers: Offers,
        lookups: LookUps,
        outbox: Outbox,
        *,
        seq: int,
    ) -> None:
        self._ledger = ledger
        self._gate = gate
        self._roster = roster
        self._notices = notices
        self._waits = waits
        self._timers = timers
        self._mark = mark
        self._guard = guard
        self._forward = forward
        self._offers = offers
        self._supersedes = Supersedes(ledger, offers, notices, lookups)
        self._lookups = lookups
        self._outbox = outbox
        self._seq = seq
        self._came: dict[Gid, list[Key]] = {}
        """What came since inboxes were served."""

    def arrive(self, message: VerifiedEnvelope, gid: Gid, now: Now, sender: Gid | None = None) -> list[Action]:
        """Take a verified message for `gid`: commit it. It is offered or put in when all is decided that came with it
        (`settle`); an answer goes to the call that waits for it at once.

        `sender`: as whom its sender is known here, when that is not as its header says.
        """
        entity = self._roster.entities[gid]
        is_push = entity.takes == "push"
        row, said = self._guard.arrived(
            self._row_for(message, gid, now, is_told=is_push, sender=sender), message.body, now
        )
        commit = Commit(row, message.header, message.body, message.sig, message.proof)
        if is_push and row.repeat:
            lost = self._ledger.finish(row, now, InboxState.UNCONFIRMED, reason=LEDGER_LOST)
            return [commit, *said, *lost, *self._mark_answered(row, now)]
        actions: list[Action] = [commit, *said]
        if message.envelope.causal is not None and not row.has_causal:
            what = "its `causal` cannot be read: delivered without a look at the work tree"
            actions.append(Note("causal", row.msg_id, gid, row.trace_id, row.from_host, "malformed", what))
        if row.supersedes is not None:
            actions += self._supersedes.replaces(row.supersedes, row, now)
        self._ledger.wait(row, now)
        self._came.setdefault(gid, []).append(row.key)
        if row.kind == Kind.REPLY and not isinstance(self._gate.judge(row, now), End | Hold):
            # First it is offered to the call that waits for it; marking the send answered would end that call.
            wait = self._waits.answer_wait(gid, row.re, row.sender)
            actions += self._offers.answer(wait, [row], now) if wait else []
            actions += self._mark_answered(row, now)
        return actions

    def settle(self, now: Now) -> list[Action]:
        """What came is offered to the calls that wait for it, or put into its agent; what lies then is told to its
        sender. Once for each inbox, whatever came together."""
        came, self._came = self._came, {}
        actions: list[Action] = []
        for gid, keys in came.items():
            entity = self._roster.entities.get(gid)
            is_push = entity is not None and entity.takes == "push"
            for pull in [] if is_push else self._waits.pulls_of(gid):
                actions += self._offers.pull(pull, now)
            actions += self._forward.pump(gid, now)
            for key in keys:
                row = self._ledger.rows.get(key)
                if row is not None and row.state is InboxState.WAITING:
                    actions += self._lies(row, now, is_push=is_push)
            actions += self._ledger.check_full(gid, now)
        self._forward.settled()
        return actions

    def _lies(self, row: InboxRow, now: Now, *, is_push: bool) -> list[Action]:
        """It is over, or waits: its sender is told `held`, unless it is fetched in a moment, or put in."""
        gid, verdict = row.gid, self._gate.judge(row, now)
        if isinstance(verdict, End):
            return self._ledger.finish_undelivered(row, now, verdict.state, verdict.reason, verdict.detail)
        is_held = row.held != "" if is_push else isinstance(verdict, Hold)
        if not is_held:
            if is_push or self._waits.pull_for(gid, row.sender) is not None:
                return []
            if self._notices.is_owed(row.from_host) and self._offers.is_fetching(gid, now):
                self._timers.set_if_unset(("held", gid), Seconds(now.mono + FETCHING_S))
                return []
        return self._notices.owe(row, now)

    def still_held(self, gid: Gid, now: Now) -> list[Action]:
        """What its client has not fetched after all is told."""
        return [action for row in self._ledger.lane(gid) if not row.notified for action in self._notices.owe(row, now)]

    def let_go(self, gids: Iterable[Gid], now: Now) -> list[Action]:
        """What was held for these may land: calls that wait for it get it first."""
        actions: list[Action] = []
        for gid in gids:
            free = [row for row in self._ledger.lane(gid) if not self._is_held(row, now)]
            for wait in self._waits.answer_waits_of(gid):
                actions += self._offers.answers_here(wait, now)
            for pull in self._waits.pulls_of(gid):
                actions += self._offers.pull(pull, now)
            actions += self._forward.pump(gid, now)
            actions += [action for row in free for action in self._mark_answered(row, now)]
        return actions

    def _mark_answered(self, reply: InboxRow, now: Now) -> list[Action]:
        """A REPLY came: the send that it answers is answered. Better than last words is an answer."""
        re = reply.re
        if reply.kind != Kind.REPLY or re is None:
            return []

        def then(_: Sequence[InboxRow | None], sent: Sequence[SentRow | None], now: Now) -> list[Action]:
            row = sent[0]
            if row is None or row.sender != reply.gid or (row.answered_by and (row.answer != AUTO or reply.auto)):
                return []
            return self._outbox.answered(row, reply.msg_id, now, auto=reply.auto)

        return self._lookups.look_up((), ((re, reply.sender),), then, now)

    def _is_held(self, row: InboxRow, now: Now) -> bool:
        return isinstance(self._gate.judge(row, now), Hold)

    def is_before_birth(self, ts: int, host: HostId) -> bool:
        """True for what was sent, by our clock, before this store was made: it may have been delivered already.

        Never a neighbour's: it came straight into this store, and no broker gives it again.
        """
        if not self._notices.is_owed(host):
            return False
        peer = self._roster.peers.get(host)
        return ts - (peer.offset_ms if peer else 0) < self._mark.born

    def not_taken(self, message: VerifiedEnvelope, gid: Gid, reason: str, now: Now) -> list[Action]:
        """A neighbour's message that this inbox did not take: another copy of it is not taken either."""
        row = self._row_for(message, gid, now, is_told=True)
        row = msgspec.structs.replace(row, state=InboxState.FAILED, reason=reason)
        self._ledger.recent.put((row.msg_id, gid), row)
        return [Record(row)]

    def replaced(self, message: VerifiedEnvelope, gid: Gid, grave: InboxRow, now: Now) -> list[Action] | None:
        """A message whose tombstone is here has come. None: it is not meant by it."""
        return self._supersedes.came(self.control_row(message, gid, now), grave, now)

    def control_row(self, message: VerifiedEnvelope, gid: Gid, now: Now) -> InboxRow:
        """The row of a request to this gateway itself."""
        about = order_words(message.envelope.kind, message.body, self._roster)
        return msgspec.structs.replace(self._row_for(message, gid, now, is_told=True), about=about)

    def _row_for(
        self, message: VerifiedEnvelope, gid: Gid, now: Now, *, is_told: bool, sender: Gid | None = None
    ) -> InboxRow:
        """`is_told`: its first state is nothing that the sender's host is owed a notice about."""
        envelope = message.envelope
        self._seq += 1
        return InboxRow(
            msg_id=envelope.msg_id,
            gid=gid,
            leaf=Leaf(message.leaf),
            state=InboxState.WAITING,
            kind=envelope.kind,
            sender=sender or envelope.sender,
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
            notified=is_told or not self._notices.is_owed(envelope.host),
            to=envelope.spawn_id or ("" if envelope.to == gid else envelope.to),
            turn_id=envelope.turn_id or "",
            has_causal=read_causal(envelope.causal) is not None,
            on_stale=envelope.on_stale or "",
            supersedes=envelope.supersedes,
            claim=envelope.claim or "",
        )
