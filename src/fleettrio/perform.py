"""The one interpreter of actions: takes a list, calls the ports in order, reports failures as events.

Rules:
1. Store actions of a list are submitted at once, synchronously: the order of lists is the order on disk. A list whose
   records may all wait for company is not held up by them.
2. Hand-overs come after the commit, never block, and never raise for a link that is gone.
3. A list that began runs to its end, whoever is cancelled meanwhile: the wait for the disk is shielded and bounded.
4. What the store cannot record goes back to the core as `StoreFailed`, and nothing after it is done.
5. A disk that neither takes nor refuses a list for 30 s ends the daemon: what it will do with that list nobody knows.
6. A delivery that makes the core fail is an `internal-error`: logged, told, rejected; the daemon goes on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import trio

from fleettrio.clock import Clock, Pulse
from fleettrio.core import actions as do
from fleettrio.core.events import (
    Arrived,
    Event,
    FromCoordinator,
    RefusedArrival,
    StoreFailed,
)
from fleettrio.core.gateway import Gateway
from fleettrio.core.link import Link
from fleettrio.core.requests import CallEnded, RpcAsked
from fleettrio.core.rows import InboxState
from fleettrio.core.rpc import RpcAnswer
from fleettrio.errors import ProtocolMisuse, StoreError
from fleettrio.ids import Gid, HostId, MsgId, Now, Seconds, TraceId, WallMs
from fleettrio.local.echoes import Echoes
from fleettrio.local.nonces import Nonces
from fleettrio.local.sightings import Sightings
from fleettrio.observe import COUNTERS, FAILS, failpoint, get_logger
from fleettrio.ports import Ports, StoreRequest, Takes, not_done
from fleettrio.store.inhand import Hand
from fleettrio.store.store import Store
from fleettrio.wire.fleet import Fleet
from fleettrio.wire.gids import MsgIds
from fleettrio.wire.signing import Refusal

__all__ = ("COMMIT_LIMIT_S", "INTERNAL_ERROR", "Performer")

COMMIT_LIMIT_S = 30.0
INTERNAL_ERROR = "internal-error"

log = get_logger("perform")


class Performer(Ports):
    """Feeds the gateway and performs what it decides. One for the life of the daemon."""

    def __init__(
        self,
        gateway: Gateway,
        store: Store,
        clock: Clock,
        watches: Takes[do.WatchEntity],
        reads: Takes[StoreRequest],
    ) -> None:
        super().__init__(gateway, watches, reads)
        self.store = store
        self.clock = clock
        self.nonces = Nonces()
        self.echoes = Echoes()
        self.sightings = Sightings()
        self.link_changed_at = WallMs(0)
        """When the link to the broker last changed its state, for showing."""
        self.pulse: Pulse | None = None
        """Knows whether this process has just stood still; the daemon sets it."""
        self._msg_ids = MsgIds()
        self._entropy = _Entropy()
        self._deadline_changed = trio.Event()
        self._handled = trio.Event()
        self.sleeping_until: Seconds | None = None

    @property
    def link(self) -> Link:
        """The state of the link to the fleet's broker."""
        return self.gateway.link

    @property
    def fleet(self) -> Fleet:
        """Whom the fleet's gateway trusts, as its fleet file says."""
        return self.gateway.trust.fleet

    def kept_as(self, gid: Gid) -> Gid:
        """By which gid the rows of what was sent to `gid` are kept here."""
        return gid

    @property
    def hands(self) -> Sequence[Hand]:
        """Where the consumers of messages and of control note what they have in hand."""
        return self.store.in_hand.hands[:2]

    def acts_on(self, kind: str) -> bool:
        """True for control kinds that are recorded, and known again."""
        return self.gateway.controls.knows(kind)

    @property
    def may_take(self) -> bool:
        """False when a delivery in hand may be another gateway's by now: since a standstill, until the next session."""
        return self.pulse is None or not self.pulse.is_in_doubt

    def new_msg_id(self) -> MsgId:
        """An id for a message of this moment, behind all that were made before."""
        return self.new_msg_ids(1, self.clock.now().wall)[0]

    def new_msg_ids(self, count: int, wall: WallMs) -> tuple[MsgId, ...]:
        """So many of them; `wall` is the wall clock now."""
        return tuple([self._msg_ids.new(wall, self._entropy.take(10)) for _ in range(count)])

    def new_trace_id(self) -> TraceId:
        """An id for a trace that begins here."""
        return TraceId(self._entropy.take(16).hex())

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
        listed = self.gateway.settle(listed, now)
        if self.gateway.link.state is not before:
            self.link_changed_at = now.wall
        await self._perform(listed, now)

    def _decide(self, event: Event, now: Now) -> list[do.Action]:
        try:
            return self.gateway.decide(event, now)
        except _UNFORESEEN as error:
            arrived = event.event if isinstance(event, FromCoordinator) else event
            if not isinstance(arrived, Arrived):
                raise
            envelope = arrived.message.envelope
            log.exception("internal error", msg_id=envelope.msg_id, trace_id=envelope.trace_id, kind=envelope.kind)
            COUNTERS.count("refused", INTERNAL_ERROR)
            what, leaf = type(error).__name__, arrived.message.leaf
            refusal = Refusal(INTERNAL_ERROR, what, envelope, leaf, True, envelope.host, envelope.trace_id)
            refused = RefusedArrival(arrived.tag, arrived.owner, refusal)
            return self.gateway.decide(refused if arrived is event else FromCoordinator(refused), now)

    async def expire(self) -> None:
        now = self.clock.now()
        await self._perform(self.gateway.expire(now), now)

    async def call_gateway(self, host: HostId, name: str, args: Mapping[str, Any], limit_s: float = 30.0) -> Any:
        """Have the gateway of `host` (this one, too) do something by name; returns its result, a plain value.

        Raises `CallFailed`: it said no, or did not answer within `limit_s`. Cancelled, it is told that nobody waits.
        """
        call = self.calls.new()
        msg_id, trace_id = self.new_msg_id(), self.new_trace_id()
        request = RpcAsked(
            call=call, host=host, name=name, args=args, msg_id=msg_id, trace_id=trace_id, limit_s=limit_s
        )
        try:
            await self.handle(request)
            answer = await self.calls.result(call)
        except trio.Cancelled:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + COMMIT_LIMIT_S):
                await self.handle(CallEnded(call, "", gone=False))
            raise
        assert isinstance(answer, RpcAnswer)
        return answer.value

    async def confirms_settled(self, link: Link | None = None) -> None:
        """Return when no publish (by `link`) waits for its verdict. Cancellation changes nothing."""
        while (link or self.link).open_count:
            await self._handled.wait()

    async def written(self, gid: Gid) -> None:
        """Return when nothing is being put into this agent. Cancellation changes nothing."""
        while self.gateway.inbox.forward.being_written(gid) is not None:
            await self._handled.wait()

    async def deadline_changed(self) -> None:
        """Return when something earlier than `sleeping_until` is waited for. Cancellation changes nothing."""
        await self._deadline_changed.wait()

    async def _perform(self, listed: Sequence[do.Action], now: Now) -> None:
        records, hand_overs = do.parted(listed)
        self._wake_sweeper()
        if records:
            can_wait = do.may_wait(records)
            try:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + COMMIT_LIMIT_S) as limit:
                    ticket = self.store.submit(records, now.wall, may_wait=can_wait)
                    if not can_wait:
                        await ticket.done()
            except StoreError as error:
                with trio.CancelScope(shield=True):
                    await self._not_recorded(listed, error)
                return
            if limit.cancelled_caught:
                raise StoreError(f"the disk did not answer for {COMMIT_LIMIT_S:.0f} s", hint="look at dmesg")
            if FAILS:
                _failpoints(records)
            _alarms(records)
        follow_ups = [event for action in hand_overs if (event := self.hand_over(action))]
        self._handled.set()
        self._handled = trio.Event()
        if follow_ups:
            await self.handle(*follow_ups)

    async def _not_recorded(self, listed: Sequence[do.Action], error: StoreError) -> None:
        log.error("not recorded", reason=str(error), actions=len(listed))
        COUNTERS.count("store-failed")
        records, _ = do.parted(listed)
        calls = tuple(action.call for action in listed if isinstance(action, do.Resolve | do.Fail))
        failed = StoreFailed(str(error), tuple(reversed(records)), calls)
        await self.handle(failed, *(event for action in listed if (event := not_done(action, str(error)))))

    def _wake_sweeper(self) -> None:
        deadline = self.gateway.next_deadline()
        if deadline is not None and (self.sleeping_until is None or deadline < self.sleeping_until):
            self._deadline_changed.set()
            self._deadline_changed = trio.Event()
            self.sleeping_until = deadline


