"""The delivery task of one agent: looks, writes, reports. What may be written and when is decided by the core.

From `Inject` on it runs to its end under a bounded shield: the row says `injecting`, and only this task can say what
came of it. If it breaks all the same, the row is closed as `unconfirmed`. Whatever it was asked and did not do is given
back when it ends.
"""

from __future__ import annotations

import trio

from fleettrio.core.actions import Inject, Nudge, Reserve
from fleettrio.core.drift import Drift
from fleettrio.core.entity import Entity
from fleettrio.core.events import AgentNotReady, AgentReserved, AgentSeen, Injected
from fleettrio.core.nudges import Nudged
from fleettrio.core.rows import InboxRow
from fleettrio.errors import StoreError
from fleettrio.ids import Gid
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, Keeper, NotReady, Reserved, Transport
from fleettrio.observe import failpoint, get_logger
from fleettrio.perform import Performer
from fleettrio.ports import LaneWork
from fleettrio.tasks.framing import framed
from fleettrio.tasks.look import announce_place, drift_of
from fleettrio.tasks.nudge import nudge
from fleettrio.tasks.turns import turn_ended

__all__ = ("reserve", "run_deliver", "write")

WRITE_LIMIT_S = 60.0
LOOK_AGAIN_S = 0.5
"""While it works or is blocked."""
LOOK_IDLE_S = 60.0
"""While nothing waits: only to see it leave."""
LOOK_AWAY_S = 1.0
"""At first while it is away; then as long again as it has been away, at most `LOOK_IDLE_S`."""
_ENDED = "its delivery task ended"

log = get_logger("deliver")


