"""What is read of the roster: who an address means, what somebody is called, who is heard and who is not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

import msgspec

from fleettrio.core.compose import Identity, gateway_of
from fleettrio.core.entity import Entity
from fleettrio.core.named import Named, Others
from fleettrio.core.peer import Peer, PeerEntity
from fleettrio.core.topology import inbox_of
from fleettrio.ids import Gid, HostId, WallMs

__all__ = ("BEAT_S", "SILENT_MS", "Directory", "Target", "UnknownRecipient")

BEAT_S = 5.0
SILENT_MS = int(3 * BEAT_S * 1000)


class Target(msgspec.Struct, frozen=True):
    """Where a message goes: a gid and the host it lives on."""

    gid: Gid
    host: HostId
    name: str
    takes: str


class UnknownRecipient(msgspec.Struct, frozen=True):
    message: str
    hint: str


class Directory:
    def __init__(
        self,
        me: Identity,
        entities: Iterable[Entity],
        peers: Iterable[Peer],
        others: Iterable[PeerEntity],
        fleet_hosts: Iterable[HostId],
    ) -> None:
        self._me = me
        self.fleet_hosts = frozenset(fleet_hosts)
        """The hosts of the fleet file, heard or not."""
        self.trust_rev = 0
        """The revision of that file."""
        here = {e.gid: e for e in entities}
        self.entities: Named[Entity] = Named(e for e in here.values() if e.status != "starting")
        self.starting: dict[Gid, Entity] = {gid: e for gid, e in here.items() if e.status == "starting"}
        """Agents that are being started: they hold their names already, and nobody can send to them."""
        self.seen_starting: set[Gid] = set()
        """Those of them that reported a state themselves."""
        self.peers: dict[HostId, Peer] = {p.host: p for p in peers}
        self.others = Others(others)
        self._resolved: dict[str, Target] = {}
        self._resolved_at = (0, 0)
        """What addresses mean, as of so many changes here and elsewhere: most messages go where others went."""
        self._gone: dict[Gid, tuple[str, HostId]] = {}
        """What those that are gone were called, and where; the latest last."""

    def by_name(self, name: str) -> Entity | None:
        """The entity here that holds `name`, one that is only being started included."""
        here = (*self.entities.named(name), *(e for e in self.starting.values() if e.name == name))
        return next(iter(here), None)

    def of_session(self, session: str) -> Entity | None:
        """The entity here whose harness calls its session so: one that is there before one that is away."""
        found = [e for e in self.entities.values() if session and e.session == session]
        return min(found, key=lambda e: e.status == "away", default=None)

    def place(self, gid: Gid) -> tuple[str, str]:
        """Repository and HEAD of an entity's work tree, as it was last announced; empty where it has none."""
        entity = self.entities.get(gid) or self.others.get(gid)
        return (entity.repo, entity.head) if entity else ("", "")

    # --- other hosts

    def is_of_fleet(self, host: HostId) -> bool:
        return host == self._me.host or host in self.fleet_hosts

    def is_own(self, host: HostId) -> bool:
        return host == self._me.host

    def is_silent(self, host: HostId, wall: WallMs) -> bool:
        """True when `host` has said that it leaves, or has not been heard for 3 beats (or ever)."""
        peer = self.peers.get(host)
        is_heard = peer is not None and not peer.has_left and wall - peer.heard_at <= SILENT_MS
        return host != self._me.host and not is_heard

    def why_not_spoken(self, host: HostId, kind: str) -> str:
        """Why `host` would refuse this kind, as a sentence; empty when it acts on it, or nobody knows yet."""
        peer = self.peers.get(host)
        if peer is None or not peer.kinds or kind in peer.kinds:
            return ""
        return f"{host} runs fleettrio {peer.version}, which does not know {kind}"

    def unheard(self) -> list[HostId]:
        """The fleet's other hosts of which no beat was ever taken."""
        heard = {peer.host for peer in self.peers.values() if peer.heard_at}
        return sorted(self.fleet_hosts - heard - {self._me.host})

    def strangers(self) -> list[HostId]:
        """Hosts of which no beat was ever taken."""
        return [peer.host for peer in self.peers.values() if not peer.heard_at]

    def of_host(self, host: HostId) -> tuple[PeerEntity, ...]:
        """What is known to live there."""
        return self.others.of_host(host)

    # --- groups

    def members(self, to: str) -> list[Target]:
        """Who takes what goes to this broadcast key, as far as is known here."""
        return [
            Target(entity.gid, host, entity.name, entity.takes)
            for entity, host in self._everybody()
            if entity.status not in ("stopping", "gone") and inbox_of(entity.gid, entity.takes, entity.groups).takes(to)
        ]

    def _everybody(self) -> Iterator[tuple[Entity | PeerEntity, HostId]]:
        """Everybody here, and on the hosts that are of the fleet still."""
        yield from ((entity, self._me.host) for entity in self.entities.values())
        yield from ((other, other.host) for other in self.others.values() if other.host in self.fleet_hosts)

    # --- names

    def knows(self, gid: Gid) -> bool:
        return gid in self.entities or gid in self.others

    def address(self, gid: Gid, host: HostId) -> str:
        """`name@host` for showing, also of who is gone; a short gid where no name is known."""
        if gid == self._me.gid:
            return f"gateway@{self._me.host}"
        if gid in self.entities:
            return f"{self.entities[gid].name}@{self._me.host}"
        if gid in self.starting:
            return f"{self.starting[gid].name}@{self._me.host}"
        if gid in self.others:
            return f"{self.others[gid].name}@{host or self.others[gid].host}"
        if host and gid == gateway_of(self._me.fleet_id, host):
            return host
        name, home = self._gone.get(gid, ("", host))
        if name and not self._is_borne(name, home):
            return f"{name}@{host or home}"
        return f"{gid[:8]}@{host}" if host else gid[:8]

    def _is_borne(self, name: str, host: HostId) -> bool:
        here = host == self._me.host
        return self.by_name(name) is not None if here else any(e.host == host for e in self.others.named(name))

    def resolve(self, address: str) -> Target | UnknownRecipient:
        """The one entity that `address` means: `name`, `name@host`, a gid, `role:<role>[@host]`,
        `session:<id>` (of this host)."""
        changes = (self.entities.changes, self.others.changes)
        if changes != self._resolved_at:
            self._resolved, self._resolved_at = {}, changes
        if (known := self._resolved.get(address)) is not None:
            return known
        found = self._matches(address)
        if len(found) == 1:
            return self._resolved.setdefault(address, found[0])
        name, at, host = address.partition("@")
        if at and not host:  # as of a variable that is empty: a namesake here is not who was meant
            return UnknownRecipient(f"{address!r} names no host", f"{name}@HOST, or {name} alone")
        if not found and host in ("", self._me.host) and any(e.name == name for e in self.starting.values()):
            return UnknownRecipient(f"{name} is being started and takes no messages yet", "`fleettrio list` shows when")
        if len(found) > 1:
            choices = ", ".join(sorted(f"{t.name}@{t.host}" for t in found))
            return UnknownRecipient(f"{address!r} means more than one agent: {choices}", "name one with its host")
        if host in self.unheard():
            text = f"{address}: {host} is in the fleet but has not been heard yet (its agents are not known)"
            return UnknownRecipient(text, f"`fleettrio ping {host}`, or wait a few seconds after `up`")
        near = self._near(address, name)
        if host and host not in {self._me.host, *self.fleet_hosts, *self.peers}:
            hosts = ", ".join(sorted({self._me.host, *self.fleet_hosts, *self.peers}))
            hint = f"did you mean {' or '.join(near)}?" if near else f"hosts known here: {hosts}"
            return UnknownRecipient(f"no host {host!r} is known here", hint)
        hint = f"did you mean {' or '.join(near)}?" if near else "`fleettrio list` shows who is there"
        return UnknownRecipient(f"no agent {address!r} is known here", hint)

    def resolve_here(self, address: str) -> Target | UnknownRecipient:
        """As `resolve`, where a wrong guess does harm: without a host it means one of this host, and no other one."""
        found = self.resolve(address)
        if isinstance(found, UnknownRecipient) or found.host == self._me.host:
            return found
        if "@" in address or address == found.gid:
            return found
        return UnknownRecipient(f"no {address} is here", f"did you mean {found.name}@{found.host}?")

    def matching(self, address: str) -> tuple[Target, ...]:
        """Every entity that `address` can mean: all of a role."""
        return tuple(self._matches(address))

    def _near(self, address: str, name: str) -> list[str]:
        """Addresses much like the one given, of agents that exist."""
        addresses = sorted(f"{t.name}@{t.host}" for t in self._all())
        by_name = {t.name: f"{t.name}@{t.host}" for t in self._all()}
        return difflib.get_close_matches(address, addresses, 3, 0.6) or [
            by_name[n] for n in difflib.get_close_matches(name, by_name, 3, 0.6)
        ]

    def _matches(self, address: str) -> list[Target]:
        gid = Gid(address)
        if here := self.entities.get(gid):
            return [self._here(here)]
        if there := self.others.get(gid):
            return [_there(there)]
        name, at, host = address.partition("@")
        if at and not host:
            return []
        if name.startswith("session:"):
            entity = self.of_session(name.removeprefix("session:"))
            return [self._here(entity)] if entity is not None and host in ("", self._me.host) else []
        if name.startswith("role:"):
            role = name.removeprefix("role:")
            return [t for t in self._all() if host in ("", t.host) and self._role(t.gid) == role]
        if host in ("", self._me.host) and (named := self.entities.named(name)):
            return [self._here(entity) for entity in named]
        return [_there(other) for other in self.others.named(name) if host in ("", other.host)]

    def _role(self, gid: Gid) -> str:
        entity: Entity | PeerEntity | None = self.entities.get(gid) or self.others.get(gid)
        return entity.role if entity else ""

    def _all(self) -> Iterator[Target]:
        yield from map(self._here, self.entities.values())
        yield from map(_there, self.others.values())

    def _here(self, entity: Entity) -> Target:
        return Target(entity.gid, self._me.host, entity.name, entity.takes)


def _there(other: PeerEntity) -> Target:
    return Target(other.gid, other.host, other.name, other.takes)
