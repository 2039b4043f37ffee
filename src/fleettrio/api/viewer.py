"""The messages of this host as its clients see them: rows as they are now, with what only the store has beside them."""

from __future__ import annotations

from collections.abc import Sequence

from fleettrio.api.lookup import Lookup
from fleettrio.api.schema import JournalLine, MessageView
from fleettrio.api.tally import in_order
from fleettrio.api.views import PREVIEW, inbox_view, journal_line, sent_view
from fleettrio.core.rows import InboxRow, JournalRow, SentRow
from fleettrio.ids import HostId, MsgId, WallMs
from fleettrio.local.sanitise import one_line
from fleettrio.perform import Performer
from fleettrio.wire.kinds import MESSAGE_KINDS

__all__ = ("Viewer",)

MOST_LINES = 200


class Viewer:
    def __init__(self, performer: Performer, lookup: Lookup) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._store = performer.store
        self._lookup = lookup

    async def sent(self, rows: Sequence[SentRow]) -> list[MessageView]:
        """Sent messages; a broadcast's head comes first and counts its members, given or not."""
        views = []
        for row in in_order(rows):
            members = await self._lookup.members(row) if row.is_head else ()
            views.append(sent_view(row, self._gateway, self._now(), members))
        return views

    async def received(self, rows: Sequence[InboxRow]) -> list[MessageView]:
        """Messages that came here, with the beginning of their bodies."""
        stored = await self._store.messages([row.key for row in rows]) if rows else []
        return [
            inbox_view(
                self._gateway.ledger.get(row.key) or row,
                self._gateway,
                self._now(),
                one_line(message.body[:400], PREVIEW) if message and row.kind in MESSAGE_KINDS else "",
            )
            for row, message in zip(rows, stored, strict=True)
        ]

    async def journal(self, msg_ids: Sequence[MsgId]) -> list[JournalLine]:
        """What happened to these messages here, oldest first."""
        return self.lines(await self._store.journal(msg_ids=msg_ids, limit=MOST_LINES))

    def lines(self, steps: Sequence[JournalRow]) -> list[JournalLine]:
        roster, host = self._gateway.roster, self._gateway.settings.me.host
        known = {step.gid for step in steps if step.gid is not None and roster.knows(step.gid)}
        return [
            journal_line(step, host, roster.address(step.gid, HostId("")) if step.gid in known else "")
            for step in steps
        ]

    def _now(self) -> WallMs:
        return self._performer.clock.now().wall
