"""Who this host is, and whom it trusts: what its keys (`keyfiles`) and the fleet file make of it.

Rules:
- A host has one key and one id for life; the id stands beside the key, so a changed host name does not change it.
- Trust comes from one owner key, pinned at the first import. A fleet file of a lower revision is refused.
- A host that joined no fleet is a fleet of its own (`solo-…`), of which it is the only member.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from fleettrio.config import Config, Paths
from fleettrio.errors import ConfigError
from fleettrio.ids import FleetId, HostId
from fleettrio.keyfiles import (
    HostKeyFile,
    make_host_key,
    make_operator_token,
    public_key,
    read_host_key,
    read_pin,
    write_pin,
)
from fleettrio.private_files import read_private, write_private
from fleettrio.wire.fleet import Fleet, solo_fleet
from fleettrio.wire.fleetfile import read_fleet

__all__ = ("Identity", "find_identity", "import_fleet", "load_fleet", "load_identity")


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """What the daemon signs with and whom it trusts."""

    host: HostId
    fleet_id: FleetId
    key_gen: int
    seed: bytes = dataclasses.field(repr=False)
    fleet: Fleet
    is_solo: bool
    problem: str = ""
    """Why other hosts will refuse us, and what to do; empty when our own fleet file trusts our key."""


def load_identity(paths: Paths, config: Config) -> Identity:
    """This host's identity, made now (a solo one) when there is none. Raises `ConfigError`."""
    make_operator_token(paths)
    make_host_key(paths, config.host_id)
    identity = find_identity(paths, config)
    assert identity is not None  # its key was made just now, and is never taken away again
    return identity


def find_identity(paths: Paths, config: Config) -> Identity | None:
    """This host's identity, None when it has no key yet. Changes nothing. Raises `ConfigError`."""
    key = read_host_key(paths)
    if key is None:
        return None
    if config.host.id and config.host.id != key.host:
        raise ConfigError(
            [f"host.id: is {config.host.id!r}, but this home's key was made for host {key.host!r}"],
            hint=f'set host.id = "{key.host}", or use another FLEETTRIO_HOME for another host',
        )
    fleet = load_fleet(paths)
    if fleet is None:
        return Identity(
            host=HostId(key.host),
            fleet_id=FleetId(key.solo),
            key_gen=key.gen,
            seed=key.seed_bytes,
            fleet=solo_fleet(FleetId(key.solo), public_key(key)),
            is_solo=True,
        )
    return Identity(
        host=HostId(key.host),
        fleet_id=fleet.fleet_id,
        key_gen=key.gen,
        seed=key.seed_bytes,
        fleet=fleet,
        is_solo=False,
        problem=_membership_problem(fleet, key),
    )


def load_fleet(paths: Paths) -> Fleet | None:
    """The fleet this host joined, None when it joined none. Raises `ConfigError` for a file its owner did not sign."""
    data = read_private(paths.fleet_file)
    if data is None:
        return None
    pin = read_pin(paths)
    if pin is None:
        raise ConfigError(
            [f"{paths.fleet_file} exists, but no owner's key is pinned"],
            hint=f"rm {paths.fleet_file}, then `fleettrio host import FILE`",
        )
    return read_fleet(data, pinned_owner=bytes.fromhex(pin.key))


def import_fleet(paths: Paths, data: bytes, accept_owner: Callable[[Fleet], bool]) -> Fleet:
    """Take a fleet file over. `accept_owner` is asked when no owner is pinned yet; refused, nothing is written.

    Raises `ConfigError` for a file of another fleet or owner, of a lower revision, or a refused owner.
    """
    pin = read_pin(paths)
    fleet = read_fleet(data, pinned_owner=None if pin is None else bytes.fromhex(pin.key))
    if pin is not None and fleet.fleet_id != pin.fleet:
        raise ConfigError([f"this is the fleet file of {fleet.fleet_id!r}, and this host is in {pin.fleet!r}"])
    current = load_fleet(paths) if pin is not None else None
    if current is not None and fleet.rev < current.rev:
        raise ConfigError(
            [f"this fleet file is revision {fleet.rev}, and this host has revision {current.rev} already"],
            hint="export it again on the owner's host: fleettrio host export > fleet.cbor",
        )
    if pin is None:
        if not accept_owner(fleet):
            raise ConfigError(["the owner was not accepted; nothing was changed"])
        write_pin(paths, fleet)
    write_private(paths.fleet_file, data, replace=True)
    return fleet


def _membership_problem(fleet: Fleet, key: HostKeyFile) -> str:
    entry = fleet.hosts.get(HostId(key.host))
    if (HostId(key.host), key.gen) in fleet.revoked:
        return f"this host's key was revoked in fleet {fleet.fleet_id}; nobody takes its messages"
    if entry is None:
        return (
            f"host {key.host!r} is not in the fleet file (revision {fleet.rev}): on the owner's host, "
            "`fleettrio host add LINE` with the line that `fleettrio init` prints here, then import its export here"
        )
    if public_key(key) not in entry.keys:
        return f"the fleet file has another key for host {key.host!r}; nobody takes its messages"
    return ""
