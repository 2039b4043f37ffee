"""The fleet: which hosts there are, with which keys, and what each may do; one revision of it, as its owner signed it.

A host may send what it was granted and what every trusted host may, nothing else. How a fleet travels: `fleetfile`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fleettrio.ids import FleetId, HostId, WallMs
from fleettrio.wire.gids import is_name
from fleettrio.wire.kinds import NOTICE_KINDS, Kind

__all__ = ("ALL_GRANTS", "DEFAULT_GRANTS", "Fleet", "FleetHost", "HostKey", "grant_for", "is_grant", "solo_fleet")

DEFAULT_GRANTS = frozenset({"send", "ask", "reply", "broadcast"})
ALL_GRANTS = DEFAULT_GRANTS | {"stop", "pause", "report"}
"""Every grant but `spawn:<profile>`."""

_FREE_KINDS = NOTICE_KINDS | {
    Kind.PRESENCE,
    Kind.PING,
    Kind.PONG,
    Kind.ROSTER_ASK,
    Kind.ROSTER,
    Kind.TRACE,
    Kind.TRACED,
    Kind.QUERY,
    Kind.RECALL,
}
"""What every trusted host may send; a notice counts by the party rule, which is not judged here."""
_GRANT_OF: Mapping[str, str] = {
    Kind.SEND: "send",
    Kind.COORD: "send",
    Kind.REPLY: "reply",
    Kind.ANSWER: "reply",
    Kind.RPC: "reply",
    Kind.ASK: "ask",
    Kind.BROADCAST: "broadcast",
    Kind.PAUSE: "pause",
    Kind.STOP: "stop",
    Kind.SPAWN: "spawn:PROFILE",
}


class HostKey(msgspec.Struct, frozen=True):
    """One generation of a host's Ed25519 public key (32 bytes)."""

    host: HostId
    gen: int
    key: bytes


class FleetHost(msgspec.Struct, frozen=True):
    host: HostId
    keys: tuple[HostKey, ...]
    grants: frozenset[str] = DEFAULT_GRANTS
    not_after: WallMs = WallMs(0)
    """0: no end of its own."""
    coord_id: str = ""
    """In a coordinator's fleet: by which name the lead on this host is addressed. Empty: it has none."""


class Fleet(msgspec.Struct, frozen=True):
    """A revision of the fleet, as its owner signed it."""

    fleet_id: FleetId
    rev: int
    not_after: WallMs
    """0: no end."""
    hosts: Mapping[HostId, FleetHost]
    revoked: frozenset[tuple[HostId, int]]
    """`(host, key generation)`."""
    owner_key: bytes

    def key(self, host: str, gen: int) -> bytes | str:
        """The public key, or why there is none: `unknown-host`, `revoked` or `key-generation`."""
        if (host, gen) in self.revoked:
            return "revoked"
        entry = self.hosts.get(HostId(host))
        if entry is None:
            return "unknown-host"
        return next((key.key for key in entry.keys if key.gen == gen), "key-generation")

    def grants(self, host: str) -> frozenset[str]:
        """What `host` was granted; nothing when it is not of this fleet."""
        entry = self.hosts.get(HostId(host))
        return entry.grants if entry else frozenset()

    def coord_id(self, host: str) -> str:
        """By which name the lead on `host` is addressed; empty when it has none."""
        entry = self.hosts.get(HostId(host))
        return entry.coord_id if entry else ""

    def host_of_lead(self, coord_id: str) -> HostId | None:
        """The host whose lead has this coordId."""
        return next((host for host, entry in self.hosts.items() if coord_id and entry.coord_id == coord_id), None)

    def allows(self, host: str, kind: str) -> bool:
        """Whether `host` may send `kind` at all. Which profile it may spawn, and whose worker stop, is judged later."""
        if HostId(host) not in self.hosts:
            return False
        if kind in _FREE_KINDS:
            return True
        grants = self.grants(host)
        if kind in (Kind.SPAWN, Kind.STOP) and any(grant.startswith("spawn:") for grant in grants):
            return True
        return _GRANT_OF.get(kind) in grants

    def is_expired(self, now: WallMs | int) -> bool:
        """Past its end. That warns and accepts nothing new; it cuts nobody off."""
        return bool(self.not_after) and now > self.not_after


def grant_for(kind: str) -> str:
    """The grant that a host needs to send `kind`; `kind` itself where none gives it."""
    return _GRANT_OF.get(kind, kind)


def solo_fleet(fleet_id: FleetId, key: HostKey) -> Fleet:
    """The fleet of a host that joined none: itself, owned by its own key."""
    entry = FleetHost(key.host, (key,), ALL_GRANTS)
    return Fleet(fleet_id, 0, WallMs(0), {key.host: entry}, frozenset(), key.key)


def is_grant(grant: str) -> bool:
    prefix, colon, profile = grant.partition(":")
    return grant in ALL_GRANTS or (prefix == "spawn" and bool(colon) and is_name(profile))
