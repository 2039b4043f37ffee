"""Who is where: this host's entities, and those of other hosts as their signed presence says.

Rules:
1. A peer's entities are kept while it beats with the `rosterRev` we know; another one means: ask it (ROSTER_ASK).
2. A host not heard for 3 beats reads `unknown`; nothing vanishes. Nothing is judged by the roster in a session's first
   2 beats (*settling*).
3. `(epoch, seq)` of a host only grows; an older one is a replay and changes nothing. Nor does an entity entry that the
   known roster of its host has overtaken.
4. The roster informs. It is in no security decision: a gid proves its host by itself.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Iterator

from fleettrio.core.compose import Identity
from fleettrio.core.rows import Entity, Peer, PeerEntity
from fleettrio.ids import Gid, HostId, WallMs

__all__ = ("BEAT_S", "Roster", "Target", "UnknownRecipient")

BEAT_S = 5.0
MOST_ENTITIES = 4_096
"""Of one host: another one may be hostile, and memory is not endless."""
SILENT_MS = int(3 * BEAT_S * 1000)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Where a message goes: a gid and the host it lives on."""

    gid: Gid
    host: HostId
    name: str
    takes: str


@dataclasses.dataclass(frozen=True, slots=True)
class UnknownRecipient:
    message: str
    hint: str


