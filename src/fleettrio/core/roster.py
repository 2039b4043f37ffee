"""Who is where: this host's entities, and those of other hosts as their signed presence says.

Here is how that changes; what is read of it stands in `directory`.

Rules:
1. A peer's entities are kept while it beats with the `rosterRev` we know; another one means: ask it (ROSTER_ASK).
2. A host not heard for 3 beats reads `unknown`; nothing vanishes. Nothing is judged by the roster in a session's first
   2 beats (*settling*).
3. An entity entry that the known roster of its host has overtaken changes nothing (beats: `hearing`).
4. Who is gone keeps the name it had, for showing: what it sent may land later. Nothing goes there by that name, and it
   is not said while another agent of that host bears it.
5. The roster informs. It is in no security decision: a gid proves its host by itself.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fleettrio.core.compose import Identity
from fleettrio.core.directory import BEAT_S, Directory, Target, UnknownRecipient
from fleettrio.core.entity import Entity
from fleettrio.core.peer import Peer, PeerEntity
from fleettrio.ids import Gid, HostId, WallMs

__all__ = ("BEAT_S", "MOST_AHEAD_MS", "Roster", "Target", "UnknownRecipient")

MOST_ENTITIES = 4_096
"""Of one host: another one may be hostile, and memory is not endless."""
MOST_GONE = 4_096
"""Names kept of agents that are gone; of older ones, and of all after a restart, the gid is shown."""
MOST_AHEAD_MS = 24 * 60 * 60 * 1000
"""An epoch further ahead of the wall clock than this was taken from a clock that was wrong."""


class Roster(Directory):
    def __init__(
        self,
        me: Identity,
        entities: Iterable[Entity],
        peers: Iterable[Peer],
        others: Iterable[PeerEntity],
        rev: int,
        fleet_hosts: Iterable[HostId] = (),
    ) -> None:
        super().__init__(me, entities, peers, others, fleet_hosts)
        self.rev = rev
        self._heard_this_session: set[HostId] = set()

    # --- own entities

    def begin(self, rev: int, wall: WallMs) -> None:
        """Revisions go on from `rev`. What a clock that was ahead left in the rows is made sayable again."""
        self.rev = rev
        for e in list(self.entities.values()):
            if e.rev > self.rev or e.since > wall:
                self.entities[e.gid] = msgspec.structs.replace(e, rev=min(e.rev, self.rev), since=min(e.since, wall))

    def put(self, entity: Entity) -> Entity:
        """Add or change an entity of this host; returns it with the roster revision it got."""
        self.rev += 1
        entity = msgspec.structs.replace(entity, rev=self.rev)
        self.entities[entity.gid] = entity
        return entity

    def takes(self, gid: Gid) -> str:
        """How an agent here takes messages: `push` or `pull`; `push` as well for one that is gone."""
        entity = self.entities.get(gid)
        return entity.takes if entity else "push"

    def drop(self, gid: Gid) -> Entity:
        self.rev += 1
        entity = self.entities.pop(gid)
        self._keep_name(gid, entity.name, self._me.host)
        return entity

    # --- other hosts

    def session_opened(self) -> None:
        self._heard_this_session.clear()

    def beat(self, peer: Peer) -> tuple[Peer, bool, bool] | None:
        """Take a beat. Returns the peer to record, whether it is the first of this session, whether its roster is
        another one than we know; None for the one that we took last."""
        known = self.peers.get(peer.host)
        if known and (peer.epoch, peer.seq) == (known.epoch, known.seq):
            return None
        rev_differs = known is None or known.epoch != peer.epoch or known.roster_rev != peer.roster_rev
        merged = msgspec.structs.replace(
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
        peer = msgspec.structs.replace(
            peer,
            we_refuse=peer.we_refuse if by_us is None else by_us,
            refuses_us=peer.refuses_us if by_them is None else by_them,
        )
        self.peers[host] = peer
        return peer

    def note_offset(self, host: HostId, offset_ms: int) -> Peer:
        """A presence refused for its time still says how far that host's clock is off."""
        peer = msgspec.structs.replace(self.peers.get(host, Peer(host=host)), offset_ms=offset_ms)
        self.peers[host] = peer
        return peer

    def forget(self, host: HostId) -> None:
        """Nothing is known of `host` any more."""
        self.peers.pop(host, None)
        self._heard_this_session.discard(host)
        for entity in self.of_host(host):
            self.others.pop(entity.gid)

    def announced(self, entity: PeerEntity) -> tuple[bool, Peer | None]:
        """An entity entry of a peer: whether it is news, and the peer when its known revision moved on by just that."""
        peer, known = self.peers.get(entity.host), self.others.get(entity.gid)
        if (peer and entity.rev <= peer.roster_rev) or (known and entity.rev < known.rev):
            return False, None
        if not self._keep(entity):
            return False, None
        if peer and entity.rev == peer.roster_rev + 1:
            peer = msgspec.structs.replace(peer, roster_rev=entity.rev)
            self.peers[peer.host] = peer
            return True, peer
        return True, None

    def replaced(
        self, host: HostId, rev: int, entities: Iterable[PeerEntity], *, is_first: bool, is_last: bool
    ) -> Peer | None:
        """A part of the whole roster of `host`; the first part clears what was known, the last one makes it whole."""
        if is_first:
            for known in self.of_host(host):
                self._let_go(known.gid)
        for entity in entities:
            self._keep(entity)
        peer = self.peers.get(host)
        if peer is None or not is_last:
            return None
        peer = msgspec.structs.replace(peer, roster_rev=rev)
        self.peers[host] = peer
        return peer

    def _keep(self, entity: PeerEntity) -> bool:
        if entity.status == "gone":
            self._let_go(entity.gid)
        elif entity.gid not in self.others and self.others.count(entity.host) >= MOST_ENTITIES:
            return False
        else:
            self.others[entity.gid] = entity
            self._gone.pop(entity.gid, None)
        return True

    def _let_go(self, gid: Gid) -> None:
        if gid in self.others:
            known = self.others.pop(gid)
            self._keep_name(gid, known.name, known.host)

    def _keep_name(self, gid: Gid, name: str, host: HostId) -> None:
        self._gone.pop(gid, None)
        self._gone[gid] = (name, host)
        if len(self._gone) > MOST_GONE:
            del self._gone[next(iter(self._gone))]
