"""The fleet file: which hosts there are, with which keys, and what each may do; signed by the fleet's owner.

It needs no trust in who carries it. Also the host line, by which a new host offers its key to the owner
(`60-security`, Keys and the fleet file). Everything here is judged before it is used; a fault is a `ConfigError`.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

from fleettrio._accel import verify_many
from fleettrio.errors import ConfigError, MalformedEnvelope
from fleettrio.ids import FleetId, HostId, WallMs
from fleettrio.wire.gids import is_fleet_id, is_name
from fleettrio.wire.kinds import NOTICE_KINDS, Kind
from fleettrio.wire.plain import dump_plain, load_plain
from fleettrio.wire.wordlist import WORDS

__all__ = (
    "ALL_GRANTS",
    "DEFAULT_GRANTS",
    "Fleet",
    "FleetHost",
    "HostKey",
    "fingerprint",
    "host_line",
    "is_grant",
    "read_fleet",
    "read_host_line",
    "sign_fleet",
    "solo_fleet",
    "words",
)

DEFAULT_GRANTS = frozenset({"send", "ask", "reply", "broadcast"})
ALL_GRANTS = DEFAULT_GRANTS | {"stop", "pause", "report"}
"""Every grant but `spawn:<profile>`."""

_MAX_FILE = 1024 * 1024
_MAX_LINE = 1024
_LINE_PREFIX = "ft-host-1:"
_MAX_NUMBER = 2**53
_FREE_KINDS = NOTICE_KINDS | {
    Kind.PRESENCE,
    Kind.PING,
    Kind.PONG,
    Kind.ROSTER_ASK,
    Kind.ROSTER,
    Kind.TRACE,
    Kind.TRACED,
    Kind.QUERY,
    Kind.RECALL,
}
"""What every trusted host may send; a notice counts by the party rule, which is not judged here."""
_GRANT_OF: Mapping[str, str] = {
    Kind.SEND: "send",
    Kind.COORD: "send",
    Kind.REPLY: "reply",
    Kind.ANSWER: "reply",
    Kind.RPC: "reply",
    Kind.ASK: "ask",
    Kind.BROADCAST: "broadcast",
    Kind.PAUSE: "pause",
}


@dataclasses.dataclass(frozen=True, slots=True)
class HostKey:
    """One generation of a host's Ed25519 public key (32 bytes)."""

    host: HostId
    gen: int
    key: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class FleetHost:
    host: HostId
    keys: tuple[HostKey, ...]
    grants: frozenset[str] = DEFAULT_GRANTS
    not_after: WallMs = WallMs(0)
    """0: no end of its own."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fleet:
    """A revision of the fleet, as its owner signed it."""

    fleet_id: FleetId
    rev: int
    not_after: WallMs
    """0: no end."""
    hosts: Mapping[HostId, FleetHost]
    revoked: frozenset[tuple[HostId, int]]
    """`(host, key generation)`."""
    owner_key: bytes

    def key(self, host: str, gen: int) -> bytes | str:
        """The public key, or why there is none: `unknown-host`, `revoked` or `key-generation`."""
        if (host, gen) in self.revoked:
            return "revoked"
        entry = self.hosts.get(HostId(host))
        if entry is None:
            return "unknown-host"
        return next((key.key for key in entry.keys if key.gen == gen), "key-generation")

    def grants(self, host: str) -> frozenset[str]:
        """What `host` was granted; nothing when it is not of this fleet."""
        entry = self.hosts.get(HostId(host))
        return entry.grants if entry else frozenset()

    def allows(self, host: str, kind: str) -> bool:
        """Whether `host` may send `kind` at all. Which profile it may spawn, and whose worker stop, is judged later."""
        if HostId(host) not in self.hosts:
            return False
        if kind in _FREE_KINDS:
            return True
        grants = self.grants(host)
        if kind in (Kind.SPAWN, Kind.STOP) and any(grant.startswith("spawn:") for grant in grants):
            return True
        if kind == Kind.STOP:
            return "stop" in grants
        return _GRANT_OF.get(kind) in grants

    def is_expired(self, now: WallMs | int) -> bool:
        """Past its end. That warns and accepts nothing new; it cuts nobody off."""
        return bool(self.not_after) and now > self.not_after


def solo_fleet(fleet_id: FleetId, key: HostKey, grants: Iterable[str] = ALL_GRANTS) -> Fleet:
    """The fleet of a host that joined none: itself, owned by its own key."""
    entry = FleetHost(key.host, (key,), frozenset(grants))
    return Fleet(fleet_id, 0, WallMs(0), {key.host: entry}, frozenset(), key.key)


def is_grant(grant: str) -> bool:
    prefix, colon, profile = grant.partition(":")
    return grant in ALL_GRANTS or (prefix == "spawn" and bool(colon) and is_name(profile))


# --- the file -----------------------------------------------------------------------------------


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
    outer = _load(data, "fleet file", _MAX_FILE)
    body, owner, signature = (_bytes(outer, name, "fleet file") for name in ("body", "owner", "sig"))
    if pinned_owner is not None and owner != pinned_owner:
        _fail(
            f"fleet file: signed by another owner ({words(owner)}), not by the one pinned here ({words(pinned_owner)})",
            "ask the fleet's owner for the file of `fleettrio host export`",
        )
    if verify_many([(owner, signature, _FLEET_CONTEXT + body)]) != [True]:
        _fail("fleet file: the owner's signature does not hold", "the file was damaged or altered; export it again")
    fields = _load(body, "fleet file", _MAX_FILE)
    if _number(fields, "v", "fleet file") != 1:
        _fail("fleet file: of a newer version than this program reads", "upgrade fleettrio on this host")
    fleet_id = _text(fields, "fleetId", "fleet file")
    if not is_fleet_id(fleet_id):
        _fail(f"fleet file: {fleet_id!a} cannot be the name of a fleet")
    hosts = [_read_host(entry) for entry in _maps(fields, "hosts", "fleet file")]
    by_name = {host.host: host for host in hosts}
    if len(by_name) != len(hosts):
        _fail("fleet file: a host appears twice")
    revoked = frozenset(
        (HostId(_text(entry, "host", "fleet file")), _number(entry, "gen", "fleet file"))
        for entry in _maps(fields, "revoked", "fleet file")
    )
    rev, not_after = _number(fields, "rev", "fleet file"), WallMs(_number(fields, "notAfter", "fleet file"))
    return Fleet(FleetId(fleet_id), rev, not_after, by_name, revoked, owner)


def _host_map(host: FleetHost) -> dict[str, Any]:
    return {
        "host": host.host,
        "keys": [{"gen": key.gen, "key": key.key} for key in host.keys],
        "grants": sorted(host.grants),
        "notAfter": host.not_after,
    }


def _read_host(entry: Mapping[str, Any]) -> FleetHost:
    name = _text(entry, "host", "fleet file")
    what = f"fleet file: host {name!a}"
    if not is_name(name):
        _fail(f"{what}: not a host id")
    keys = tuple(
        HostKey(HostId(name), _number(key, "gen", what, least=1), _bytes(key, "key", what, 32))
        for key in _maps(entry, "keys", what)
    )
    if not keys or len({key.gen for key in keys}) != len(keys):
        _fail(f"{what}: needs one key for each of its generations")
    grants = entry.get("grants")
    if not isinstance(grants, list) or not all(isinstance(grant, str) and is_grant(grant) for grant in grants):
        _fail(f"{what}: `grants` must be a list of grants")
    return FleetHost(HostId(name), keys, frozenset(grants), WallMs(_number(entry, "notAfter", what)))


# --- the host line ------------------------------------------------------------------------------


def host_line(host: HostId | str, gen: int, seed: bytes) -> str:
    """One line that offers this host's key to a fleet's owner, signed by that key."""
    key, secret = crypto_sign_seed_keypair(seed)
    body = dump_plain({"host": host, "key": key, "gen": gen})
    signature = crypto_sign(_HOST_CONTEXT + body, secret)[:64]
    line = dump_plain({"host": host, "key": key, "gen": gen, "sig": signature})
    return _LINE_PREFIX + base64.urlsafe_b64encode(line).decode().rstrip("=")


def read_host_line(line: str) -> HostKey:
    """The key in a host line, when the line is whole and that key signed it. Raises `ConfigError`."""
    line = line.strip()
    if not line.startswith(_LINE_PREFIX) or len(line) > _MAX_LINE:
        _fail(
            f"host line: must begin with {_LINE_PREFIX} and be one line", "copy the line that `fleettrio init` printed"
        )
    encoded = line.removeprefix(_LINE_PREFIX)
    try:
        data = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        _fail("host line: damaged (not base64url)", "copy the whole line that `fleettrio init` printed")
    fields = _load(data, "host line", _MAX_LINE)
    host, gen = _text(fields, "host", "host line"), _number(fields, "gen", "host line", least=1)
    key, signature = _bytes(fields, "key", "host line", 32), _bytes(fields, "sig", "host line", 64)
    if not is_name(host):
        _fail(f"host line: {host!a} is not a host id")
    body = dump_plain({"host": host, "key": key, "gen": gen})
    if verify_many([(key, signature, _HOST_CONTEXT + body)]) != [True]:
        _fail("host line: its signature does not hold", "copy the whole line that `fleettrio init` printed")
    return HostKey(HostId(host), gen, key)


# --- for people to compare ----------------------------------------------------------------------


def words(key: bytes) -> str:
    """Six words for a public key: 48 bits of its BLAKE2b-256, to read out and compare. The hex is `fingerprint`."""
    return " ".join(WORDS[number] for number in _digest(key)[:6])


def fingerprint(key: bytes) -> str:
    """32 hex digits (128 bits) of the same digest, in groups of four."""
    digits = _digest(key)[:16].hex()
    return " ".join(digits[at : at + 4] for at in range(0, len(digits), 4))


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(b"fleettrio/1 words\0" + key, digest_size=32).digest()


# --- reading ------------------------------------------------------------------------------------

_FLEET_CONTEXT = b"fleettrio/1 fleet\0"
_HOST_CONTEXT = b"fleettrio/1 host\0"
_FILE_DEPTH = 5


def _fail(problem: str, hint: str = "") -> NoReturn:
    raise ConfigError([problem], hint=hint)


def _load(data: bytes, what: str, limit: int) -> dict[str, Any]:
    try:
        return load_plain(data, what=what, limit=limit, depth=_FILE_DEPTH)
    except MalformedEnvelope as error:
        raise ConfigError([str(error)], hint="the file or line was damaged, or is something else") from None


def _text(fields: Mapping[str, Any], name: str, what: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        _fail(f"{what}: `{name}` must be text")
    return value


def _number(fields: Mapping[str, Any], name: str, what: str, *, least: int = 0) -> int:
    value = fields.get(name)
    if type(value) is not int or not least <= value <= _MAX_NUMBER:
        _fail(f"{what}: `{name}` must be a number from {least}")
    return value


def _bytes(fields: Mapping[str, Any], name: str, what: str, length: int | None = None) -> bytes:
    value = fields.get(name)
    if not isinstance(value, bytes) or (length is not None and len(value) != length):
        _fail(f"{what}: `{name}` must be bytes" + (f", {length} of them" if length else ""))
    return value


def _maps(fields: Mapping[str, Any], name: str, what: str) -> list[Mapping[str, Any]]:
    value = fields.get(name)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        _fail(f"{what}: `{name}` must be a list of maps")
    return value
