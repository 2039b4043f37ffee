"""Who the leads are: the one here, the others by the coordinator's fleet file, and what all of them are called."""

from __future__ import annotations

import difflib

from fleettrio.core.actions import Fail
from fleettrio.core.beginning import Settings
from fleettrio.core.entity import Entity
from fleettrio.core.requests import CoordAsked
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.core.topology import lead_key
from fleettrio.core.words import REPORT
from fleettrio.errors import FAILED
from fleettrio.ids import Gid, HostId
from fleettrio.wire.envelope import Kind

__all__ = ("Leads",)

_NOT_HERE = ("starting", "stopping", "gone")
"""States of the lead in which its mailbox is left alone."""


class Leads:
    def __init__(self, settings: Settings, roster: Roster) -> None:
        given = settings.coordinator
        self.is_there = given is not None
        self.me = given.me if given else settings.me
        self.fleet = given.fleet if given else settings.fleet
        self.coord_id = given.coord_id if given else ""
        self.lead_name = given.lead if given else ""
        self.why_not = settings.no_coordinator or "this host's configuration has no [coordinator]"
        self._roster = roster

    def lead(self) -> Entity | None:
        """The agent here that is the lead, whatever it does."""
        entity = self._roster.by_name(self.lead_name) if self.is_there else None
        return None if entity is None or entity.status in _NOT_HERE else entity

    def kept_as(self, gid: Gid) -> Gid:
        """By which gid the rows of what was sent to `gid` there are kept here: the mailbox is the lead's."""
        lead = self.lead()
        return lead.gid if lead is not None and gid == self.me.gid else gid

    def correspondent(self, row: InboxRow | SentRow) -> str:
        """Who is at the other end of any message, for showing: an agent of the fleet, or another lead."""
        host, gid = (row.from_host, row.sender) if isinstance(row, InboxRow) else (row.to_host, row.gid)
        return self.address(host) if row.kind == Kind.COORD else self._roster.address(gid, host)

    def address(self, host: HostId) -> str:
        """The lead on a host of the coordinator's fleet, for showing."""
        coord_id = self.fleet.coord_id(host) if self.is_there else ""
        return lead_key(coord_id) if coord_id else f"a lead at {host}"

    @property
    def problem(self) -> tuple[str, str] | None:
        """What a person must mend, and how. Links are not looked at."""
        paired = self.fleet.coord_id(self.me.host)
        if not self.is_there:
            return None
        if paired != self.coord_id:
            says = f"calls the lead on {self.me.host} {paired!r}" if paired else f"has no lead on {self.me.host}"
            text = f"the coordinator's fleet file {says}; here it is {self.coord_id!r}"
            return text, f"its owner pairs them: fleettrio host add LINE --coord-id {self.coord_id}"
        if self.lead() is None:
            text = f"no agent here is called {self.lead_name!r}, so what other leads send waits at their broker"
            return text, f"fleettrio attach --name {self.lead_name}, or correct coordinator.lead in fleettrio.toml"
        return None

    def others(self) -> list[str]:
        """The coordIds of the other leads."""
        return sorted(h.coord_id for h in self.fleet.hosts.values() if h.coord_id and h.coord_id != self.coord_id)

    def reporters(self) -> list[str]:
        """The coordIds of the leads, the one here among them, whose hosts may tell what died in a mailbox."""
        hosts = self.fleet.hosts.values()
        return sorted(h.coord_id for h in hosts if h.coord_id and REPORT in self.fleet.grants(h.host))

    def others_in_words(self) -> str:
        return f"the other leads are: {', '.join(self.others()) or 'none yet'}"

    def unknown_lead(self, event: CoordAsked) -> Fail:
        near = difflib.get_close_matches(event.coord_id, self.others(), n=3)
        text = f"the coordinator's fleet file knows no lead {event.coord_id!r}"
        hint = f"did you mean {' or '.join(near)}?" if near else self.others_in_words()
        return Fail(event.call, FAILED, "no-such-recipient", text, hint)
