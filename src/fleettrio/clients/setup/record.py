"""What setup wrote, for `--undo`: one record for each harness, and the bytes that were there before.

Rules: the record and the copies are on the disk before the first byte of a person's file is changed. A file that still
is what setup wrote gets its old bytes back; one that is what it was before gets nothing; from any other our parts are
taken out.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import msgspec

from fleettrio.errors import ConfigError
from fleettrio.home import Paths
from fleettrio.private_files import write_private

__all__ = ("Record", "Records", "Written", "digest")


class Written(msgspec.Struct, kw_only=True):
    """One file. Digests are SHA-256 in hex, empty for a file that is not there."""

    path: str
    before: str
    after: str
    copy: str = ""
    """The name of the copy of its old bytes; empty when it was not there."""
    made: list[list[str]] = []
    folders: list[str] = []
    """Made for it, the innermost first."""


class Record(msgspec.Struct):
    harness: str
    version: str
    files: list[Written]

    def of(self, path: Path) -> Written | None:
        return next((file for file in self.files if file.path == str(path)), None)


class Records:
    """All of one home."""

    def __init__(self, paths: Paths) -> None:
        self._folder = paths.state_dir / "setup"

    def read(self, harness: str) -> Record | None:
        """Raises `ConfigError` when it cannot be read."""
        try:
            return msgspec.json.decode(self._file(harness).read_bytes(), type=Record)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, msgspec.DecodeError) as problem:
            raise ConfigError(
                [f"{self._file(harness)} cannot be read: {problem}"],
                hint="move it away: then only our parts are taken out",
            ) from problem

    def keep(self, record: Record, copies: dict[str, bytes]) -> None:
        for name, data in copies.items():
            write_private(self._copies(record.harness) / name, data, replace=True)
        write_private(self._file(record.harness), msgspec.json.encode(record), replace=True)

    def copy(self, harness: str, written: Written) -> bytes | None:
        """The bytes from before; None when there was no file. Raises `ConfigError` when the copy is not what it was."""
        if not written.copy:
            return None
        file = self._copies(harness) / written.copy
        try:
            data = file.read_bytes()
        except OSError as problem:
            raise ConfigError([f"the copy {file} cannot be read: {problem.strerror}"]) from problem
        if digest(data) != written.before:
            raise ConfigError([f"the copy {file} is not what was kept"], hint=f"mend {written.path} by hand")
        return data

    def copy_path(self, harness: str, written: Written) -> Path:
        return self._copies(harness) / written.copy

    def set_aside(self, harness: str, name: str, data: bytes) -> Path:
        """Keep bytes that a person may miss; where they are."""
        file = self._folder / "aside" / f"{harness}-{digest(data)[:8]}-{name}"
        write_private(file, data, replace=True)
        return file

    def forget(self, harness: str) -> None:
        self._file(harness).unlink(missing_ok=True)
        shutil.rmtree(self._copies(harness), ignore_errors=True)

    def _file(self, harness: str) -> Path:
        return self._folder / f"{harness}.json"

    def _copies(self, harness: str) -> Path:
        return self._folder / harness


def digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()
