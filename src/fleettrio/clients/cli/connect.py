"""The way of a command to its daemon: which socket, which token."""

from __future__ import annotations

import os
import sys

from fleettrio import __version__
from fleettrio.api.schema import Empty, Reloaded
from fleettrio.clients.client import CallFailed, Client, ConnectionLost, DaemonMissing
from fleettrio.home import resolve_paths

__all__ = ("connect", "reload_daemon", "try_connect")

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


def reload_daemon() -> None:
    """Tell a running daemon to read its fleet file again, and say that it did, or what it cannot take up while it runs.

    A daemon that refuses says why on standard error.
    """
    try:
        client = try_connect()
        if client is None:
            return
        with client:
            reloaded: Reloaded = client.call("reload", Empty())
    except (CallFailed, ConnectionLost) as problem:
        print(f"note: the running daemon did not take it: {problem}", file=sys.stderr)
        if problem.hint:
            print(f"hint: {problem.hint}", file=sys.stderr)
        return
    if reloaded.out_of_date:
        print(f"{reloaded.out_of_date}: `fleettrio down`, then `fleettrio up`")
    else:
        print("the running daemon took it")
