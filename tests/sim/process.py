"""One process of a gateway: the shipped core, performer, batch functions and store, driven step by step.

It does what `session`, `supervise` and the loops in `tasks` do, without their nurseries. Before each thing it does to
the outside (`step`) it may die or lose its link: that is each place between two actions, and both sides of each commit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from fleettrio.broker.port import ConsumerLocked, RawDelivery
from fleettrio.calls import Calls
from fleettrio.clock import Pulse
from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.gateway import Gateway
from fleettrio.core.topology import (
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
from fleettrio.errors import SessionLost
from fleettrio.ids import Gid, Now, Seconds
from fleettrio.perform import Performer
from fleettrio.ports import InboxRequest, SessionPorts, StoreRequest
from fleettrio.tasks.consume import MOST_IN_BATCH, Consumer
from fleettrio.tasks.inboxes import Inboxes
from fleettrio.tasks.publish import publish_batch, tell_verdicts
from fleettrio.tasks.reads import read
from fleettrio.wire.signing import MAX_BATCH, Signer, Verifier
from tests.core.builders import FLEET, seed_of
from tests.sim.desk import Desk
from tests.sim.disk import StraightStore
from tests.sim.way import Way
from tests.sim.world import Crash, World

if TYPE_CHECKING:
    from tests.sim.host import Host

__all__ = ("Port", "Process")

T = TypeVar("T")
BODY_LIMIT = 2**18
BEAT_S, QUIET_BEAT_S = 5.0, 11.0
"""When nothing happens any more, as seldom as a host may beat without being taken for silent."""
CONTROL_PREFETCH = 256
LOCKED_FOR_S = 40.0
BROKER_TIMEOUT_S = 20.0
"""Two missed heartbeats: then either end takes a silent connection for dead."""
CAPACITY = 16_384


class Port(Generic[T]):
    """Where the performer hands something over: one more place to die at."""

    def __init__(self, process: Process, then: Callable[[T], None]) -> None:
        self._process = process
        self._then = then

    def send_nowait(self, value: T) -> None:
        self._process.step()
        self._then(value)


class _Gateway(Gateway):
    """The shipped one; what it is given is counted."""

    world: World

    def decide(self, event: ev.Event, now: Now) -> list[do.Action]:
        self.world.events += 1
        return super().decide(event, now)


class _Calls(Calls):
    """Results go to whoever asked, a moment later, in order."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process
        self._last_at = 0.0
        self.then: dict[int, Callable[[object], Awaitable[None]]] = {}

    def resolve(self, number: int, result: object) -> None:
        self._process.step()
        then = self.then.pop(number, None)
        if then is not None:
            world = self._process.world
            self._last_at = max(self._last_at, world.now + world.a_moment())
            self._process.soon(self._last_at - world.now, lambda: then(result))


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


