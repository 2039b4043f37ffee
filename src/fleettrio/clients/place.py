"""Where the daemon's socket is, for the programs that must start in a moment: the standard library alone.

The same answer as `home.resolve_paths`, without its checks; a test compares the two.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

__all__ = ("socket_path",)


def socket_path(env: Mapping[str, str]) -> str:
    """The path of the local socket of this environment's home."""
    home = env.get("FLEETTRIO_HOME", "")
    if home:
        return os.path.join(os.path.expanduser(home), "run", "fleettrio.sock")
    if sys.platform != "linux":
        from fleettrio.home import resolve_paths  # slower; only Linux's rule is simple enough to be said twice

        return str(resolve_paths(env).socket)
    state = env.get("XDG_STATE_HOME", "").strip() or os.path.expanduser("~/.local/state")
    return os.path.join(state, "fleettrio", "run", "fleettrio.sock")
