"""The files in `keys/`: this host's key, the operator's token, the owner's key, and which owner is believed.

Each is private (`private_files`), and none is ever shown in a message about what is wrong with it.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TypeVar

import msgspec
from nacl.signing import SigningKey

from fleettrio.errors import ConfigError
from fleettrio.home import Paths
from fleettrio.ids import FleetId, HostId
from fleettrio.private_files import make_private_folder, read_private, write_private
from fleettrio.wire.fleet import Fleet, HostKey
from fleettrio.wire.gids import solo_fleet_id

__all__ = (
    "HostKeyFile",
    "OwnerKeyFile",
    "OwnerPin",
    "make_host_key",
    "make_operator_token",
    "make_owner_key",
    "public_key",
    "read_host_key",
    "read_operator_token",
    "read_owner_key",
    "read_pin",
    "rename_host",
    "write_pin",
)

_File = TypeVar("_File", bound=msgspec.Struct)


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


class OwnerPin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`keys/owner.pin`: the one owner this host believes."""

    fleet: str
    key: str


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
            [f"this home is host {key.host!r} since it first ran, and a host keeps its id"],
            hint=f"leave --host out to go on as {key.host!r}, or use another FLEETTRIO_HOME for another host",
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


def make_owner_key(paths: Paths, fleet_id: FleetId) -> OwnerKeyFile:
    """The key that signs the fleet file of `fleet_id`. Raises `ConfigError` when there is one already."""
    fresh = OwnerKeyFile(fleet=fleet_id, seed=secrets.token_bytes(32).hex())
    if not write_private(paths.owner_key_file, _to_json(fresh), replace=False):
        raise ConfigError([f"there is an owner's key already: {paths.owner_key_file}"], hint="fleettrio host list")
    return fresh


def public_key(key: HostKeyFile) -> HostKey:
    """The public half of a host's key, as a fleet file has it."""
    return HostKey(HostId(key.host), key.gen, bytes(SigningKey(key.seed_bytes).verify_key))


def read_pin(paths: Paths) -> OwnerPin | None:
    data = read_private(paths.owner_pin_file)
    return None if data is None else _from_json(data, OwnerPin, paths.owner_pin_file, hex_fields=("key",))


def write_pin(paths: Paths, fleet: Fleet) -> None:
    pin = OwnerPin(fleet=fleet.fleet_id, key=fleet.owner_key.hex())
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
