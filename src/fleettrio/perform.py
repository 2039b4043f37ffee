"""The one interpreter of actions: takes a list, calls the ports in order, reports failures as events.

Rules:
1. Store actions of a list are submitted at once, synchronously: the order of lists is the order on disk.
2. Hand-overs come after the commit, never block, and never raise for a link that is gone.
3. A list that began runs to its end, whoever is cancelled meanwhile: the wait for the disk is shielded and bounded.
4. What the store cannot record goes back to the core as `StoreFailed`, and nothing after it is done.
5. A disk that neither takes nor refuses a list for 30 s ends the daemon: what it will do with that list nobody knows.
6. A delivery that makes the core fail is an `internal-error`: logged, told, rejected; the daemon goes on.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import trio

from fleettrio.broker.port import BrokerSession
from fleettrio.clock import Clock
from fleettrio.core import actions as do
from fleettrio.core.events import (
    AgentNotReady,
    Arrived,
    Event,
    Injected,
    LoadFailed,
    PublishNotHanded,
    RefusedArrival,
    StoreFailed,
)
from fleettrio.core.gateway import Gateway
from fleettrio.core.rows import InboxState
from fleettrio.errors import FleetTrioError, ProtocolMisuse, StoreError
from fleettrio.ids import Gid, Now, Seconds, WallMs
from fleettrio.observe import COUNTERS, failpoint, get_logger
from fleettrio.store.store import Store
from fleettrio.wire.signing import Refusal

__all__ = ("INTERNAL_ERROR", "CallFailed", "Calls", "Performer", "SessionPorts")

COMMIT_LIMIT_S = 30.0
INTERNAL_ERROR = "internal-error"

log = get_logger("perform")

InboxRequest = do.OpenInbox | do.PauseInbox | do.CloseInbox
StoreRequest = do.Load | do.ProbeStore


class CallFailed(FleetTrioError):
    """A local call ended with an error; `exit_code` and `reason` are for its client."""

    def __init__(self, fail: do.Fail) -> None:
        super().__init__(fail.message, hint=fail.hint)
        self.exit_code = fail.code
        self.reason = fail.reason


class Calls:
    """The local calls that wait for the core: numbered, resolved once."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[trio.Event, list[object]]] = {}

    def new(self) -> int:
        number = next(self._numbers)
        self._waiting[number] = (trio.Event(), [])
        return number

    def resolve(self, number: int, result: object) -> None:
        if entry := self._waiting.get(number):
            entry[1].append(result)
            entry[0].set()

    async def result(self, number: int) -> object:
        """The call's result; raises `CallFailed`. Cancelled, the call is forgotten: a later result is dropped."""
        event, results = self._waiting[number]
        try:
            await event.wait()
        finally:
            del self._waiting[number]
        if isinstance(results[0], do.Fail):
            raise CallFailed(results[0])
        return results[0]


@dataclasses.dataclass(frozen=True, slots=True)
class SessionPorts:
    """What the current broker session takes from the performer."""

    broker: BrokerSession
    publishes: trio.MemorySendChannel[do.Publish]
    inboxes: trio.MemorySendChannel[InboxRequest]
    end: Callable[[str], None]


