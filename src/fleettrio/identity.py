"""Who this host is: its key, the operator's token, the owner's key, and the fleet file that it trusts.

Rules:
- A host has one key and one id for life; the id stands beside the key, so a changed host name does not change it.
- Trust comes from one owner key, pinned at the first import. A fleet file of a lower revision is refused.
- A host that joined no fleet is a fleet of its own (`solo-…`), of which it is the only member.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from nacl.signing import SigningKey

from fleettrio.config import Config, Paths
from fleettrio.errors import ConfigError
from fleettrio.ids import FleetId, HostId, WallMs
from fleettrio.private_files import make_private_folder, read_private, write_private
from fleettrio.wire.fleetfile import DEFAULT_GRANTS, Fleet, FleetHost, HostKey, read_fleet, sign_fleet, solo_fleet
from fleettrio.wire.gids import solo_fleet_id

__all__ = (
    "FLEET_LIFE_MS",
    "HostKeyFile",
    "Identity",
    "OwnerKeyFile",
    "add_host",
    "create_fleet",
    "find_identity",
    "import_fleet",
    "load_fleet",
    "load_identity",
    "make_host_key",
    "make_operator_token",
    "read_host_key",
    "read_operator_token",
    "read_owner_key",
    "rename_host",
    "revoke_host",
)

_File = TypeVar("_File", bound=msgspec.Struct)

FLEET_LIFE_MS = 365 * 24 * 60 * 60 * 1000
"""How long a signed fleet file is good for. Its end warns and stops nothing (`60-security`)."""


class HostKeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`keys/host.json`: made once, never changed. `solo` names the fleet that this host is while it joined none."""

    host: str
    gen: int
    seed: str
    solo: str

    @property
    def seed_bytes(self) -> bytes:
        return bytes.fromhex(self.seed)


class OwnerKeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`keys/owner.json`, on the owner's host only: whoever has it decides who is in the fleet."""

    fleet: str
    seed: str

    @property
    def seed_bytes(self) -> bytes:
        return bytes.fromhex(self.seed)

    @property
    def public_key(self) -> bytes:
        return bytes(SigningKey(self.seed_bytes).verify_key)


class _OwnerPin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`keys/owner.pin`: the one owner this host believes."""

    fleet: str
    key: str


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
            fleet=solo_fleet(FleetId(key.solo), _public(key)),
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


def make_host_key(paths: Paths, host: HostId) -> HostKeyFile:
    """The host's key, made for `host` when there is none yet."""
    make_private_folder(paths.state_dir)
    fresh = HostKeyFile(
        host=host, gen=1, seed=secrets.token_bytes(32).hex(), solo=solo_fleet_id(secrets.token_bytes(16))
    )
    if not write_private(paths.key_file, _to_json(fresh), replace=False):
        existing = read_host_key(paths)
        assert existing is not None  # a key is never taken away again
        return existing
    return fresh


def rename_host(paths: Paths, host: HostId) -> HostKeyFile:
    """Give a host that joined no fleet and carried no message yet another id, beside the same key."""
    key = read_host_key(paths)
    if key is None or key.host == host:
        return make_host_key(paths, host)
    if paths.store.exists() or read_private(paths.fleet_file) is not None:
        raise ConfigError(
            [f"this home is host {key.host!r} to others already, and a host keeps its id"],
            hint="use another FLEETTRIO_HOME for another host",
        )
    renamed = msgspec.structs.replace(key, host=host)
    write_private(paths.key_file, _to_json(renamed), replace=True)
    return renamed


def read_host_key(paths: Paths) -> HostKeyFile | None:
    data = read_private(paths.key_file)
    return None if data is None else _from_json(data, HostKeyFile, paths.key_file, hex_fields=("seed",))


def read_owner_key(paths: Paths) -> OwnerKeyFile | None:
    """The owner's key; None on every host but the owner's."""
    data = read_private(paths.owner_key_file)
    return None if data is None else _from_json(data, OwnerKeyFile, paths.owner_key_file, hex_fields=("seed",))


def make_operator_token(paths: Paths) -> str:
    """The operator's token, made when there is none. Whoever shows it speaks as this host's person."""
    make_private_folder(paths.state_dir)
    fresh = secrets.token_urlsafe(32)
    if write_private(paths.token_file, fresh.encode() + b"\n", replace=False):
        return fresh
    existing = read_operator_token(paths)
    assert existing is not None  # it is never taken away again
    return existing


def read_operator_token(paths: Paths) -> str | None:
    data = read_private(paths.token_file)
    if data is None:
        return None
    token = data.decode("ascii", "replace").strip()
    if len(token) < 32:
        raise ConfigError([f"{paths.token_file} holds no token"], hint=f"rm {paths.token_file}, then fleettrio init")
    return token


