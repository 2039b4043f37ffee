"""The daemon of one host: what is opened in which order, and closed in reverse.

Nesting: signals, configuration, log → store → local (local socket, agents' delivery, sweeper, reads: all that goes on
without a broker) → the border's loop → supervisor → session. A first signal leaves politely: intake ends, open confirms
get a grace, agents finish the write in hand. A second one cancels at once.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Iterator, Mapping

import trio

from fleettrio.api.handing import Handing
from fleettrio.api.hooks.evidence import Evidence, run_evidence
from fleettrio.api.localsocket import run_local_socket
from fleettrio.api.trust import Trust
from fleettrio.broker.amqp import open_border, open_session
from fleettrio.broker.port import BrokerSettings
from fleettrio.clock import Pulse, SystemClock, standstill_limit
from fleettrio.config import Config, load_config
from fleettrio.core import actions as do
from fleettrio.core.entity import Entity
from fleettrio.errors import ConfigError, FleetTrioError
from fleettrio.identity import Identity, load_identity
from fleettrio.ids import FleetId, Gid
from fleettrio.keyfiles import read_operator_token
from fleettrio.launch.launcher import Launcher
from fleettrio.local.port import Keeper
from fleettrio.local.sanitise import one_line
from fleettrio.local.transports import end_strays, open_way, place_of
from fleettrio.local.worker_token import worker_token
from fleettrio.observe import get_logger, set_up_log
from fleettrio.perform import Performer
from fleettrio.ports import StoreRequest
from fleettrio.session import Session
from fleettrio.startup import gateway_of
from fleettrio.store.store import Store, open_store
from fleettrio.supervise import run_supervisor
from fleettrio.tasks.deliver import run_deliver
from fleettrio.tasks.launch import Launches
from fleettrio.tasks.look import run_looks
from fleettrio.tasks.notify import Notifier, run_notify
from fleettrio.tasks.programs import run_program
from fleettrio.tasks.pulse import run_pulse
from fleettrio.tasks.reads import run_reads
from fleettrio.tasks.realm import CoordinatorRealm, Realm
from fleettrio.tasks.sightings import run_sightings
from fleettrio.tasks.sweep import run_sweep
from fleettrio.wire.signing import Signer, Verifier

__all__ = ("main", "run_daemon")

WATCH_CAPACITY = 4_096
READ_CAPACITY = 4_096
LAUNCH_CAPACITY = 4_096
PRUNE_EVERY_S = 3600.0
LOG_LIMIT = 2_000
"""Characters of one value in the log."""
SEARCHED_AFTER = 20_000
"""New objects until the youngest are searched for cycles; some megabytes at most."""

log = get_logger("daemon")


def main(env: Mapping[str, str] | None = None) -> int:
    """Run the daemon until it is told to go; returns the exit code. Configuration faults are printed, all at once."""
    environment = os.environ if env is None else env
    try:
        config = load_config(environment)
        set_up_log(config.log, clean=lambda text: one_line(text, LOG_LIMIT))
        trio.run(run_daemon, config, environment)
    except FleetTrioError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 3
    return 0


async def run_daemon(config: Config, env: Mapping[str, str]) -> None:
    """Live the life of one daemon. Cancelled, everything is closed in order, each step bounded."""
    clock = SystemClock(env)
    identity = load_identity(config.paths, config)
    async with open_store(config.paths.store, at=clock.wall(), deaths=config.limits.deaths) as store:
        contents = await store.load(clock.wall())
        gateway = gateway_of(config, identity, contents, clock.wall())
        watch_send, watch_recv = trio.open_memory_channel[do.WatchEntity](WATCH_CAPACITY)
        read_send, read_recv = trio.open_memory_channel[StoreRequest](READ_CAPACITY)
        launch_send, launch_recv = trio.open_memory_channel[do.Launch | do.EndAgent](LAUNCH_CAPACITY)
        performer = Performer(gateway, store, clock, watch_send, read_send)
        performer.launches = launch_send
        performer.pulse = Pulse(standstill_limit(config.broker_section.heartbeat_s))
        verifier = Verifier(identity.fleet)
        trust = Trust(config, identity, verifier, performer)
        stopping = trio.Event()
        if identity.problem:
            log.error("identity", problem=identity.problem)
        gateway.keep_safe(store.in_hand.safe)
        if gateway.safe:
            log.error("safe mode", reason=gateway.safe, hint="fleettrio doctor --fix safe")
        token = read_operator_token(config.paths) or ""
        await performer.start()
        await end_strays(filter(_is_looked_at, gateway.roster.entities.values()), env)
        # What is there by now stays: to look through it for garbage again and again is a tenth of a busy daemon's time.
        # Nearly all that comes later is freed without a search; what is not is a few cycles of a task that ended.
        gc.collect()
        gc.freeze()
        gc.set_threshold(SEARCHED_AFTER, *gc.get_threshold()[1:])
        async with trio.open_nursery() as local:
            local.start_soon(_run_signals, stopping, local.cancel_scope, trust)
            await local.start(run_pulse, performer.pulse, performer)
            await local.start(run_sweep, performer)
            await local.start(run_reads, read_recv, performer)
            await local.start(run_looks, performer)
            await local.start(run_sightings, performer)
            await local.start(_run_agents, watch_recv, performer, env, token)
            profiles = {profile.name: profile for profile in config.profiles}
            launcher = Launcher(config.paths, env)
            launches = Launches(launcher, profiles, performer, env, token)
            local.start_soon(_run_launches, launch_recv, launches)
            local.start_soon(_run_pruning, store, clock)
            notifier = Notifier(config.notify, performer, env)
            await local.start(run_notify, notifier, performer)
            evidence = Evidence(Handing(performer))
            await local.start(run_evidence, evidence)
            await local.start(
                run_local_socket, config, performer, trust, launcher, notifier, evidence, stopping.set, token
            )
            log.info("serving", host=identity.host, fleet=identity.fleet_id, socket=str(config.paths.socket))
            await _run_sessions(config, identity, performer, verifier, trust, stopping)
            log.info("ending")
            local.cancel_scope.cancel()


async def _run_sessions(
    config: Config,
    identity: Identity,
    performer: Performer,
    verifier: Verifier,
    trust: Trust,
    stopping: trio.Event,
) -> None:
    """Keep a session at the fleet's broker and one at the coordinator's, each where there is one, until `stopping`."""
    sessions = []
    fleet, leads, settings = config.broker(), config.coordinator_broker(), performer.gateway.settings.coordinator

    def session(settings: BrokerSettings, realm: Realm, signs_for: FleetId, verifier: Verifier) -> Session:
        return Session(
            settings=settings,
            open_session=open_session,
            realm=realm,
            signer=Signer(signs_for, identity.host, identity.key_gen, identity.seed),
            verifier=verifier,
            body_limit=config.limits.body_bytes,
            beat_s=config.timers.beat_s,
            grace_s=config.timers.grace_s,
            stopping=stopping,
        )

    if fleet is not None:
        sessions.append(session(fleet, performer, identity.fleet_id, verifier))
    if leads is not None and settings is not None:
        trust.coordinator = Verifier(settings.fleet)
        sessions.append(session(leads, CoordinatorRealm(performer), settings.me.fleet_id, trust.coordinator))
    if not sessions:
        await stopping.wait()
        return
    async with open_border(), trio.open_nursery() as supervisors:
        for one in sessions:
            supervisors.start_soon(run_supervisor, one)


async def _run_signals(stopping: trio.Event, scope: trio.CancelScope, trust: Trust) -> None:
    """SIGTERM and SIGINT: leave politely, then at once. SIGHUP: read the fleet file again."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            if number == signal.SIGHUP:
                try:
                    await trust.reload()
                except ConfigError as error:
                    log.error("fleet file not taken", problem=str(error))
            elif stopping.is_set():
                scope.cancel()
            else:
                log.info("asked to end", signal=signal.Signals(number).name)
                stopping.set()


