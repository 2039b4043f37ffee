"""What the gateway of this host begins with: who it is, what was configured, and what the store holds."""

from __future__ import annotations

import secrets

import fleettrio
from fleettrio.config import Config
from fleettrio.core import beside, epochs, pauses, wallmark
from fleettrio.core.beginning import Coordinator
from fleettrio.core.compose import Identity as WireIdentity
from fleettrio.core.compose import human_of
from fleettrio.core.entity import Entity
from fleettrio.core.gateway import Gateway, Kept, Settings
from fleettrio.core.ledger import Limits
from fleettrio.core.spawned import Spawnable
from fleettrio.identity import Identity, load_fleet
from fleettrio.ids import FleetId, TraceId, WallMs
from fleettrio.store.contents import StoreContents
from fleettrio.wire.gids import GATEWAY_SALT, HUMAN_SALT, derive_gid

__all__ = ("gateway_of",)


def _wire_identity(identity: Identity, fleet_id: FleetId) -> WireIdentity:
    return WireIdentity(
        host=identity.host,
        fleet_id=fleet_id,
        gid=derive_gid(fleet_id, identity.host, GATEWAY_SALT),
        human=human_of(fleet_id, identity.host),
        key_gen=identity.key_gen,
    )


def _coordinator(config: Config, identity: Identity) -> Coordinator | None:
    """Who this host is among leads; None without a coordinator, or without its fleet file."""
    section, fleet = config.coordinator, load_fleet(config.paths.of_coordinator)
    if not section.uris or fleet is None:
        return None
    me = _wire_identity(identity, fleet.fleet_id)
    return Coordinator(me=me, coord_id=section.coord_id, lead=section.lead, fleet=fleet)


def gateway_of(config: Config, identity: Identity, contents: StoreContents, now: WallMs) -> Gateway:
    """The gateway of this host, as it begins: what was configured, and what the store holds."""
    me, coordinator = _wire_identity(identity, identity.fleet_id), _coordinator(config, identity)
    is_missing = bool(config.coordinator.uris) and coordinator is None
    no_coordinator = "the coordinator's fleet file was not imported yet" if is_missing else ""
    entities = {entity.gid: entity for entity in contents.entities}
    if me.human not in entities:
        entities[me.human] = Entity(gid=me.human, name="human", salt=HUMAN_SALT, since=now)
    return Gateway(
        Settings(
            me=me,
            fleet=identity.fleet,
            version=fleettrio.__version__,
            standalone=config.is_standalone,
            epoch=max(int(contents.settings.get(epochs.SETTING, "0")) + 1, now),
            trace_id=TraceId(secrets.token_hex(16)),
            born=contents.born,
            highest_wall=WallMs(int(contents.settings.get(wallmark.SETTING, "0"))),
            paused=contents.settings.get(pauses.SETTING, ""),
            person_seen=WallMs(int(contents.settings.get(beside.SETTING, "0"))),
            news=config.notify.on,
            limits=Limits(config.limits.inbox_messages, config.limits.inbox_bytes),
            body_limit=config.limits.body_bytes,
            coordinator=coordinator,
            no_coordinator=no_coordinator,
            profiles=tuple(
                Spawnable(
                    name=profile.name,
                    most=profile.max,
                    transport=profile.runtime,
                    role=profile.role,
                    harness=profile.harness,
                    groups=profile.groups,
                    reply=profile.reply,
                )
                for profile in config.profiles
            ),
        ),
        Kept(
            entities=tuple(entities.values()),
            inbox=contents.inbox,
            landed=contents.landed,
            sent=contents.sent,
            peers=contents.peers,
            others=contents.peer_entities,
            spawns=contents.spawns,
            claims=contents.claims,
            dues=contents.dues,
            owed=contents.owed,
            untold=contents.untold,
            seq=contents.next_seq - 1,
        ),
    )
