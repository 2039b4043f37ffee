"""Where the hand-overs of a list go: to the broker session, to tasks, to calls that wait.

A hand-over never blocks, and never raises for a link that is gone; what could not be done comes back as an event.
Sessions and tasks register here when they begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import msgspec
import trio

from fleettrio.broker.port import CONTENT_TYPE, BrokerSession, RawPublish
from fleettrio.calls import Calls
from fleettrio.core import actions as do
from fleettrio.core.events import (
    AgentEnded,
    AgentFoundReady,
    AgentNotReady,
    Event,
    FromCoordinator,
    Injected,
    LoadFailed,
    PublishHanded,
    PublishNotHanded,
    SpawnFailed,
    TraceRead,
    TreeLookedAt,
)
from fleettrio.core.gateway import Gateway
from fleettrio.core.link import Link
from fleettrio.core.nudges import Nudged
from fleettrio.ids import Gid
from fleettrio.observe import COUNTERS

__all__ = (
    "InboxRequest",
    "Lane",
    "LaneWork",
    "Ports",
    "SessionPorts",
    "StoreRequest",
    "Takes",
    "not_done",
)

T_contra = TypeVar("T_contra", contravariant=True)

InboxRequest = do.OpenInbox | do.PauseInbox | do.CloseInbox
LaneWork = do.Reserve | do.Inject | do.Nudge
"""What the delivery task of an agent does."""
StoreRequest = do.Load | do.LoadTrace | do.ProbeStore
_ToBroker = do.Publish | do.Relay | do.Ack | do.Reject | InboxRequest
_NO_TASK = "its delivery is only just starting"


class Takes(Protocol[T_contra]):
    """Where work is handed to, as a memory channel takes it: at once or not at all (`trio.WouldBlock`)."""

    def send_nowait(self, value: T_contra) -> None: ...


class Lane(Takes[LaneWork], Protocol):
    """Where the delivery task of one agent takes its work."""

    def glance(self) -> bool:
        """Whether it would deliver at this very moment, as far as that is seen without waiting. What is injected next
        is so by this look."""


class SessionPorts(msgspec.Struct, frozen=True):
    """What the current broker session takes from the performer."""

    broker: BrokerSession
    publishes: Takes[do.Publish]
    inboxes: Takes[InboxRequest]
    end: Callable[[str], None]
    reports_in_vain: bool = False
    """This host is granted `report`, and its login may not read the dead letters."""


class Ports:
    def __init__(self, gateway: Gateway, watches: Takes[do.WatchEntity], reads: Takes[StoreRequest]) -> None:
        self.gateway = gateway
        self.calls = Calls()
        self.session: SessionPorts | None = None
        self.coordinator: SessionPorts | None = None
        """The session at the coordinator's broker."""
        self.lanes: dict[Gid, Lane] = {}
        """Where each agent's delivery task takes its work; a task registers itself."""
        self.looks: trio.MemorySendChannel[do.LookAtTree] | None = None
        """Where the task that looks at work trees takes its work; it registers itself."""
        self.launches: Takes[do.Launch | do.EndAgent] | None = None
        """Where agents are started and ended; whoever does that registers here."""
        self.notices: Takes[do.Notify] | None = None
        """Where the person is told; the task that does it registers itself."""
        self._reads = reads
        to_broker = (do.Publish, do.Relay, do.Ack, do.Reject, do.OpenInbox, do.PauseInbox, do.CloseInbox)
        self._hands: dict[type[do.Action], Callable[[Any], Event | None]] = {
            **dict.fromkeys(to_broker, self._fleets),
            do.AtCoordinator: self._coordinators,
            **dict.fromkeys((do.Reserve, do.Inject, do.Nudge), self._to_lane),
            do.Resolve: self._resolve,
            do.Fail: self._fail,
            do.WatchEntity: watches.send_nowait,
            **dict.fromkeys((do.Launch, do.EndAgent), self._launch),
            **dict.fromkeys((do.Load, do.LoadTrace, do.ProbeStore), self._read),
            do.Notify: self._notify,
            do.LookAtTree: self._look,
            do.EndSession: self._end_sessions,
        }
        """What takes each action; asked for by its type, for a match looks at one class after the other."""

    def glances(self, gids: Iterable[Gid]) -> list[Event]:
        """What a glance at these agents shows. To be told at once, with what came for them."""
        lanes = ((gid, self.lanes.get(gid)) for gid in dict.fromkeys(gids))
        return [AgentFoundReady(gid) for gid, lane in lanes if lane is not None and lane.glance()]

    def hand_over(self, action: do.Action) -> Event | None:
        """Do it without blocking; returns the event that says it could not be done, if there is one."""
        return self._hands[type(action)](action)

    def _fleets(self, action: _ToBroker) -> Event | None:
        return _to_broker(action, self.session, self.gateway.link)

    def _coordinators(self, action: do.AtCoordinator) -> Event | None:
        undone = _to_broker(action.action, self.coordinator, self.gateway.coordination.link)
        return undone and FromCoordinator(undone)

    def _resolve(self, action: do.Resolve) -> None:
        self.calls.resolve(action.call, action.result)

    def _fail(self, action: do.Fail) -> None:
        self.calls.resolve(action.call, action)

    def _read(self, action: StoreRequest) -> Event | None:
        try:
            self._reads.send_nowait(action)
        except trio.WouldBlock:
            return not_done(action, "too many reads wait for the store")
        return None

    def _end_sessions(self, action: do.EndSession) -> None:
        for session in (self.session, self.coordinator):
            if session:
                session.end(action.reason)

    def _to_lane(self, action: LaneWork) -> Event | None:
        """To the agent's delivery task. Without one (it starts after the rows are loaded) nothing was written."""
        gid = action.gid if isinstance(action, do.Nudge) else action.row.gid
        if lane := self.lanes.get(gid):
            lane.send_nowait(action)
            return None
        if isinstance(action, do.Nudge):
            return Nudged(gid, "nothing-written")
        row = action.row
        if isinstance(action, do.Inject):
            return Injected(row.gid, row.msg_id, "nothing-written", "", _NO_TASK)
        return AgentNotReady(row.gid, row.msg_id, _NO_TASK, "idle", gone=False)

    def _look(self, action: do.LookAtTree) -> Event | None:
        """To the task that looks at work trees. Where nobody can look, the messages go without a note."""
        try:
            if self.looks is not None:
                self.looks.send_nowait(action)
                return None
        except trio.WouldBlock:
            pass
        return not_done(action, "nobody can look")

    def _notify(self, action: do.Notify) -> None:
        """To the task that tells the person. What it cannot take is lost, and counted."""
        try:
            if self.notices is not None:
                self.notices.send_nowait(action)
        except trio.WouldBlock:
            COUNTERS.count("notify-dropped", action.what)

    def _launch(self, action: do.Launch | do.EndAgent) -> Event | None:
        spawn_id = action.row.spawn_id
        if self.launches is None:
            is_end = isinstance(action, do.EndAgent)
            return AgentEnded(spawn_id) if is_end else SpawnFailed(spawn_id, "runtime", "nothing is started here")
        try:
            self.launches.send_nowait(action)
        except trio.WouldBlock:
            if isinstance(action, do.EndAgent):
                raise
            return SpawnFailed(spawn_id, "busy", "too many agents are being started here")
        return None


