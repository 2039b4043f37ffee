"""What an administrator prepares at a broker, once: a virtual host, what the fleet shares, a login for each host.

A host's login has the rights of `core.permissions`, which `fleettrio broker permissions` prints for an administrator.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

from fleettrio.core.permissions import coordinator_permissions_of, permissions_of
from fleettrio.core.topology import COORDINATOR_EXCHANGES, EXCHANGES, shared_queues

__all__ = ("definitions",)

_FIXED: Mapping[str, Any] = {"auto_delete": False, "arguments": {}}


def definitions(
    vhost: str,
    logins: Mapping[str, tuple[str, str]],
    *,
    reporter: str = "",
    admin: str = "",
    coord_ids: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Definitions in RabbitMQ's own form. `logins`: host id → user and password; with `coord_ids`, host id → coordId,
    they are those of a coordinator's vhost.

    The login of the host `reporter` may read the dead letters too; the user `admin`, who exists, may do everything.
    """
    queues, bindings = shared_queues()
    rights, topics = [], []
    for host, (user, _) in logins.items():
        may = permissions_of(host, is_reporter=host == reporter)
        if coord_ids is not None:
            may = coordinator_permissions_of(host, coord_ids[host], is_reporter=host == reporter)
        rights.append({"user": user, "vhost": vhost, "configure": may.configure, "write": may.write, "read": may.read})
        topics += [
            {
                "user": user,
                "vhost": vhost,
                "exchange": may.topic_exchange,
                "write": may.topic_write,
                "read": may.topic_read,
            }
        ] * bool(may.topic_exchange)
    if admin:
        rights.append({"user": admin, "vhost": vhost, "configure": ".*", "read": ".*", "write": ".*"})
    return {
        "vhosts": [{"name": vhost}],
        "users": [_user(user, password) for user, password in logins.values()],
        "permissions": rights,
        "topic_permissions": topics,
        "exchanges": [
            {"name": e.name, "vhost": vhost, "type": e.type, "durable": e.durable, **_FIXED, "internal": False}
            for e in (EXCHANGES if coord_ids is None else COORDINATOR_EXCHANGES)
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


def _user(name: str, password: str) -> dict[str, Any]:
    salt = secrets.token_bytes(4)
    digest = hashlib.sha256(salt + password.encode()).digest()
    return {
        "name": name,
        "password_hash": base64.b64encode(salt + digest).decode(),
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": "",
    }
