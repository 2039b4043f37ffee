"""What a setup, or taking it back, changes: found out first, shown, and only then done, all of it or nothing.

Rules:
1. Parts that are there as they should be are left alone, wherever they stand: setting up twice is setting up once.
2. Parts of another version are taken out before the new ones are put in; the oldest bytes stay the ones to go back to.
3. Taking back gives a file its old bytes where it still is what was written; where somebody edited it since, only our
   parts go. A file of ours that was edited is kept aside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from fleettrio import __version__
from fleettrio.clients.setup.dotfiles import Dotfile, missing_folders, read_dotfile, why_not_writable, write_dotfile
from fleettrio.clients.setup.pieces import Made, Piece, WholePiece
from fleettrio.clients.setup.plans import Plan, plan
from fleettrio.clients.setup.record import Record, Records, Written, digest
from fleettrio.errors import ConfigError

__all__ = ("Change", "Setup")


class Change(msgspec.Struct, frozen=True):
    """One file, and what becomes of it. `after` None: it goes."""

    file: Dotfile
    after: bytes | None
    before: bytes | None = None
    """The bytes to go back to one day."""
    made: Made = msgspec.field(default_factory=list)
    note: str = ""
    folders: tuple[str, ...] = ()
    """Made for it, the innermost first."""


class Setup:
    """One harness of this user, by the records of this home."""

    def __init__(self, harness: str, env: Mapping[str, str], records: Records) -> None:
        self.plan: Plan = plan(harness, env)
        self._records = records
        self._record = records.read(harness)

    @property
    def is_recorded(self) -> bool:
        return self._record is not None

    def is_there(self) -> bool:
        """Whether any of its files has something of ours, of whatever version. Raises `ConfigError`."""
        files = ((piece, read_dotfile(piece.path)) for piece in self.plan.pieces)
        return any(piece.take(file, []) != file.data for piece, file in files)

    def missing(self) -> list[Path]:
        """The files that lack something of ours. Raises `ConfigError`."""
        return [piece.path for piece in self.plan.pieces if not piece.is_complete(read_dotfile(piece.path))]

    # Setting up

    def to_do(self) -> list[Change]:
        """What setting up would change. Raises `ConfigError` when any of it cannot be done."""
        changes = [change for piece in self.plan.pieces if (change := self._put(piece)) is not None]
        _raise_unless_writable(changes)
        return changes

    def _put(self, piece: Piece) -> Change | None:
        file = read_dotfile(piece.path)
        if piece.is_complete(file):
            return None
        written = self._written(piece.path)
        before = piece.take(file, [] if written is None else written.made)
        if written is not None and not written.before and _is_blank(before):
            before = None
        after, made = piece.put(msgspec.structs.replace(file, data=before))
        return Change(file, after, before, made, folders=missing_folders(file))

    def do(self, changes: list[Change]) -> list[Path]:
        """Write them; the copies of what was there before. Raises `ConfigError`; then every file is as it was."""
        harness = self.plan.harness
        copies: dict[str, bytes] = {}
        files: list[Written] = []
        for number, change in enumerate(changes):
            name = "" if change.before is None else f"{number}-{change.file.path.name}"
            if change.before is not None:
                copies[name] = change.before
            old = self._written(change.file.path)
            files.append(
                Written(
                    path=str(change.file.path),
                    before=digest(change.before),
                    after=digest(change.after),
                    copy=name,
                    made=change.made,
                    folders=[*change.folders, *(old.folders if old else [])],
                )
            )
        record = Record(harness, __version__, [*files, *self._others(changes)])
        for old in self._others(changes):  # their copies are kept under a name that is free
            data = self._records.copy(harness, old)
            if data is not None:
                old.copy = f"{len(copies)}-kept-{Path(old.path).name}"
                copies[old.copy] = data
        self._records.keep(record, copies)
        done: list[Change] = []
        try:
            for change in changes:
                write_dotfile(change.file, change.after)
                done.append(change)
        except ConfigError:
            for change in reversed(done):
                write_dotfile(read_dotfile(change.file.path), change.file.data)
            if self._record is None:
                self._records.forget(harness)
            raise
        return [self._records.copy_path(harness, written) for written in files if written.copy]

    # Taking back

    def to_undo(self) -> list[Change]:
        """What taking it back would change. Raises `ConfigError` when any of it cannot be done."""
        changes = [change for piece in self._known() if (change := self._take(piece)) is not None]
        _raise_unless_writable(changes)
        return changes

    def _known(self) -> list[Piece]:
        """What the plan writes, and the same at places that it wrote to when other variables were set."""
        pieces = list(self.plan.pieces)
        for written in self._record.files if self._record else []:
            path = Path(written.path)
            if all(piece.path != path for piece in pieces):
                pieces += [piece.at(path) for piece in self.plan.pieces if piece.path.stem == path.stem]
        return pieces

    def _take(self, piece: Piece) -> Change | None:
        file, written = read_dotfile(piece.path), self._written(piece.path)
        if file.data is None or (written is not None and digest(file.data) == written.before):
            return None
        if written is not None and digest(file.data) == written.after:
            with contextlib.suppress(ConfigError):  # without its copy: by taking out, which comes to the same
                before = self._records.copy(self.plan.harness, written)
                return Change(file, before, note="there was none before" if before is None else "as it was before")
        after = piece.take(file, None if written is None else written.made)
        if after == file.data:
            return None
        if written is not None and not written.before and _is_blank(after):
            after = None
        how = "edited since it was set up" if written is not None else "not in this home's records"
        return Change(file, after, note=f"{how}: only our parts are taken out")

    def undo(self, changes: list[Change]) -> list[Path]:
        """Take it back; what was kept aside, because somebody had edited a file of ours. Raises `ConfigError`."""
        aside = []
        ours = {piece.path: piece.content for piece in self._known() if isinstance(piece, WholePiece)}
        for change in changes:
            path, data, written = change.file.path, change.file.data, self._written(change.file.path)
            is_as_written = written is not None and digest(data) == written.after
            if data is not None and path in ours and ours[path] != data and not is_as_written:
                aside.append(self._records.set_aside(self.plan.harness, path.name, data))
        for change in changes:
            write_dotfile(change.file, change.after)
        for written in self._record.files if self._record else []:
            for folder in written.folders:
                try:
                    Path(folder).rmdir()
                except OSError:  # something else is in it by now, or it is gone
                    break
        self._records.forget(self.plan.harness)
        return aside

    def _written(self, path: Path) -> Written | None:
        return self._record.of(path) if self._record else None

    def _others(self, changes: list[Change]) -> list[Written]:
        """What the record has of files that do not change now."""
        changing = {str(change.file.path) for change in changes}
        return [written for written in (self._record.files if self._record else []) if written.path not in changing]


def _is_blank(data: bytes | None) -> bool:
    return data is not None and data.strip() in (b"", b"{}")


def _raise_unless_writable(changes: list[Change]) -> None:
    for change in changes:
        problem = why_not_writable(change.file)
        if problem is not None:
            raise problem
