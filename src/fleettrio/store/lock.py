"""One daemon per store: a lock beside the file that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from fleettrio.errors import StoreError

__all__ = ("filesystem_of", "hold_lock", "lock_path")

_SHARED = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "fuse.glusterfs"})
"""Filesystems whose locks and shared memory SQLite's WAL cannot rely on."""
_MOUNTS = Path("/proc/self/mounts")


def lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of the store at `path`. Raises `StoreError` at once when another process has it."""
    _refuse_shared(path)
    lock = lock_path(path)
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        hint = "check owner and mode of its folder"
        raise StoreError(f"{lock} cannot be opened: {error.strerror}", hint=hint) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise StoreError(
                f"another fleettrio daemon (pid {holder}) holds {path}",
                reason="locked",
                hint="use the daemon that runs, stop it with `fleettrio down`, or set another FLEETTRIO_HOME",
            ) from None
        with contextlib.suppress(OSError):  # the pid is for people: a full disk must not keep the daemon from starting
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        # Never unlinked: another process may have opened it already and would lock a file that nobody else sees.
        os.close(handle)


def _refuse_shared(path: Path) -> None:
    kind = filesystem_of(path)
    if kind in _SHARED:
        raise StoreError(
            f"{path} is on a shared filesystem ({kind}), where SQLite can lose or corrupt data",
            hint="set FLEETTRIO_HOME to a folder on a local disk",
        )


def filesystem_of(path: Path) -> str:
    """Type of the filesystem that holds `path`; empty where the system does not tell."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    target, found, kind = path.absolute().resolve(), -1, ""
    for line in lines:
        _device, mount, this_kind, *_ = line.split(" ")
        for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
            mount = mount.replace(code, character)
        depth = len(Path(mount).parts)
        if depth >= found and target.is_relative_to(mount):  # the later of two mounts on one folder hides the first
            found, kind = depth, this_kind
    return kind
