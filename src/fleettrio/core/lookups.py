"""Rows that the core does not hold open are looked up at the store (`Load`); what wants them goes on with the answer.

Whatever happens in between changes nothing: the rows are judged when they are there (`Loaded`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from fleettrio.core.actions import Action, Load
from fleettrio.core.events import Loaded
from fleettrio.core.ledger import Ledger
from fleettrio.core.outbox import Outbox
from fleettrio.core.rows import InboxRow, Key, SentRow
from fleettrio.core.rules import Rules
from fleettrio.ids import Now

__all__ = ("LookUps",)

Then = Callable[[Sequence[InboxRow | None], Sequence[SentRow | None], Now], list[Action]]


class _Ask(msgspec.Struct, frozen=True):
    """What is looked up, and what goes on with it."""

    inbox: tuple[Key, ...]
    sent: tuple[Key, ...]
    then: Then


class LookUps:
    def __init__(self, ledger: Ledger, outbox: Outbox) -> None:
        self._ledger = ledger
        self._outbox = outbox
        self._asks: dict[int, _Ask] = {}
        self._next_ask = 1
        self.rules: Rules = {Loaded: self.loaded}

    def look_up(self, inbox: Sequence[Key], sent: Sequence[Key], then: Then, now: Now) -> list[Action]:
        """Go on with `then(inbox rows, sent rows)`: at once when the core holds them all, else after a `Load`."""
        inbox_rows = [self._ledger.get(key) for key in inbox]
        sent_rows = [self._outbox.get(key) for key in sent]
        missing_inbox = tuple(key for key, row in zip(inbox, inbox_rows, strict=True) if row is None)
        missing_sent = tuple(key for key, row in zip(sent, sent_rows, strict=True) if row is None)
        if not missing_inbox and not missing_sent:
            return then(inbox_rows, sent_rows, now)
        ask = self._next_ask
        self._next_ask += 1
        self._asks[ask] = _Ask(tuple(inbox), tuple(sent), then)
        return [Load(ask, missing_inbox, missing_sent)]

    def loaded(self, event: Loaded, now: Now) -> list[Action]:
        """The store has spoken. What came in while it was read is newer than what it read."""
        ask = self._asks.pop(event.ask, None)
        if ask is None:
            return []
        from_store = {row.key: row for row in event.inbox if row is not None}
        sent_from_store = {row.key: row for row in event.sent if row is not None}
        inbox = [self._ledger.get(key) or from_store.get(key) for key in ask.inbox]
        sent = [self._outbox.get(key) or sent_from_store.get(key) for key in ask.sent]
        return ask.then(inbox, sent, now)

    def not_loaded(self, ask: int) -> None:
        """The store could not be read: what was asked for is asked again by whoever asked."""
        self._asks.pop(ask, None)