async def _run_launches(actions: trio.MemoryReceiveChannel[do.Launch | do.EndAgent], launches: Launches) -> None:
    """Start and end agents, each apart from the others. Cancelled, agents live on."""
    async with trio.open_nursery() as nursery:
        async for action in actions:
            nursery.start_soon(launches.run, action)


async def _run_agents(
    watches: trio.MemoryReceiveChannel[do.WatchEntity],
    performer: Performer,
    env: Mapping[str, str],
    operator_token: str,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """One delivery task for each agent that something can be put into; restarted when the agent changed its place."""
    task_status.started()
    running: dict[Gid, tuple[Entity, trio.CancelScope]] = {}
    try:
        async with trio.open_nursery() as nursery:
            async for watch in watches:
                entity = watch.entity
                before = running.get(entity.gid)
                if before and not _is_let_go(before[0], watch):
                    continue
                if before:
                    before[1].cancel()
                    del running[entity.gid]
                if watch.present and entity.program and not await nursery.start(run_program, entity, performer):
                    continue
                if watch.present and _is_looked_at(entity):
                    scope = trio.CancelScope()
                    running[entity.gid] = (entity, scope)
                    token = worker_token(operator_token, entity)
                    await nursery.start(_deliver_within, scope, entity, performer, env, token)
    finally:
        await _end_programs(watches, {gid: entity for gid, (entity, _) in running.items()}, env)


def _is_let_go(entity: Entity, watch: do.WatchEntity) -> bool:
    """Whether nobody delivers to it any more as it was: it is gone, or elsewhere."""
    return not watch.present or place_of(entity) != place_of(watch.entity)


async def _end_programs(
    watches: trio.MemoryReceiveChannel[do.WatchEntity], running: Mapping[Gid, Entity], env: Mapping[str, str]
) -> None:
    """The programs of agents that were let go in the daemon's last moment end with it: no later one knows of them."""
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            for watch in _left_in(watches):
                entity = running.get(watch.entity.gid)
                transport = open_way(entity, env) if entity and _is_let_go(entity, watch) else None
                if isinstance(transport, Keeper):
                    nursery.start_soon(transport.end)


def _left_in(watches: trio.MemoryReceiveChannel[do.WatchEntity]) -> Iterator[do.WatchEntity]:
    """What nobody received."""
    with contextlib.suppress(trio.WouldBlock, trio.EndOfChannel):
        while True:
            yield watches.receive_nowait()


def _is_looked_at(entity: Entity) -> bool:
    """Who has a place is. One that is away, too, unless it was detached: it may be back, also after a restart."""
    if (entity.transport == "pull" and not entity.target) or entity.status == "gone":
        return False
    return entity.status != "away" or entity.wakes


async def _deliver_within(
    scope: trio.CancelScope,
    entity: Entity,
    performer: Performer,
    env: Mapping[str, str],
    token: str,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    transport = open_way(entity, env, token, echoes=performer.echoes)
    try:
        with scope:
            await run_deliver(entity, transport, performer, task_status=task_status)
    finally:
        if scope.cancel_called and isinstance(transport, Keeper):  # let go, or another command; our own end or not
            with trio.CancelScope(shield=True):
                await transport.end()


async def _run_pruning(store: Store, clock: SystemClock) -> None:
    """Take away what nobody needs any more, once an hour."""
    while True:
        await trio.sleep(PRUNE_EVERY_S)
        pruned = await store.prune(clock.wall())
        if not pruned.is_empty:
            log.info("pruned", inbox=pruned.inbox, sent=pruned.sent, journal=pruned.journal)
