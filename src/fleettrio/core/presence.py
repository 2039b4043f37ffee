"""Saying that this host is alive and who lives here, and hearing the same from others (U5).

A quiet fleet costs one signed message per host and beat. An entity's entry goes out when it changed (at most one a
second); whoever missed one sees it in the next beat's `rosterRev` and asks for the whole roster.
"""

from __future__ import annotations

import dataclasses
import hashlib

from fleettrio.core.actions import Ack, Action, EndSession, Note, RecordPeer, RecordPeerEntities
from fleettrio.core.compose import Identity, control, presence
from fleettrio.core.link import ForBeat, ForControl, Link, LinkState
from fleettrio.core.questions import Questions
from fleettrio.core.roster import BEAT_S, MOST_ENTITIES, Roster
from fleettrio.core.rows import Entity, Peer, PeerEntity
from fleettrio.core.timers import Timers
from fleettrio.errors import MalformedEnvelope
from fleettrio.ids import Gid, HostId, Now, Seconds, Tag, TraceId, WallMs
from fleettrio.wire.bodies import EntityPresence, GatewayPresence, RosterPart
from fleettrio.wire.envelope import Envelope, Kind
from fleettrio.wire.gids import HUMAN_SALT, RESERVED_NAMES, is_name
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("SPOKEN_KINDS", "Presence")

SPOKEN_KINDS = tuple(
    str(kind)
    for kind in (
        Kind.SEND,
        Kind.REPLY,
        Kind.RECALL,
        Kind.QUERY,
        Kind.ROSTER_ASK,
        Kind.ROSTER,
        Kind.PING,
        Kind.PONG,
        Kind.INJECTED,
        Kind.FAILED,
        Kind.OUTCOME,
        Kind.PRESENCE,
    )
)
"""What this version acts on; a sender does not use other kinds towards it."""

DEBOUNCE_S = 1.0
ASK_SPREAD_S = 3.0
ASK_AGAIN_S = 6.0
PART_ENTITIES = 64
CANARY_S = 3 * BEAT_S


class Presence:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        link: Link,
        timers: Timers,
        questions: Questions,
        *,
        epoch: int,
        version: str,
        trace_id: TraceId,
    ) -> None:
        self._me = me
        self._roster = roster
        self._link = link
        self._timers = timers
        self._questions = questions
        self.epoch = epoch
        self._version = version
        self._trace_id = trace_id
        self._seq = 0
        self._own_heard_at = Seconds(0)
        self._parts: dict[HostId, tuple[int, int]] = {}
        """Revision and number of the roster part that comes next."""

    def session_opened(self, now: Now) -> list[Action]:
        """The first beat, and a question to every host whose agents are not known: one that was never heard, too."""
        self._roster.session_opened()
        self._parts.clear()
        self._own_heard_at = now.mono
        outdated = [peer.host for peer in self._roster.peers.values() if peer.roster_rev < 0 and peer.heard_at]
        actions = self.beat(now)
        for host in [*outdated, *self._roster.unheard()]:
            actions += self.ask_roster(host, now)
        return actions

    def unblocked(self, now: Now) -> None:
        """The broker takes messages again: our own beat may come back from now on."""
        self._own_heard_at = now.mono

    def _is_theirs(self, entry: EntityPresence, host: HostId) -> bool:
        """A gid of that host, under a name that an agent may have: nobody but its person is its `human`."""
        if not entry.lives_on(self._me.fleet_id, host):
            return False
        if entry.name == "human":
            return entry.salt == HUMAN_SALT
        return is_name(entry.name) and entry.name not in RESERVED_NAMES

    # --- saying

    def beat(self, now: Now) -> list[Action]:
        """One signed `_gateway` entry; without our own coming back for 3 beats the session is useless."""
        if not self._link.is_open:
            return []
        if self._link.state is LinkState.UP and now.mono - self._own_heard_at > CANARY_S:
            return [EndSession(f"own heartbeat not heard for {CANARY_S:.0f} s")]
        self._seq += 1
        body = GatewayPresence(
            epoch=self.epoch,
            seq=self._seq,
            roster_rev=self._roster.rev,
            trust_rev=self._questions.trust_rev,
            entities=len(self._roster.entities),
            profiles=(),
            kinds=SPOKEN_KINDS,
            version=self._version,
            clock=now.wall,
        )
        envelope = presence(self._me, None, trace_id=self._trace_id, now=now)
        return self._say(envelope, body, now)

    def changed(self, gid: Gid, now: Now) -> None:
        """An entity here changed: announced within a second."""
        self._timers.set_if_unset(("announce", gid), Seconds(now.mono + DEBOUNCE_S))

    def announce(self, gid: Gid, now: Now) -> list[Action]:
        entity = self._roster.entities.get(gid)
        if not self._link.is_open or entity is None:
            return []
        envelope = presence(self._me, gid, trace_id=self._trace_id, now=now)
        return self._say(envelope, entry_of(entity), now)

    def gone(self, entity: Entity, now: Now) -> list[Action]:
        if not self._link.is_open:
            return []
        envelope = presence(self._me, entity.gid, trace_id=self._trace_id, now=now)
        return self._say(envelope, entry_of(dataclasses.replace(entity, status="gone", rev=self._roster.rev)), now)

    def _say(self, envelope: Envelope, body: GatewayPresence | EntityPresence, now: Now) -> list[Action]:
        """Publish it. What the wire does not take is left unsaid, with a note: it must not stop all the rest."""
        try:
            data = body.to_bytes()
        except MalformedEnvelope as error:
            gid = Gid(body.gid) if isinstance(body, EntityPresence) else None
            detail = str(error)[:200]
            return [Note("unsaid", None, gid, self._trace_id, self._me.host, "malformed", detail, alarm=True)]
        return [self._link.publish(ForBeat(), envelope, data)]

    # --- hearing

    def arrive(self, tag: Tag, message: VerifiedEnvelope, now: Now) -> list[Action]:
        envelope = message.envelope
        host = envelope.host
        if host == self._me.host:
            self._own_heard_at = now.mono
            return [Ack(tag)]
        if envelope.to.endswith("._gateway"):
            return [*self._beat_heard(host, message, now), Ack(tag)]
        entry = EntityPresence.from_bytes(message.body)
        if not self._is_theirs(entry, host):
            return [Ack(tag)]
        entity = _peer_entity(host, entry)
        is_news, peer = self._roster.announced(entity)
        actions: list[Action] = []
        if is_news and entity.status == "gone":
            actions.append(RecordPeerEntities(host, self._roster.of_host(host), replace=True))
        elif is_news:
            actions.append(RecordPeerEntities(host, (entity,), replace=False))
        return [*actions, *([RecordPeer(peer)] if peer else []), Ack(tag)]

    def _beat_heard(self, host: HostId, message: VerifiedEnvelope, now: Now) -> list[Action]:
        body = GatewayPresence.from_bytes(message.body)
        was_silent = self._roster.is_silent(host, now.wall)
        peer = Peer(
            host=host,
            epoch=body.epoch,
            seq=body.seq,
            roster_rev=body.roster_rev,
            trust_rev=body.trust_rev,
            version=body.version,
            kinds=tuple(body.kinds),
            profiles=tuple(body.profiles),
            heard_at=now.wall,
            offset_ms=message.envelope.ts - now.wall,
        )
        taken = self._roster.beat(peer)
        if taken is None:
            return []
        known, is_first, rev_differs = taken
        actions: list[Action] = [RecordPeer(known)]
        if rev_differs:
            digest = hashlib.blake2b(f"{self._me.host} {host} {body.roster_rev}".encode(), digest_size=2).digest()
            spread = int.from_bytes(digest, "big") / 65536 * ASK_SPREAD_S
            self._timers.set_if_unset(("roster", host), Seconds(now.mono + (0 if is_first else spread)))
        if is_first or was_silent:
            actions += [*self._questions.ask(host, now), *self._questions.recall(host, now)]
        return actions

    def ask_roster(self, host: HostId, now: Now) -> list[Action]:
        """ROSTER_ASK; asked again while the answer is missing and the host still beats."""
        if not self._link.is_open:
            return []
        self._timers.set(("roster-again", host), Seconds(now.mono + ASK_AGAIN_S))
        envelope = control(self._me, Kind.ROSTER_ASK, host, trace_id=self._trace_id, now=now)
        return [self._link.publish(ForControl(), envelope, b"")]

    def roster_still_missing(self, host: HostId, now: Now) -> list[Action]:
        peer = self._roster.peers.get(host)
        if peer is None or peer.roster_rev >= 0 or self._roster.is_silent(host, now.wall):
            return []
        return self.ask_roster(host, now)

    def on_roster_ask(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        entities = [entry for e in self._roster.entities.values() if _is_sayable(entry := entry_of(e))]
        parts = max(1, -(-len(entities) // PART_ENTITIES))
        actions: list[Action] = []
        for part in range(parts):
            body = RosterPart(
                roster_rev=self._roster.rev,
                part=part,
                parts=parts,
                entities=tuple(entities[part * PART_ENTITIES : (part + 1) * PART_ENTITIES]),
            )
            envelope = control(
                self._me, Kind.ROSTER, message.envelope.host, trace_id=message.envelope.trace_id, now=now
            )
            actions.append(self._link.publish(ForControl(), envelope, body.to_bytes()))
        return actions

    def on_roster(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        """A part of a roster. The parts come in order; one out of it is dropped, and the whole is asked for again."""
        body = RosterPart.from_bytes(message.body)
        host = message.envelope.host
        is_first, is_last = body.part == 0, body.part + 1 >= body.parts
        if not is_first and self._parts.get(host) != (body.roster_rev, body.part):
            return []
        self._parts[host] = (body.roster_rev, body.part + 1)
        entities = tuple(_peer_entity(host, entry) for entry in body.entities if self._is_theirs(entry, host))
        entities = entities[:MOST_ENTITIES]
        if is_last:
            del self._parts[host]
            self._timers.cancel(("roster-again", host))
        peer = self._roster.replaced(host, body.roster_rev, entities, is_first=is_first, is_last=is_last)
        actions: list[Action] = [RecordPeerEntities(host, entities, replace=is_first)]
        return [*actions, RecordPeer(peer)] if peer else actions


def entry_of(entity: Entity) -> EntityPresence:
    """What other hosts are told about an entity; its token, pane and folder stay here."""
    return EntityPresence(
        gid=entity.gid,
        salt=entity.salt,
        name=entity.name,
        role=entity.role,
        takes=entity.takes,
        groups=entity.groups,
        status=entity.status,
        since=entity.since,
        harness=entity.harness,
        wakes=entity.wakes,
        full=entity.full,
        repo=entity.repo,
        head=entity.head,
        rev=entity.rev,
    )


def _is_sayable(entry: EntityPresence) -> bool:
    """False for an entry that the wire does not take; `announce` has noted it."""
    try:
        entry.to_bytes()
    except MalformedEnvelope:
        return False
    return True


def _peer_entity(host: HostId, entry: EntityPresence) -> PeerEntity:
    return PeerEntity(
        gid=Gid(entry.gid),
        host=host,
        name=entry.name,
        role=entry.role,
        takes=entry.takes,
        groups=tuple(entry.groups),
        status=entry.status,
        since=WallMs(entry.since),
        harness=entry.harness,
        wakes=entry.wakes,
        full=entry.full,
        repo=entry.repo,
        head=entry.head,
        rev=entry.rev,
    )
