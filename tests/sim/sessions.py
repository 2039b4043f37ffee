"""The sessions of one process at one broker, one after the other: the fleet's, or the coordinator's.

It does what `session`, `supervise` and the loops in `tasks` do, without their nurseries, for either realm.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from fleettrio.broker.port import ConsumerLocked, RawDelivery
from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.topology import (
    COORDINATOR_EXCHANGES,
    EXCHANGES,
    ControlQueue,
    InboxQueue,
    QueueOwner,
    RosterQueue,
    control_queue,
    inbox_queue,
    roster_queue,
    shared_queues,
)
from fleettrio.ports import InboxRequest, SessionPorts
from fleettrio.tasks.consume import MOST_IN_BATCH, Consumer
from fleettrio.tasks.inboxes import Inboxes
from fleettrio.tasks.publish import publish_batch, tell_verdicts
from fleettrio.tasks.realm import CoordinatorRealm, Realm
from fleettrio.wire.signing import MAX_BATCH, Signer, Verifier
from tests.sim.way import Way

if TYPE_CHECKING:
    from tests.sim.broker import Broker
    from tests.sim.host import Host
    from tests.sim.process import Process
    from tests.sim.world import World

__all__ = ("Port", "Sessions")

T = TypeVar("T")
BODY_LIMIT = 2**18
BEAT_S, QUIET_BEAT_S = 5.0, 11.0
"""When nothing happens any more, as seldom as a host may beat without being taken for silent."""
CONTROL_PREFETCH = 256
LOCKED_FOR_S = 40.0
CAPACITY = 16_384


class Port(Generic[T]):
    """Where the performer hands something over: one more place to die at."""

    def __init__(self, process: Process, then: Callable[[T], None]) -> None:
        self._process = process
        self._then = then

    def send_nowait(self, value: T) -> None:
        self._process.step()
        self._then(value)


_Owners = dict[str, QueueOwner]
_Channel = tuple[trio.MemorySendChannel[list[RawDelivery]], trio.MemoryReceiveChannel[list[RawDelivery]]]


@dataclasses.dataclass(slots=True)
class _Session:
    way: Way
    owners: dict[str, QueueOwner]
    inboxes: Inboxes
    publishes: list[do.Publish] = dataclasses.field(default_factory=list)
    intake: _Channel = dataclasses.field(default_factory=lambda: trio.open_memory_channel[list[RawDelivery]](CAPACITY))
    control: _Channel = dataclasses.field(default_factory=lambda: trio.open_memory_channel[list[RawDelivery]](CAPACITY))
    inboxes_at: float = 0.0
    """When the last request about an inbox is served: they are, in order."""
    is_listening: bool = False
    """What was heard is about to be looked at."""

    @property
    def epoch(self) -> int:
        return self.way.session.epoch


class Sessions:
    def __init__(self, process: Process, realm: Realm, broker: Broker, signer: Signer, verifier: Verifier) -> None:
        self.process, self.realm = process, realm
        self.world: World = process.world
        self.host: Host = process.host
        self.broker: Broker = broker
        self._signer, self._verifier = signer, verifier
        self.current: _Session | None = None
        self.way: Way | None = None
        """The last one to the broker: a session that is opening or ending has one, too."""
        self._epoch = 0

    @property
    def is_coordinator(self) -> bool:
        """No presence is spoken there, and only what leads need is declared."""
        return isinstance(self.realm, CoordinatorRealm)

    def soon(self, seconds: float, step: Callable[[], Awaitable[None]]) -> None:
        self.process.soon(seconds, step, self)

    async def sweep(self) -> None:
        if self.current:
            await self.realm.handle(ev.LinkHeard(self.current.way.session.last_heard))

    async def connect(self) -> None:
        if self.current is not None:
            return
        if self.host.is_cut_off or self.realm.gateway.why_no_session:
            self._connect_again()
            return
        self._epoch += 1
        if self.realm.pulse:
            self.realm.pulse.renew()
        way = self.way = Way(self, self._epoch)
        link = way.session
        await link.start()
        shared, shared_bindings = shared_queues()
        control, control_bindings = control_queue(self.host.name)
        own, bindings, owners = [control], [*shared_bindings, *control_bindings], _Owners()
        owners[control.name] = ControlQueue(self.host.name)
        if not self.is_coordinator:
            nonce = f"{self.host.store_number:02x}{self.process.number:02x}{self._epoch:04x}"
            roster, roster_bindings = roster_queue(self.host.name, nonce)
            own, bindings = [*own, roster], [*bindings, *roster_bindings]
            owners[roster.name] = RosterQueue(self.host.name)
        exchanges = COORDINATOR_EXCHANGES if self.is_coordinator else EXCHANGES
        await link.declare(exchanges, (*shared, *own), tuple(bindings))
        session = self.current = _Session(way, owners, Inboxes(self.host.name))
        self.realm.session = SessionPorts(
            link,
            Port[do.Publish](self.process, lambda publish: self._to_publish(session, publish)),
            Port[InboxRequest](self.process, lambda request: self._to_inboxes(session, request)),
            self.lose,
        )
        for queue in own[1:]:
            await link.consume(queue.name, prefetch=CONTROL_PREFETCH, deliveries=session.control[0])
        await self._open(session, control.name, is_last_try=False)

    async def _open(self, session: _Session, control: str, *, is_last_try: bool) -> None:
        """The session begins when the control queue is ours; while another one has it, both listen for two beats."""
        if self.current is not session or session.way.is_cut:
            return
        try:
            await session.way.session.consume(control, prefetch=CONTROL_PREFETCH, deliveries=session.control[0])
        except ConsumerLocked as error:
            if is_last_try:
                self.lose(str(error))
            else:
                await self.realm.handle(ev.ControlLocked())
                self.soon(2 * BEAT_S, lambda: self._open(session, control, is_last_try=True))
            return
        if self.world.faults.strikes("full-queue-at-reconnect"):
            self.broker.stuff_something(self.world.rng.uniform(1.0, 15.0))
        await self.realm.handle(ev.SessionOpened(session.epoch))
        if not self.is_coordinator:
            self.soon(BEAT_S, lambda: self._beat(session))

    def lose(self, reason: str, broker_notices_s: float = 0.001, noticed_s: float = 0.001) -> None:
        """The link is gone, or the core wants it gone: the lists under way run on, the session ends in a moment."""
        session = self.current
        if session is None or session.way.is_cut:
            return
        session.way.cut(broker_notices_s)
        self.soon(noticed_s, lambda: self._session_over(session, reason))

    async def leave(self) -> None:
        """Politely, as at SIGTERM: a last beat, a short grace for what is open."""
        if self.current is not None:
            await self.realm.handle(ev.Leaving())
            await self.world.pass_time(0.1)
        if self.current is not None:
            await self._session_over(self.current, "closed")

    async def _session_over(self, session: _Session, reason: str) -> None:
        """As `session` leaves: what was not handed over, the verdicts that came, the end, the verdicts of the end."""
        if self.current is not session:
            return
        lost = [ev.PublishNotHanded(p.id, "broker-unreachable", "the session ended") for p in session.publishes]
        self.current = None
        if lost:
            await self.realm.handle(*lost)
        self.realm.session = None
        verdicts = session.way.session.verdicts
        await tell_verdicts(verdicts, self.realm)
        await self.realm.handle(ev.SessionClosed(session.epoch, reason))
        session.way.close()
        await tell_verdicts(verdicts, self.realm)
        await self.realm.handle(ev.SessionClosed(session.epoch, reason))
        self._connect_again()

    def _connect_again(self) -> None:
        self.soon(self.world.rng.uniform(0.2, 2.0), self.connect)

    async def _beat(self, session: _Session) -> None:
        if self.current is session:
            await self.realm.handle(ev.BeatDue())
            beat_s = QUIET_BEAT_S if self.world.is_quiet else BEAT_S
            self.soon(beat_s * self.world.rng.uniform(0.9, 1.1), lambda: self._beat(session))

    # --- out

    def _to_publish(self, session: _Session, publish: do.Publish) -> None:
        session.publishes.append(publish)
        if len(session.publishes) == 1:
            self.soon(self.world.a_moment(0.0001, 0.003), lambda: self._publish(session))

    async def _publish(self, session: _Session) -> None:
        if self.current is not session:
            return
        batch, session.publishes = session.publishes[:MAX_BATCH], session.publishes[MAX_BATCH:]
        await publish_batch(batch, session.way.session, self.realm, self._signer)

    # --- in

    def heard(self) -> None:
        """The broker said something: looked at in a moment, with what comes until then."""
        session = self.current
        if session is not None and not session.is_listening:
            session.is_listening = True
            self.soon(self.world.a_moment(0.0001, 0.003), lambda: self._listen(session))

    async def _listen(self, session: _Session) -> None:
        """What the tasks of a session wait for: verdicts, events, deliveries."""
        session.is_listening = False
        if self.current is not session:
            return
        await tell_verdicts(session.way.session.verdicts, self.realm)
        await self._take(session, session.control[1], session.owners.get)
        await self._take(session, session.intake[1], session.inboxes.owner_of)

    async def _take(
        self,
        session: _Session,
        deliveries: trio.MemoryReceiveChannel[list[RawDelivery]],
        owner_of: Callable[[str], QueueOwner | None],
    ) -> None:
        consumer = Consumer(self.realm, owner_of, self._verifier, BODY_LIMIT)
        while batch := taken(deliveries, MOST_IN_BATCH):
            await consumer.take(batch)

    def _to_inboxes(self, session: _Session, request: InboxRequest) -> None:
        session.inboxes_at = max(session.inboxes_at, self.world.now + self.world.a_moment())
        self.soon(session.inboxes_at - self.world.now, lambda: self._inbox(session, request))

    async def _inbox(self, session: _Session, request: InboxRequest) -> None:
        if self.current is not session or session.way.is_cut:
            return
        match request:
            case do.OpenInbox(owner):
                await self._open_inbox(session, owner, self.world.now)
            case do.PauseInbox(gid):
                self.world.faults.struck["full-inbox"] += 1
                self.world.after(self.world.a_moment(0.1, 2.0), self.world.asks)
                queue = session.inboxes.name_of(gid)
                session.inboxes.ended(queue)
                await session.way.session.stop_consuming(queue)
            case do.CloseInbox(owner):
                queue = session.inboxes.name_of(owner.gid)
                _, bindings = inbox_queue(self.host.name, owner)
                await session.way.session.unbind(bindings)
                session.inboxes.ended(queue)
                await session.way.session.stop_consuming(queue)
                await session.way.session.delete_queue(queue)
                session.inboxes.drop(owner.gid)

    async def _open_inbox(self, session: _Session, owner: InboxQueue, since: float) -> None:
        if self.current is not session or session.way.is_cut:
            return
        queue, bindings = inbox_queue(self.host.name, owner)
        session.inboxes.put(owner)
        try:
            await session.way.session.declare((), (queue,), bindings)
            if not session.inboxes.is_consumed(queue.name):
                await session.way.session.consume(
                    queue.name, prefetch=session.inboxes.prefetch(), deliveries=session.intake[0]
                )
                session.inboxes.began(queue.name)
        except ConsumerLocked as error:
            is_given_up = self.world.now - since > LOCKED_FOR_S
            trouble = "owned-elsewhere" if is_given_up else "waiting-for-lock"
            if not is_given_up:
                wait_s = self.world.rng.uniform(0.5, 5.0)
                self.soon(wait_s, lambda: self._open_inbox(session, owner, since))
            await self.realm.handle(ev.InboxTrouble(owner.gid, trouble, str(error)))
        else:
            await self.realm.handle(ev.InboxBound(owner.gid))


def taken(channel: trio.MemoryReceiveChannel[list[T]], most: int) -> list[T]:
    """What waits there now, so much, or what came together with the last of it."""
    batch: list[T] = []
    while len(batch) < most:
        try:
            batch += channel.receive_nowait()
        except trio.WouldBlock:
            break
    return batch