class _Entropy:
    """Random bytes of the system, asked for in advance: it takes as long to give a few as to give many."""

    _AT_ONCE = 4_096

    def __init__(self) -> None:
        self._bytes, self._at = b"", 0

    def take(self, size: int) -> bytes:
        """`size` bytes (at most `_AT_ONCE`) that nobody had before."""
        if self._at + size > len(self._bytes):
            self._bytes, self._at = os.urandom(self._AT_ONCE), 0
        begin, self._at = self._at, self._at + size
        return self._bytes[begin : self._at]


_UNFORESEEN = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, ProtocolMisuse)


def _alarms(records: Sequence[do.Action]) -> None:
    """What a person must see is in the log, too. Refusals are logged where they are met, with more about them."""
    for note in records:
        if type(note) is do.Note and note.alarm and note.what != "refused":
            log.error(note.what, reason=note.reason, detail=note.detail, peer=note.peer)


def _failpoints(records: Sequence[do.Action]) -> None:
    """The windows after a commit in which `tests/faults` makes the daemon die."""
    for action in records:
        if isinstance(action, do.Commit):
            failpoint("R2-committed")
        elif isinstance(action, do.RecordSpawn) and action.before is None:
            failpoint("P1-recorded")
        elif isinstance(action, do.Record) and action.row.state is InboxState.READY and not action.row.notified:
            failpoint("P5-announced")
        elif isinstance(action, do.Record) and action.row.state is InboxState.INJECTED and not action.row.notified:
            failpoint("R7-recorded")
