"""What this host owes the hosts that it asked: the word that a question is not asked any more (ABANDONED).

Rules:
1. The asker's row has `owes` until the broker confirmed the notice; it is told again at every session's start.
2. Past `expiresAt` nothing is owed: the other host has ended the question by itself.
3. A neighbour is told without a broker.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fleettrio.core.actions import Action
from fleettrio.core.compose import Identity, control
from fleettrio.core.link import ForOwed, Link
from fleettrio.core.outbox import Outbox
from fleettrio.core.rows import Key, SentRow
from fleettrio.ids import Now, TurnId
from fleettrio.wire.bodies import TurnNotice
from fleettrio.wire.envelope import Kind

__all__ = ("Owed",)


class Owed:
    def __init__(self, me: Identity, link: Link, outbox: Outbox) -> None:
        self._me = me
        self._link = link
        self._outbox = outbox
        self._rows: dict[Key, SentRow] = {}
        self.tell_neighbour: Callable[[SentRow, Now], list[Action]]
        """The entity that was asked lives here (`asked`)."""

    def owe(self, row: SentRow, now: Now) -> list[Action]:
        """`row` is recorded with what it owes; tell it."""
        if row.to_host == self._me.host:
            return [*self.tell_neighbour(row, now), *self._outbox.paid(row, now)]
        self._rows[row.key] = row
        return self._tell(row, now)

    def session_opened(self, now: Now) -> list[Action]:
        return [action for row in list(self._rows.values()) for action in self._tell(row, now)]

    def verdict(self, purpose: ForOwed, verdict: str, now: Now) -> list[Action]:
        """The notice was confirmed, or is told again in the next session."""
        row = self._rows.pop(purpose.key, None) if verdict == "confirmed" else None
        return self._outbox.paid(row, now) if row else []

    def _tell(self, row: SentRow, now: Now) -> list[Action]:
        key = row.key
        if row.expires_at <= now.wall:
            del self._rows[key]
            return self._outbox.paid(row, now)
        if not self._link.is_open:
            return []
        envelope = control(self._me, Kind.ABANDONED, row.to_host, trace_id=row.trace_id, now=now, re=row.msg_id)
        told = TurnNotice(gid=row.gid, reason=row.reason, at=row.at)
        envelope = msgspec.structs.replace(envelope, turn_id=TurnId(row.turn_id))
        return [self._link.publish(ForOwed(key), envelope, told.to_bytes())]
