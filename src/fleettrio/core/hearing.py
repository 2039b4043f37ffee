"""Hearing that other hosts are alive and who lives there.

Rules:
1. `(epoch, seq)` of a host only grows. A lower one is refused (`stale-epoch`) and its host told which number we know;
   one more than a day ahead of our clock is refused and not remembered.
2. Another `rosterRev` than the known one: that host is asked for its roster, at random within 3 s, and asked again
   while the answer is missing and it still beats.
3. A host not heard for 31 days is forgotten, with its agents; so is one when a person says so. Its next beat makes it
   known again.
4. What is said of a gid of another host is nobody's word: it is acknowledged and changes nothing.
"""

from __future__ import annotations

import hashlib

from fleettrio.core.actions import Ack, Action, Fail, ForgetPeer, RecordPeer, RecordPeerEntities, Resolve
from fleettrio.core.compose import Identity, control
from fleettrio.core.epochs import number_text
from fleettrio.core.fates import Fates
from fleettrio.core.link import ForControl, Link
from fleettrio.core.peer import Peer, PeerEntity
from fleettrio.core.presence import Presence
from fleettrio.core.refusals import STALE_EPOCH, Refused
from fleettrio.core.requests import ForgetAsked
from fleettrio.core.roster import MOST_AHEAD_MS, Roster
from fleettrio.core.rules import Rules, TimerRules
from fleettrio.core.timers import Timers, at_wall
from fleettrio.errors import FAILED
from fleettrio.ids import Gid, HostId, Now, Seconds, Tag, TraceId, WallMs
from fleettrio.wire.bodies import EntityPresence, GatewayPresence, RosterPart
from fleettrio.wire.envelope import Kind
from fleettrio.wire.gids import HUMAN_SALT, is_name
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("Hearing",)

ASK_SPREAD_S = 3.0
ASK_AGAIN_S = 6.0
FORGET_AFTER_S = 31 * 24 * 60 * 60.0
FUTURE_EPOCH = "future-epoch"


class Hearing:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        link: Link,
        timers: Timers,
        fates: Fates,
        presence: Presence,
        *,
        trace_id: TraceId,
    ) -> None:
        self._me = me
        self._roster = roster
        self._link = link
        self._timers = timers
        self._fates = fates
        self._presence = presence
        self._trace_id = trace_id
        self._parts: dict[HostId, tuple[int, int]] = {}
        """Revision and number of the roster part that comes next."""
        self.rules: Rules = {ForgetAsked: self._forget_asked}
        self.timer_rules: TimerRules = {
            "forget": lambda _, now: self._forget_old(now),
            "roster": lambda name, now: self.ask_roster(HostId(name[0]), now),
            "roster-again": lambda name, now: self._roster_still_missing(HostId(name[0]), now),
        }

    def start(self, now: Now) -> list[Action]:
        return self._forget_old(now)

    def session_opened(self, now: Now) -> list[Action]:
        """A question to every host whose agents are not known: one that was never heard, too."""
        self._roster.session_opened()
        self._parts.clear()
        outdated = [peer.host for peer in self._roster.peers.values() if peer.roster_rev < 0 and peer.heard_at]
        return [action for host in [*outdated, *self._roster.unheard()] for action in self.ask_roster(host, now)]

    # --- presence

    def arrive(self, tag: Tag, message: VerifiedEnvelope, now: Now) -> list[Action]:
        """A beat or an entry. Raises `Refused` for a beat that is older than what is known, or far ahead."""
        envelope = message.envelope
        host = envelope.host
        is_beat = envelope.to.endswith("._gateway")
        if host == self._me.host:
            beat = GatewayPresence.from_bytes(message.body) if is_beat else None
            return [*self._presence.own_heard(beat, envelope.ts, now), Ack(tag)]
        if is_beat:
            return [*self._beat_heard(host, message, now), Ack(tag)]
        return [*self._entry_heard(host, EntityPresence.from_bytes(message.body)), Ack(tag)]

    def _entry_heard(self, host: HostId, entry: EntityPresence) -> list[Action]:
        if not self._is_theirs(entry, host):
            return []
        entity = _peer_entity(host, entry)
        is_news, peer = self._roster.announced(entity)
        actions: list[Action] = []
        if is_news and entity.status == "gone":
            actions.append(RecordPeerEntities(host, self._roster.of_host(host), replace=True))
        elif is_news:
            actions.append(RecordPeerEntities(host, (entity,), replace=False))
        return [*actions, *([RecordPeer(peer)] if peer else [])]

    def _beat_heard(self, host: HostId, message: VerifiedEnvelope, now: Now) -> list[Action]:
        body = GatewayPresence.from_bytes(message.body)
        self._check_number(host, body, now)
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
            has_left=body.leaving,
        )
        taken = self._roster.beat(peer)
        if taken is None:
            return []
        known, is_first, rev_differs = taken
        self._timers.set_if_unset(("forget",), Seconds(now.mono + FORGET_AFTER_S))
        actions: list[Action] = [RecordPeer(known)]
        if known.has_left:
            return actions
        if rev_differs:
            digest = hashlib.blake2b(f"{self._me.host} {host} {body.roster_rev}".encode(), digest_size=2).digest()
            spread = int.from_bytes(digest, "big") / 65536 * ASK_SPREAD_S
            self._timers.set_if_unset(("roster", host), Seconds(now.mono + (0 if is_first else spread)))
        if is_first or was_silent:
            actions += [*self._fates.ask(host, now), *self._fates.recall(host, now)]
        return actions

    def _check_number(self, host: HostId, body: GatewayPresence, now: Now) -> None:
        """Rule 1. What was taken of that host under a clock that was wrong does not bind."""
        most = now.wall + MOST_AHEAD_MS
        if body.epoch > most:
            raise Refused(FUTURE_EPOCH, "it began by a clock more than a day ahead of this host's")
        known = self._roster.peers.get(host)
        if known and known.epoch <= most and (body.epoch, body.seq) < (known.epoch, known.seq):
            raise Refused(STALE_EPOCH, number_text(known.epoch, known.seq))

    # --- forgetting

    def _forget_old(self, now: Now) -> list[Action]:
        heard = {peer.host: peer.heard_at for peer in self._roster.peers.values() if peer.heard_at}
        old = [host for host, at in heard.items() if now.wall - at >= FORGET_AFTER_S * 1000]
        if rest := [at for host, at in heard.items() if host not in old]:
            self._timers.set(("forget",), Seconds(at_wall(min(rest), now) + FORGET_AFTER_S))
        return [action for host in old for action in self._forget(host)]

    def _forget_asked(self, event: ForgetAsked, now: Now) -> list[Action]:
        if event.host in self._roster.peers:
            return [*self._forget(event.host), Resolve(event.call, None)]
        text = f"nothing is known of a host {event.host!r}"
        return [Fail(event.call, FAILED, "no-such-host", text, "fleettrio list")]

    def _forget(self, host: HostId) -> list[Action]:
        self._roster.forget(host)
        for name in ("roster", "roster-again"):
            self._timers.cancel((name, host))
        return [ForgetPeer(host)]

    # --- rosters

    def ask_roster(self, host: HostId, now: Now) -> list[Action]:
        """ROSTER_ASK; asked again while the answer is missing and the host still beats."""
        if not self._link.is_open:
            return []
        self._timers.set(("roster-again", host), Seconds(now.mono + ASK_AGAIN_S))
        envelope = control(self._me, Kind.ROSTER_ASK, host, trace_id=self._trace_id, now=now)
        return [self._link.publish(ForControl(), envelope, b"")]

    def _roster_still_missing(self, host: HostId, now: Now) -> list[Action]:
        peer = self._roster.peers.get(host)
        if peer is None or peer.roster_rev >= 0 or self._roster.is_silent(host, now.wall):
            return []
        return self.ask_roster(host, now)

    def on_roster(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        """A part of a roster. The parts come in order; one out of it is dropped, and the whole is asked for again."""
        body = RosterPart.from_bytes(message.body)
        host = message.envelope.host
        is_first, is_last = body.part == 0, body.part + 1 >= body.parts
        if not is_first and self._parts.get(host) != (body.roster_rev, body.part):
            return []
        self._parts[host] = (body.roster_rev, body.part + 1)
        entities = tuple(_peer_entity(host, entry) for entry in body.entities if self._is_theirs(entry, host))
        if is_last:
            del self._parts[host]
            self._timers.cancel(("roster-again", host))
        peer = self._roster.replaced(host, body.roster_rev, entities, is_first=is_first, is_last=is_last)
        kept = tuple(entity for entity in entities if self._roster.others.get(entity.gid) is entity)
        actions: list[Action] = [RecordPeerEntities(host, kept, replace=is_first)]
        return [*actions, RecordPeer(peer)] if peer else actions

    def _is_theirs(self, entry: EntityPresence, host: HostId) -> bool:
        """A gid of that host, under a name that an agent may have: nobody but its person is its `human`."""
        if not entry.lives_on(self._me.fleet_id, host):
            return False
        if entry.name == "human":
            return entry.salt == HUMAN_SALT
        return is_name(entry.name)


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