def _to_broker(action: _ToBroker, session: SessionPorts | None, link: Link) -> Event | None:
    """To `session`, whose publishes `link` knows."""
    if isinstance(action, do.Publish):
        return _publish(action, session, link)
    if isinstance(action, do.Relay):
        return _relay(action, session)
    if session is None:
        return None
    if isinstance(action, do.Ack):
        session.broker.ack(action.tag)
    elif isinstance(action, do.Reject):
        session.broker.reject(action.tag)
    else:
        session.inboxes.send_nowait(action)
    return None


def _publish(action: do.Publish, session: SessionPorts | None, link: Link) -> Event | None:
    if session is None:
        return PublishNotHanded(action.id, "broker-unreachable", "the session ended")
    if link.purpose(action.id) is None:
        return None  # its session ended while the list was recorded, and it was told so: it never goes out
    try:
        session.publishes.send_nowait(action)
    except trio.WouldBlock:
        return PublishNotHanded(action.id, "busy", "too many messages wait for the broker")
    except trio.BrokenResourceError:
        return PublishNotHanded(action.id, "broker-unreachable", "the session ended")
    return None


def _relay(action: do.Relay, session: SessionPorts | None) -> Event | None:
    """Bytes that are signed already: nothing to record, nothing to wait for."""
    if session is None:
        return PublishNotHanded(action.id, "broker-unreachable", "the session ended")
    raw = RawPublish(
        id=action.id,
        exchange=action.exchange,
        routing_key=action.routing_key,
        mandatory=True,
        persistent=action.persistent,
        expiration_ms=action.expiration_ms,
        content_type=CONTENT_TYPE,
        headers=action.headers,
        body=action.body,
    )
    session.broker.publish([raw])
    return PublishHanded((action.id,))


def not_done(action: do.Action, why: str) -> Event | None:
    """What the core is told of a hand-over that was not done because its list could not be recorded."""
    match action:
        case do.Nudge(gid):
            return Nudged(gid, "nothing-written")
        case do.Publish() | do.Relay():
            return PublishNotHanded(action.id, "store", why)
        case do.AtCoordinator(do.Publish(id=publish_id) | do.Relay(id=publish_id)):
            return FromCoordinator(PublishNotHanded(publish_id, "store", why))
        case do.Load(ask):
            return LoadFailed(ask, why)
        case do.LoadTrace(ask):
            return TraceRead(ask)
        case do.Reserve(row):
            return AgentNotReady(row.gid, row.msg_id, why, "idle")
        case do.LookAtTree(gid, rows):
            return TreeLookedAt(gid, tuple((row.key, None) for row in rows))
    return None
