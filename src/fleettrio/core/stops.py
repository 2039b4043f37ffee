"""Ending an agent of this host (STOP): nothing new is put into it, what is in hand runs to its end, the rest is told.

    any state ──STOP──► stopping ──write in hand over──► (its program is ended) ──► gone

Rules:
1. Whoever was granted `stop` may end any agent here; whoever may start a profile may end what it started by it. The
   person at this host is nobody's to stop.
2. What waits ends `failed(recipient-gone)` at once; a write that began is finished first, and only then the program.
3. Only a program that this host started is ended; one that was attached runs on, and that is said.
4. STOP has its word when all that is over. A second one for the same agent gets it together with the first.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fleettrio.core.actions import Action, CloseInbox, DropEntity, EndAgent, RecordEntity, WatchEntity
from fleettrio.core.compose import Identity
from fleettrio.core.controls import Controls
from fleettrio.core.entity import Entity
from fleettrio.core.events import AgentEnded
from fleettrio.core.inbox import Inbox
from fleettrio.core.ledger import queue_owner
from fleettrio.core.presence import Presence
from fleettrio.core.refusals import Refused
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, InboxState
from fleettrio.core.rules import Rules
from fleettrio.core.spawned import SpawnState
from fleettrio.core.spawns import Spawns
from fleettrio.ids import Gid, HostId, Now
from fleettrio.wire.bodies import StopBody
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("Stops",)

GONE = "recipient-gone"
STOPPED = "stopped"
_RUNS_ON = "its program was not started by a spawn, so it runs on"
_NO_PROGRAM = {
    "process": "its command is not run any more",
    "stream": "its program is ended",
    "pull": "its token is not valid any more",
}
"""What is said of one that has no program of its own."""


class Stops:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        inbox: Inbox,
        presence: Presence,
        controls: Controls,
        spawns: Spawns,
        *,
        grants: Callable[[HostId], frozenset[str]],
    ) -> None:
        self._me = me
        self._roster = roster
        self._inbox = inbox
        self._presence = presence
        self._controls = controls
        self._spawns = spawns
        self._grants = grants
        controls.add(Kind.STOP, self._asked, self._again)
        self.rules: Rules = {AgentEnded: self._ended}

    def start(self, now: Now) -> list[Action]:
        """Go on with what the last process was ending."""
        here = self._roster.entities
        stopping = [row for row in self._spawns.rows.values() if row.state is SpawnState.STOPPING]
        actions: list[Action] = [EndAgent(spawn) for spawn in stopping if spawn.spawn_id not in here]
        for entity in [entity for entity in here.values() if entity.status == "stopping"]:
            actions += self.written(entity.gid, now)
        return actions

    def recovered(self, now: Now) -> list[Action]:
        """The store takes writes again: what was being ended is ended."""
        requests = [row for row in self._inbox.rows.values() if row.kind == Kind.STOP]
        return [*self.start(now), *(action for row in requests for action in self._again(row, now))]

    def written(self, gid: Gid, now: Now) -> list[Action]:
        """A write into it is over: if it is to end, it ends now."""
        entity = self._roster.entities.get(gid)
        if entity is None or entity.status != "stopping" or self._is_written_to(gid):
            return []
        rest = self._inbox.close(gid, GONE, now)  # a write of which not a byte went in waits again
        if spawn := self._spawns.started(gid):
            return [*rest, EndAgent(spawn)]
        return [*rest, *self._gone(gid, _note(entity), now)]

    # --- inside

    def _asked(self, message: VerifiedEnvelope, row: InboxRow, now: Now) -> list[Action]:
        host, gid = HostId(message.envelope.host), Gid(StopBody.from_bytes(message.body).gid)
        if gid != Gid(message.envelope.spawn_id or ""):
            raise Refused("malformed", "header and body name different agents")
        if gid in (self._me.human, self._me.gid):
            raise Refused("not-an-agent", "")
        if not self._may(host, gid):
            raise Refused("not-authorised", f"{host} was not granted stop, and did not start this agent")
        if gid in self._roster.starting:
            return self._stop_starting(gid, now)
        entity = self._roster.entities.get(gid)
        if entity is None:
            text = f"no such agent is on {self._me.host}"
            return self._controls.finish(row, now, InboxState.FAILED, reason=GONE, detail=text)
        return [] if entity.status == "stopping" else self._stop(entity, now)

    def _may(self, host: HostId, gid: Gid) -> bool:
        if host == self._me.host or "stop" in (grants := self._grants(host)):
            return True
        spawn = self._spawns.rows.get(gid)
        return spawn is not None and spawn.host == host and f"spawn:{spawn.profile}" in grants

    def _stop_starting(self, gid: Gid, now: Now) -> list[Action]:
        spawn = self._spawns.rows[gid]
        if spawn.state is SpawnState.STOPPING:
            return []
        told = self._spawns.refuse_waiting(gid, STOPPED, now, self._roster.starting[gid].name)
        changed = self._spawns.change(gid, now, state=SpawnState.STOPPING, reason=STOPPED)
        return [*changed, *told, EndAgent(self._spawns.rows[gid])]

    def _stop(self, entity: Entity, now: Now) -> list[Action]:
        gid = entity.gid
        stopping = self._roster.put(msgspec.structs.replace(entity, status="stopping", since=now.wall))
        return [
            *self._spawns.change(gid, now, state=SpawnState.STOPPING, reason=STOPPED),
            RecordEntity(stopping),
            WatchEntity(stopping, present=False),
            *self._presence.announce(gid, now),
            *self._spawns.refuse_waiting(gid, STOPPED, now, entity.name),
            *self._inbox.close(gid, GONE, now),
            *self.written(gid, now),
        ]

    def _is_written_to(self, gid: Gid) -> bool:
        return any(row.gid == gid and row.state is InboxState.INJECTING for row in self._inbox.rows.values())

    def _ended(self, event: AgentEnded, now: Now) -> list[Action]:
        return self._gone(event.spawn_id, event.note, now)

    def _gone(self, gid: Gid, note: str, now: Now) -> list[Action]:
        actions = self._spawns.change(gid, now, state=SpawnState.ENDED, reason=STOPPED, detail=note)
        if self._roster.starting.pop(gid, None) is not None:
            actions.append(DropEntity(gid))
        elif entity := self._roster.entities.get(gid):
            rest = self._inbox.close(gid, GONE, now)
            self._roster.drop(gid)
            actions += [*rest, DropEntity(gid), CloseInbox(queue_owner(entity)), *self._presence.gone(entity, now)]
        for row in self._requests(gid):
            actions += self._controls.finish(row, now, InboxState.DONE, detail=note)
        return actions

    def _requests(self, gid: Gid) -> list[InboxRow]:
        return [row for row in self._inbox.rows.values() if row.kind == Kind.STOP and row.to == gid]

    def _again(self, row: InboxRow, now: Now) -> list[Action]:
        """A STOP that was open when the last process ended: its agent is being ended, or is gone."""
        gid = Gid(row.to)
        if gid in self._roster.starting or gid in self._roster.entities:
            return []
        return self._controls.finish(row, now, InboxState.DONE)


def _note(entity: Entity) -> str:
    """What goes on after the end of an agent that this host did not start."""
    return _RUNS_ON if entity.pid else _NO_PROGRAM.get(entity.transport, _RUNS_ON)