class Process:
    def __init__(self, host: Host, number: int) -> None:
        self.host, self.world, self.number = host, host.world, number
        self.is_dead = False
        self.store = StraightStore(host.disk, self._commits, host.told)
        gateway = _Gateway(*host.settings())
        gateway.world = host.world
        self.performer = Performer(
            gateway,
            self.store,
            host.clock,
            Port[do.WatchEntity](self, self._watch),
            Port[StoreRequest](self, self._read),
        )
        self.performer.pulse = self._pulse = Pulse(BROKER_TIMEOUT_S, lambda: (host.clock.now().mono, Seconds(0.0)))
        self.calls = self.performer.calls = _Calls(self)
        self.verifier = Verifier(host.fleet)
        self.signer = Signer(FLEET, host.name, 1, seed_of(host.name))
        self.desks: dict[Gid, Desk] = {}
        self._session: _Session | None = None
        self._way: Way | None = None
        """The last one to the broker: a session that is opening or ending has one, too."""
        self._epoch = 0
        self._frozen_until = 0.0
        self._sweep_at: float | None = None

    # --- life and death

    def step(self) -> None:
        """Something is about to be done to the outside."""
        if self.is_dead:
            raise Crash
        if self.world.faults.strikes("crash"):
            self.die()
            raise Crash
        if self._session and self.world.faults.strikes("link-loss"):
            self.lose("reset by peer")

    def _commits(self) -> None:
        """The same, just before or behind a commit."""
        self.step()
        if self.world.faults.strikes("crash-at-a-commit"):
            self.die()
            raise Crash

    def die(self) -> None:
        """As SIGKILL: nothing is said to anybody; the kernel closes the sockets."""
        if self.is_dead:
            return
        self.is_dead = True
        if self._way:
            self._way.cut(self.world.a_moment())
        self.host.died()

    def soon(self, seconds: float, step: Callable[[], Awaitable[None]]) -> None:
        self.world.after(seconds, lambda: self.enter(step))

    async def enter(self, step: Callable[[], Awaitable[None]]) -> None:
        """Go on with something of this process, unless it is dead."""
        if self.is_dead:
            return
        if self.world.now < self._frozen_until:
            self.soon(self._frozen_until - self.world.now, step)
            return
        try:
            await step()
        except Crash:
            return
        except SessionLost as error:
            self.lose(str(error))
        self._arm()

    def _arm(self) -> None:
        deadline = self.performer.gateway.next_deadline()
        if deadline is None or self.is_dead:
            return
        at = max(self.world.now, deadline - 1_000.0)
        if self._sweep_at is not None and self._sweep_at <= at:
            return
        self._sweep_at = at
        self.soon(at - self.world.now, lambda: self._sweep(at))

    async def _sweep(self, at: float) -> None:
        if self._sweep_at != at:
            return
        self._sweep_at = None
        if self._session:
            await self.performer.handle(ev.LinkHeard(self._session.way.session.last_heard))
        await self.performer.expire()

    async def start(self) -> None:
        await self.performer.start()
        self.soon(Pulse.EVERY_S, self._tick)
        self.soon(self.world.a_moment(0.01, 0.3), self.connect)

    async def _tick(self) -> None:
        self.soon(Pulse.EVERY_S, self._tick)
        if found := self._pulse.tick():
            await self.performer.handle(ev.StoodStill(found.seconds, found.slept))

    # --- sessions

    async def connect(self) -> None:
        if self._session is not None:
            return
        if self.host.is_cut_off or self.performer.gateway.why_no_session:
            self._connect_again()
            return
        self._epoch += 1
        self._pulse.renew()
        way = self._way = Way(self, self._epoch)
        link = way.session
        await link.start()
        shared, shared_bindings = shared_queues()
        control, control_bindings = control_queue(self.host.name)
        nonce = f"{self.host.store_number:02x}{self.number:02x}{self._epoch:04x}"
        roster, roster_bindings = roster_queue(self.host.name, nonce)
        await link.declare(
            EXCHANGES, (*shared, control, roster), (*shared_bindings, *control_bindings, *roster_bindings)
        )
        owners: dict[str, QueueOwner] = {
            control.name: ControlQueue(self.host.name),
            roster.name: RosterQueue(self.host.name),
        }
        session = self._session = _Session(way, owners, Inboxes(self.host.name))
        self.performer.session = SessionPorts(
            link,
            Port[do.Publish](self, lambda publish: self._to_publish(session, publish)),
            Port[InboxRequest](self, lambda request: self._to_inboxes(session, request)),
            self.lose,
        )
        await link.consume(roster.name, prefetch=CONTROL_PREFETCH, deliveries=session.control[0])
        await self._open(session, control.name, is_last_try=False)

    async def _open(self, session: _Session, control: str, *, is_last_try: bool) -> None:
        """The session begins when the control queue is ours; while another one has it, both listen for two beats."""
        if self._session is not session or session.way.is_cut:
            return
        try:
            await session.way.session.consume(control, prefetch=CONTROL_PREFETCH, deliveries=session.control[0])
        except ConsumerLocked as error:
            if is_last_try:
                self.lose(str(error))
            else:
                await self.performer.handle(ev.ControlLocked())
                self.soon(2 * BEAT_S, lambda: self._open(session, control, is_last_try=True))
            return
        if self.world.faults.strikes("full-queue-at-reconnect"):
            self.world.broker.stuff_something(self.world.rng.uniform(1.0, 15.0))
        await self.performer.handle(ev.SessionOpened(session.epoch))
        self.soon(BEAT_S, lambda: self._beat(session))

    def lose(self, reason: str, broker_notices_s: float = 0.001, noticed_s: float = 0.001) -> None:
        """The link is gone, or the core wants it gone: the lists under way run on, the session ends in a moment."""
        session = self._session
        if session is None or session.way.is_cut:
            return
        session.way.cut(broker_notices_s)
        self.soon(noticed_s, lambda: self._session_over(session, reason))

    async def leave(self) -> None:
        """Politely, as at SIGTERM: a last beat, a short grace for what is open."""
        if self._session is not None:
            await self.performer.handle(ev.Leaving())
            await self.world.pass_time(0.1)
        if self._session is not None:
            await self._session_over(self._session, "closed")

    def freeze(self, seconds: float) -> None:
        self._frozen_until = self.world.now + seconds

    async def _session_over(self, session: _Session, reason: str) -> None:
        """As `session` leaves: what was not handed over, the verdicts that came, the end, the verdicts of the end."""
        if self._session is not session:
            return
        lost = [ev.PublishNotHanded(p.id, "broker-unreachable", "the session ended") for p in session.publishes]
        self._session = None
        if lost:
            await self.performer.handle(*lost)
        self.performer.session = None
        verdicts = session.way.session.verdicts
        await tell_verdicts(verdicts, self.performer)
        await self.performer.handle(ev.SessionClosed(session.epoch, reason))
        session.way.close()
        await tell_verdicts(verdicts, self.performer)
        await self.performer.handle(ev.SessionClosed(session.epoch, reason))
        self._connect_again()

    def _connect_again(self) -> None:
        self.soon(self.world.rng.uniform(0.2, 2.0), self.connect)

    async def _beat(self, session: _Session) -> None:
        if self._session is session:
            await self.performer.handle(ev.BeatDue())
            beat_s = QUIET_BEAT_S if self.world.is_quiet else BEAT_S
            self.soon(beat_s * self.world.rng.uniform(0.9, 1.1), lambda: self._beat(session))

    # --- out

    def _to_publish(self, session: _Session, publish: do.Publish) -> None:
        session.publishes.append(publish)
        if len(session.publishes) == 1:
            self.soon(self.world.a_moment(0.0001, 0.003), lambda: self._publish(session))

    async def _publish(self, session: _Session) -> None:
        if self._session is not session:
            return
        batch, session.publishes = session.publishes[:MAX_BATCH], session.publishes[MAX_BATCH:]
        await publish_batch(batch, session.way.session, self.performer, self.signer)

    # --- in

    def heard(self) -> None:
        """The broker said something: looked at in a moment, with what comes until then."""
        session = self._session
        if session is not None and not session.is_listening:
            session.is_listening = True
            self.soon(self.world.a_moment(0.0001, 0.003), lambda: self._listen(session))

    async def _listen(self, session: _Session) -> None:
        """What the tasks of a session wait for: verdicts, events, deliveries."""
        session.is_listening = False
        if self._session is not session:
            return
        await tell_verdicts(session.way.session.verdicts, self.performer)
        await self._take(session, session.control[1], session.owners.get)
        await self._take(session, session.intake[1], session.inboxes.owner_of)

    async def _take(
        self,
        session: _Session,
        deliveries: trio.MemoryReceiveChannel[list[RawDelivery]],
        owner_of: Callable[[str], QueueOwner | None],
    ) -> None:
        consumer = Consumer(self.performer, owner_of, self.verifier, BODY_LIMIT)
        while batch := taken(deliveries, MOST_IN_BATCH):
            await consumer.take(batch)

    def _to_inboxes(self, session: _Session, request: InboxRequest) -> None:
        session.inboxes_at = max(session.inboxes_at, self.world.now + self.world.a_moment())
        self.soon(session.inboxes_at - self.world.now, lambda: self._inbox(session, request))

    async def _inbox(self, session: _Session, request: InboxRequest) -> None:
        if self._session is not session or session.way.is_cut:
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
        if self._session is not session or session.way.is_cut:
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
            await self.performer.handle(ev.InboxTrouble(owner.gid, trouble, str(error)))
        else:
            await self.performer.handle(ev.InboxBound(owner.gid))

    # --- the store and the agents

    def _read(self, request: StoreRequest) -> None:
        self.soon(self.world.a_moment(0.0001, 0.003), lambda: read(request, self.performer))

    def _watch(self, watch: do.WatchEntity) -> None:
        """As the daemon does: one desk for each agent that something can be put into."""
        entity = watch.entity
        is_wanted = watch.present and entity.transport != "pull" and entity.status not in ("away", "gone")
        if entity.gid in self.desks and not is_wanted:
            self.desks.pop(entity.gid).close()
            self.performer.lanes.pop(entity.gid, None)
        elif is_wanted and entity.gid not in self.desks:
            desk = self.desks[entity.gid] = Desk(self, entity, self.host.agents[entity.gid])
            self.performer.lanes[entity.gid] = desk


def taken(channel: trio.MemoryReceiveChannel[list[T]], most: int) -> list[T]:
    """What waits there now, so much, or what came together with the last of it."""
    batch: list[T] = []
    while len(batch) < most:
        try:
            batch += channel.receive_nowait()
        except trio.WouldBlock:
            break
    return batch