class Performer:
    """Feeds the gateway and performs what it decides. One for the life of the daemon."""

    def __init__(
        self,
        gateway: Gateway,
        store: Store,
        clock: Clock,
        watches: trio.MemorySendChannel[do.WatchEntity],
        reads: trio.MemorySendChannel[StoreRequest],
    ) -> None:
        self.gateway = gateway
        self.store = store
        self.clock = clock
        self.calls = Calls()
        self.session: SessionPorts | None = None
        self.link_changed_at = WallMs(0)
        """When the link to the broker last changed its state, for showing."""
        self.lanes: dict[Gid, trio.MemorySendChannel[do.Reserve | do.Inject]] = {}
        """Where each agent's delivery task takes its work; a task registers itself."""
        self._watches = watches
        self._reads = reads
        self._deadline_changed = trio.Event()
        self._handled = trio.Event()
        self.sleeping_until: Seconds | None = None

    async def start(self) -> None:
        """Settle what the last process left behind."""
        now = self.clock.now()
        await self._perform(self.gateway.start(now), now)

    async def handle(self, *events: Event) -> None:
        """Decide about `events` in order and perform what was decided, as one list.

        Cancelled, the list is performed all the same; only the caller does not see its end.
        """
        now = self.clock.now()
        listed: list[do.Action] = []
        before = self.gateway.link.state
        for event in events:
            listed += self._decide(event, now)
        if self.gateway.link.state is not before:
            self.link_changed_at = now.wall
        await self._perform(listed, now)

    def _decide(self, event: Event, now: Now) -> list[do.Action]:
        try:
            return self.gateway.handle(event, now)
        except _UNFORESEEN as error:
            if not isinstance(event, Arrived):
                raise
            envelope = event.message.envelope
            log.exception("internal error", msg_id=envelope.msg_id, trace_id=envelope.trace_id, kind=envelope.kind)
            COUNTERS.count("refused", INTERNAL_ERROR)
            what, leaf = type(error).__name__, event.message.leaf
            refusal = Refusal(INTERNAL_ERROR, what, envelope, leaf, True, envelope.host, envelope.trace_id)
            return self.gateway.handle(RefusedArrival(event.tag, event.owner, refusal), now)

    async def expire(self) -> None:
        now = self.clock.now()
        await self._perform(self.gateway.expire(now), now)

    async def confirms_settled(self) -> None:
        """Return when no publish waits for its verdict. Cancellation changes nothing."""
        while self.gateway.link.open_count:
            await self._handled.wait()

    async def deadline_changed(self) -> None:
        """Return when something earlier than `sleeping_until` is waited for. Cancellation changes nothing."""
        await self._deadline_changed.wait()

    async def _perform(self, listed: Sequence[do.Action], now: Now) -> None:
        records = [action for action in listed if isinstance(action, do.RECORDED)]
        self._wake_sweeper()
        if records:
            try:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + COMMIT_LIMIT_S) as limit:
                    await self.store.submit(records, now.wall).done()
            except StoreError as error:
                with trio.CancelScope(shield=True):
                    await self._not_recorded(listed, error)
                return
            if limit.cancelled_caught:
                raise StoreError(f"the disk did not answer for {COMMIT_LIMIT_S:.0f} s", hint="look at dmesg")
            _failpoints(records)
        hand_overs = [action for action in listed if not isinstance(action, do.RECORDED)]
        follow_ups = [event for action in hand_overs if (event := self._hand_over(action))]
        self._handled.set()
        self._handled = trio.Event()
        if follow_ups:
            await self.handle(*follow_ups)

    async def _not_recorded(self, listed: Sequence[do.Action], error: StoreError) -> None:
        log.error("not recorded", reason=str(error), actions=len(listed))
        COUNTERS.count("store-failed")
        undo = tuple(
            (action.row, action.before if isinstance(action, do.Record) else None)
            for action in listed
            if isinstance(action, do.Commit | do.Record)
        )
        undo_sent = tuple((action.row, action.before) for action in listed if isinstance(action, do.RecordSent))
        calls = tuple(action.call for action in listed if isinstance(action, do.Resolve | do.Fail))
        failed = StoreFailed(tuple(reversed(undo)), calls, str(error), tuple(reversed(undo_sent)))
        await self.handle(failed, *(event for action in listed if (event := _not_done(action, str(error)))))

    def _hand_over(self, action: do.Action) -> Event | None:  # noqa: C901 - one line per port
        """Do it without blocking; returns the event that says it could not be done, if there is one."""
        session = self.session
        match action:
            case do.Ack(tag):
                if session:
                    session.broker.ack(tag)
            case do.Reject(tag):
                if session:
                    session.broker.reject(tag)
            case do.Publish():
                return self._publish(action)
            case do.Reserve() | do.Inject():
                return self._to_lane(action)
            case do.Resolve(call, result):
                self.calls.resolve(call, result)
            case do.Fail():
                self.calls.resolve(action.call, action)
            case do.WatchEntity():
                self._watches.send_nowait(action)
            case do.OpenInbox() | do.PauseInbox() | do.CloseInbox():
                if session:
                    session.inboxes.send_nowait(action)
            case do.Load() | do.ProbeStore():
                try:
                    self._reads.send_nowait(action)
                except trio.WouldBlock:
                    return _not_done(action, "too many reads wait for the store")
            case do.EndSession(reason):
                if session:
                    session.end(reason)
        return None

    def _to_lane(self, action: do.Reserve | do.Inject) -> Event | None:
        """To the agent's delivery task. Without one (it starts after the rows are loaded) nothing was written."""
        row = action.row
        if lane := self.lanes.get(row.gid):
            lane.send_nowait(action)
            return None
        if isinstance(action, do.Inject):
            return Injected(row.gid, row.msg_id, "nothing-written", "", _NO_TASK)
        return AgentNotReady(row.gid, row.msg_id, _NO_TASK, "idle", gone=False)

    def _publish(self, action: do.Publish) -> Event | None:
        if self.session is None:
            return PublishNotHanded(action.id, "broker-unreachable", "the session ended")
        if self.gateway.link.purpose(action.id) is None:
            return None  # its session ended while the list was recorded, and it was told so: it never goes out
        try:
            self.session.publishes.send_nowait(action)
        except trio.WouldBlock:
            return PublishNotHanded(action.id, "busy", "too many messages wait for the broker")
        except trio.BrokenResourceError:
            return PublishNotHanded(action.id, "broker-unreachable", "the session ended")
        return None

    def _wake_sweeper(self) -> None:
        deadline = self.gateway.next_deadline()
        if deadline is not None and (self.sleeping_until is None or deadline < self.sleeping_until):
            self._deadline_changed.set()
            self._deadline_changed = trio.Event()
            self.sleeping_until = deadline


def _not_done(action: do.Action, why: str) -> Event | None:
    """What the core is told of a hand-over that was not done because its list could not be recorded."""
    match action:
        case do.Publish():
            return PublishNotHanded(action.id, "store", why)
        case do.Load(ask):
            return LoadFailed(ask, why)
        case do.Reserve(row):
            return AgentNotReady(row.gid, row.msg_id, why, "idle")
    return None


_UNFORESEEN = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, ProtocolMisuse)
_NO_TASK = "its delivery is only just starting"


def _failpoints(records: Sequence[do.Action]) -> None:
    """The windows after a commit in which tests make the daemon die (`70-testing`, Crash table)."""
    for action in records:
        if isinstance(action, do.Commit):
            failpoint("R2-committed")
        elif isinstance(action, do.Record) and action.row.state is InboxState.INJECTED and not action.row.notified:
            failpoint("R7-recorded")
