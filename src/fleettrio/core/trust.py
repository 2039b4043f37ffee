"""Whom this gateway trusts, as the fleet file says, and what changes when it changes: at once, on what waits too."""

from __future__ import annotations

from fleettrio.core.actions import Action, RecordPeer
from fleettrio.core.events import TrustChanged
from fleettrio.core.inbox import Inbox
from fleettrio.core.roster import Roster
from fleettrio.core.rules import Rules
from fleettrio.ids import HostId, Now
from fleettrio.wire.fleet import Fleet

__all__ = ("Trust", "lost_trust")


class Trust:
    def __init__(self, fleet: Fleet, roster: Roster, inbox: Inbox) -> None:
        self.fleet = fleet
        self._roster = roster
        self._inbox = inbox
        roster.trust_rev = fleet.rev
        self.rules: Rules = {TrustChanged: self.changed}

    def grants(self, host: HostId) -> frozenset[str]:
        return self.fleet.grants(host)

    def changed(self, event: TrustChanged, now: Now) -> list[Action]:
        """The own fleet id never changes under a running daemon."""
        before, self.fleet = self.fleet, event.fleet
        self._roster.trust_rev, self._roster.fleet_hosts = event.fleet.rev, frozenset(event.fleet.hosts)
        actions: list[Action] = []
        for host in lost_trust(before, self.fleet):
            actions += self._inbox.revoke(host, now)
        for peer in list(self._roster.peers.values()):
            if peer.we_refuse and _is_trusted(self.fleet, peer.host):
                actions.append(RecordPeer(self._roster.note_refusal(peer.host, by_us="")))
        return actions


def lost_trust(before: Fleet, after: Fleet) -> list[HostId]:
    """The hosts that `after` trusts no more."""
    return [host for host in before.hosts if _is_trusted(before, host) and not _is_trusted(after, host)]


def _is_trusted(fleet: Fleet, host: HostId) -> bool:
    entry = fleet.hosts.get(host)
    return entry is not None and any((host, key.gen) not in fleet.revoked for key in entry.keys)
