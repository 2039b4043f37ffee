"""What comes of each publish: from the hand-over to its one verdict, told to whoever it was for.

A message's row learns it in the outbox, a notice's rows in the ledger; nobody waits for the rest.
"""

from __future__ import annotations

from fleettrio.core.actions import Action
from fleettrio.core.events import PublishNotHanded, VerdictGiven
from fleettrio.core.ledger import Ledger
from fleettrio.core.link import CONFIRM_LIMIT_S, ForNotice, ForSent, Link, Purpose
from fleettrio.core.outbox import Outbox
from fleettrio.ids import Now

__all__ = ("Publishes",)

UNKNOWN = "outcome-unknown"


class Publishes:
    def __init__(self, link: Link, outbox: Outbox, ledger: Ledger) -> None:
        self._link = link
        self._outbox = outbox
        self._ledger = ledger

    def handed(self, ids: tuple[int, ...], now: Now) -> None:
        for purpose in self._link.handed(ids, now):
            if isinstance(purpose, ForSent):
                self._outbox.written((purpose.msg_id, purpose.gid))

    def not_handed(self, event: PublishNotHanded, now: Now) -> list[Action]:
        purpose = self._link.over(event.id)
        if isinstance(purpose, ForSent):
            return self._outbox.fail((purpose.msg_id, purpose.gid), event.reason, event.detail, now)
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

    def session_closed(self, reason: str, now: Now) -> list[Action]:
        """Every open publish gets its verdict now: what was handed over may have arrived, the rest never goes out."""
        actions: list[Action] = []
        for purpose, was_handed in self._link.closed(reason):
            if isinstance(purpose, ForSent) and not was_handed:
                key = (purpose.msg_id, purpose.gid)
                actions += self._outbox.fail(key, "broker-unreachable", "the session ended", now)
            else:
                actions += self.came_to(purpose, UNKNOWN, f"the link was lost: {reason}", now)
        return actions

    def came_to(self, purpose: Purpose | None, verdict: str, detail: str, now: Now) -> list[Action]:
        """Tell whoever it was for."""
        match purpose:
            case ForSent(msg_id, gid):
                return self._outbox.verdict((msg_id, gid), verdict, detail, now)
            case ForNotice():
                return self._ledger.notice_verdict(purpose, verdict, now)
        return []
