"""One run: a world made from a seed, its busy time with faults, its healing, and the time after it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator, Sequence

import structlog
import trio

from fleettrio.core.beginning import Coordinator
from fleettrio.core.compose import Identity, human_of
from fleettrio.core.offers import LEASE_S
from fleettrio.core.requests import CopyEnded
from fleettrio.core.topology import lead_key
from fleettrio.ids import HostId
from tests.core.builders import FLEET, fleet_of
from tests.core.leads import LEADS, leads_fleet, mailbox_gid
from tests.sim.accidents import plan
from tests.sim.asker import Asker
from tests.sim.checker import broken_promises
from tests.sim.forger import TRAITOR, Forger, Inbox
from tests.sim.host import Host
from tests.sim.sender import REPLY_LIFETIME_S, Sender
from tests.sim.world import VirtualClock, World

__all__ = ("Run", "run_seed")

NAMES = ("alpha", "beta", "gamma")
MEETING_S = 8.0
BUSY_S = 40.0
HEALING_S = LEASE_S + 5.0
"""Until then every client has said what it got, or its time for that is over."""
FINDING_S = 40.0
"""Time enough, without faults, for a host and its copy to hear each other."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """What came of one seed."""

    seed: int
    broken: list[str]
    struck: dict[str, int]
    events: int
    digest: str


def run_seed(seed: int) -> Run:
    """Live the world of `seed` to its end and judge it."""
    world = World(seed)
    with _silence():
        trio.run(_live, world, clock=VirtualClock(world))
    return Run(seed, broken_promises(world.history), dict(world.faults.struck), world.events, world.history.digest)


async def _live(world: World) -> None:
    rng = world.rng
    names = NAMES[: rng.choice((2, 2, 3))]
    fleet = fleet_of((*names, TRAITOR))
    leads = _leads(world, names)
    hosts = world.hosts = [Host(world, name, fleet, lead) for name, lead in zip(names, leads, strict=True)]
    for host in hosts:
        await host.start()
    sender, asker = Sender(world, hosts), Asker(world, hosts)
    for host in hosts:
        for agent in host.agents.values():
            agent.answers = sender.reply
        for client in host.clients:
            client.answers = asker.answer
    world.asks = asker.ask
    inboxes = [Inbox(party.gid, party.gid, party.host, party.is_push) for host in hosts for party in host.parties]
    world.broker.forger = Forger(world, world.broker, FLEET, inboxes)
    mailboxes = [Inbox(lead_key(lead.coord_id), lead.me.gid, lead.me.host) for lead in leads if lead]
    world.leads.forger = Forger(world, world.leads, LEADS, mailboxes)
    world.faults.is_healed = True
    await world.run_until(MEETING_S)
    world.faults.is_healed = False
    for _ in range(rng.randint(12, 30)):
        world.after(rng.uniform(0.0, BUSY_S), sender.act)
    for _ in range(rng.randint(1, 6)):
        world.after(rng.uniform(0.0, BUSY_S), world.asks)
    for _ in range(world.rng_of_leads.randint(2, 8) if world.has_leads else 0):
        world.after(world.rng_of_leads.uniform(0.0, BUSY_S), sender.coordinate)
    plan(world, hosts, 0.0, BUSY_S)
    await world.run_until(MEETING_S + BUSY_S)
    await _heal(world, hosts)
    await world.pass_time(HEALING_S)
    if stopped := [host for host in hosts if host.has_stopped]:
        # An old beat came late, of a time when the clock was ahead: a person looks again, and all have their time.
        for host in stopped:
            await _go_on(host)
        await world.pass_time(HEALING_S)
    world.history.settled_at = world.now
    await _leap(world, hosts)


def _leads(world: World, names: Sequence[str]) -> list[Coordinator | None]:
    """Who the leads of these hosts are: one that fetches its mail, or one that it is put into."""
    if not world.has_leads:
        return [None] * len(names)
    fleet = leads_fleet({TRAITOR: "", **{name: f"lead-{name}" for name in names}}, reporters=())
    return [
        Coordinator(
            me=Identity(HostId(name), LEADS, mailbox_gid(name), human_of(LEADS, HostId(name)), key_gen=1),
            coord_id=f"lead-{name}",
            lead=world.rng_of_leads.choice(("lead", "w1")),
            fleet=fleet,
        )
        for name in names
    ]


async def _heal(world: World, hosts: list[Host]) -> None:
    world.faults.is_healed = True
    for host in [*hosts, *world.copies]:
        host.is_cut_off = host.is_off = False
        host.clock.turn_to(0)
        if host.process:
            host.process.freeze(0.0)
        for agent in host.agents.values():
            agent.has_draft = False
        await host.start()
    for copy in world.copies:
        await _part(world, next(host for host in hosts if host.name == copy.name), copy)
    await world.pass_time(2.0)
    for host in hosts:
        # Its own beats, repeated after its clock was turned back, look like another machine's: a person looks.
        if host.has_stopped:
            await _go_on(host)
    world.history.healed_at = world.now


async def _go_on(host: Host) -> None:
    """Its person says that there is no other machine with its key."""
    process = host.process
    if process:
        await process.enter(lambda: process.performer.handle(CopyEnded(process.calls.new())))


async def _part(world: World, host: Host, copy: Host) -> None:
    """They have heard each other and stopped, unless started anew since; a person ends the copy, and says so."""
    await world.pass_time(FINDING_S)
    if not (host.has_stopped or copy.has_stopped) and not world.history.is_a_clock_far_off:
        world.history.risen.append(f"{host.name} and its copy both go on")
    copy.is_off = True
    if copy.process:
        copy.process.die()
    await _go_on(host)


async def _leap(world: World, hosts: list[Host]) -> None:
    """Everybody sleeps until everything has expired, and wakes up; replies live longest."""
    for seconds in (2_000.0, REPLY_LIFETIME_S + 60.0):
        world.now += seconds
        for host in hosts:
            if host.process:
                host.process.lose("suspended")
        await world.pass_time(30.0)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.reset_defaults()
