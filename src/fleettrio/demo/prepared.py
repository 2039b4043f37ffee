"""What an administrator prepares at the broker, once: a virtual host, what the fleet shares, and a login for each host.

Least privilege: a host may declare, read and write what carries its own name, read and write the fleet's exchanges, and
make itself heard in the roster under its own name only. Nobody may write to the default exchange.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleettrio.core.topology import EXCHANGES, ROSTER, shared_queues

__all__ = ("VHOST", "broker_config", "permissions")

VHOST = "fleet"


def broker_config(file: Path, passwords: Mapping[str, str], reporter: str) -> str:
    """Write the definitions for these hosts (host id to password) into `file`; the line for `rabbitmq.conf`.

    The login of `reporter` may read the dead letters too.
    """
    queues, bindings = shared_queues()
    definitions: dict[str, Any] = {
        "vhosts": [{"name": VHOST}],
        "users": [_user(host, password) for host, password in passwords.items()],
        "permissions": [
            {"user": host, "vhost": VHOST, **permissions(host, is_reporter=host == reporter)} for host in passwords
        ],
        "topic_permissions": [
            {"user": host, "vhost": VHOST, "exchange": ROSTER, "write": rf"^roster\.{re.escape(host)}\.", "read": ".*"}
            for host in passwords
        ],
        "exchanges": [
            {"name": e.name, "vhost": VHOST, "type": e.type, "durable": e.durable, **_FIXED, "internal": False}
            for e in EXCHANGES
        ],
        "queues": [
            {"name": q.name, "vhost": VHOST, "durable": q.durable, **_FIXED, "arguments": dict(q.arguments)}
            for q in queues
        ],
        "bindings": [
            {
                "source": b.exchange,
                "vhost": VHOST,
                "destination": b.queue,
                "destination_type": "queue",
                "routing_key": b.routing_key,
                "arguments": {},
            }
            for b in bindings
        ],
    }
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(0o600)
    file.write_text(json.dumps(definitions))
    return f"load_definitions = {file}"


_FIXED: Mapping[str, Any] = {"auto_delete": False, "arguments": {}}


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
