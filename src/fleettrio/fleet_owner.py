"""What the fleet's owner does: found it, take hosts in, revoke them. Each signs the next revision of the fleet file."""

from __future__ import annotations

import msgspec

from fleettrio.errors import ConfigError
from fleettrio.home import Paths
from fleettrio.identity import load_fleet
from fleettrio.ids import FleetId, HostId, WallMs
from fleettrio.keyfiles import OwnerKeyFile, make_owner_key, public_key, read_host_key, read_owner_key, write_pin
from fleettrio.private_files import read_private, write_private
from fleettrio.wire.fleet import DEFAULT_GRANTS, Fleet, FleetHost, HostKey
from fleettrio.wire.fleetfile import sign_fleet

__all__ = ("FLEET_LIFE_MS", "add_host", "create_fleet", "revoke_host")

FLEET_LIFE_MS = 365 * 24 * 60 * 60 * 1000
"""How long a signed fleet file is good for. When it ends, people are warned and nothing stops."""


def create_fleet(paths: Paths, fleet_id: FleetId, now: WallMs) -> Fleet:
    """Found a fleet with this host as its owner's: owner key, revision 1, the own host with the grant `report`."""
    if read_private(paths.fleet_file) is not None:
        raise ConfigError([f"this host is already in a fleet ({paths.fleet_file})"], hint="fleettrio host list")
    key = read_host_key(paths)
    if key is None:
        raise ConfigError(["this host has no key yet"], hint="fleettrio init")
    fresh = make_owner_key(paths, fleet_id)
    own = FleetHost(
        host=HostId(key.host),
        keys=(public_key(key),),
        grants=DEFAULT_GRANTS | {"report"},
        not_after=WallMs(now + FLEET_LIFE_MS),
    )
    fleet = Fleet(
        fleet_id=fleet_id,
        rev=1,
        not_after=WallMs(now + FLEET_LIFE_MS),
        hosts={own.host: own},
        revoked=frozenset(),
        owner_key=fresh.public_key,
    )
    write_pin(paths, fleet)
    write_private(paths.fleet_file, sign_fleet(fleet, fresh.seed_bytes), replace=True)
    return fleet


def add_host(paths: Paths, added: HostKey, grants: frozenset[str], now: WallMs, coord_id: str | None = None) -> Fleet:
    """Sign revision + 1 with this host in it, or with its new grants. Raises `ConfigError` off the owner's host.

    In a coordinator's fleet `coord_id` names the lead on that host; None leaves it as it is.
    """
    owner, fleet = _owned_fleet(paths)
    known = fleet.hosts.get(added.host)
    if (added.host, added.gen) in fleet.revoked:
        raise ConfigError(
            [f"host {added.host!r} was revoked"], hint="give the machine another host id: fleettrio init --host ID"
        )
    if known is not None and added not in known.keys:
        raise ConfigError(
            [f"host {added.host!r} is in the fleet already, with another key"],
            hint=f"another host id, or first `fleettrio host revoke {added.host}`",
        )
    entry = FleetHost(
        host=added.host,
        keys=known.keys if known is not None else (added,),
        grants=grants,
        not_after=WallMs(now + FLEET_LIFE_MS),
        coord_id=coord_id if coord_id is not None else known.coord_id if known else "",
    )
    paired = fleet.host_of_lead(entry.coord_id)
    if paired not in (None, added.host):
        raise ConfigError([f"coordId {coord_id!r} is that of the lead on {paired}"], hint="fleettrio host list")
    return _sign_next(paths, owner, msgspec.structs.replace(fleet, hosts={**fleet.hosts, added.host: entry}), now)


def revoke_host(paths: Paths, host: HostId, now: WallMs) -> Fleet:
    """Sign revision + 1 with every key of `host` revoked. Raises `ConfigError` off the owner's host."""
    owner, fleet = _owned_fleet(paths)
    entry = fleet.hosts.get(host)
    if entry is None:
        raise ConfigError([f"no host {host!r} in this fleet (there are: {' '.join(sorted(fleet.hosts))})"])
    if all((host, key.gen) in fleet.revoked for key in entry.keys):
        raise ConfigError([f"host {host!r} is revoked already"], hint="fleettrio host export > fleet.cbor")
    own = read_host_key(paths)
    if own is not None and own.host == host:
        raise ConfigError([f"{host!r} is the owner's own host; a fleet cannot do without it"])
    gone = {(key.host, key.gen) for key in entry.keys}
    return _sign_next(paths, owner, msgspec.structs.replace(fleet, revoked=fleet.revoked | gone), now)


def _owned_fleet(paths: Paths) -> tuple[OwnerKeyFile, Fleet]:
    owner, fleet = read_owner_key(paths), load_fleet(paths)
    if owner is None or fleet is None:
        raise ConfigError(
            ["only the owner's host can change the fleet, and this host has no owner's key"],
            hint="run it there, or found a fleet here: fleettrio init --new-fleet NAME",
        )
    return owner, fleet


def _sign_next(paths: Paths, owner: OwnerKeyFile, changed: Fleet, now: WallMs) -> Fleet:
    signed = msgspec.structs.replace(changed, rev=changed.rev + 1, not_after=WallMs(now + FLEET_LIFE_MS))
    write_private(paths.fleet_file, sign_fleet(signed, owner.seed_bytes), replace=True)
    return signed
