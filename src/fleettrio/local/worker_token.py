"""The token by which the processes of an agent are known that is a command, or that this host started.

A command has no terminal, and whoever attached the agent kept the token that was printed; an agent that was started has
nobody to hand it one. So this host makes one for them out of its operator's token and the agent's gid, and puts it into
their environment. Nothing is stored, and what outlives the daemon is known to the next one. It holds as long as the
agent is a command here, or what was started here: not after `detach --forget` or `stop`, nor once the agent was
attached at another place.
"""

from __future__ import annotations

import hashlib
import hmac

from fleettrio.core.entity import Entity

__all__ = ("worker_token",)


def worker_token(secret: str, entity: Entity, *, started: bool = False) -> str:
    """64 hexadecimal digits; empty without a `secret` (the operator's token), and for an agent that is neither a
    command nor `started` by this host."""
    if not secret or (entity.transport not in ("process", "stream") and not started):
        return ""
    return hmac.new(secret.encode(), b"fleettrio worker " + entity.gid.encode(), hashlib.sha256).hexdigest()
