"""The agents of this host: made known, seen at work, let go.

    (unknown) ──attach──► idle ◄──► working, blocked ──session over──► away ──attach──► idle
                            └──────────── detach --forget ─────────────────────► gone

An agent that is away keeps its gid, its name and its inbox; what comes for it waits. One that is gone is gone: what
waited ends, and its gid is never used again. One that is being stopped is neither attached nor let go: its end is near,
and whoever asked for it waits for that.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fleettrio.core.actions import Action, CloseInbox, DropEntity, Fail, OpenInbox, RecordEntity, Resolve, WatchEntity
from fleettrio.core.calls import AttachedAs
from fleettrio.core.depth import Depths
from fleettrio.core.entity import Entity
from fleettrio.core.events import AgentNotReady, AgentSeen, Attached, Detached, SessionSeen, TreeMoved
from fleettrio.core.inbox import Inbox
from fleettrio.core.ledger import queue_owner
from fleettrio.core.presence import Presence
from fleettrio.core.requests import CallId
from fleettrio.core.roster import Roster
from fleettrio.core.rules import Rules
from fleettrio.errors import FAILED, ProtocolMisuse
from fleettrio.ids import Gid, Now

__all__ = ("Agents",)


class Agents:
    def __init__(self, roster: Roster, inbox: Inbox, presence: Presence, depths: Depths) -> None:
        self._roster = roster
        self._inbox = inbox
        self._presence = presence
        self.on_gone: list[Callable[[Gid, Now], list[Action]]] = []
        """What else ends with an entity."""
        self._depths = depths
        self.watchers: list[Callable[[Entity, AgentSeen, Now], list[Action]]] = []
        """Parts that want to know what an agent was, and what it is seen to be now."""
        self.rules: Rules = {
            Attached: self.attached,
            Detached: self.detached,
            AgentSeen: self.seen,
            AgentNotReady: self.not_ready,
            SessionSeen: self.session_seen,
            TreeMoved: self.tree_moved,
        }

    def attached(self, event: Attached, now: Now) -> list[Action]:
        entity = event.entity
        known = self._roster.entities.get(entity.gid)
        if known is not None and known.status == "stopping":
            return [_being_stopped(event.call, known)]
        entity = self._roster.put(_with_left_keys(entity, known))
        self._presence.changed(entity.gid, now)
        actions: list[Action] = [RecordEntity(entity), WatchEntity(entity, present=True)]
        if known is None or queue_owner(known) != queue_owner(entity):
            actions.append(OpenInbox(queue_owner(entity)))
        return [*actions, Resolve(event.call, AttachedAs(entity)), *self._inbox.forward.pump(entity.gid, now)]

    def unbound(self, gid: Gid, keys: tuple[str, ...]) -> list[Action]:
        """The broker gives its inbox nothing more that goes to these groups."""
        entity = self._roster.entities.get(gid)
        if entity is None or not keys:
            return []
        left = tuple(key for key in entity.left if key not in keys)
        self._roster.entities[gid] = msgspec.structs.replace(entity, left=left)  # nobody else is told of it
        return [RecordEntity(self._roster.entities[gid])]

    def detached(self, event: Detached, now: Now) -> list[Action]:
        call, gid = event.call, event.gid
        entity = self._roster.entities.get(gid)
        if entity is None:
            raise ProtocolMisuse(f"detach of {gid}, which does not live here")
        if entity.status == "stopping":
            return [_being_stopped(call, entity)]
        over = self._tell(entity, AgentSeen(gid, "gone" if event.forget else "away"), now)
        if not event.forget:
            # Nobody looks whether it is back, after a restart either: it was let go.
            away = self._roster.put(msgspec.structs.replace(entity, status="away", since=now.wall, wakes=False))
            self._presence.changed(gid, now)
            return [*over, RecordEntity(away), WatchEntity(away, present=False), Resolve(call, AttachedAs(away))]
        ended = self._inbox.close(gid, "recipient-gone", now)
        self._roster.drop(gid)
        self._depths.forget(gid)
        for end in self.on_gone:
            ended += end(gid, now)
        return [
            *over,
            *ended,
            DropEntity(gid),
            WatchEntity(entity, present=False),
            CloseInbox(queue_owner(entity)),
            *self._presence.gone(entity, now),
            Resolve(call, AttachedAs(msgspec.structs.replace(entity, status="gone"))),
        ]

    def seen(self, event: AgentSeen, now: Now) -> list[Action]:
        """Its state was reported or looked at; an idle one may take the next message."""
        gid, status = event.gid, event.status
        entity = self._roster.entities.get(gid)
        if gid in self._roster.starting:
            self._roster.seen_starting.add(gid)
        # A write or a hook that was under way when it was let go does not bring it back.
        if entity is None or entity.status in ("stopping", "gone") or entity.is_let_go:
            return []
        actions = self._tell(entity, event, now)
        if entity.status != status:
            self._depths.seen(gid, status)
            entity = self._roster.put(
                msgspec.structs.replace(entity, status=status, since=now.wall, shown=event.looked)
            )
            self._presence.changed(gid, now)
            actions.append(RecordEntity(entity))
        elif event.looked and not entity.shown:
            entity = self._roster.entities[gid] = msgspec.structs.replace(entity, shown=True)  # ours alone
            actions.append(RecordEntity(entity))
        return [*actions, *(self._inbox.forward.pump(gid, now) if status == "idle" else [])]

    def _tell(self, before: Entity, event: AgentSeen, now: Now) -> list[Action]:
        return [action for watch in self.watchers for action in watch(before, event, now)]

    def tree_moved(self, event: TreeMoved, now: Now) -> list[Action]:
        """Others are told what its work tree is at: their messages say what they believed of it."""
        entity = self._roster.entities.get(event.gid)
        if entity is None or (entity.repo, entity.head) == (event.repo, event.head):
            return []
        entity = self._roster.put(msgspec.structs.replace(entity, repo=event.repo, head=event.head))
        self._presence.changed(entity.gid, now)
        return [RecordEntity(entity)]

    def session_seen(self, event: SessionSeen, now: Now) -> list[Action]:
        """Another session, as after `/clear`, is the same agent. Other hosts are not told: it is ours alone."""
        entity = self._roster.entities.get(event.gid)
        if entity is None:
            return []
        seen = msgspec.structs.replace(entity, session=event.session or entity.session, api=event.api or entity.api)
        if seen == entity:
            return []
        self._roster.entities[event.gid] = seen
        return [RecordEntity(seen), WatchEntity(seen, present=True)]  # it may be reached another way now

    def not_ready(self, event: AgentNotReady, now: Now) -> list[Action]:
        """A delivery could not begin; what was seen of the agent is kept all the same."""
        self._inbox.forward.not_ready(event.gid, event.why, now)
        if event.gone:
            return self.seen(AgentSeen(event.gid, "away"), now)
        is_busy = event.status in ("working", "blocked")
        return self.seen(AgentSeen(event.gid, event.status, looked=True), now) if is_busy else []


def _being_stopped(call: CallId, entity: Entity) -> Fail:
    text = f"{entity.name} is being stopped"
    return Fail(call, FAILED, "stopping", text, "try again in a moment, or take another name")


def _with_left_keys(entity: Entity, known: Entity | None) -> Entity:
    """What its inbox was bound to and shall not be any more: kept until the broker has taken it away."""
    if known is None:
        return entity
    were = {*known.left, *queue_owner(known).broadcast_keys}
    return msgspec.structs.replace(entity, left=tuple(sorted(were - {*queue_owner(entity).broadcast_keys})))
