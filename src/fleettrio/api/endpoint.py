"""The socket file of the local socket, and who is at its other end.

The folder is 0700 and the socket 0600; a socket file is removed only when nobody answers on it, or when it is ours.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import socket
import stat
import struct
import sys
from collections.abc import Callable

import trio

from fleettrio.errors import FleetTrioError

__all__ = ("accept", "listen", "peer_of", "remover")

_SHORT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ECONNABORTED})


def listen(path: pathlib.Path) -> trio.socket.SocketType:
    """A bound, listening socket at `path`, for its owner alone. Raises FleetTrioError when that cannot be."""
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
        raise FleetTrioError(
            f"{folder} is not a folder of this user, so the socket in it would not be safe",
            hint="set FLEETTRIO_HOME to a folder of your own",
        )
    folder.chmod(0o700)
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        # Nobody can connect before listen(), so the mode is right before the first client.
        path.chmod(0o600)
        listener.listen(128)
        return trio.socket.from_stdlib_socket(listener)
    except OSError as problem:
        listener.close()
        raise FleetTrioError(
            f"cannot make the socket {path}: {problem.strerror or problem}",
            hint="set FLEETTRIO_HOME to a folder with a short path that you may write to",
        ) from problem


async def accept(listener: trio.socket.SocketType) -> trio.SocketStream:
    """The next client. Cancelled, no client is lost: it stays in the backlog."""
    while True:
        try:
            client, _ = await listener.accept()
        except OSError as problem:
            if problem.errno not in _SHORT_OF:
                raise
            await trio.sleep(0.1)  # the client keeps its place in the backlog until something is free
        else:
            return trio.SocketStream(client)


def _remove_stale(path: pathlib.Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FleetTrioError(f"{path} is in the way: it is not a socket", hint=f"move it away: mv {path} {path}.old")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        answer = probe.connect_ex(os.fspath(path))
    if answer in (errno.ECONNREFUSED, errno.ENOENT):
        path.unlink(missing_ok=True)
        return
    raise FleetTrioError(
        f"another fleettrio daemon answers on {path}",
        hint="`fleettrio status` shows it, `fleettrio down` ends it",
    )


def remover(path: pathlib.Path) -> Callable[[], None]:
    """Removes the socket file, unless another daemon has put its own there since."""
    inode = path.stat().st_ino

    def remove() -> None:
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == inode:
                path.unlink()

    return remove


def peer_of(client: trio.socket.SocketType) -> tuple[int, int]:
    """`(pid, uid)` of the process at the other end, as the kernel noted them when it connected."""
    if sys.platform == "darwin":
        sol_local, local_peercred, local_peerpid = 0, 1, 2
        _version, uid = struct.unpack("=II", client.getsockopt(sol_local, local_peercred, 8))
        return client.getsockopt(sol_local, local_peerpid), uid
    pid, uid, _gid = struct.unpack("=iII", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid
