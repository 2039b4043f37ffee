"""The fleet file: a fleet (`fleet`) as it goes from host to host, signed by the fleet's owner.

It needs no trust in who carries it. Everything in it is judged before it is used; a fault is a `ConfigError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

from fleettrio._accel import verify_many
from fleettrio.ids import FleetId, HostId, WallMs
from fleettrio.wire.fields import fail, load, maps, number, octets, text
from fleettrio.wire.fingerprint import words
from fleettrio.wire.fleet import Fleet, FleetHost, HostKey, is_grant
from fleettrio.wire.gids import is_fleet_id, is_name
from fleettrio.wire.plain import dump_plain

__all__ = ("read_fleet", "sign_fleet")

_MAX_FILE = 1024 * 1024
_FLEET_CONTEXT = b"fleettrio/1 fleet\0"


def sign_fleet(fleet: Fleet, owner_seed: bytes) -> bytes:
    """The bytes of the fleet file, signed with the owner's seed (32 bytes).

    Raises `ConfigError` for what `read_fleet` would not take.
    """
    body = dump_plain(
        {
            "v": 1,
            "fleetId": fleet.fleet_id,
            "rev": fleet.rev,
            "notAfter": fleet.not_after,
            "hosts": [_host_map(fleet.hosts[host]) for host in sorted(fleet.hosts)],
            "revoked": [{"host": host, "gen": gen} for host, gen in sorted(fleet.revoked)],
        }
    )
    owner, secret = crypto_sign_seed_keypair(owner_seed)
    signature = crypto_sign(_FLEET_CONTEXT + body, secret)[:64]
    data = dump_plain({"body": body, "owner": owner, "sig": signature})
    read_fleet(data, pinned_owner=owner)
    return data


def read_fleet(data: bytes, *, pinned_owner: bytes | None) -> Fleet:
    """The fleet in `data`, when its owner signed it; `pinned_owner` is the key that must have, None on first import.

    Raises `ConfigError`. A revision lower than the one in use is for the caller to refuse.
    """
    outer = load(data, "fleet file", _MAX_FILE)
    body, owner, signature = (octets(outer, name, "fleet file") for name in ("body", "owner", "sig"))
    if pinned_owner is not None and owner != pinned_owner:
        fail(
            f"fleet file: signed by another owner ({words(owner)}), not by the one pinned here ({words(pinned_owner)})",
            "ask the fleet's owner for the file of `fleettrio host export`",
        )
    if verify_many([(owner, signature, _FLEET_CONTEXT + body)]) != [True]:
        fail("fleet file: the owner's signature does not hold", "the file was damaged or altered; export it again")
    fields = load(body, "fleet file", _MAX_FILE)
    if number(fields, "v", "fleet file") != 1:
        fail("fleet file: of a newer version than this program reads", "upgrade fleettrio on this host")
    fleet_id = text(fields, "fleetId", "fleet file")
    if not is_fleet_id(fleet_id):
        fail(f"fleet file: {fleet_id!a} cannot be the name of a fleet")
    hosts = [_read_host(entry) for entry in maps(fields, "hosts", "fleet file")]
    by_name = {host.host: host for host in hosts}
    if len(by_name) != len(hosts):
        fail("fleet file: a host appears twice")
    leads = [host.coord_id for host in hosts if host.coord_id]
    if len(set(leads)) != len(leads):
        fail("fleet file: two hosts have the same coordId")
    revoked = frozenset(
        (HostId(text(entry, "host", "fleet file")), number(entry, "gen", "fleet file"))
        for entry in maps(fields, "revoked", "fleet file")
    )
    rev, not_after = number(fields, "rev", "fleet file"), WallMs(number(fields, "notAfter", "fleet file"))
    return Fleet(FleetId(fleet_id), rev, not_after, by_name, revoked, owner)


def _host_map(host: FleetHost) -> dict[str, Any]:
    lead = {"coordId": host.coord_id} if host.coord_id else {}
    return {
        **lead,
        "host": host.host,
        "keys": [{"gen": key.gen, "key": key.key} for key in host.keys],
        "grants": sorted(host.grants),
        "notAfter": host.not_after,
    }


def _read_host(entry: Mapping[str, Any]) -> FleetHost:
    name = text(entry, "host", "fleet file")
    what = f"fleet file: host {name!a}"
    if not is_name(name):
        fail(f"{what}: not a host id")
    keys = tuple(
        HostKey(HostId(name), number(key, "gen", what, least=1), octets(key, "key", what, 32))
        for key in maps(entry, "keys", what)
    )
    if not keys or len({key.gen for key in keys}) != len(keys):
        fail(f"{what}: needs one key for each of its generations")
    grants = entry.get("grants")
    if not isinstance(grants, list) or not all(isinstance(grant, str) and is_grant(grant) for grant in grants):
        fail(f"{what}: `grants` must be a list of grants")
    coord_id = text(entry, "coordId", what) if "coordId" in entry else ""
    if coord_id and not is_name(coord_id):
        fail(f"{what}: {coord_id!a} is not a coordId")
    return FleetHost(HostId(name), keys, frozenset(grants), WallMs(number(entry, "notAfter", what)), coord_id)
