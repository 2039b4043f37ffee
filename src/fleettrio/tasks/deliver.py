"""The delivery task of one agent: looks, writes, reports. What may be written and when is decided by the core.

From `Inject` on it runs to its end under a bounded shield: the row says `injecting`, and only this task can say what
came of it. If it breaks all the same, the row is closed as `unconfirmed`. Whatever it was asked and did not do is given
back when it ends.
"""

from __future__ import annotations

import secrets

import trio

from fleettrio.core.actions import Inject, Reserve
from fleettrio.core.compose import human_of
from fleettrio.core.events import AgentNotReady, AgentReserved, AgentSeen, Injected
from fleettrio.core.rows import Entity, InboxRow
from fleettrio.errors import StoreError
from fleettrio.ids import Now, short_id
from fleettrio.local.frame import FrameFacts, frame
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text, Transport
from fleettrio.observe import failpoint, get_logger
from fleettrio.perform import Performer

__all__ = ("frame_facts", "run_deliver")

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
    work_send, work_recv = trio.open_memory_channel[Reserve | Inject](4)
    performer.lanes[entity.gid] = work_send
    task_status.started()
    try:
        await _deliver(entity, transport, performer, work_recv)
    finally:
        if performer.lanes.get(entity.gid) is work_send:
            del performer.lanes[entity.gid]
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            await _give_back(work_recv, performer)
            await transport.close()


async def _deliver(
    entity: Entity,
    transport: Transport,
    performer: Performer,
    work: trio.MemoryReceiveChannel[Reserve | Inject],
) -> None:
    reserved: Reserved | None = None
    await performer.handle(AgentSeen(entity.gid, _status(await transport.state())))
    while True:
        request: Reserve | Inject | None = None
        with trio.move_on_after(_pause_s(performer.gateway.roster.entities.get(entity.gid, entity), performer)):
            request = await work.receive()
        if request is None:
            await performer.handle(AgentSeen(entity.gid, _status(await transport.state())))
        elif isinstance(request, Reserve):
            reserved = await _reserve(request.row, transport, performer)
        elif reserved is None:  # another task of this agent looked, and ended
            await performer.handle(_undone(request))
        else:
            await _write(request.row, reserved, transport, performer)


def _pause_s(entity: Entity, performer: Performer) -> float:
    """How long nothing needs to be looked at, unless there is something to deliver."""
    if entity.status in ("working", "blocked"):
        return LOOK_AGAIN_S
    if entity.status == "away":
        away_s = (performer.clock.now().wall - entity.since) / 1000
        return min(max(away_s, LOOK_AWAY_S), LOOK_IDLE_S)
    return LOOK_IDLE_S


async def _give_back(work: trio.MemoryReceiveChannel[Reserve | Inject], performer: Performer) -> None:
    while True:
        try:
            request = work.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            return
        await performer.handle(_undone(request))


def _undone(request: Reserve | Inject) -> AgentNotReady | Injected:
    """Not a byte of it was written."""
    row = request.row
    if isinstance(request, Inject):
        return Injected(row.gid, row.msg_id, str(DeliveryOutcome.NOTHING_WRITTEN), "", _ENDED)
    return AgentNotReady(row.gid, row.msg_id, _ENDED, "idle")


async def _reserve(row: InboxRow, transport: Transport, performer: Performer) -> Reserved | None:
    found: Reserved | NotReady | None = None
    try:
        found = await transport.reserve(row.when)
    finally:
        # Not `except trio.Cancelled`: out of a transport that starts programs, cancellation comes as a group.
        if found is None:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                await performer.handle(_undone(Reserve(row)))
    if isinstance(found, NotReady):
        await performer.handle(AgentNotReady(row.gid, row.msg_id, found.why, _status(found.state), gone=found.gone))
        return None
    failpoint("R3-before-injecting")
    await performer.handle(AgentReserved(row.gid, row.msg_id))
    return found


async def _write(row: InboxRow, reserved: Reserved, transport: Transport, performer: Performer) -> None:
    with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITE_LIMIT_S):
        try:
            text = await _text(row, performer)
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
    if delivery.outcome is DeliveryOutcome.SUBMITTED:
        await performer.handle(AgentSeen(row.gid, "working"))
    await performer.handle(Injected(row.gid, row.msg_id, str(delivery.outcome), transport.name, delivery.detail))


async def _text(row: InboxRow, performer: Performer) -> Text:
    stored = await performer.store.message(row.msg_id, row.gid)
    if stored is None:
        raise StoreError("it is not in the store", reason="refused")
    return frame(frame_facts(row, performer, performer.clock.now()), stored.body)


def frame_facts(row: InboxRow, performer: Performer, now: Now) -> FrameFacts:
    """What the daemon knows of a message at the moment it lands."""
    gateway = performer.gateway
    address = gateway.roster.address(row.sender, row.from_host)
    return FrameFacts(
        sender=address,
        is_person=row.sender == human_of(gateway.settings.me.fleet_id, row.from_host),
        verified=row.from_host != gateway.settings.me.host,
        kind=row.kind,
        intent=row.intent,
        age_ms=max(0, now.wall - row.ts),
        short_id=short_id(row.msg_id),
        nonce=secrets.token_hex(4),
        wants_reply=row.wants_reply,
        auto=row.auto,
        repeat=row.repeat,
        when=row.when,
    )


def _status(state: AgentState) -> str:
    return {AgentState.GONE: "away", AgentState.UNKNOWN: "idle"}.get(state, str(state))
