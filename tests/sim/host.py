"""One host: what outlives its processes. The disk, the clock, the agents in their panes, the clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleettrio.core.beginning import Coordinator
from fleettrio.core.compose import Identity, human_of
from fleettrio.core.entity import Entity
from fleettrio.core.gateway import Kept, Settings
from fleettrio.core.ledger import Limits
from fleettrio.core.rows import SentRow
from fleettrio.ids import HostId, TraceId, WallMs
from fleettrio.store.contents import contents_of
from fleettrio.wire.fleet import Fleet
from fleettrio.wire.gids import GATEWAY_SALT, derive_gid
from tests.core.builders import FLEET, TRACE, agent, person
from tests.sim.agent import Agent
from tests.sim.client import Client
from tests.sim.disk import new_disk
from tests.sim.history import Party
from tests.sim.hooks import Hooks
from tests.sim.process import Process
from tests.sim.world import START, Clock

if TYPE_CHECKING:
    from fleettrio.ids import Gid
    from tests.sim.world import World

__all__ = ("Host",)

WORKERS = ("w1", "w2")
LEADS = ("lead",)
COPY = 100
"""The number of a copied store."""


class Host:
    def __init__(self, world: World, name: str, fleet: Fleet, coordinator: Coordinator | None = None) -> None:
        self.world, self.name, self.fleet = world, HostId(name), fleet
        self.coordinator = coordinator
        self.clock = Clock(world)
        self.store_number = 1
        """A store that was lost and made anew has another number."""
        self.disk = new_disk(WallMs(START - 86_400_000))
        self.is_cut_off = False
        """No way to the broker."""
        self.is_off = False
        """Nothing runs here until somebody switches it on."""
        self.limits = Limits(world.rng.choice((2, 1_000)))
        self.process: Process | None = None
        self._processes = 0
        self.entities: list[Entity] = [
            person(name),
            *(agent(lead, name, takes="pull", transport="pull") for lead in LEADS),
            *(agent(worker, name) for worker in WORKERS),
        ]
        self.parties = [Party(e.gid, e.name, name, e.takes == "push") for e in self.entities]
        self.agents: dict[Gid, Agent] = {p.gid: Agent(world, p) for p in self.parties if p.is_push}
        self.hooks = [Hooks(self, one, world.rng_of_hooks) for one in self.agents.values()] if world.has_hooks else []
        self.clients = [Client(self, p) for p in self.parties if not p.is_push]
        for client in self.clients:
            world.after(world.rng.uniform(1.0, 6.0), client.go_on)
        for one in self.agents.values():
            world.after(world.rng.uniform(2.0, 12.0), one.change_mood)
        for hook in self.hooks:
            world.after(world.rng_of_hooks.uniform(1.0, 6.0), hook.go_on)

    def copied(self) -> Host:
        """Another machine on a copy of this one's disk: the same key, with agents and clients of its own."""
        copy = Host(self.world, self.name, self.fleet, self.coordinator)
        self.disk.backup(copy.disk)
        copy.store_number = COPY
        for one in copy.agents.values():
            one.answers = self.agents[one.party.gid].answers
        for mine, theirs in zip(self.clients, copy.clients, strict=True):
            theirs.answers = mine.answers
        return copy

    def told(self, row: SentRow) -> None:
        """Its person and agents can read this about a message of theirs. A copy's person does not look."""
        if self.store_number != COPY:
            self.world.history.was_told(row)

    @property
    def lead(self) -> Party:
        """Who speaks to the leads of other hosts."""
        assert self.coordinator is not None
        return next(party for party in self.parties if party.name == self.coordinator.lead)

    @property
    def has_stopped(self) -> bool:
        """Whether it says that another machine uses its key."""
        return self.process is not None and bool(self.process.performer.gateway.epochs.copy)

    async def start(self) -> None:
        """A new process on the same disk, unless one runs, or nobody is to."""
        if self.process is not None or self.is_off:
            return
        self._processes += 1
        process = self.process = Process(self, self._processes)
        await process.enter(process.start)

    def died(self) -> None:
        self.process = None
        self.world.after(self.world.rng.uniform(0.2, 6.0), self.start)

    def is_full(self, gid: Gid) -> bool:
        """Whether this inbox takes nothing more for now."""
        return self.process is not None and self.process.performer.gateway.ledger.is_full(gid)

    # --- what its person sees of others

    def sees_silent(self, name: HostId) -> bool:
        """Whether `list` says that this host is not heard."""
        return self.process is not None and self.process.performer.gateway.roster.is_silent(name, self.clock.now().wall)

    def knows_epoch(self, name: HostId, epoch: int) -> bool:
        """Whether it has heard that host since its last start."""
        known = self.process.performer.gateway.roster.peers.get(name) if self.process else None
        return known is not None and known.epoch == epoch

    def settings(self) -> tuple[Settings, Kept]:
        """What the daemon tells a gateway at its start."""
        now = self.clock.now().wall
        contents = contents_of(self.disk, now)
        known = {e.gid: e for e in (*self.entities, *contents.entities)}
        settings = Settings(
            me=Identity(
                self.name, FLEET, derive_gid(FLEET, self.name, GATEWAY_SALT), human_of(FLEET, self.name), key_gen=1
            ),
            fleet=self.fleet,
            version="1",
            standalone=False,
            epoch=max(int(contents.settings.get("epoch", "0")) + 1, now),
            trace_id=TraceId(TRACE),
            born=contents.born,
            limits=self.limits,
            highest_wall=WallMs(int(contents.settings.get("highest-wall", "0"))),
            coordinator=self.coordinator,
        )
        kept = Kept(
            entities=tuple(known.values()),
            inbox=contents.inbox,
            sent=contents.sent,
            peers=contents.peers,
            others=contents.peer_entities,
            seq=contents.next_seq - 1,
        )
        return settings, kept