class Roster:
    def __init__(
        self,
        me: Identity,
        entities: Iterable[Entity],
        peers: Iterable[Peer],
        others: Iterable[PeerEntity],
        rev: int,
        fleet_hosts: Iterable[HostId] = (),
    ) -> None:
        self._me = me
        self.fleet_hosts = frozenset(fleet_hosts)
        """The hosts of the fleet file, heard or not."""
        self.entities: dict[Gid, Entity] = {e.gid: e for e in entities}
        self.peers: dict[HostId, Peer] = {p.host: p for p in peers}
        self.others: dict[Gid, PeerEntity] = {e.gid: e for e in others}
        self.rev = rev
        self._heard_this_session: set[HostId] = set()

    # --- own entities

    def begin(self, rev: int, wall: WallMs) -> None:
        """Revisions go on from `rev`. What a clock that was ahead left in the rows is made sayable again."""
        self.rev = rev
        for e in list(self.entities.values()):
            if e.rev > self.rev or e.since > wall:
                self.entities[e.gid] = dataclasses.replace(e, rev=min(e.rev, self.rev), since=min(e.since, wall))

    def put(self, entity: Entity) -> Entity:
        """Add or change an entity of this host; returns it with the roster revision it got."""
        self.rev += 1
        entity = dataclasses.replace(entity, rev=self.rev)
        self.entities[entity.gid] = entity
        return entity

    def drop(self, gid: Gid) -> Entity:
        self.rev += 1
        return self.entities.pop(gid)

    def by_name(self, name: str) -> Entity | None:
        return next((e for e in self.entities.values() if e.name == name), None)

    # --- other hosts

    def session_opened(self) -> None:
        self._heard_this_session.clear()

    def is_silent(self, host: HostId, wall: WallMs) -> bool:
        """True when `host` has not been heard for 3 beats (or ever)."""
        peer = self.peers.get(host)
        return host != self._me.host and (peer is None or wall - peer.heard_at > SILENT_MS)

    def beat(self, peer: Peer) -> tuple[Peer, bool, bool] | None:
        """Take a beat. Returns the peer to record, whether it is the first of this session, whether its roster is
        another one than we know; None for a replay."""
        known = self.peers.get(peer.host)
        if known and (peer.epoch, peer.seq) <= (known.epoch, known.seq):
            return None
        rev_differs = known is None or known.epoch != peer.epoch or known.roster_rev != peer.roster_rev
        merged = dataclasses.replace(
            peer,
            roster_rev=known.roster_rev if known and known.epoch == peer.epoch else -1,
            refuses_us=known.refuses_us if known else "",
            we_refuse="",
        )
        self.peers[peer.host] = merged
        is_first = peer.host not in self._heard_this_session
        self._heard_this_session.add(peer.host)
        return merged, is_first, rev_differs

    def note_refusal(self, host: HostId, *, by_us: str | None = None, by_them: str | None = None) -> Peer:
        peer = self.peers.get(host, Peer(host=host))
        peer = dataclasses.replace(
            peer,
            we_refuse=peer.we_refuse if by_us is None else by_us,
            refuses_us=peer.refuses_us if by_them is None else by_them,
        )
        self.peers[host] = peer
        return peer

    def note_offset(self, host: HostId, offset_ms: int) -> Peer:
        """A presence refused for its time still says how far that host's clock is off."""
        peer = dataclasses.replace(self.peers.get(host, Peer(host=host)), offset_ms=offset_ms)
        self.peers[host] = peer
        return peer

    def unheard(self) -> list[HostId]:
        """The fleet's other hosts of which no beat was ever taken."""
        heard = {peer.host for peer in self.peers.values() if peer.heard_at}
        return sorted(self.fleet_hosts - heard - {self._me.host})

    def strangers(self) -> list[HostId]:
        """Hosts of which no beat was ever taken."""
        return [peer.host for peer in self.peers.values() if not peer.heard_at]

    def announced(self, entity: PeerEntity) -> tuple[bool, Peer | None]:
        """An entity entry of a peer: whether it is news, and the peer when its known revision moved on by just that."""
        peer, known = self.peers.get(entity.host), self.others.get(entity.gid)
        if (peer and entity.rev <= peer.roster_rev) or (known and entity.rev < known.rev):
            return False, None
        if not self._keep(entity):
            return False, None
        if peer and entity.rev == peer.roster_rev + 1:
            peer = dataclasses.replace(peer, roster_rev=entity.rev)
            self.peers[peer.host] = peer
            return True, peer
        return True, None

    def of_host(self, host: HostId) -> tuple[PeerEntity, ...]:
        """What is known to live there."""
        return tuple(e for e in self.others.values() if e.host == host)

    def replaced(
        self, host: HostId, rev: int, entities: Iterable[PeerEntity], *, is_first: bool, is_last: bool
    ) -> Peer | None:
        """A part of the whole roster of `host`; the first part clears what was known, the last one makes it whole."""
        if is_first:
            for entity in self.of_host(host):
                del self.others[entity.gid]
        for entity in entities:
            self._keep(entity)
        peer = self.peers.get(host)
        if peer is None or not is_last:
            return None
        peer = dataclasses.replace(peer, roster_rev=rev)
        self.peers[host] = peer
        return peer

    def _keep(self, entity: PeerEntity) -> bool:
        if entity.status == "gone":
            self.others.pop(entity.gid, None)
        elif entity.gid not in self.others and len(self.of_host(entity.host)) >= MOST_ENTITIES:
            return False
        else:
            self.others[entity.gid] = entity
        return True

    # --- names

    def knows(self, gid: Gid) -> bool:
        return gid in self.entities or gid in self.others

    def address(self, gid: Gid, host: HostId) -> str:
        """`name@host` for showing; a short gid where no name is known."""
        if gid in self.entities:
            return f"{self.entities[gid].name}@{self._me.host}"
        if gid in self.others:
            return f"{self.others[gid].name}@{host or self.others[gid].host}"
        return f"{gid[:8]}@{host}" if host else gid[:8]

    def resolve(self, address: str) -> Target | UnknownRecipient:
        """The one entity that `address` means: `name`, `name@host`, a gid, `role:<role>[@host]`."""
        found = list(self._matches(address))
        if len(found) == 1:
            return found[0]
        name, _, host = address.partition("@")
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

    def _near(self, address: str, name: str) -> list[str]:
        """Addresses much like the one given, of agents that exist."""
        addresses = sorted(f"{t.name}@{t.host}" for t in self._all())
        by_name = {t.name: f"{t.name}@{t.host}" for t in self._all()}
        return difflib.get_close_matches(address, addresses, 3, 0.6) or [
            by_name[n] for n in difflib.get_close_matches(name, by_name, 3, 0.6)
        ]

    def _matches(self, address: str) -> Iterator[Target]:
        name, _, host = address.partition("@")
        role = name.removeprefix("role:") if name.startswith("role:") else None
        local_first = [t for t in self._all() if t.host == self._me.host]
        for target in self._all():
            if host and target.host != host:
                continue
            if target.gid == address:
                yield target
            elif role is not None:
                if self._role(target.gid) == role:
                    yield target
            elif target.name == name and (
                host or target.host == self._me.host or not any(t.name == name for t in local_first)
            ):
                yield target

    def _role(self, gid: Gid) -> str:
        entity: Entity | PeerEntity | None = self.entities.get(gid) or self.others.get(gid)
        return entity.role if entity else ""

    def _all(self) -> Iterator[Target]:
        for e in self.entities.values():
            yield Target(e.gid, self._me.host, e.name, e.takes)
        for o in self.others.values():
            yield Target(o.gid, o.host, o.name, o.takes)
