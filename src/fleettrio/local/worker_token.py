"""The token by which the processes of an agent that is a command are known.

They have no terminal, and whoever attached the agent kept the token that was printed. So this host makes one for them
out of its operator's token and the agent's gid, and puts it into their environment. Nothing is stored, and a command
that outlives the daemon is known to the next one. It holds as long as the agent is a command here: not after
`detach --forget`, nor once the agent was attached at another place.
"""

from __future__ import annotations

import hashlib
import hmac

from fleettrio.core.rows import Entity

__all__ = ("worker_token",)


def worker_token(secret: str, entity: Entity) -> str:
    """64 hexadecimal digits; empty for an agent that is no command, and without a `secret` (the operator's token)."""
    if not secret or entity.transport != "process":
        return ""
    return hmac.new(secret.encode(), b"fleettrio worker " + entity.gid.encode(), hashlib.sha256).hexdigest()
