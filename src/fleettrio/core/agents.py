"""The agents of this host: made known, seen at work, let go.

    (unknown) ──attach──► idle ◄──► working, blocked ──session over──► away ──attach──► idle
                            └──────────── detach --forget ─────────────────────► gone

An agent that is away keeps its gid, its name and its inbox; what comes for it waits. One that is gone is gone: what
waited ends, and its gid is never used again.
"""

from __future__ import annotations

import dataclasses

from fleettrio.core.actions import Action, CloseInbox, DropEntity, OpenInbox, RecordEntity, Resolve, WatchEntity
from fleettrio.core.calls import AttachedAs
from fleettrio.core.inbox import Inbox
from fleettrio.core.ledger import queue_owner
from fleettrio.core.presence import Presence
from fleettrio.core.roster import Roster
from fleettrio.core.rows import Entity
from fleettrio.errors import ProtocolMisuse
from fleettrio.ids import Gid, Now

__all__ = ("Agents",)


class Agents:
    def __init__(self, roster: Roster, inbox: Inbox, presence: Presence) -> None:
        self._roster = roster
        self._inbox = inbox
        self._presence = presence

    def attached(self, call: int, entity: Entity, now: Now) -> list[Action]:
        known = self._roster.entities.get(entity.gid)
        entity = self._roster.put(entity)
        self._presence.changed(entity.gid, now)
        actions: list[Action] = [RecordEntity(entity), WatchEntity(entity, present=True)]
        if known is None or queue_owner(known) != queue_owner(entity):
            actions.append(OpenInbox(queue_owner(entity)))
        return [*actions, Resolve(call, AttachedAs(entity)), *self._inbox.forward.pump(entity.gid, now)]

    def detached(self, call: int, gid: Gid, forget: bool, now: Now) -> list[Action]:
        entity = self._roster.entities.get(gid)
        if entity is None:
            raise ProtocolMisuse(f"detach of {gid}, which does not live here")
        if not forget:
            away = self._roster.put(dataclasses.replace(entity, status="away", since=now.wall))
            self._presence.changed(gid, now)
            return [RecordEntity(away), WatchEntity(away, present=False), Resolve(call, AttachedAs(away))]
        ended = self._inbox.close(gid, "recipient-gone", now)
        self._roster.drop(gid)
        return [
            *ended,
            DropEntity(gid),
            WatchEntity(entity, present=False),
            CloseInbox(queue_owner(entity)),
            *self._presence.gone(entity, now),
            Resolve(call, AttachedAs(dataclasses.replace(entity, status="gone"))),
        ]

    def seen(self, gid: Gid, status: str, now: Now) -> list[Action]:
        """Its state was reported or looked at; an idle one may take the next message."""
        entity = self._roster.entities.get(gid)
        if entity is None or entity.status in ("stopping", "gone"):
            return []
        actions: list[Action] = []
        if entity.status != status:
            entity = self._roster.put(dataclasses.replace(entity, status=status, since=now.wall))
            self._presence.changed(gid, now)
            actions.append(RecordEntity(entity))
        return [*actions, *(self._inbox.forward.pump(gid, now) if status == "idle" else [])]

    def not_ready(self, gid: Gid, why: str, status: str, gone: bool, now: Now) -> list[Action]:
        """A delivery could not begin; what was seen of the agent is kept all the same."""
        self._inbox.forward.not_ready(gid, why, now)
        if gone:
            return self.seen(gid, "away", now)
        return self.seen(gid, status, now) if status in ("working", "blocked") else []
