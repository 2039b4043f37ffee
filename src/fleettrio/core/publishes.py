"""What comes of each publish: from the hand-over to its one verdict, told to whoever it was for.

A message's row learns it in the outbox, a notice's rows in the ledger; nobody waits for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fleettrio.core.actions import Action, Resolve
from fleettrio.core.events import PublishHanded, PublishNotHanded, SessionClosed, VerdictGiven
from fleettrio.core.ledger import Ledger
from fleettrio.core.link import CONFIRM_LIMIT_S, ForCall, ForNotice, ForOwed, ForSent, Link, Purpose
from fleettrio.core.outbox import Outbox
from fleettrio.core.owed import Owed
from fleettrio.core.rows import Key
from fleettrio.ids import Now

__all__ = ("Publishes",)

UNKNOWN = "outcome-unknown"
HEARD = ("confirmed", "unroutable")
"""Verdicts after which the broker does nothing more about it."""
STORE = "store"
"""Why a publish was not handed over when its row could not be recorded."""


class Publishes:
    def __init__(self, link: Link, outbox: Outbox, ledger: Ledger, owed: Owed) -> None:
        self._link = link
        self._owed = owed
        self.confirmed: Callable[[Iterable[Key], Now], list[Action]] = lambda _keys, _now: []
        """Messages that were sent until the broker has them (`lastwords`)."""
        self._outbox = outbox
        self._ledger = ledger
        self.unrecorded: Callable[[Iterable[Key], str, Now], list[Action]]
        """The store does not take the rows of these messages (`storefault`)."""

    def handed(self, event: PublishHanded, now: Now) -> list[Action]:
        for purpose in self._link.handed(event.ids, now):
            if isinstance(purpose, ForSent):
                self._outbox.written(purpose.keys)
        return []

    def not_handed(self, event: PublishNotHanded, now: Now) -> list[Action]:
        purpose = self._link.over(event.id)
        if event.reason == STORE:
            keys = purpose.keys if isinstance(purpose, ForSent) else ()
            broke = self.unrecorded(keys, event.detail, now)
            return broke if keys else [*broke, *self.came_to(purpose, event.reason, "", now)]
        if isinstance(purpose, ForSent):
            return self._failed(purpose, event.reason, event.detail, now)
        return self.came_to(purpose, event.reason, "", now)

    def verdict(self, event: VerdictGiven, now: Now) -> list[Action]:
        purpose = self._link.over(event.id)
        if event.verdict != UNKNOWN:
            self._link.heard(now.mono)
        return self.came_to(purpose, event.verdict, event.detail, now)

    def late(self, now: Now) -> list[Action]:
        """The time for a confirm is over for some: their senders wait no longer. A late verdict still counts."""
        detail = f"the broker did not confirm within {CONFIRM_LIMIT_S:.0f} s"
        late = [purpose for purpose in self._link.late(now) if isinstance(purpose, ForSent)]
        return [action for purpose in late for action in self.came_to(purpose, UNKNOWN, detail, now)]

    def session_closed(self, event: SessionClosed, now: Now) -> list[Action]:
        """Every open publish gets its verdict now: what was handed over may have arrived, the rest never goes out."""
        actions: list[Action] = []
        for purpose, was_handed in self._link.closed(event.reason):
            if isinstance(purpose, ForSent) and not was_handed:
                actions += self._failed(purpose, "broker-unreachable", "the session ended", now)
            else:
                actions += self.came_to(purpose, UNKNOWN, f"the link was lost: {event.reason}", now)
        return actions

    def came_to(self, purpose: Purpose | None, verdict: str, detail: str, now: Now) -> list[Action]:
        """Tell whoever it was for."""
        if type(purpose) is ForSent:  # by far the most
            keys = purpose.keys
            actions = [action for key in keys for action in self._outbox.verdict(key, verdict, detail, now)]
            return [*actions, *self.confirmed(keys, now)] if verdict == "confirmed" else actions
        match purpose:
            case ForNotice():
                return self._ledger.notice_verdict(purpose, verdict, now)
            case ForOwed():
                return self._owed.verdict(purpose, verdict, now)
            case ForCall(call, told):
                return [*([told] if told and verdict in HEARD else []), Resolve(call, verdict)]
        return []

    def _failed(self, purpose: ForSent, reason: str, detail: str, now: Now) -> list[Action]:
        return [action for key in purpose.keys for action in self._outbox.fail(key, reason, detail, now)]
