"""The way of a command to its daemon: which socket, which token."""

from __future__ import annotations

import os
import sys

from fleettrio import __version__
from fleettrio.api.schema import Empty
from fleettrio.clients.client import CallFailed, Client, ConnectionLost, DaemonMissing
from fleettrio.config import resolve_paths

__all__ = ("connect", "try_connect", "try_reload")

TOKEN_VARIABLE = "FLEETTRIO_TOKEN"  # noqa: S105  the variable's name


def connect() -> Client:
    """A client of this home's daemon. Raises DaemonMissing (exit 7) when none runs."""
    client = Client.connect(resolve_paths(os.environ).socket, os.environ.get(TOKEN_VARIABLE, ""))
    if client.welcome.version != __version__:
        print(
            f"note: the daemon is version {client.welcome.version}, this command {__version__}; "
            "`fleettrio down` and `fleettrio up` bring them together",
            file=sys.stderr,
        )
    return client


def try_connect() -> Client | None:
    """A client, or None when no daemon runs."""
    try:
        return connect()
    except DaemonMissing:
        return None


def try_reload() -> bool:
    """Tell a running daemon to read its configuration and fleet file again; True when it took them.

    False when none runs. A daemon that refuses says why on standard error, and the answer is False too.
    """
    try:
        client = try_connect()
        if client is None:
            return False
        with client:
            client.call("reload", Empty())
    except (CallFailed, ConnectionLost) as problem:
        print(f"note: the running daemon did not take it: {problem}", file=sys.stderr)
        if problem.hint:
            print(f"hint: {problem.hint}", file=sys.stderr)
        return False
    return True
