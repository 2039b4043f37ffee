"""Saying that this host is alive and who lives here. What others say is heard in `hearing`.

A quiet fleet costs one signed message per host and beat. An entity's entry goes out when it changed (at most one a
second); whoever missed one sees it in the next beat's `rosterRev` and asks for the whole roster. The last beat of a
daemon that ends says `leaving`, so that nobody waits three beats to see it.
"""

from __future__ import annotations

import msgspec

from fleettrio.core.actions import Action, EndSession, Note, Resolve
from fleettrio.core.compose import Identity, control, presence
from fleettrio.core.entity import Entity
from fleettrio.core.epochs import GOODBYE_S, Epochs
from fleettrio.core.events import BeatDue, ControlLocked, Leaving, StoodStill
from fleettrio.core.link import ForBeat, ForControl, Link, LinkState
from fleettrio.core.requests import CopyEnded
from fleettrio.core.roster import BEAT_S, Roster
from fleettrio.core.rules import Rules, TimerRules
from fleettrio.core.timers import Timers
from fleettrio.errors import MalformedEnvelope
from fleettrio.ids import Gid, HostId, Now, Seconds, TraceId, WallMs
from fleettrio.wire.bodies import EntityPresence, GatewayPresence, RosterPart
from fleettrio.wire.envelope import Envelope, Kind
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("Presence",)

DEBOUNCE_S = 1.0
SAY_ALL_EVERY_S = 60.0
PART_ENTITIES = 64
CANARY_S = 3 * BEAT_S


class Presence:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        link: Link,
        timers: Timers,
        epochs: Epochs,
        *,
        version: str,
        trace_id: TraceId,
    ) -> None:
        self._me = me
        self._roster = roster
        self._link = link
        self._timers = timers
        self._epochs = epochs
        self._version = version
        self._trace_id = trace_id
        self.kinds: tuple[str, ...] = ()
        """What this host acts on (`arrivals`)."""
        self.profiles: tuple[str, ...] = ()
        """What may be started here (`spawns`)."""
        self._own_heard_at = Seconds(0)
        self._all_said_at = Seconds(-SAY_ALL_EVERY_S)
        self._is_leaving = False
        self.rules: Rules = {
            BeatDue: lambda _, now: self.beat(now),
            ControlLocked: lambda _, now: self._knock(now),
            Leaving: lambda _, now: self._leave(now),
            StoodStill: self._stood_still,
            CopyEnded: self._copy_ended,
        }
        self.timer_rules: TimerRules = {
            "announce": lambda name, now: self.announce(Gid(name[0]), now),
            "goodbye": lambda _, __: self.goodbye(),
        }

    def session_opened(self, now: Now) -> list[Action]:
        """The first beat."""
        self._own_heard_at = now.mono
        self._is_leaving = False
        return self.beat(now)

    def own_heard(self, beat: GatewayPresence | None, said_at: WallMs, now: Now) -> list[Action]:
        """Something under our own key came back, a beat or an entry. A beat that is not ours ends our session, soon."""
        self._own_heard_at = now.mono
        if beat is None or not (found := self._epochs.heard(beat.epoch, beat.seq, said_at)):
            return []
        self._timers.set(("goodbye",), Seconds(now.mono + GOODBYE_S))
        return [*found, *self._beat(now)]

    def goodbye(self) -> list[Action]:
        """The other machine with our key has had its chance to hear us."""
        return [EndSession(self._epochs.copy)] if self._epochs.copy else []

    def unblocked(self, now: Now) -> None:
        """The broker takes messages again: our own beat may come back from now on."""
        self._own_heard_at = now.mono

    def refused(self, host: HostId, known: str, now: Now) -> list[Action]:
        """`host` refuses our beats: the next one is above what it knows."""
        recorded = self._epochs.refused(host, known, now)
        return [*recorded, *self.beat(now)] if recorded else []

    def _copy_ended(self, event: CopyEnded, now: Now) -> list[Action]:
        return [*self._epochs.accept(now), Resolve(event.call, None)]

    def _stood_still(self, event: StoodStill, _: Now) -> list[Action]:
        """Timers are late by what the machine slept. The broker may have given our queues to another meanwhile: what
        is in hand is not committed (`tasks.consume`), and a new session shows what is still ours."""
        self._timers.bring_forward(event.slept)
        return [EndSession(f"this process stood still for {event.seconds:.0f} s")]

    # --- saying

    def beat(self, now: Now) -> list[Action]:
        """One signed `_gateway` entry; without our own coming back for 3 beats the session is useless."""
        if not self._link.is_open or self._is_leaving or self._epochs.copy:
            return []
        if self._link.state is LinkState.UP and now.mono - self._own_heard_at > CANARY_S:
            return [EndSession(f"own heartbeat not heard for {CANARY_S:.0f} s")]
        return self._beat(now)

    def _knock(self, now: Now) -> list[Action]:
        """Another connection has our control queue, so there is no session; if it is a machine with our key, it hears
        this and stops, as we do when we hear it."""
        return [] if self._epochs.copy else self._beat(now)

    def _leave(self, now: Now) -> list[Action]:
        """The last beat of this process."""
        if not self._link.is_open:
            return []
        self._is_leaving = True
        return self._beat(now)

    def _beat(self, now: Now) -> list[Action]:
        recorded = self._epochs.next_beat(now)
        body = GatewayPresence(
            epoch=self._epochs.epoch,
            seq=self._epochs.seq,
            roster_rev=self._roster.rev,
            trust_rev=self._roster.trust_rev,
            entities=len(self._roster.entities),
            profiles=self.profiles,
            kinds=self.kinds,
            version=self._version,
            clock=now.wall,
            leaving=self._is_leaving,
        )
        envelope = presence(self._me, None, trace_id=self._trace_id, now=now)
        return [*recorded, *self._say(envelope, body, now)]

    def changed(self, gid: Gid, now: Now) -> None:
        """An entity here changed: announced within a second."""
        self._timers.set_if_unset(("announce", gid), Seconds(now.mono + DEBOUNCE_S))

    def stranger_asked(self, now: Now) -> None:
        """Every entity is announced once more, to all; at most once a minute, however often somebody asks."""
        if now.mono < self._all_said_at + SAY_ALL_EVERY_S:
            return
        self._all_said_at = now.mono
        for gid in list(self._roster.entities)[:PART_ENTITIES]:
            self.changed(gid, now)

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
        return self._say(envelope, entry_of(msgspec.structs.replace(entity, status="gone", rev=self._roster.rev)), now)

    def _say(self, envelope: Envelope, body: GatewayPresence | EntityPresence, now: Now) -> list[Action]:
        """Publish it. What the wire does not take is left unsaid, with a note: it must not stop all the rest."""
        try:
            data = body.to_bytes()
        except MalformedEnvelope as error:
            gid = Gid(body.gid) if isinstance(body, EntityPresence) else None
            detail = str(error)[:200]
            return [Note("unsaid", None, gid, self._trace_id, self._me.host, "malformed", detail, alarm=True)]
        return [self._link.publish(ForBeat(), envelope, data)]

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
