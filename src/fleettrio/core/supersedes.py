"""A message that its own sender replaces is not delivered any more, whichever of the two comes first.

    (not come yet) ──replaced──► tombstone ──it comes──► superseded, told
    waiting ──replaced──► superseded, told
    offered ──replaced──► unconfirmed(offered) with the end of its lease

Rules:
1. Only the same `from` has a say. A tombstone of another sender stands in nobody's way.
2. What an agent is being shown, or was, stays as it is.
3. What comes for a tombstone (`tombstones`) is recorded under its leaf and acknowledged; its body is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fleettrio.core.actions import Action, Record
from fleettrio.core.ledger import Ledger
from fleettrio.core.lookups import LookUps
from fleettrio.core.notices import Notices
from fleettrio.core.offers import Offers
from fleettrio.core.rows import InboxRow, InboxState, SentRow
from fleettrio.core.tombstones import of_replaced
from fleettrio.ids import MsgId, Now, short_id

__all__ = ("Supersedes",)


class Supersedes:
    def __init__(self, ledger: Ledger, offers: Offers, notices: Notices, lookups: LookUps) -> None:
        self._ledger = ledger
        self._offers = offers
        self._notices = notices
        self._lookups = lookups

    def replaces(self, older: MsgId, by: InboxRow, now: Now) -> list[Action]:
        """`by` came, which replaces `older`."""

        if older == by.msg_id:
            return []

        def then(rows: Sequence[InboxRow | None], _: Sequence[SentRow | None], now: Now) -> list[Action]:
            row = rows[0]
            return self._bury(older, by, now) if row is None else self._end(row, by, now)

        return self._lookups.look_up([(older, by.gid)], (), then, now)

    def _end(self, row: InboxRow, by: InboxRow, now: Now) -> list[Action]:
        if row.sender != by.sender:
            return []
        if row.state is InboxState.OFFERED:
            self._offers.end_with_lease(row)
        if row.state is not InboxState.WAITING:
            return []
        ended = self._ledger.finish_undelivered(row, now, InboxState.SUPERSEDED, detail=_by(by))
        return [*ended, *self._ledger.check_full(row.gid, now)]

    def _bury(self, older: MsgId, by: InboxRow, now: Now) -> list[Action]:
        grave = of_replaced(older, by, _by(by), now)
        if grave is None:
            return []
        self._ledger.recent.put(grave.key, grave)
        return [Record(grave)]

    def came(self, row: InboxRow, grave: InboxRow, now: Now) -> list[Action] | None:
        """What a tombstone was for has come: it ends, and its sender is told. None: it is another sender's.

        Of an abandoned question its host need not be told: it said so itself.
        """
        is_abandoned = grave.state is InboxState.RECALLED
        if (grave.from_host != row.from_host) if is_abandoned else (grave.sender != row.sender):
            return None
        row = msgspec.structs.replace(
            row,
            state=grave.state,
            reason=grave.reason,
            detail=grave.detail,
            notified=is_abandoned or not self._notices.is_owed(row.from_host),
        )
        self._ledger.recent.put(row.key, row)
        return [Record(row, grave), *([] if is_abandoned else self._notices.owe(row, now))]


def _by(row: InboxRow) -> str:
    return f"by {short_id(row.msg_id)}"
