"""Control kinds that act on this host (SPAWN STOP PAUSE RPC): done once, and answered from their row ever after.

    (nothing) ──arrival──► waiting ──done──► ready | done | failed

Rules:
1. The row `(msgId, own gateway)` is recorded before the acknowledgement; what is slow goes on behind it.
2. The same bytes again do nothing; the word about them is told once more.
3. The word about it is owed to the host that asked, as for any message (`notices`); a request from this host itself is
   told without a broker.
4. Whoever acts registers its kind here, says `finish` when it is over, and is asked at start-up about what it left
   behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from fleettrio.core.actions import Action, Commit
from fleettrio.core.compose import Identity
from fleettrio.core.inbox import Inbox
from fleettrio.core.intake import LEDGER_LOST
from fleettrio.core.ledger import Ledger
from fleettrio.core.lookups import LookUps
from fleettrio.core.notices import Notices
from fleettrio.core.refusals import Refused
from fleettrio.core.rows import InboxRow, InboxState, Key, SentRow
from fleettrio.errors import MalformedEnvelope
from fleettrio.ids import Now
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("Controls",)

Act = Callable[[VerifiedEnvelope, InboxRow, Now], list[Action]]
"""Do it, or begin to. Raises `Refused` before anything is recorded; calls `Controls.finish` when it is over."""
OnRow = Callable[[InboxRow, Now], list[Action]]


class _Acts(msgspec.Struct, frozen=True):
    act: Act
    resume: OnRow
    repeat: OnRow


class Controls:
    def __init__(self, me: Identity, inbox: Inbox, notices: Notices, lookups: LookUps) -> None:
        self._me = me
        self._inbox = inbox
        self._ledger: Ledger = inbox.ledger
        self._notices = notices
        self._lookups = lookups
        self._acts: dict[str, _Acts] = {}

    def add(self, kind: str, act: Act, resume: OnRow, repeat: OnRow | None = None) -> None:
        """Who does `kind`, who goes on with what the last process left, who answers what comes again (default: the
        word about it is told once more)."""
        self._acts[kind] = _Acts(act, resume, repeat or self._tell_again)

    def knows(self, kind: str) -> bool:
        return kind in self._acts

    def start(self, rows: Iterable[InboxRow], now: Now) -> list[Action]:
        """What the store holds: what is not over goes on, what is owed is told."""
        actions: list[Action] = []
        for row in rows:
            if row.state.is_open:
                self._ledger.rows[row.key] = row
                actions += self._acts[row.kind].resume(row, now) if row.kind in self._acts else self._orphan(row, now)
            elif not row.notified:
                actions += self._notices.owe(row, now)
        return actions

    def take(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        """A verified request that the store does not know. Raises `Refused`, `MalformedEnvelope`."""
        envelope = message.envelope
        key = (envelope.msg_id, self._me.gid)
        known = self._ledger.get(key)
        if known is not None and known.leaf == message.leaf:  # twice in one batch
            return []
        if known is not None:
            raise Refused("conflict", f"{envelope.msg_id} is known with another content")
        row = self._inbox.intake.control_row(message, self._me.gid, now)
        commit = Commit(row, message.header, message.body, message.sig, message.proof)
        if row.repeat:  # older than this store: it may have been done already
            return [commit, *self._ledger.finish(row, now, InboxState.UNCONFIRMED, reason=LEDGER_LOST)]
        self._ledger.rows[key] = row
        try:
            acted = self._acts[envelope.kind].act(message, row, now)
        except (Refused, MalformedEnvelope):
            self._ledger.rows.pop(key, None)
            raise
        return [commit, *acted]

    def finish(
        self, row: InboxRow, now: Now, state: InboxState, *, reason: str = "", detail: str = "", tell: bool = True
    ) -> list[Action]:
        """It is over; the host that asked is told."""
        row = self._ledger.rows.get(row.key, row)
        return self._ledger.finish(row, now, state, reason=reason, detail=detail, tell=tell)

    def again(self, key: Key, now: Now) -> list[Action]:
        """The same request once more: its word, if it has one, is told once more."""

        def then(rows: Sequence[InboxRow | None], _: Sequence[SentRow | None], now: Now) -> list[Action]:
            row = rows[0]
            if row is None or row.state.is_open or row.kind not in self._acts:
                return []
            return self._acts[row.kind].repeat(row, now)

        return self._lookups.look_up((key,), (), then, now)

    def _tell_again(self, row: InboxRow, now: Now) -> list[Action]:
        return self._notices.owe(row, now) if self._notices.is_owed(row.from_host) else []

    def _orphan(self, row: InboxRow, now: Now) -> list[Action]:
        return self.finish(row, now, InboxState.FAILED, reason="unknown-kind", detail=f"{row.kind} is not spoken here")
