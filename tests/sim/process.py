"""One process of a gateway: the shipped core, performer, batch functions and store, driven step by step.

Before each thing it does to the outside (`step`) it may die or lose a link: that is each place between two actions, and
both sides of each commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from fleettrio.calls import Calls
from fleettrio.clock import Pulse
from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core.gateway import Gateway
from fleettrio.errors import SessionLost
from fleettrio.ids import Gid, Now, Seconds
from fleettrio.perform import Performer
from fleettrio.ports import StoreRequest
from fleettrio.tasks.reads import read
from fleettrio.tasks.realm import CoordinatorRealm
from fleettrio.wire.signing import Signer, Verifier
from tests.core.builders import FLEET, seed_of
from tests.sim.desk import Desk
from tests.sim.disk import StraightStore
from tests.sim.sessions import Port, Sessions
from tests.sim.world import Crash, World

if TYPE_CHECKING:
    from tests.sim.host import Host

__all__ = ("Process",)

BROKER_TIMEOUT_S = 20.0
"""Two missed heartbeats: then either end takes a silent connection for dead."""


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
        signer = Signer(FLEET, host.name, 1, seed_of(host.name))
        self.links = [Sessions(self, self.performer, host.world.broker, signer, Verifier(host.fleet))]
        if host.coordinator is not None:
            leads = host.coordinator.fleet
            signer = Signer(leads.fleet_id, host.name, 1, seed_of(host.name))
            realm = CoordinatorRealm(self.performer)
            self.links.append(Sessions(self, realm, host.world.leads, signer, Verifier(leads)))
        self.desks: dict[Gid, Desk] = {}
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
        for link in self.links:
            if link.current and self.world.faults.strikes("link-loss"):
                link.lose("reset by peer")

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
        for link in self.links:
            if link.way:
                link.way.cut(self.world.a_moment())
        self.host.died()

    def soon(self, seconds: float, step: Callable[[], Awaitable[None]], link: Sessions | None = None) -> None:
        self.world.after(seconds, lambda: self.enter(step, link))

    async def enter(self, step: Callable[[], Awaitable[None]], link: Sessions | None = None) -> None:
        """Go on with something of this process, unless it is dead. `link`: whose end it is when the broker is gone."""
        if self.is_dead:
            return
        if self.world.now < self._frozen_until:
            self.soon(self._frozen_until - self.world.now, step, link)
            return
        try:
            await step()
        except Crash:
            return
        except SessionLost as error:
            (link or self.links[0]).lose(str(error))
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
        for link in self.links:
            await link.sweep()
        await self.performer.expire()

    async def start(self) -> None:
        await self.performer.start()
        self.soon(Pulse.EVERY_S, self._tick)
        for link in self.links:
            link.soon(self.world.a_moment(0.01, 0.3), link.connect)

    async def _tick(self) -> None:
        self.soon(Pulse.EVERY_S, self._tick)
        if found := self._pulse.tick():
            await self.performer.handle(ev.StoodStill(found.seconds, found.slept))

    def lose(self, reason: str, broker_notices_s: float = 0.001, noticed_s: float = 0.001) -> None:
        """Every link is gone."""
        for link in self.links:
            link.lose(reason, broker_notices_s, noticed_s)

    async def leave(self) -> None:
        """Politely, as at SIGTERM."""
        for link in self.links:
            await link.leave()

    def freeze(self, seconds: float) -> None:
        self._frozen_until = self.world.now + seconds

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
