"""The methods that tell how this host and its fleet are: status, list, ping, doctor, reload, down."""

from __future__ import annotations

import os
from collections.abc import Callable

import trio

from fleettrio import _accel
from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.problems import Problems, broker_word
from fleettrio.api.rpc import CallError, Connection
from fleettrio.api.trust import Trust
from fleettrio.api.views import REVOKED, is_revoked
from fleettrio.config import Config
from fleettrio.core import calls
from fleettrio.core import events as ev
from fleettrio.core.link import LinkState
from fleettrio.core.roster import Target
from fleettrio.core.rows import Entity, Peer, PeerEntity
from fleettrio.home import Paths
from fleettrio.ids import HostId, WallMs
from fleettrio.perform import Performer
from fleettrio.wire.gids import new_msg_id

__all__ = ("Health",)

PING_S = 5.0


class Health:
    def __init__(
        self,
        performer: Performer,
        config: Config,
        started_at: WallMs,
        trust: Trust,
        stop: Callable[[], None],
    ) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._problems = Problems(performer, config, trust)
        self._config = config
        self._started_at = started_at
        self._trust = trust
        self._stop = stop

    async def hello(self, _params: schema.Hello, caller: Caller, _connection: Connection) -> schema.Welcome:
        """Who the caller is to this daemon; a caller without an identity is told why."""
        settings = self._gateway.settings
        return schema.Welcome(
            host=settings.me.host,
            version=settings.version,
            caller=caller.name,
            gid=caller.gid,
            is_person=caller.is_person,
            caller_problem=caller.problem,
            pid=os.getpid(),
        )

    async def status(self, _params: schema.Empty, _caller: Caller, _connection: Connection) -> schema.Status:
        gateway, link = self._gateway, self._gateway.link
        fleet = self._fleet()
        problems = self._problems.found()
        return schema.Status(
            host=gateway.settings.me.host,
            fleet_id=gateway.settings.me.fleet_id,
            version=gateway.settings.version,
            pid=os.getpid(),
            started_at=self._started_at,
            home=_home(self._config.paths),
            implementation=_accel.IMPLEMENTATION,
            broker=broker_word(gateway.link),
            broker_detail=link.detail,
            broker_since=self._performer.link_changed_at or self._started_at,
            waiting=sum(gateway.ledger.lane(gid).count for gid in gateway.roster.entities),
            outstanding=sum(1 for _ in gateway.outbox.open_rows()),
            refused=dict(gateway.refusals.by_reason),
            problems=[f"{check.detail}: {check.fix}" if check.fix else check.detail for check in problems],
            next_step=self._next_step(problems, fleet),
            fleet=fleet,
        )

    async def fleet(self, _params: schema.Empty, _caller: Caller, _connection: Connection) -> schema.Fleet:
        return self._fleet()

    async def ping(self, params: schema.Ping, caller: Caller, connection: Connection) -> schema.Pong:
        gateway = self._gateway
        me = gateway.settings.me
        target = gateway.roster.resolve(params.target)
        agent: Entity | PeerEntity | None = None
        if isinstance(target, Target):
            host = target.host
            agent = gateway.roster.entities.get(target.gid) or gateway.roster.others.get(target.gid)
        elif params.target in gateway.fleet.hosts or params.target == me.host:
            host = HostId(params.target)
        else:
            raise CallError(3, "no-such-target", f"no host or agent {params.target!r} is known here", target.hint)
        name, status = (agent.name, agent.status) if agent else ("", "")
        if host == me.host:
            return schema.Pong(host, 0.0, gateway.settings.version, 0, True, name, status)
        self._unless_in_vain(host)
        call = self._performer.calls.new()
        msg_id = new_msg_id(self._performer.clock.now().wall, os.urandom(10))
        await self._performer.handle(ev.PingAsked(call, host, msg_id))
        with trio.move_on_after(PING_S):
            try:
                heard = await self._performer.calls.result(call)
            except trio.Cancelled:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                    await self._performer.handle(ev.CallEnded(call, connection.session, gone=False))
                raise
            assert isinstance(heard, calls.PongHeard)
            if heard.refused:
                raise _refused(host, heard.refused)
            return schema.Pong(host, heard.rtt_ms, heard.version, heard.offset_ms, True, name, status)
        # A stranger's host is told of a refusal once a second at most: this one may have gone untold.
        peer = gateway.roster.peers.get(host)
        if peer and peer.refuses_us:
            raise _refused(host, peer.refuses_us)
        raise CallError(
            5, "no-answer", f"{host} did not answer within {PING_S:.0f} s", "`fleettrio list`: is it heard?"
        )

    def _unless_in_vain(self, host: HostId) -> None:
        """Raise at once where no answer can come."""
        if is_revoked(self._gateway.fleet, host):
            hint = "it comes back only under another host id, which the owner adds"
            raise CallError(3, "revoked", f"{host} is revoked: nothing of it is taken here any more", hint)
        if self._problems.own_key_is_revoked:
            raise CallError(3, "revoked", "nobody answers this host", REVOKED)
        if why := self._gateway.link.why_not():
            raise CallError(8, why[0], why[1], self._problems.link_fix())

    async def doctor(self, _params: schema.Empty, _caller: Caller, _connection: Connection) -> schema.DoctorReport:
        return schema.DoctorReport([*self._problems.well(), *self._problems.found()])

    async def reload(self, _params: schema.Empty, caller: Caller, _connection: Connection) -> schema.Reloaded:
        if not caller.is_person:
            raise CallError(3, "not-a-person", "only a person changes whom this host trusts", "run it at a terminal")
        fleet = await self._trust.reload()
        return schema.Reloaded(fleet.fleet_id, fleet.rev, sorted(fleet.hosts))

    async def accept_clock(self, _params: schema.Empty, caller: Caller, _connection: Connection) -> schema.Done:
        if not caller.is_person:
            raise CallError(3, "not-a-person", "only a person says that a clock is right", "run it at a terminal")
        await self._performer.handle(ev.ClockAccepted())
        return schema.Done("the clock is taken as it is; deliveries go on")

    async def down(self, _params: schema.Empty, caller: Caller, _connection: Connection) -> schema.Done:
        if not caller.is_person:
            raise CallError(3, "not-a-person", "only a person ends the daemon", "run it at a terminal")
        self._stop()
        return schema.Done(f"the daemon on {self._gateway.settings.me.host} ends; agents live on, messages wait")

    # --- views

    def _fleet(self) -> schema.Fleet:
        gateway, me = self._gateway, self._gateway.settings.me
        hosts = [self._own_host()]
        known = {host for host in gateway.fleet.hosts if host != me.host} | set(gateway.roster.peers)
        hosts += [self._host(host) for host in sorted(known - {me.host})]
        agents = [self._agent(entity) for entity in gateway.roster.entities.values()]
        agents += [self._other(other) for other in gateway.roster.others.values()]
        agents.sort(key=lambda a: (a.host != me.host, a.host, a.name))
        return schema.Fleet(me.host, me.fleet_id, hosts, agents)

    def _own_host(self) -> schema.HostView:
        gateway = self._gateway
        return schema.HostView(
            host=gateway.settings.me.host,
            is_self=True,
            status="revoked" if self._problems.own_key_is_revoked else "up",
            heard_at=self._performer.clock.now().wall,
            offset_ms=0,
            version=gateway.settings.version,
            trusted=not self._trust.problem,
            refuses_us="",
            we_refuse="",
            agents=len(gateway.roster.entities),
        )

    def _host(self, host: HostId) -> schema.HostView:
        gateway = self._gateway
        peer = gateway.roster.peers.get(host, Peer(host=host))
        keys = gateway.fleet.hosts[host].keys if host in gateway.fleet.hosts else ()
        revoked = is_revoked(gateway.fleet, host)
        silent = gateway.roster.is_silent(host, self._performer.clock.now().wall)
        status = "revoked" if revoked else "never-heard" if not peer.heard_at else "unknown" if silent else "up"
        return schema.HostView(
            host=host,
            is_self=False,
            status=status,
            heard_at=peer.heard_at,
            offset_ms=peer.offset_ms,
            version=peer.version,
            trusted=bool(keys) and not revoked,
            refuses_us=peer.refuses_us,
            we_refuse=peer.we_refuse,
            agents=sum(1 for other in gateway.roster.others.values() if other.host == host),
            profiles=list(peer.profiles),
        )

    def _agent(self, entity: Entity) -> schema.AgentView:
        gateway, host = self._gateway, self._gateway.settings.me.host
        inbox = gateway.inbox_state.get(entity.gid, "opening")
        if not gateway.link.is_open:
            inbox = "local" if gateway.link.state is LinkState.STANDALONE else "opening"
        return schema.AgentView(
            gid=entity.gid,
            name=entity.name,
            host=host,
            address=f"{entity.name}@{host}",
            role=entity.role,
            takes=entity.takes,
            groups=list(entity.groups),
            status=entity.status,
            since=entity.since,
            harness=entity.harness,
            path=entity.transport,
            wakes=entity.wakes,
            waiting=gateway.ledger.lane(entity.gid).count,
            full=gateway.ledger.is_full(entity.gid),
            inbox=inbox,
        )

    def _other(self, other: PeerEntity) -> schema.AgentView:
        silent = self._gateway.roster.is_silent(other.host, self._performer.clock.now().wall)
        return schema.AgentView(
            gid=other.gid,
            name=other.name,
            host=other.host,
            address=f"{other.name}@{other.host}",
            role=other.role,
            takes=other.takes,
            groups=list(other.groups),
            status="unknown" if silent else other.status,
            since=other.since,
            harness=other.harness,
            path="",
            wakes=other.wakes,
            waiting=0,
            full=other.full,
        )

    def _next_step(self, problems: list[schema.Check], fleet: schema.Fleet) -> str:
        if problems:
            return problems[0].fix or problems[0].detail
        if len(fleet.agents) < 2:
            return "fleettrio attach --name NAME makes an agent known"
        return ""


def _refused(host: HostId, reason: str) -> CallError:
    hint = REVOKED if reason == "revoked" else f"on {host}: fleettrio host import FILE (from `fleettrio host export`)"
    return CallError(3, "refused", f"{host} refuses us: {reason}", hint)


def _home(paths: Paths) -> str:
    """The folder a person knows this home by: FLEETTRIO_HOME, else the one with its state."""
    is_one_folder = paths.state_dir.parent == paths.config_dir
    return str(paths.config_dir if is_one_folder else paths.state_dir)
