"""Files that only this user may read (keys, tokens), and files that must never be half written.

Rules: a private file is 0600 in a folder 0700, both ours, neither a symlink. Anything looser is refused with the line
that mends it: a key that others could read is no key, and silently mending the mode would hide that they could.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import stat
from pathlib import Path

from fleettrio.errors import ConfigError

__all__ = ("make_private_folder", "private_problem", "read_private", "write_private")

READ_LIMIT = 64 * 1024
"""Bytes. No private file of ours comes near; whatever is larger is not ours."""


def make_private_folder(folder: Path) -> None:
    """Make `folder` (0700) and its parents when missing. An existing one is left as it is, and judged when read.

    Raises `ConfigError` when it cannot be made, and when everybody can write into it: what lies there could be changed.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        mode = folder.stat().st_mode
    except OSError as error:
        raise ConfigError(
            [f"the folder {folder} cannot be made: {error.strerror}"], hint="free its path, or set FLEETTRIO_HOME"
        ) from error
    if mode & 0o002:
        raise ConfigError(
            [f"everybody can write into the folder {folder} (mode {stat.S_IMODE(mode):04o})"],
            hint=f"look at what is in it, then: chmod 700 {shlex.quote(str(folder))}",
        )


def private_problem(path: Path) -> tuple[str, str] | None:
    """What makes `path` or its folder unfit for a secret, and the command that mends it; None when all is well."""
    for target, mode, what in ((path.parent, 0o700, "folder"), (path, 0o600, "file")):
        try:
            found = target.lstat()
        except FileNotFoundError:
            return f"{target} does not exist", "fleettrio init"
        quoted = shlex.quote(str(target))
        if stat.S_ISLNK(found.st_mode):
            return f"the {what} {target} is a symlink", f"rm {quoted}  # and put the real {what} in its place"
        if stat.S_ISDIR(found.st_mode) != (what == "folder"):
            return f"{target} is no {what}", f"mv {quoted} {quoted}.aside"
        if found.st_uid != os.geteuid():
            return f"the {what} {target} belongs to another user", f"chown {os.geteuid()} {quoted}"
        if found.st_mode & 0o077:
            return (
                f"the {what} {target} can be used by others (mode {stat.S_IMODE(found.st_mode):04o})",
                f"chmod {mode:o} {quoted}",
            )
    return None


def read_private(path: Path) -> bytes | None:
    """The content, or None when there is no such file. Raises `ConfigError` for loose modes and symlinks."""
    if not os.path.lexists(path):
        return None
    problem = private_problem(path)
    if problem is not None:
        raise ConfigError([problem[0]], hint=problem[1])
    try:
        # O_NOFOLLOW, because the file may have been exchanged since it was looked at.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            data = file.read(READ_LIMIT + 1)
    except OSError as error:
        raise ConfigError([f"{path} cannot be read: {error.strerror}"]) from error
    if len(data) > READ_LIMIT:
        raise ConfigError([f"{path} is larger than any file of fleettrio's own ({READ_LIMIT} bytes)"])
    return data


def write_private(path: Path, data: bytes, *, replace: bool) -> bool:
    """Write a private file whole or not at all, also across a power cut.

    False, and nothing changed, when it exists and `replace` is not set.
    Two processes that make the same file at once agree on one content: the loser is told False and reads the winner's.
    """
    make_private_folder(path.parent)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        _write_new(draft, data)
        if replace:
            os.replace(draft, path)
        else:
            try:
                os.link(draft, path)
            except FileExistsError:
                return False
        _sync_folder(path.parent)
    except OSError as error:
        raise ConfigError([f"{path} cannot be written: {error.strerror}"]) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    return True


def _write_new(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
