"""What failed of an agent's messages, until the agent was told: the first lines of its next pull, hook or session.

    failed, expired ──a call of its sender waited for it──► told
          └── kept ──its sender's next pull, hook or session start──► told

Rules:
1. What the sender's own waiting call was answered with is told.
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
        told = told_fates(hand_overs) if failed else set()
        marks: list[Action] = []
        for row in failed:
            if row.key not in told:
                self._keep(row)
            elif not self._rows.get(row.sender):
                marks.append(_mark(row.sender, row.at))
        return marks

    def _keep(self, row: SentRow) -> None:
        rows = self._rows.setdefault(row.sender, {})
        rows[row.key] = row
        if len(rows) > MOST:
            del rows[next(iter(rows))]

    def _told(self, event: FailuresTold, _: Now) -> list[Action]:
        rows = self._rows.pop(event.gid, {})
        if not rows:
            return []
        return [_mark(event.gid, max(row.at for row in rows.values()))]


def _mark(sender: Gid, until: WallMs) -> RecordSetting:
    """What failed until then, it was told."""
    return RecordSetting(f"{TOLD}{sender}", str(until))
