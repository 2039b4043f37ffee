"""What failed of an agent's messages, until the agent was told: the first lines of its next pull, hook or session.

    failed, expired ──a call of its sender waited for it──► told
          └── kept ──its sender's next pull, hook or session start──► told

Rules:
1. What a call was answered with is told, also where the call came after the failure.
2. At most 32 are kept of one agent, the newest; older ones are still in what it sent (`inbox --sent --all`).
3. Told is told once, over restarts too: what is kept in the store is until when.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleettrio.core.actions import Action, RecordSent, RecordSetting, StoreAction
from fleettrio.core.news import has_failed, told_fates
from fleettrio.core.outbox import Outbox
from fleettrio.core.rows import Key, SentRow, SentState
from fleettrio.core.rules import Event, Rules
from fleettrio.ids import Gid, Now, WallMs

__all__ = ("TOLD", "Failures", "FailuresTold")

TOLD = "failures-told."
"""The beginning of its key in the store's `setting`, before the agent's gid."""
MOST = 32


class FailuresTold(Event, frozen=True):
    """An agent was shown what failed of its messages."""

    gid: Gid


class Failures:
    def __init__(self, outbox: Outbox, kept: Iterable[SentRow]) -> None:
        self._outbox = outbox
        self._rows: dict[Gid, dict[Key, SentRow]] = {}
        self._until: dict[Gid, WallMs] = {}
        """When the newest failed that was told, of senders of which others are kept."""
        for row in sorted(kept, key=lambda row: row.at):
            self._keep(row)
        self.rules: Rules = {FailuresTold: self._told}

    def of(self, sender: Gid) -> list[SentRow]:
        """What failed and its sender does not know, oldest first."""
        kept = self._rows.get(sender, {})
        rows = [self._outbox.get(key) or row for key, row in kept.items()]
        return [row for row in rows if row.state in (SentState.FAILED, SentState.EXPIRED) and not row.answered_by]

    def follow(self, records: Sequence[StoreAction], hand_overs: Sequence[Action]) -> list[Action]:
        """Note what failed with these actions."""
        failed = [action.row for action in records if type(action) is RecordSent and has_failed(action)]
        if not failed and not self._rows:
            return []
        told = told_fates(hand_overs)
        for row in failed:
            if row.key not in told:
                self._keep(row)
        kept = [row for rows in self._rows.values() for key, row in rows.items() if key in told]
        return self._tell([*(row for row in failed if row.key in told), *kept]) if told else []

    def _tell(self, rows: Sequence[SentRow]) -> list[Action]:
        """These were told; once nothing is kept of their sender, the store has until when."""
        for row in rows:
            self._rows.get(row.sender, {}).pop(row.key, None)
            self._until[row.sender] = max(row.at, self._until.get(row.sender, row.at))
        over = [sender for sender in dict.fromkeys(row.sender for row in rows) if not self._rows.get(sender)]
        for sender in over:
            self._rows.pop(sender, None)
        return [_mark(sender, self._until.pop(sender)) for sender in over]

    def _keep(self, row: SentRow) -> None:
        rows = self._rows.setdefault(row.sender, {})
        rows[row.key] = row
        if len(rows) > MOST:
            del rows[next(iter(rows))]

    def _told(self, event: FailuresTold, _: Now) -> list[Action]:
        return self._tell([*self._rows.get(event.gid, {}).values()])


def _mark(sender: Gid, until: WallMs) -> RecordSetting:
    """What failed until then, it was told."""
    return RecordSetting(f"{TOLD}{sender}", str(until))
