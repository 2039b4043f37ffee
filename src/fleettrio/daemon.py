"""The daemon of one host: what is opened in which order, and closed in reverse.

Nesting: signals, configuration, log → store → local (local socket, agents' delivery, sweeper, reads: all that goes on
without a broker) → the border's loop → supervisor → session. A first signal leaves politely: intake ends, open confirms
get a grace, agents finish the write in hand. A second one cancels at once.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Mapping

import trio

import fleettrio
from fleettrio.api.agents import Agents
from fleettrio.api.callers import CallerRules, TokenUse, hash_token
from fleettrio.api.health import Health
from fleettrio.api.messages import Messages
from fleettrio.api.rpc import Handler, serve
from fleettrio.api.trust import Trust
from fleettrio.broker.amqp import open_border, open_session
from fleettrio.clock import SystemClock
from fleettrio.config import Config, load_config
from fleettrio.core import actions as do
from fleettrio.core import wallmark
from fleettrio.core.compose import Identity as WireIdentity
from fleettrio.core.compose import human_of
from fleettrio.core.gateway import Gateway, Kept, Settings
from fleettrio.core.ledger import Limits
from fleettrio.core.rows import Entity
from fleettrio.errors import ConfigError, FleetTrioError
from fleettrio.identity import Identity, load_identity, read_operator_token
from fleettrio.ids import Gid, TraceId, WallMs
from fleettrio.local.transports import open_transport
from fleettrio.local.worker_token import worker_token
from fleettrio.observe import get_logger, set_up_log
from fleettrio.perform import Performer
from fleettrio.session import Session
from fleettrio.store.queries import StoreContents
from fleettrio.store.store import Store, open_store
from fleettrio.supervise import run_supervisor
from fleettrio.tasks.deliver import run_deliver
from fleettrio.tasks.reads import run_reads
from fleettrio.tasks.sweep import run_sweep
from fleettrio.wire.gids import GATEWAY_SALT, HUMAN_SALT, derive_gid
from fleettrio.wire.signing import Signer, Verifier

__all__ = ("main", "run_daemon")

WATCH_CAPACITY = 4_096
READ_CAPACITY = 4_096
PRUNE_EVERY_S = 3600.0

log = get_logger("daemon")


def main(env: Mapping[str, str] | None = None) -> int:
    """Run the daemon until it is told to go; returns the exit code. Configuration faults are printed, all at once."""
    environment = os.environ if env is None else env
    try:
        config = load_config(environment)
        set_up_log(config.log)
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
    async with open_store(config.paths.store, at=clock.wall()) as store:
        contents = await store.load(clock.wall())
        gateway = _gateway(config, identity, contents, clock.wall())
        watch_send, watch_recv = trio.open_memory_channel[do.WatchEntity](WATCH_CAPACITY)
        read_send, read_recv = trio.open_memory_channel[do.Load | do.ProbeStore](READ_CAPACITY)
        performer = Performer(gateway, store, clock, watch_send, read_send)
        verifier = Verifier(identity.fleet)
        trust = Trust(config, identity, verifier, performer)
        stopping = trio.Event()
        if identity.problem:
            log.error("identity", problem=identity.problem)
        token = read_operator_token(config.paths) or ""
        await performer.start()
        async with trio.open_nursery() as local:
            local.start_soon(_run_signals, stopping, local.cancel_scope, trust)
            await local.start(run_sweep, performer)
            await local.start(run_reads, read_recv, performer)
            await local.start(_run_agents, watch_recv, performer, env, token)
            local.start_soon(_run_pruning, store, clock)
            await local.start(_serve, config, performer, trust, stopping, clock.wall(), token)
            log.info("serving", host=identity.host, fleet=identity.fleet_id, socket=str(config.paths.socket))
            settings = config.broker()
            if settings is None:
                await stopping.wait()
            else:
                async with open_border():
                    session = Session(
                        settings=settings,
                        open_session=open_session,
                        performer=performer,
                        signer=Signer(identity.fleet_id, identity.host, identity.key_gen, identity.seed),
                        verifier=verifier,
                        body_limit=config.limits.body_bytes,
                        beat_s=config.timers.beat_s,
                        grace_s=config.timers.grace_s,
                        stopping=stopping,
                    )
                    await run_supervisor(session)
            log.info("ending")
            local.cancel_scope.cancel()


def _gateway(config: Config, identity: Identity, contents: StoreContents, now: WallMs) -> Gateway:
    me = WireIdentity(
        host=identity.host,
        fleet_id=identity.fleet_id,
        gid=derive_gid(identity.fleet_id, identity.host, GATEWAY_SALT),
        human=human_of(identity.fleet_id, identity.host),
        key_gen=identity.key_gen,
    )
    entities = {entity.gid: entity for entity in contents.entities}
    if me.human not in entities:
        entities[me.human] = Entity(gid=me.human, name="human", salt=HUMAN_SALT, since=now)
    return Gateway(
        Settings(
            me=me,
            fleet=identity.fleet,
            version=fleettrio.__version__,
            standalone=config.is_standalone,
            epoch=max(int(contents.settings.get("epoch", "0")) + 1, now),
            trace_id=TraceId(secrets.token_hex(16)),
            born=contents.born,
            highest_wall=WallMs(int(contents.settings.get(wallmark.SETTING, "0"))),
            limits=Limits(config.limits.inbox_messages, config.limits.inbox_bytes),
            body_limit=config.limits.body_bytes,
        ),
        Kept(
            entities=tuple(entities.values()),
            inbox=contents.inbox,
            sent=contents.sent,
            peers=contents.peers,
            others=contents.peer_entities,
            seq=contents.next_seq - 1,
        ),
    )


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


async def _serve(
    config: Config,
    performer: Performer,
    trust: Trust,
    stopping: trio.Event,
    started_at: WallMs,
    operator_token: str,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """The local socket; its methods are the whole of what a client can ask."""
    uses = TokenUse()
    messages, agents = Messages(performer), Agents(performer, uses)
    health = Health(performer, config, started_at, trust, stopping.set)
    methods: dict[str, Handler] = {
        "hello": health.hello,
        "status": health.status,
        "list": health.fleet,
        "ping": health.ping,
        "doctor": health.doctor,
        "reload": health.reload,
        "accept_clock": health.accept_clock,
        "down": health.down,
        "attach": agents.attach,
        "detach": agents.detach,
        "token": agents.token,
        "send": messages.send,
        "reply": messages.reply,
        "retry": messages.retry,
        "wait": messages.wait,
        "pull": messages.pull,
        "confirm": messages.confirm,
        "inbox": messages.inbox,
        "show": messages.show,
        "body": messages.body,
        "cancel": messages.cancel,
        "trace": messages.trace,
    }
    roster = performer.gateway.roster
    callers = CallerRules(
        uid=os.getuid(),
        human=performer.gateway.settings.me.human,
        entities=roster.entities.values,
        operator_hash=hash_token(operator_token) if operator_token else b"",
        uses=uses,
        extra_tokens=lambda: {
            hash_token(token): entity.gid
            for entity in roster.entities.values()
            if (token := worker_token(operator_token, entity))
        },
    )
    await serve(config.paths.socket, methods, callers, on_close=messages.gone, task_status=task_status)


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
    async with trio.open_nursery() as nursery:
        async for watch in watches:
            entity = watch.entity
            before = running.get(entity.gid)
            if before and watch.present and _same_place(before[0], entity):
                continue
            if before:
                before[1].cancel()
                del running[entity.gid]
            if watch.present and entity.transport != "pull" and entity.status not in ("away", "gone"):
                scope = trio.CancelScope()
                running[entity.gid] = (entity, scope)
                token = worker_token(operator_token, entity)
                await nursery.start(_deliver_within, scope, entity, performer, env, token)


def _same_place(one: Entity, other: Entity) -> bool:
    places = [(e.transport, e.target, e.harness, e.pid, e.tty) for e in (one, other)]
    return places[0] == places[1]


async def _deliver_within(
    scope: trio.CancelScope,
    entity: Entity,
    performer: Performer,
    env: Mapping[str, str],
    token: str,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    with scope:
        try:
            transport = open_transport(entity, env, token)
        except ConfigError as error:
            log.error("agent cannot be reached", agent=entity.name, problem=str(error))
            task_status.started()
            return
        await run_deliver(entity, transport, performer, task_status=task_status)


async def _run_pruning(store: Store, clock: SystemClock) -> None:
    """Take away what nobody needs any more, once an hour."""
    while True:
        await trio.sleep(PRUNE_EVERY_S)
        pruned = await store.prune(clock.wall())
        if not pruned.is_empty:
            log.info("pruned", inbox=pruned.inbox, sent=pruned.sent, journal=pruned.journal)
