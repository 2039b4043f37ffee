"""The host line: one line by which a new host offers its key to a fleet's owner, signed by that very key.

It proves that whoever made it has the key, not who that is: people compare words (`fingerprint`). Everything in it is
judged before it is used; a fault is a `ConfigError`.
"""

from __future__ import annotations

import base64
import binascii

from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

from fleettrio._accel import verify_many
from fleettrio.ids import HostId
from fleettrio.wire.fields import fail, load, number, octets, text
from fleettrio.wire.fleet import HostKey
from fleettrio.wire.gids import is_name
from fleettrio.wire.plain import dump_plain

__all__ = ("host_line", "read_host_line")

_MAX_LINE = 1024
_LINE_PREFIX = "ft-host-1:"
_HOST_CONTEXT = b"fleettrio/1 host\0"


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
        fail(
            f"host line: must begin with {_LINE_PREFIX} and be one line", "copy the line that `fleettrio init` printed"
        )
    encoded = line.removeprefix(_LINE_PREFIX)
    try:
        data = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        fail("host line: damaged (not base64url)", "copy the whole line that `fleettrio init` printed")
    fields = load(data, "host line", _MAX_LINE)
    host, gen = text(fields, "host", "host line"), number(fields, "gen", "host line", least=1)
    key, signature = octets(fields, "key", "host line", 32), octets(fields, "sig", "host line", 64)
    if not is_name(host):
        fail(f"host line: {host!a} is not a host id")
    body = dump_plain({"host": host, "key": key, "gen": gen})
    if verify_many([(key, signature, _HOST_CONTEXT + body)]) != [True]:
        fail("host line: its signature does not hold", "copy the whole line that `fleettrio init` printed")
    return HostKey(HostId(host), gen, key)
