"""Agents that this host starts when it is asked to (SPAWN), from the request to the word `ready`.

Which it starts, and at whose request, is judged by `admission`.

    (nothing) ──SPAWN──► starting ──ready──► ready ──STOP──► stopping ──► ended
                            ├──── not ready, crash ──────────────────────► ended
                            └──── STOP ───────────────────► stopping

Rules:
1. The row `starting` is recorded before the acknowledgement; nothing runs before it is, and nothing that is slow runs
   in front of it.
2. The spawn id is the agent's gid. It proves this host by its salt, and names one agent for ever: a known one is
   answered from its row, one that is any other gid's is refused.
3. Until it is ready nobody can send to it. Then its inbox is open at the broker, it is announced, and only then is the
   requester told: a brief that follows at once finds everything in place.
4. What the last process left `starting` is found again, or ended and told `crashed-mid-spawn`. Nothing starts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from fleettrio.core.actions import Action, DropEntity, Launch, OpenInbox, RecordEntity, RecordSpawn, WatchEntity
from fleettrio.core.admission import Admission
from fleettrio.core.compose import Identity
from fleettrio.core.controls import Controls
from fleettrio.core.entity import Entity
from fleettrio.core.events import Adopted, AgentSeen, Launched, SpawnFailed, SpawnReady
from fleettrio.core.ledger import Ledger, queue_owner
from fleettrio.core.presence import Presence
from fleettrio.core.refusals import Refused
from fleettrio.core.roster import Roster
from fleettrio.core.rows import AUTO, InboxRow, InboxState
from fleettrio.core.rules import Rules
from fleettrio.core.spawned import Spawnable, SpawnRow, SpawnState
from fleettrio.ids import Gid, HostId, Now
from fleettrio.wire.bodies import SpawnBody
from fleettrio.wire.envelope import Envelope, Kind
from fleettrio.wire.gids import derive_gid
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("CRASHED", "Spawns")

CRASHED = "crashed-mid-spawn"
_FAILED = "spawn: "


class Spawns:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        ledger: Ledger,
        presence: Presence,
        controls: Controls,
        *,
        standalone: bool,
        grants: Callable[[HostId], frozenset[str]],
        put_into: Callable[[Gid, int], None],
        seen: Callable[[AgentSeen, Now], list[Action]],
        profiles: Iterable[Spawnable],
        rows: Iterable[SpawnRow],
    ) -> None:
        self.rows: dict[Gid, SpawnRow] = {row.spawn_id: row for row in rows}
        self.profiles: Mapping[str, Spawnable] = {profile.name: profile for profile in profiles}
        self._me = me
        self._roster = roster
        self._ledger = ledger
        self._presence = presence
        self._controls = controls
        self._standalone = standalone
        self._admission = Admission(me, roster, self.profiles, self.rows, grants)
        self._put_into = put_into
        self._seen = seen
        self._unannounced: set[Gid] = set()
        """Ready, and its inbox is not known to be open at the broker yet."""
        controls.add(Kind.SPAWN, self._asked, self._again)
        self.rules: Rules = {
            Launched: self._launched,
            SpawnReady: self._ready,
            SpawnFailed: self._failed,
            Adopted: self._adopted,
        }

    # --- what others ask

    def started(self, gid: Gid) -> SpawnRow | None:
        """The row of an agent that was started here and is not over."""
        row = self.rows.get(gid)
        return row if row is not None and row.state.is_in_use else None

    def profile_of(self, gid: Gid) -> Spawnable | None:
        """What an agent was started as; None for one that was not, or whose profile is no more."""
        row = self.rows.get(gid)
        return self.profiles.get(row.profile) if row else None

    def reply_of(self, gid: Gid) -> str:
        """What becomes of an answer that this agent does not give."""
        entity, profile = self._roster.entities.get(gid), self.profile_of(gid)
        return (entity.reply if entity else "") or (profile.reply if profile else AUTO)

    def to_adopt(self, gid: Gid) -> bool:
        """After a restart: whether it has to be found again before anything is put into it."""
        row = self.rows.get(gid)
        entity = self._roster.entities.get(gid)
        return row is not None and row.state is SpawnState.READY and entity is not None and entity.pid > 0

    # --- SPAWN

    def _asked(self, message: VerifiedEnvelope, row: InboxRow, now: Now) -> list[Action]:
        envelope = message.envelope
        body = SpawnBody.from_bytes(message.body)
        spawn_id = Gid(envelope.spawn_id or "")
        if derive_gid(self._me.fleet_id, self._me.host, body.salt) != spawn_id:
            raise Refused("wrong-host", "the spawn id is not the gid that its salt gives on this host")
        if not self._admission.may(envelope.host, body.profile):
            raise Refused("not-authorised", f"{envelope.host} was not granted spawn:{body.profile}"[:200])
        if known := self.rows.get(spawn_id):
            return self._known(known, envelope, row, now)
        if self._roster.knows(spawn_id) or spawn_id in (self._me.gid, self._me.human):
            raise Refused("conflict", "the spawn id is the gid of another agent")
        if trouble := self._admission.trouble(body, envelope):
            return self._controls.finish(row, now, InboxState.FAILED, reason=_FAILED + trouble[0], detail=trouble[1])
        return self._begin(spawn_id, body, envelope, now)

    def _known(self, known: SpawnRow, envelope: Envelope, row: InboxRow, now: Now) -> list[Action]:
        """The same agent is asked for in another message: what came of the first one is the answer."""
        if known.host != envelope.host:
            raise Refused("conflict", "the spawn id is the gid of another agent")
        match known.state:
            case SpawnState.STARTING:
                return []  # told with the first one
            case SpawnState.READY if known.spawn_id not in self._unannounced:
                return self._controls.finish(row, now, InboxState.READY, detail=self._name_of(known.spawn_id))
            case SpawnState.READY:
                return []
        reason = known.reason or "recipient-gone"
        return self._controls.finish(row, now, InboxState.FAILED, reason=reason, detail=known.detail)

    def _begin(self, spawn_id: Gid, body: SpawnBody, envelope: Envelope, now: Now) -> list[Action]:
        profile = self.profiles[body.profile]
        spawn = SpawnRow(
            spawn_id=spawn_id,
            host=HostId(envelope.host),
            profile=profile.name,
            state=SpawnState.STARTING,
            trace_id=envelope.trace_id,
            depth=envelope.depth or 0,
            cwd=body.cwd,
            worktree=body.worktree,
            at=now.wall,
        )
        entity = Entity(
            gid=spawn_id,
            name=body.name or self._admission.free_name(profile.name),
            salt=body.salt,
            role=profile.role,
            takes="push",
            groups=tuple(dict.fromkeys((*profile.groups, *body.groups))),
            harness=profile.harness,
            status="starting",
            since=now.wall,
            transport=profile.transport,
            cwd=body.cwd,
            wakes=True,
        )
        self.rows[spawn_id], self._roster.starting[spawn_id] = spawn, entity
        return [RecordSpawn(spawn), RecordEntity(entity), Launch(spawn, entity)]

    # --- what the launcher reports

    def _launched(self, event: Launched, now: Now) -> list[Action]:
        entity = self._roster.starting.get(event.spawn_id)
        if entity is None or self.rows[event.spawn_id].state is not SpawnState.STARTING:
            return []  # stopped meanwhile: what runs is found by its id, and ended
        entity = msgspec.structs.replace(
            entity, target=event.target, cwd=event.cwd, tty=event.tty, pid=event.pid, since=now.wall
        )
        self._roster.starting[event.spawn_id] = entity
        return [*self._change(event.spawn_id, now, tree=event.tree, started=event.started), RecordEntity(entity)]

    def _ready(self, event: SpawnReady, now: Now) -> list[Action]:
        gid = event.spawn_id
        entity = self._roster.starting.get(gid)
        if entity is None or self.rows[gid].state is not SpawnState.STARTING:
            return []
        del self._roster.starting[gid]
        entity = self._roster.put(msgspec.structs.replace(entity, status="idle", since=now.wall))
        self._put_into(gid, self.rows[gid].depth)
        recorded = [*self._change(gid, now, state=SpawnState.READY), RecordEntity(entity)]
        actions = [*recorded, OpenInbox(queue_owner(entity)), WatchEntity(entity, present=True)]
        if self._standalone:
            return [*actions, *self._tell(gid, now)]
        self._unannounced.add(gid)
        here = [row for row in self._requests(gid) if row.from_host == self._me.host]
        return [*actions, *self._finish(here, InboxState.READY, now, detail=entity.name)]

    def inbox_open(self, gid: Gid, now: Now) -> list[Action]:
        """The broker has its inbox: a brief for it arrives from now on."""
        if gid not in self._unannounced:
            return []
        self._unannounced.discard(gid)
        return [*self._presence.announce(gid, now), *self._tell(gid, now)]

    def _failed(self, event: SpawnFailed, now: Now) -> list[Action]:
        gid = event.spawn_id
        spawn = self.rows.get(gid)
        if spawn is None or spawn.state is not SpawnState.STARTING:
            return []
        self._roster.starting.pop(gid, None)
        reason = event.reason if event.reason == CRASHED else _FAILED + event.reason
        return [
            *self._change(gid, now, state=SpawnState.ENDED, reason=reason, detail=event.detail),
            DropEntity(gid),
            *self._finish(self._requests(gid), InboxState.FAILED, now, reason=reason, detail=event.detail),
        ]

    def _adopted(self, event: Adopted, now: Now) -> list[Action]:
        entity = self._roster.entities.get(event.spawn_id)
        if entity is None or entity.status == "stopping":
            return []
        if not event.alive:
            return self._seen(AgentSeen(event.spawn_id, "away"), now)
        return [WatchEntity(entity, present=True)]

    # --- start, faults

    def start(self, now: Now) -> list[Action]:
        """Look for what the last process started, whatever had come of it."""
        actions: list[Action] = []
        for spawn in list(self.rows.values()):
            gid = spawn.spawn_id
            entity = self._roster.starting.get(gid) or self._roster.entities.get(gid)
            if entity is None or entity.status == "away":
                continue
            if spawn.state is SpawnState.STARTING or self.to_adopt(gid):
                actions.append(Launch(spawn, entity, again=True))
        return actions

    def _again(self, row: InboxRow, now: Now) -> list[Action]:
        """A request that was open when the last process ended."""
        spawn = self.rows.get(Gid(row.to))
        if spawn is None or spawn.state is SpawnState.ENDED:
            reason, detail = (spawn.reason, spawn.detail) if spawn else (CRASHED, "")
            return self._controls.finish(row, now, InboxState.FAILED, reason=reason or CRASHED, detail=detail)
        if spawn.state is SpawnState.READY:
            if self._standalone:
                return self._tell(spawn.spawn_id, now)
            self._unannounced.add(spawn.spawn_id)
        return []

    def undo(self, action: RecordSpawn, _: Now) -> None:
        """The store could not record it. A start that was not begun is forgotten; what happened since then did."""
        if action.before is None:
            self.rows.pop(action.row.spawn_id, None)
            self._roster.starting.pop(action.row.spawn_id, None)

    def recovered(self, now: Now) -> list[Action]:
        """The store takes writes again: what came of starts meanwhile is recorded, and told."""
        actions: list[Action] = [RecordSpawn(row, row) for row in self.rows.values() if row.state.is_in_use]
        actions += [RecordEntity(entity) for entity in self._roster.starting.values()]
        for request in [row for row in self._ledger.rows.values() if row.kind == Kind.SPAWN]:
            actions += self._again(request, now)
        return actions

    # --- for the end of agents, too

    def change(self, gid: Gid, now: Now, **changes: object) -> list[Action]:
        """The row as it is now; nothing for an agent that was not started here."""
        return self._change(gid, now, **changes) if gid in self.rows else []

    def refuse_waiting(self, gid: Gid, reason: str, now: Now, name: str) -> list[Action]:
        """Whoever asked for it and has no word yet is told that it does not come."""
        return self._finish(self._requests(gid), InboxState.FAILED, now, reason=reason, detail=name)

    def _change(self, gid: Gid, now: Now, **changes: object) -> list[Action]:
        before = self.rows[gid]
        self.rows[gid] = msgspec.structs.replace(before, at=now.wall, **changes)
        return [RecordSpawn(self.rows[gid], before)]

    def _requests(self, gid: Gid) -> list[InboxRow]:
        """The open requests for it."""
        return [row for row in self._ledger.rows.values() if row.kind == Kind.SPAWN and row.to == gid]

    def _tell(self, gid: Gid, now: Now) -> list[Action]:
        return self._finish(self._requests(gid), InboxState.READY, now, detail=self._name_of(gid))

    def _finish(
        self, rows: list[InboxRow], state: InboxState, now: Now, *, reason: str = "", detail: str = ""
    ) -> list[Action]:
        return [
            action for row in rows for action in self._controls.finish(row, now, state, reason=reason, detail=detail)
        ]

    def _name_of(self, gid: Gid) -> str:
        entity = self._roster.entities.get(gid)
        return entity.name if entity else ""
