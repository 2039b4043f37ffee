"""Files of a work tree, read so that a path from another host can do no harm.

Each part of a path is opened beneath the one before it and never through a symlink, so nothing outside the tree is
reached, whoever moves things meanwhile. Only regular files of at most 4 MiB are opened at all: a pipe would wait, a
device would do something.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path

import msgspec

from fleettrio.ids import WallMs

__all__ = ("MOST_BYTES", "FileRead", "NotJudged", "read_file", "top_of")

MOST_BYTES = 4 * 1024 * 1024
_BENEATH = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_UP = 64


class NotJudged(Exception):
    """Nothing is said about this path; the text says why, for the person who named it."""


class FileRead(msgspec.Struct, frozen=True):
    content: bytes
    sha256: bytes
    written: WallMs

    def blob(self, like: str) -> str:
        """The id that git gives to this content, in a repository with object ids like `like`."""
        whole = b"blob %d\0" % len(self.content) + self.content
        is_sha1 = len(like) == 40
        return (hashlib.sha1(whole, usedforsecurity=False) if is_sha1 else hashlib.sha256(whole)).hexdigest()


def top_of(folder: str) -> str | None:
    """The top of the work tree that `folder` lies in, found without asking git: what its configuration says of other
    places is nothing to go by. None: it is in no work tree."""
    if not os.path.isabs(folder):
        return None
    place = Path(os.path.realpath(folder))
    for candidate in [place, *place.parents][:_MOST_UP]:
        with contextlib.suppress(OSError):
            mode = os.lstat(candidate / ".git").st_mode
            if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
                return str(candidate)
    return None


def read_file(tree: str, path: str) -> FileRead | None:
    """The file at `path` (`wire.causal.is_tree_path`) in `tree`; None when there is nothing. Blocks on the disk.

    Raises `NotJudged` for what is no small regular file inside the tree.
    """
    try:
        with contextlib.ExitStack() as opened:
            *folders, name = path.split("/")
            at = _open(tree, None, os.O_DIRECTORY, opened)
            for folder in folders:
                at = _open(folder, at, os.O_DIRECTORY, opened)
            _check(os.stat(name, dir_fd=at, follow_symlinks=False), path)
            file = _open(name, at, os.O_NONBLOCK | os.O_NOCTTY, opened)
            facts = os.fstat(file)
            _check(facts, path)
            content = _read(file, path)
    except FileNotFoundError:
        return None
    except OSError as error:  # a symlink on the way, a folder that is a file, no rights
        raise NotJudged(f"{path} cannot be read as a file of the work tree ({error.strerror})") from None
    return FileRead(content, hashlib.sha256(content).digest(), WallMs(facts.st_mtime_ns // 1_000_000))


def _open(name: str, at: int | None, flags: int, opened: contextlib.ExitStack) -> int:
    number = os.open(name, _BENEATH | flags, dir_fd=at)
    opened.callback(os.close, number)
    return number


def _check(facts: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise NotJudged(f"{path} is not a regular file")
    if facts.st_size > MOST_BYTES:
        raise NotJudged(f"{path} is over {MOST_BYTES // 1024 // 1024} MiB")


def _read(file: int, path: str) -> bytes:
    parts, size = [], 0
    while part := os.read(file, 1024 * 1024):
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise NotJudged(f"{path} is over {MOST_BYTES // 1024 // 1024} MiB")
    return b"".join(parts)
