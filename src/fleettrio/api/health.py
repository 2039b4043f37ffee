"""The methods that tell how this host and its fleet are: status, list, ping, doctor, reload, down."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import trio

from fleettrio import _accel
from fleettrio.api import schema
from fleettrio.api.agentchecks import agent_checks
from fleettrio.api.callers import Caller
from fleettrio.api.fleetview import FleetView
from fleettrio.api.moments import clock
from fleettrio.api.problems import Problems, broker_word
from fleettrio.api.refused import REVOKED
from fleettrio.api.rpc import CallError, Connection, Handler
from fleettrio.api.trust import Trust
from fleettrio.api.views import is_revoked
from fleettrio.config import Config
from fleettrio.core import calls
from fleettrio.core import requests as ask
from fleettrio.core.entity import Entity
from fleettrio.core.peer import PeerEntity
from fleettrio.core.roster import Target
from fleettrio.errors import FAILED, NO_BROKER
from fleettrio.home import Paths
from fleettrio.ids import HostId, WallMs
from fleettrio.perform import Performer
from fleettrio.tasks.notify import Notifier

__all__ = ("Health",)

PING_S = 5.0
_AT_A_TERMINAL = "run it at a terminal"


class Health:
    def __init__(
        self,
        performer: Performer,
        config: Config,
        started_at: WallMs,
        trust: Trust,
        stop: Callable[[], None],
        notifier: Notifier,
        hooks_seen: Mapping[str, WallMs],
    ) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._problems = Problems(performer, config, trust, notifier)
        self._view = FleetView(performer, config, trust, self._problems)
        self._config = config
        self._started_at = started_at
        self._trust = trust
        self._stop = stop
        self._hooks_seen = hooks_seen

    def methods(self) -> dict[str, Handler]:
        return {
            "hello": self.hello,
            "status": self.status,
            "list": self.fleet,
            "ping": self.ping,
            "doctor": self.doctor,
            "reload": self.reload,
            "down": self.down,
        }

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
            is_nobody=caller.rule == "nobody",
        )

    async def status(self, _params: schema.Empty, _caller: Caller, _connection: Connection) -> schema.Status:
        gateway, link = self._gateway, self._gateway.link
        fleet = self._view.fleet()
        problems = self._problems.found()
        return schema.Status(
            host=gateway.settings.me.host,
            fleet_id=gateway.settings.me.fleet_id,
            version=gateway.settings.version,
            pid=os.getpid(),
            started_at=self._started_at,
            home=_home(self._config.paths),
            implementation=_accel.IMPLEMENTATION,
            broker=broker_word(gateway.link, is_kept_off=bool(gateway.why_no_session)),
            broker_detail=link.detail,
            broker_since=self._performer.link_changed_at or self._started_at,
            lane=self._performer.session.broker.lane[0] if self._performer.session else "",
            waiting=sum(gateway.ledger.lane(gid).count for gid in gateway.roster.entities),
            outstanding=sum(1 for _ in gateway.outbox.open_rows()),
            refused=dict(gateway.refusals.by_reason + gateway.coordination.refusals.by_reason),
            problems=[f"{check.detail}: {check.fix}" if check.fix else check.detail for check in problems],
            next_step=self._next_step(problems, fleet),
            out_of_date=self._problems.out_of_date(),
            fleet=fleet,
        )

    async def fleet(self, _params: schema.Empty, _caller: Caller, _connection: Connection) -> schema.Fleet:
        return self._view.fleet()

    async def ping(self, params: schema.Ping, caller: Caller, connection: Connection) -> schema.Pong:
        gateway = self._gateway
        me = gateway.settings.me
        target = gateway.roster.resolve(params.target)
        agent: Entity | PeerEntity | None = None
        if isinstance(target, Target):
            host = target.host
            agent = gateway.roster.entities.get(target.gid) or gateway.roster.others.get(target.gid)
        elif params.target in gateway.trust.fleet.hosts or params.target == me.host:
            host = HostId(params.target)
        else:
            raise CallError(FAILED, "no-such-target", f"no host or agent {params.target!r} is known here", target.hint)
        name, status = (agent.name, agent.status) if agent else ("", "")
        if host == me.host:
            return schema.Pong(host, 0.0, gateway.settings.version, 0, True, name, status)
        self._unless_in_vain(host)
        call = self._performer.calls.new()
        msg_id = self._performer.new_msg_id()
        await self._performer.handle(ask.PingAsked(call, host, msg_id))
        with trio.move_on_after(PING_S):
            try:
                heard = await self._performer.calls.result(call)
            except trio.Cancelled:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                    await self._performer.handle(ask.CallEnded(call, connection.session, gone=False))
                raise
            assert isinstance(heard, calls.PongHeard)
            if heard.refused:
                raise _refused(host, heard.refused)
            return schema.Pong(host, heard.rtt_ms, heard.version, heard.offset_ms, True, name, status)
        # A stranger's host is told of a refusal once a second at most: this one may have gone untold.
        peer = gateway.roster.peers.get(host)
        if peer and peer.refuses_us:
            raise _refused(host, peer.refuses_us)
        if peer and peer.has_left:
            text = f"{host} did not answer within {PING_S:.0f} s: its daemon was ended at {clock(peer.heard_at)}"
            raise CallError(5, "no-answer", text, f"on {host}: fleettrio up")
        raise CallError(
            5, "no-answer", f"{host} did not answer within {PING_S:.0f} s", "`fleettrio list`: is it heard?"
        )

    def _unless_in_vain(self, host: HostId) -> None:
        """Raise at once where no answer can come."""
        if is_revoked(self._gateway.trust.fleet, host):
            hint = "it comes back only under another host id, which the owner adds"
            raise CallError(FAILED, "revoked", f"{host} is revoked: nothing of it is taken here any more", hint)
        if self._problems.own_key_is_revoked:
            raise CallError(FAILED, "revoked", "nobody answers this host", REVOKED)
        if why := self._gateway.link.why_not():
            raise CallError(NO_BROKER, why[0], why[1], self._problems.link_fix())

    async def doctor(self, _params: schema.Empty, _caller: Caller, _connection: Connection) -> schema.DoctorReport:
        agents = agent_checks(self._gateway, self._config, self._hooks_seen, self._performer.clock.now().wall)
        return schema.DoctorReport([*self._problems.well(), *agents, *self._problems.found()])

    async def reload(self, _params: schema.Empty, caller: Caller, _connection: Connection) -> schema.Reloaded:
        if not caller.is_person:
            raise CallError(FAILED, "not-a-person", "only a person changes whom this host trusts", _AT_A_TERMINAL)
        fleet = await self._trust.reload()
        return schema.Reloaded(fleet.fleet_id, fleet.rev, sorted(fleet.hosts), self._problems.out_of_date())

    async def down(self, _params: schema.Empty, caller: Caller, _connection: Connection) -> schema.Done:
        if not caller.is_person:
            raise CallError(FAILED, "not-a-person", "only a person ends the daemon", _AT_A_TERMINAL)
        self._stop()
        return schema.Done(f"the daemon on {self._gateway.settings.me.host} ends; agents live on, messages wait")

    def _next_step(self, problems: list[schema.Check], fleet: schema.Fleet) -> str:
        if problems:
            return problems[0].fix or problems[0].detail
        if len(fleet.agents) < 2:
            return "fleettrio claude --name NAME starts an agent (or codex, opencode; others: fleettrio attach)"
        return ""


def _refused(host: HostId, reason: str) -> CallError:
    hint = REVOKED if reason == "revoked" else f"on {host}: fleettrio host import FILE (from `fleettrio host export`)"
    return CallError(FAILED, "refused", f"{host} refuses us: {reason}", hint)


def _home(paths: Paths) -> str:
    """The folder a person knows this home by: FLEETTRIO_HOME, else the one with its state."""
    is_one_folder = paths.state_dir.parent == paths.config_dir
    return str(paths.config_dir if is_one_folder else paths.state_dir)
