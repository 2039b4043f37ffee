"""Words between neighbours: what became of a message, told to the row of its sender, who lives on this host, too."""

from __future__ import annotations

from collections.abc import Sequence

from fleettrio.core.actions import Action
from fleettrio.core.lookups import LookUps
from fleettrio.core.notices import is_ended, reason_of
from fleettrio.core.outbox import Outbox
from fleettrio.core.rows import ENDED, InboxRow, SentRow
from fleettrio.core.said import Word
from fleettrio.ids import Now

__all__ = ("Neighbours",)


class Neighbours:
    def __init__(self, outbox: Outbox, lookups: LookUps) -> None:
        self._outbox = outbox
        self._lookups = lookups

    def tell(self, row: InboxRow, now: Now) -> list[Action]:
        """The sender's row learns the word without a broker."""
        state = "held" if row.state.is_open else ENDED if is_ended(row) else str(row.state)

        def then(_: Sequence[InboxRow | None], sent: Sequence[SentRow | None], now: Now) -> list[Action]:
            known = sent[0]
            if known is None:
                return []
            word = Word(*row.key, row.leaf, state, reason_of(row), row.detail, row.via, row.at, row.stale)
            return self._outbox.word(known, word, "peer", now)

        return self._lookups.look_up((), (row.key,), then, now)
