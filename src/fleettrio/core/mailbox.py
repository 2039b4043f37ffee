"""The mailbox of this host's lead, at the coordinator's broker: whether it is consumed.

Rules:
1. It is consumed while the lead is here and takes more; else what comes waits there.
2. A session begins without it, and ends it.
"""

from __future__ import annotations

from fleettrio.core.actions import Action, AtCoordinator, OpenInbox, PauseInbox
from fleettrio.core.events import InboxBound, InboxTrouble
from fleettrio.core.leads import Leads
from fleettrio.core.ledger import Ledger
from fleettrio.core.link import Link
from fleettrio.core.roster import Roster
from fleettrio.core.topology import LeadQueue
from fleettrio.ids import Gid, Now

__all__ = ("Mailbox",)


class Mailbox:
    def __init__(self, leads: Leads, link: Link, ledger: Ledger, roster: Roster) -> None:
        self.state = ""
        """How it is in this session: `open`, or its trouble; empty: not consumed."""
        self._leads = leads
        self._link = link
        self._ledger = ledger
        self._roster = roster
        self._consumed: Gid | None = None
        self._followed = -1

    def session_opened(self) -> None:
        self.state, self._consumed, self._followed = "", None, -1

    def session_closed(self) -> None:
        self.state, self._consumed = "", None

    def bound(self, _: InboxBound, now: Now) -> list[Action]:
        """The broker has its consumer."""
        self.state = "open"
        return []

    def troubled(self, event: InboxTrouble, now: Now) -> list[Action]:
        self.state = event.trouble
        return []

    def follow(self) -> list[Action]:
        """Consume the mailbox or leave it alone, as the lead is now."""
        if not self._link.is_open or self._followed == self._roster.rev:
            return []
        self._followed = self._roster.rev
        lead = self._leads.lead()
        wanted = lead.gid if lead is not None and not self._ledger.is_full(lead.gid) else None
        if wanted == self._consumed:
            return []
        before, self._consumed, self.state = self._consumed, wanted, ""
        actions: list[Action] = [AtCoordinator(PauseInbox(before))] if before else []
        if wanted:
            actions.append(AtCoordinator(OpenInbox(LeadQueue(wanted, coord_id=self._leads.coord_id))))
        return actions
