"""One broker session: connect, declare, start the tasks, end on loss. One function, one scope.

Nesting, leaving in reverse: outbound (publisher, confirms, heartbeat, link events) ⊃ intake (consumers, inboxes). At
shutdown intake ends first, so that the broker keeps the backlog; outbound goes on until the confirms are in or the
grace is over. Loss of anything essential raises `SessionLost` out of here; the supervisor opens the next session.
"""

from __future__ import annotations

import dataclasses
import secrets

import trio

from fleettrio.broker.port import (
    BrokerSession,
    BrokerSettings,
    ConsumerCancelled,
    LinkBlocked,
    LinkUnblocked,
    OpenSession,
    PublishVerdict,
    RawDelivery,
)
from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.topology import (
    EXCHANGES,
    ControlQueue,
    QueueOwner,
    RosterQueue,
    control_queue,
    roster_queue,
    shared_queues,
)
from fleettrio.errors import SessionLost
from fleettrio.ids import HostId
from fleettrio.observe import get_logger
from fleettrio.perform import InboxRequest, Performer, SessionPorts
from fleettrio.tasks.consume import run_consume
from fleettrio.tasks.heartbeat import run_heartbeat
from fleettrio.tasks.inboxes import Inboxes, run_inboxes
from fleettrio.tasks.publish import run_publish, run_verdicts, tell_verdicts
from fleettrio.wire.signing import Signer, Verifier

__all__ = ("Session", "run_session")

INTAKE_CAPACITY = 16_384
"""Twice what the broker may have in hand for all inboxes together (`tasks.inboxes.SHARED_PREFETCH`), and room."""
CONTROL_PREFETCH = 256
PUBLISH_CAPACITY = 4_096
INBOX_CAPACITY = 2_048

log = get_logger("session")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What every session of this daemon is made of."""

    settings: BrokerSettings
    open_session: OpenSession
    performer: Performer
    signer: Signer
    verifier: Verifier
    body_limit: int
    beat_s: float
    grace_s: float
    stopping: trio.Event
    """Set when the daemon is asked to go: the session leaves politely."""


class _Ended:
    """Why the core wants this session to end, if it does."""

    def __init__(self) -> None:
        self.event = trio.Event()
        self.reason = ""

    def set(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.event.set()

    async def run(self) -> None:
        await self.event.wait()
        raise SessionLost(self.reason)


async def run_session(session: Session, epoch: int) -> None:
    """Live one session. Returns after a polite end (`stopping`); raises `SessionLost`, alone or in a group.
    So do `ConsumerLocked` and `QueueMismatch`, about the control queue: an inbox deals with its own.

    Cancelled, both connections are closed within a bound, and open publishes get `outcome-unknown`.
    """
    performer = session.performer
    verdicts: trio.MemoryReceiveChannel[PublishVerdict] | None = None
    try:
        async with session.open_session(session.settings, epoch) as broker:
            verdicts = broker.verdicts
            await _live(session, broker, epoch)
    finally:
        if verdicts is not None:
            # The border gave every open publish its verdict when it closed: senders that wait are told now.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                await tell_verdicts(verdicts, performer)


async def _live(session: Session, broker: BrokerSession, epoch: int) -> None:
    """From the connection to its end."""
    performer = session.performer
    host = performer.gateway.settings.me.host
    owners: dict[str, QueueOwner] = await _declare_own(broker, host)
    inboxes = Inboxes(host)
    intake_send, intake_recv = trio.open_memory_channel[RawDelivery](INTAKE_CAPACITY)
    control_send, control_recv = trio.open_memory_channel[RawDelivery](INTAKE_CAPACITY)
    publish_send, publish_recv = trio.open_memory_channel[do.Publish](PUBLISH_CAPACITY)
    inbox_send, inbox_recv = trio.open_memory_channel[InboxRequest](INBOX_CAPACITY)
    ended = _Ended()
    reason = "closed"
    try:
        async with trio.open_nursery() as outbound:
            outbound.start_soon(broker.run_until_lost)
            outbound.start_soon(ended.run)
            outbound.start_soon(_run_events, broker, performer, inboxes, ended)
            await outbound.start(run_publish, publish_recv, broker, performer, session.signer)
            await outbound.start(run_verdicts, broker.verdicts, performer)
            await outbound.start(run_heartbeat, performer, session.beat_s)
            async with trio.open_nursery() as intake:
                await intake.start(
                    run_consume, control_recv, owners.get, performer, session.verifier, session.body_limit
                )
                await intake.start(
                    run_consume, intake_recv, inboxes.owner_of, performer, session.verifier, session.body_limit
                )
                await intake.start(
                    run_inboxes,
                    inbox_recv,
                    inboxes,
                    broker,
                    performer,
                    intake_send,
                    host,
                    session.settings.heartbeat_s,
                )
                performer.session = SessionPorts(broker, publish_send, inbox_send, ended.set)
                for queue in owners:
                    await broker.consume(queue, prefetch=CONTROL_PREFETCH, deliveries=control_send)
                await performer.handle(ev.SessionOpened(epoch))
                log.info("session open", epoch=epoch)
                await session.stopping.wait()
                intake.cancel_scope.cancel()
            with trio.move_on_after(session.grace_s):
                await performer.confirms_settled()
            outbound.cancel_scope.cancel()
    except BaseException as error:
        reason = _why(error)
        raise
    finally:
        performer.session = None
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            await tell_verdicts(broker.verdicts, performer)  # what is known is better than what the end makes of it
            await performer.handle(ev.SessionClosed(epoch, reason))


async def _declare_own(broker: BrokerSession, host_id: HostId) -> dict[str, QueueOwner]:
    """Declare what is shared (where it is missing) and this host's control and roster queues."""
    shared, shared_bindings = shared_queues()
    control, control_bindings = control_queue(host_id)
    roster, roster_bindings = roster_queue(host_id, secrets.token_hex(4))
    await broker.declare(
        EXCHANGES,
        (*shared, control, roster),
        (*shared_bindings, *control_bindings, *roster_bindings),
    )
    return {control.name: ControlQueue(host_id), roster.name: RosterQueue(host_id)}


async def _run_events(broker: BrokerSession, performer: Performer, inboxes: Inboxes, ended: _Ended) -> None:
    """What the border tells between deliveries. An inbox whose consumer was cancelled is opened again."""
    async for event in broker.events:
        match event:
            case LinkBlocked(reason):
                log.warning("broker blocked", reason=reason)
                await performer.handle(ev.LinkBlocked(reason))
            case LinkUnblocked():
                log.warning("broker unblocked")
                await performer.handle(ev.LinkUnblocked())
            case ConsumerCancelled(queue, reason):
                owner = inboxes.owner_of(queue)
                inboxes.ended(queue)
                if owner is None:
                    ended.set(f"the consumer of {queue} ended: {reason}")
                elif performer.session is not None and owner.gid in performer.gateway.roster.entities:
                    log.warning("consumer ended", queue=queue, reason=reason)
                    performer.session.inboxes.send_nowait(do.OpenInbox(owner))


def _why(error: BaseException) -> str:
    """The first `SessionLost` in a group, in its own words."""
    while isinstance(error, BaseExceptionGroup):
        lost = error.subgroup(SessionLost)
        error = (lost or error).exceptions[0]
    return str(error) if isinstance(error, SessionLost) else type(error).__name__
