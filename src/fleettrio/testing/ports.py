"""Ports of this machine that nobody else gets while they are needed, also before anybody listens on them."""

from __future__ import annotations

import socket

__all__ = ("held_port",)


def held_port(port: int = 0) -> socket.socket:
    """A socket that is bound to a free port of the loopback, or to `port`, and does not listen. Close it.

    Meanwhile connecting to the port is refused, and no other process is given it. Who asks for it by its number and
    reuses addresses, as servers do, gets it as well, at least on Linux.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind(("127.0.0.1", port))
    except BaseException:
        holder.close()
        raise
    return holder
