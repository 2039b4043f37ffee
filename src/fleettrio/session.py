"""One broker session: connect, declare, start the tasks, end on loss. One function, one scope.

Nesting, leaving in reverse: outbound (publisher, confirms, heartbeat, link events) ⊃ intake (consumers, inboxes). At
shutdown intake ends first, so that the broker keeps the backlog; outbound goes on until the confirms are in or the
grace is over. Loss of anything essential raises `SessionLost` out of here; the supervisor opens the next session.
"""

from __future__ import annotations

import secrets

import msgspec
import trio

from fleettrio.broker.port import (
    BrokerSession,
    BrokerSettings,
    ConsumerCancelled,
    ConsumerLocked,
    LinkBlocked,
    LinkUnblocked,
    OpenSession,
    PublishVerdict,
    RawDelivery,
)
from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.topology import (
    COORDINATOR_EXCHANGES,
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
from fleettrio.perform import Performer
from fleettrio.ports import SessionPorts
from fleettrio.tasks.consume import Consumer
from fleettrio.tasks.deadletters import run_deadletters
from fleettrio.tasks.heartbeat import run_heartbeat
from fleettrio.tasks.inboxes import Inboxes, Opening, run_inboxes
from fleettrio.tasks.publish import ToPublish, run_publish, run_verdicts, tell_verdicts
from fleettrio.tasks.realm import CoordinatorRealm, Realm
from fleettrio.wire.signing import Signer, Verifier

__all__ = ("Session", "run_session")

INTAKE_CAPACITY = 16_384
"""Twice what the broker may have in hand for all inboxes together (`tasks.inboxes.SHARED_PREFETCH`), and room."""
CONTROL_PREFETCH = 256
PUBLISH_CAPACITY = 4_096

log = get_logger("session")


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """What every session of this daemon is made of."""

    settings: BrokerSettings
    open_session: OpenSession
    realm: Realm
    signer: Signer
    verifier: Verifier
    body_limit: int
    beat_s: float
    grace_s: float
    stopping: trio.Event
    """Set when the daemon is asked to go: the session leaves politely."""

    @property
    def is_coordinator(self) -> bool:
        """At the coordinator's broker: no presence is spoken there, and only what leads need is declared."""
        return isinstance(self.realm, CoordinatorRealm)


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
    realm = session.realm
    verdicts: trio.MemoryReceiveChannel[list[PublishVerdict]] | None = None
    try:
        async with session.open_session(session.settings, epoch) as broker:
            verdicts = broker.verdicts
            await _live(session, broker, epoch)
    finally:
        if verdicts is not None:
            # The border gave every open publish its verdict when it closed: senders that wait are told now.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                await tell_verdicts(verdicts, realm)


async def _live(session: Session, broker: BrokerSession, epoch: int) -> None:
    """From the connection to its end."""
    realm = session.realm
    host = realm.gateway.settings.me.host
    owners: dict[str, QueueOwner] = await _declare_own(broker, host, session.is_coordinator)
    inboxes = Inboxes(host)
    intake_send, intake_recv = trio.open_memory_channel[list[RawDelivery]](INTAKE_CAPACITY)
    control_send, control_recv = trio.open_memory_channel[list[RawDelivery]](INTAKE_CAPACITY)
    to_publish = ToPublish(PUBLISH_CAPACITY)
    opening = Opening()
    ended = _Ended()
    reason = "closed"
    try:
        async with trio.open_nursery() as outbound:
            outbound.start_soon(broker.run_until_lost)
            outbound.start_soon(ended.run)
            outbound.start_soon(_run_events, broker, realm, inboxes, ended)
            await outbound.start(run_publish, to_publish, broker, realm, session.signer)
            await outbound.start(run_verdicts, broker.verdicts, realm)
            if isinstance(realm, Performer):
                await outbound.start(run_heartbeat, realm, session.beat_s)
            async with trio.open_nursery() as intake:
                for deliveries, owner_of, hand in (
                    (intake_recv, inboxes.owner_of, realm.hands[0]),
                    (control_recv, owners.get, realm.hands[1]),
                ):
                    consumer = Consumer(realm, owner_of, session.verifier, session.body_limit)
                    await intake.start(consumer.run, deliveries, hand)
                for requests in opening.requests:
                    await intake.start(
                        run_inboxes,
                        requests,
                        inboxes,
                        broker,
                        realm,
                        intake_send,
                        host,
                        session.settings.heartbeat_s,
                    )
                if realm.pulse is not None:
                    realm.pulse.renew()
                realm.session = SessionPorts(broker, to_publish, opening, ended.set)
                await _consume_own(session, broker, list(owners), control_send)
                await realm.handle(ev.SessionOpened(epoch))
                await intake.start(run_deadletters, broker, realm, session.verifier, session.body_limit)
                lane, why = broker.lane
                log.info("session open", epoch=epoch, coordinator=session.is_coordinator, lane=lane, lane_why=why)
                await session.stopping.wait()
                intake.cancel_scope.cancel()
            await realm.handle(ev.Leaving())
            with trio.move_on_after(session.grace_s):
                await realm.confirms_settled()
            outbound.cancel_scope.cancel()
    except BaseException as error:
        reason = _why(error)
        raise
    finally:
        realm.session = None
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            await tell_verdicts(broker.verdicts, realm)  # what is known is better than what the end makes of it
            await realm.handle(ev.SessionClosed(epoch, reason))


async def _declare_own(broker: BrokerSession, host_id: HostId, is_coordinator: bool) -> dict[str, QueueOwner]:
    """Declare what is shared (where it is missing) and this host's control and roster queues."""
    shared, shared_bindings = shared_queues()
    control, control_bindings = control_queue(host_id)
    if is_coordinator:
        await broker.declare(COORDINATOR_EXCHANGES, (*shared, control), (*shared_bindings, *control_bindings))
        return {control.name: ControlQueue(host_id)}
    roster, roster_bindings = roster_queue(host_id, secrets.token_hex(4))
    await broker.declare(
        EXCHANGES,
        (*shared, control, roster),
        (*shared_bindings, *control_bindings, *roster_bindings),
    )
    return {roster.name: RosterQueue(host_id), control.name: ControlQueue(host_id)}


async def _consume_own(
    session: Session, broker: BrokerSession, queues: list[str], deliveries: trio.MemorySendChannel[list[RawDelivery]]
) -> None:
    """Consume the roster queue, then the control queue. Raises `ConsumerLocked` while another connection has that.

    Before it does, both are listened to for two beats: a machine with our key hears us and we hear it, which ends both
    (`core.epochs`); the lock of a connection that died may fall meanwhile.
    """
    *roster, control = queues
    for queue in roster:
        await broker.consume(queue, prefetch=CONTROL_PREFETCH, deliveries=deliveries)
    for is_last in (False, False, True):
        try:
            await broker.consume(control, prefetch=CONTROL_PREFETCH, deliveries=deliveries)
        except ConsumerLocked:
            if is_last:
                raise
            await session.realm.handle(ev.ControlLocked())
            await trio.sleep(session.beat_s)
        else:
            return


async def _run_events(broker: BrokerSession, realm: Realm, inboxes: Inboxes, ended: _Ended) -> None:
    """What the border tells between deliveries. An inbox whose consumer was cancelled is opened again."""
    async for event in broker.events:
        match event:
            case LinkBlocked(reason):
                log.warning("broker blocked", reason=reason)
                await realm.handle(ev.LinkBlocked(reason))
            case LinkUnblocked():
                log.warning("broker unblocked")
                await realm.handle(ev.LinkUnblocked())
            case ConsumerCancelled(queue, reason):
                owner = inboxes.owner_of(queue)
                inboxes.ended(queue)
                if owner is None:
                    ended.set(f"the consumer of {queue} ended: {reason}")
                elif realm.session is not None and owner.gid in realm.gateway.roster.entities:
                    log.warning("consumer ended", queue=queue, reason=reason)
                    realm.session.inboxes.send_nowait(do.OpenInbox(owner))


def _why(error: BaseException) -> str:
    """The first `SessionLost` in a group, in its own words."""
    while isinstance(error, BaseExceptionGroup):
        lost = error.subgroup(SessionLost)
        error = (lost or error).exceptions[0]
    return str(error) if isinstance(error, SessionLost) else type(error).__name__