def load_fleet(paths: Paths) -> Fleet | None:
    """The fleet this host joined, None when it joined none. Raises `ConfigError` for a file its owner did not sign."""
    data = read_private(paths.fleet_file)
    if data is None:
        return None
    pin = _read_pin(paths)
    if pin is None:
        raise ConfigError(
            [f"{paths.fleet_file} exists, but no owner's key is pinned"],
            hint=f"rm {paths.fleet_file}, then `fleettrio host import FILE`",
        )
    return read_fleet(data, pinned_owner=bytes.fromhex(pin.key))


def create_fleet(paths: Paths, fleet_id: FleetId, now: WallMs) -> Fleet:
    """Found a fleet with this host as its owner's: owner key, revision 1, the own host with the grant `report`."""
    if read_private(paths.fleet_file) is not None:
        raise ConfigError([f"this host is already in a fleet ({paths.fleet_file})"], hint="fleettrio host list")
    key = read_host_key(paths)
    if key is None:
        raise ConfigError(["this host has no key yet"], hint="fleettrio init")
    fresh = OwnerKeyFile(fleet=fleet_id, seed=secrets.token_bytes(32).hex())
    if not write_private(paths.owner_key_file, _to_json(fresh), replace=False):
        raise ConfigError([f"there is an owner's key already: {paths.owner_key_file}"], hint="fleettrio host list")
    own = FleetHost(
        host=HostId(key.host),
        keys=(_public(key),),
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
    _write_pin(paths, fleet)
    write_private(paths.fleet_file, sign_fleet(fleet, fresh.seed_bytes), replace=True)
    return fleet


def import_fleet(paths: Paths, data: bytes, accept_owner: Callable[[Fleet], bool]) -> Fleet:
    """Take a fleet file over. `accept_owner` is asked when no owner is pinned yet; refused, nothing is written.

    Raises `ConfigError` for a file of another fleet or owner, of a lower revision, or a refused owner.
    """
    pin = _read_pin(paths)
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
        _write_pin(paths, fleet)
    write_private(paths.fleet_file, data, replace=True)
    return fleet


def add_host(paths: Paths, added: HostKey, grants: frozenset[str], now: WallMs) -> Fleet:
    """Sign revision + 1 with this host in it, or with its new grants. Raises `ConfigError` off the owner's host."""
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
    )
    return _sign_next(paths, owner, dataclasses.replace(fleet, hosts={**fleet.hosts, added.host: entry}), now)


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
    return _sign_next(paths, owner, dataclasses.replace(fleet, revoked=fleet.revoked | gone), now)


def _owned_fleet(paths: Paths) -> tuple[OwnerKeyFile, Fleet]:
    owner, fleet = read_owner_key(paths), load_fleet(paths)
    if owner is None or fleet is None:
        raise ConfigError(
            ["only the owner's host can change the fleet, and this host has no owner's key"],
            hint="run it there, or found a fleet here: fleettrio init --new-fleet NAME",
        )
    return owner, fleet


def _sign_next(paths: Paths, owner: OwnerKeyFile, changed: Fleet, now: WallMs) -> Fleet:
    signed = dataclasses.replace(changed, rev=changed.rev + 1, not_after=WallMs(now + FLEET_LIFE_MS))
    write_private(paths.fleet_file, sign_fleet(signed, owner.seed_bytes), replace=True)
    return signed


def _public(key: HostKeyFile) -> HostKey:
    return HostKey(HostId(key.host), key.gen, bytes(SigningKey(key.seed_bytes).verify_key))


def _membership_problem(fleet: Fleet, key: HostKeyFile) -> str:
    entry = fleet.hosts.get(HostId(key.host))
    if (HostId(key.host), key.gen) in fleet.revoked:
        return f"this host's key was revoked in fleet {fleet.fleet_id}; nobody takes its messages"
    if entry is None:
        return (
            f"host {key.host!r} is not in the fleet file (revision {fleet.rev}): on the owner's host, "
            "`fleettrio host add LINE` with the line that `fleettrio init` prints here, then import its export here"
        )
    if _public(key) not in entry.keys:
        return f"the fleet file has another key for host {key.host!r}; nobody takes its messages"
    return ""


def _read_pin(paths: Paths) -> _OwnerPin | None:
    data = read_private(paths.owner_pin_file)
    return None if data is None else _from_json(data, _OwnerPin, paths.owner_pin_file, hex_fields=("key",))


def _write_pin(paths: Paths, fleet: Fleet) -> None:
    pin = _OwnerPin(fleet=fleet.fleet_id, key=fleet.owner_key.hex())
    write_private(paths.owner_pin_file, _to_json(pin), replace=True)


def _to_json(value: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"


def _from_json(data: bytes, kind: type[_File], file: Path, *, hex_fields: tuple[str, ...]) -> _File:
    """A key file; its secret is never repeated in the message about what is wrong with it."""
    try:
        value = msgspec.json.decode(data, type=kind)
        if all(len(bytes.fromhex(getattr(value, name))) == 32 for name in hex_fields):
            return value
    except ValueError:  # msgspec's errors and bad hex digits alike
        pass
    raise ConfigError([f"{file} is damaged: it is not what fleettrio wrote"], hint="restore it from a backup")
