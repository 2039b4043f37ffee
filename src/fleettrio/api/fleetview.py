"""The fleet as this host sees it: hosts, agents, and who the lead here is to other leads."""

from __future__ import annotations

from fleettrio.api import schema
from fleettrio.api.problems import Problems, broker_word
from fleettrio.api.trust import Trust
from fleettrio.api.views import is_revoked
from fleettrio.config import Config
from fleettrio.core.entity import Entity
from fleettrio.core.link import LinkState
from fleettrio.core.peer import Peer, PeerEntity
from fleettrio.ids import HostId
from fleettrio.launch.launcher import attach_command
from fleettrio.local.transports import ways_of
from fleettrio.perform import Performer

__all__ = ("FleetView",)


class FleetView:
    def __init__(self, performer: Performer, config: Config, trust: Trust, problems: Problems) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._config = config
        self._trust = trust
        self._problems = problems

    def fleet(self) -> schema.Fleet:
        gateway, me = self._gateway, self._gateway.settings.me
        hosts = [self._own_host()]
        known = {host for host in gateway.trust.fleet.hosts if host != me.host} | set(gateway.roster.peers)
        hosts += [self._host(host) for host in sorted(known - {me.host})]
        here = (*gateway.roster.entities.values(), *gateway.roster.starting.values())
        agents = [self._agent(entity) for entity in here]
        agents += [self._other(other) for other in gateway.roster.others.values()]
        agents.sort(key=lambda a: (a.host != me.host, a.host, a.name))
        return schema.Fleet(me.host, me.fleet_id, hosts, agents, self._coordination())

    def _coordination(self) -> schema.LeadView | None:
        leads = self._gateway.coordination
        if not leads.is_there:
            return None
        return schema.LeadView(
            coord_id=leads.coord_id,
            lead=leads.lead_name,
            broker=broker_word(leads.link),
            detail=leads.link.detail,
            mailbox=leads.mailbox.state or "closed",
            others=leads.others(),
        )

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
            profiles=list(gateway.spawns.profiles),
            paused=pause.by if (pause := gateway.pauses.of_host()) else "",
        )

    def _host(self, host: HostId) -> schema.HostView:
        gateway = self._gateway
        peer = gateway.roster.peers.get(host, Peer(host=host))
        keys = gateway.trust.fleet.hosts[host].keys if host in gateway.trust.fleet.hosts else ()
        revoked = is_revoked(gateway.trust.fleet, host)
        silent = gateway.roster.is_silent(host, self._performer.clock.now().wall)
        status = "left" if peer.has_left else "unknown" if silent else "up"
        status = "revoked" if revoked else status if peer.heard_at else "never-heard"
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
            agents=gateway.roster.others.count(host),
            profiles=list(peer.profiles),
        )

    def _agent(self, entity: Entity) -> schema.AgentView:
        gateway, host, sightings = self._gateway, self._gateway.settings.me.host, self._performer.sightings
        spawn = gateway.spawns.started(entity.gid)
        inbox = gateway.inbox_state.get(entity.gid, "opening")
        if not gateway.link.is_open:
            inbox = "local" if gateway.link.state is LinkState.STANDALONE else "opening"
        ways = ("hook", *ways_of(entity)) if sightings.has_hooks(entity.gid) else ways_of(entity)
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
            path=", ".join(ways),
            wakes=entity.wakes,
            waiting=gateway.ledger.lane(entity.gid).count,
            full=gateway.ledger.is_full(entity.gid),
            paused=pause.by if (pause := gateway.pauses.of_agent(entity.gid)) else "",
            inbox=inbox,
            profile=spawn.profile if spawn else "",
            attach=attach_command(self._config.paths, entity),
            session=entity.session,
            pid=entity.process,
        )

    def _other(self, other: PeerEntity) -> schema.AgentView:
        peer = self._gateway.roster.peers.get(other.host)
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
            since=peer.heard_at if silent and peer else other.since,
            harness=other.harness,
            path="",
            wakes=other.wakes,
            waiting=0,
            full=other.full,
        )