async def run_deliver(
    entity: Entity,
    transport: Transport,
    performer: Performer,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Deliver to `entity` until cancelled. A write that began is finished and reported first."""
    lane = performer.lanes[entity.gid] = _Lane(entity.gid, transport, performer)
    task_status.started()
    try:
        await _deliver(entity, lane, transport, performer)
    finally:
        if performer.lanes.get(entity.gid) is lane:
            del performer.lanes[entity.gid]
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            await _give_back(lane.work, performer)
            await transport.close()


class _Lane:
    """See `ports.Lane`."""

    def __init__(self, gid: Gid, transport: Transport, performer: Performer) -> None:
        self._gid = gid
        self._transport = transport
        self._sightings = performer.sightings
        self._send, self.work = trio.open_memory_channel[LaneWork](4)
        self._is_at_rest = False
        self.reserved: Reserved | None = None
        """By which look what is injected next is written."""

    def send_nowait(self, value: LaneWork) -> None:
        self._is_at_rest = False
        self._send.send_nowait(value)

    async def next(self, within_s: float) -> LaneWork | None:
        """What is to be done; None when there was nothing for so long. Cancelled, nothing was taken."""
        self._is_at_rest = not self.work.statistics().current_buffer_used
        try:
            with trio.move_on_after(within_s):
                return await self.work.receive()
        finally:
            self._is_at_rest = False
        return None

    def glance(self) -> bool:
        """Only a transport that knows without waiting is asked, and only while nothing else is done for its agent."""
        if not self._is_at_rest or not isinstance(self._transport, Keeper):
            return False
        if self._sightings.is_told_by_file(self._gid) or self._sightings.objection(self._gid, "idle"):
            return False
        if found := self._transport.glance():
            self.reserved = found
        return found is not None


async def _deliver(
    entity: Entity,
    lane: _Lane,
    transport: Transport,
    performer: Performer,
) -> None:
    await _see(entity.gid, transport, performer)
    await announce_place(entity.gid, performer)
    while True:
        current = performer.gateway.roster.entities.get(entity.gid, entity)
        request = await lane.next(_pause_s(current, performer))
        if request is None:
            await _see(entity.gid, transport, performer)
        elif isinstance(request, Nudge):
            await nudge(request, transport, performer)
        elif isinstance(request, Reserve):
            lane.reserved = await reserve(request.row, transport, performer)
        elif lane.reserved is None:  # another task of this agent looked, and ended
            await performer.handle(_undone(request))
        else:
            await write(request.row, lane.reserved, transport, performer)


async def _see(gid: Gid, transport: Transport, performer: Performer) -> None:
    """Look at the agent. When it begins or ends something, its work tree may be elsewhere than others were told."""
    sightings = performer.sightings
    seen = await transport.state()
    await sightings.look_at_file(gid)
    state = sightings.judge(gid, seen, performer.clock.now().wall)
    if isinstance(transport, Keeper):
        await _tell_turns(gid, transport, performer)
    status = _status(state)
    known = performer.gateway.roster.entities.get(gid)
    await performer.handle(AgentSeen(gid, status, looked=state is not AgentState.UNKNOWN))
    if known is not None and known.status != status:
        await announce_place(gid, performer)


async def _tell_turns(gid: Gid, transport: Keeper, performer: Performer) -> None:
    """The turns that are over by the program's own word, with its last words."""
    for turn in transport.turns_over():
        await performer.handle(turn_ended(gid, turn.words, turn.how, performer))


def _pause_s(entity: Entity, performer: Performer) -> float:
    """How long nothing needs to be looked at, unless there is something to deliver."""
    if entity.status in ("working", "blocked") or performer.gateway.asks.briefs.is_ending(entity.gid):
        return LOOK_AGAIN_S
    if entity.status == "away":
        away_s = (performer.clock.now().wall - entity.since) / 1000
        return min(max(away_s, LOOK_AWAY_S), LOOK_IDLE_S)
    return LOOK_IDLE_S


async def _give_back(work: trio.MemoryReceiveChannel[LaneWork], performer: Performer) -> None:
    while True:
        try:
            request = work.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            return
        await performer.handle(_undone(request))


def _undone(request: LaneWork) -> AgentNotReady | Injected | Nudged:
    """Not a byte of it was written."""
    if isinstance(request, Nudge):
        return Nudged(request.gid, str(DeliveryOutcome.NOTHING_WRITTEN))
    row = request.row
    if isinstance(request, Inject):
        return Injected(row.gid, row.msg_id, str(DeliveryOutcome.NOTHING_WRITTEN), "", _ENDED)
    return AgentNotReady(row.gid, row.msg_id, _ENDED, "idle")


async def reserve(row: InboxRow, transport: Transport, performer: Performer) -> Reserved | None:
    """Look at the agent and tell the core; what was seen, when it would take the message now."""
    found: Reserved | NotReady | None = None
    drift: Drift | None = None
    is_known = False
    try:
        found = await _look(row, transport, performer)
        drift = await drift_of(row, performer) if isinstance(found, Reserved) else None
        is_known = True
    finally:
        # Not `except trio.Cancelled`: out of a transport that starts programs, cancellation comes as a group.
        if not is_known:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                await performer.handle(_undone(Reserve(row)))
    if isinstance(found, NotReady):
        await performer.handle(AgentNotReady(row.gid, row.msg_id, found.why, _status(found.state), gone=found.gone))
        return None
    failpoint("R3-before-injecting")
    await performer.handle(AgentReserved(row.gid, row.msg_id, drift))
    return found


async def _look(row: InboxRow, transport: Transport, performer: Performer) -> Reserved | NotReady:
    """All checks; what the harness says of itself may forbid what its screen would allow."""
    found = await transport.reserve(row.when)
    if isinstance(found, NotReady):
        return found
    await performer.sightings.look_at_file(row.gid)
    return performer.sightings.objection(row.gid, row.when) or found


async def write(row: InboxRow, reserved: Reserved, transport: Transport, performer: Performer) -> None:
    """Put the message in and report what came of it, though cancelled meanwhile."""
    with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITE_LIMIT_S):
        try:
            text = await framed(row, performer)
        except StoreError as error:
            why = f"the body cannot be read: {error}"
            await performer.handle(
                Injected(row.gid, row.msg_id, str(DeliveryOutcome.NOTHING_WRITTEN), transport.name, why)
            )
            return
    failpoint("R4-injecting")
    delivery = Delivery(DeliveryOutcome.UNCONFIRMED, f"not finished within {WRITE_LIMIT_S:.0f} s")
    try:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITE_LIMIT_S):
            delivery = await transport.deliver(reserved, text)
            failpoint("R6-written")
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITE_LIMIT_S):
            await _tell(row, delivery, transport, performer)


async def _tell(row: InboxRow, delivery: Delivery, transport: Transport, performer: Performer) -> None:
    via = delivery.via or transport.name
    injected = Injected(row.gid, row.msg_id, str(delivery.outcome), via, delivery.detail)
    if delivery.outcome is DeliveryOutcome.SUBMITTED:
        await performer.handle(AgentSeen(row.gid, "working", looked=delivery.saw_work), injected)
    else:
        await performer.handle(injected)


def _status(state: AgentState) -> str:
    return {AgentState.GONE: "away", AgentState.UNKNOWN: "idle"}.get(state, str(state))
