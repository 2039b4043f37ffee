"""Files of the person's other programs: read as they are, written whole or not at all, through links, with their mode.

Nothing is written over bytes that were not looked at: a file that changed since it was read is refused.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import secrets
import shlex
import stat
from pathlib import Path

import msgspec

from fleettrio.errors import ConfigError

__all__ = (
    "Dotfile",
    "as_bytes",
    "as_text",
    "missing_folders",
    "read_dotfile",
    "why_not_writable",
    "write_dotfile",
)

SIZE_LIMIT = 64 * 1024 * 1024
_NEW_MODE = 0o600
"""For files that were not there: settings may come to hold keys."""


class Dotfile(msgspec.Struct, frozen=True):
    """`path` as it is called, `target` where its links lead, `data` None when it is not there."""

    path: Path
    target: Path
    data: bytes | None


def read_dotfile(path: Path) -> Dotfile:
    """Raises `ConfigError` when what is there is no file, or cannot be read."""
    try:
        target = Path(os.path.realpath(path, strict=False))
        if target.is_symlink():
            raise ConfigError([f"{path} is a link that leads nowhere"], hint=f"rm {shlex.quote(str(path))}")
        found = target.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(
                [f"{path} is not a file"], hint=f"mv {shlex.quote(str(path))} {shlex.quote(f'{path}.aside')}"
            )
        if found.st_size > SIZE_LIMIT:
            raise ConfigError([f"{path} is larger than any settings file ({found.st_size} bytes)"])
        return Dotfile(path, target, target.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return Dotfile(path, target, None)
    except OSError as problem:
        raise ConfigError([f"{path} cannot be read: {problem.strerror}"]) from problem


def why_not_writable(file: Dotfile) -> ConfigError | None:
    """Why a change of it would fail, or should not be made; None when nothing speaks against it."""
    quoted = shlex.quote(str(file.path))
    if file.data is not None and not file.target.stat().st_mode & stat.S_IWUSR:
        # A file can be exchanged whatever its mode; whoever took the right away did not want that.
        return ConfigError([f"{file.path} is read-only; nothing was written"], hint=f"chmod u+w {quoted}")
    folder = file.target.parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return ConfigError(
            [f"nothing can be written into {folder}; nothing was"], hint=f"ls -ld {shlex.quote(str(folder))}"
        )
    return None


def missing_folders(file: Dotfile) -> tuple[str, ...]:
    """The folders that have to be made for it, the innermost first."""
    return tuple(str(folder) for folder in file.target.parents if not folder.exists())


def write_dotfile(file: Dotfile, data: bytes | None) -> None:
    """Give the file these bytes, and make the folders that it needs; None takes it away.

    Raises `ConfigError`, and leaves everything as it was, when the file is not as it was read or cannot be written.
    """
    if read_dotfile(file.path) != file:
        raise ConfigError([f"{file.path} changed in the meantime; it was left as it is"], hint="run it again")
    problem = why_not_writable(file)
    if problem is not None:
        raise problem
    draft = file.target.with_name(f".{file.target.name}.{secrets.token_hex(4)}")
    try:
        if data is None:
            file.target.unlink(missing_ok=True)
            return
        file.target.parent.mkdir(parents=True, exist_ok=True)
        _write_new(draft, data, file)
        os.replace(draft, file.target)
    except OSError as error:
        raise ConfigError([f"{file.path} cannot be written: {error.strerror}"]) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _write_new(draft: Path, data: bytes, file: Dotfile) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(draft, flags, _NEW_MODE), "wb") as output:
        if file.data is not None:
            before = file.target.stat()
            os.fchmod(output.fileno(), stat.S_IMODE(before.st_mode))
            if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                with contextlib.suppress(PermissionError):
                    os.fchown(output.fileno(), before.st_uid, before.st_gid)
        output.write(data)
        output.flush()
        os.fsync(output.fileno())


def as_text(file: Dotfile) -> str:
    """Its text, line ends as they are, without the mark some editors begin a file with. Raises `ConfigError`."""
    try:
        return (file.data or b"").removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as problem:
        raise ConfigError(
            [f"{file.path} is not UTF-8 text (byte {problem.start}); nothing was written"],
            hint="write it in UTF-8, then run this again",
        ) from None


def as_bytes(text: str, like: bytes | None) -> bytes:
    """The text as bytes, with that mark where `like` has it."""
    mark = codecs.BOM_UTF8 if like is not None and like.startswith(codecs.BOM_UTF8) else b""
    return mark + text.encode("utf-8")
