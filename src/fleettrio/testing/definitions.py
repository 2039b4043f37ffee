"""What an administrator prepares at a broker, once: a virtual host, what the fleet shares, a login for each host.

Least privilege: a host may declare, read and write what carries its own name, read and write the fleet's exchanges, and
make itself heard in the roster under its own name only. Nobody may write to the default exchange.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Mapping
from typing import Any

from fleettrio.core.topology import EXCHANGES, ROSTER, shared_queues

__all__ = ("definitions", "permissions")

_FIXED: Mapping[str, Any] = {"auto_delete": False, "arguments": {}}


def definitions(
    vhost: str, logins: Mapping[str, tuple[str, str]], *, reporter: str = "", admin: str = ""
) -> dict[str, Any]:
    """Definitions in RabbitMQ's own form. `logins`: host id → user and password.

    The login of the host `reporter` may read the dead letters too; the user `admin`, who exists, may do everything.
    """
    queues, bindings = shared_queues()
    rights = [
        {"user": user, "vhost": vhost, **permissions(host, is_reporter=host == reporter)}
        for host, (user, _) in logins.items()
    ]
    if admin:
        rights.append({"user": admin, "vhost": vhost, "configure": ".*", "read": ".*", "write": ".*"})
    return {
        "vhosts": [{"name": vhost}],
        "users": [_user(user, password) for user, password in logins.values()],
        "permissions": rights,
        "topic_permissions": [
            {"user": user, "vhost": vhost, "exchange": ROSTER, "write": rf"^roster\.{re.escape(host)}\.", "read": ".*"}
            for host, (user, _) in logins.items()
        ],
        "exchanges": [
            {"name": e.name, "vhost": vhost, "type": e.type, "durable": e.durable, **_FIXED, "internal": False}
            for e in EXCHANGES
        ],
        "queues": [
            {"name": q.name, "vhost": vhost, "durable": q.durable, **_FIXED, "arguments": dict(q.arguments)}
            for q in queues
        ],
        "bindings": [
            {
                "source": b.exchange,
                "vhost": vhost,
                "destination": b.queue,
                "destination_type": "queue",
                "routing_key": b.routing_key,
                "arguments": {},
            }
            for b in bindings
        ],
    }


def permissions(host: str, *, is_reporter: bool) -> dict[str, str]:
    """The three patterns of a host's login."""
    name = re.escape(host)
    own = rf"^agent\..+\.inbox\.v2\.{name}$|^control\.{name}$|^roster\.{name}\."
    dead_letters = r"|^fleet\.dlq" if is_reporter else ""
    return {
        "configure": own,
        "read": rf"{own}|^fleet\.(msg|roster|control|ops)$" + dead_letters,
        "write": rf"{own}|^fleet\.(msg|roster|control|dlx|ops)$",
    }


def _user(name: str, password: str) -> dict[str, Any]:
    salt = secrets.token_bytes(4)
    digest = hashlib.sha256(salt + password.encode()).digest()
    return {
        "name": name,
        "password_hash": base64.b64encode(salt + digest).decode(),
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": "",
    }
