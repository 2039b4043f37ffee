"""A program that stays: started once, fed by a named pipe, heard by a file, and found again after the daemon's restart.

Rules:

1. The pipe is opened by the program itself in both directions: the daemon's end is no end of its input. Its output is a
   file: it never waits for a reader, and what it said while no daemon ran is there.
2. It is the very process that was started, by pid and start time, or it is not there.
3. A line goes in whole. One that could not be ended ends the program: the next would be glued to its half.
4. What it prints is bounded: the file starts anew between turns, and a flood within one ends the program.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import json
import os
import subprocess
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import trio

from fleettrio.local.process import open_output
from fleettrio.panes.scope import Process, end_process, process_of, scope_prefix
from fleettrio.private_files import make_private_folder

__all__ = ("Flood", "Resident")

LINE_MOST = 4 * 1024 * 1024
"""Bytes of one line of output; a longer one is nobody's word."""
OUTPUT_KEPT, OUTPUT_MOST = 4 * 1024 * 1024, 64 * 1024 * 1024
"""Bytes after which the output starts anew between turns, and within one is a flood."""
READ_MOST, _PIECE = 4 * 1024 * 1024, 256 * 1024
"""Bytes of a look, which holds everybody up meanwhile, and of one step of it."""


NOTE_BYTES = 256
"""Of where it stands; four numbers need no more."""


class Flood(Exception):
    """It printed more in one turn than anybody will read."""


class Resident:
    """The program `argv` (no shell) in `cwd` with exactly `env`; `folder` is its own and kept between daemons."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str, folder: Path) -> None:
        self._argv, self._env, self._cwd = tuple(argv), dict(env), cwd or None
        self._folder = folder
        self._pipe, self._said, self._note = folder / "in", folder / "out", folder / "process.json"
        self._rest = b""
        self.in_turn = False
        """A message was fed, and the turn it began is not over."""
        self._process: Process | None = None
        self._read = 0
        """Bytes of its output that were read."""
        self._recall()

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive

    @property
    def generation(self) -> str:
        return f"{self._process.pid}/{self._process.started}" if self._process else ""

    def start(self) -> None:
        """Start it anew. Raises `OSError`. Blocks for as long as a fork takes."""
        make_private_folder(self._folder)
        for file in (self._pipe, self._said):
            file.unlink(missing_ok=True)
        os.mkfifo(self._pipe, 0o600)
        with contextlib.ExitStack() as files:
            source = _closing(files, os.open(self._pipe, os.O_RDWR | os.O_CLOEXEC))
            output = _closing(files, open_output(self._said))
            errors = _closing(files, open_output(self._folder / "err"))
            child = subprocess.Popen(
                [*scope_prefix(self._env), *self._argv],
                stdin=source,
                stdout=output,
                stderr=errors,
                cwd=self._cwd,
                env=self._env,
                start_new_session=True,
            )
        threading.Thread(target=child.wait, name=f"wait-{child.pid}", daemon=True).start()
        self._process = process_of(child.pid)
        self._rest, self._read = b"", 0
        self.note(in_turn=False)

    def note(self, *, in_turn: bool) -> None:
        """Keep where it stands, for the next daemon. Raises `OSError`.

        In one write over what was there, of always the same length: whole or not at all, unless the power is cut, which
        the program does not outlive either.
        """
        self.in_turn = in_turn
        process = self._process or Process(0, 0)
        kept = {
            "pid": process.pid,
            "started": process.started,
            "in_turn": in_turn,
            "read": self._read - len(self._rest),
        }
        file = os.open(self._note, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, json.dumps(kept).encode().ljust(NOTE_BYTES))
        finally:
            os.close(file)

    async def feed(self, line: bytes) -> None:
        """Put `line` in, whole. Raises `OSError`; bytes of it may be in by then, also after cancellation: then the
        program is ended, unless it was nothing or all.
        """
        pipe = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        left = memoryview(line)
        try:
            while left:
                try:
                    left = left[os.write(pipe, left) :]
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(pipe)
        finally:
            os.close(pipe)
            if 0 < len(left) < len(line):
                with trio.CancelScope(shield=True):
                    await self.end()

    def has_taken_all(self) -> bool:
        """Whether it has read all that was put in."""
        try:
            pipe = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENOENT):
                return False  # nobody reads there any more
            raise
        try:
            waiting = array.array("i", [0])
            fcntl.ioctl(pipe, termios.FIONREAD, waiting)
            return waiting[0] == 0
        finally:
            os.close(pipe)

    def lines(self) -> Iterator[bytes]:
        """What it has said since the last call, a line each; at most `READ_MOST` bytes at once. Raises `Flood`."""
        with contextlib.suppress(FileNotFoundError), open(self._said, "rb") as said:
            if self._said.stat().st_size - self._read > OUTPUT_MOST:
                raise Flood
            said.seek(self._read)
            for _ in range(READ_MOST // _PIECE):
                if not (piece := said.read(_PIECE)):
                    break
                self._read += len(piece)
                *whole, self._rest = (self._rest + piece).split(b"\n")
                if len(self._rest) > LINE_MOST:
                    self._rest = b""
                yield from whole
            is_read = not self._rest and not said.read(1)
            if is_read and not self.in_turn and self._read > OUTPUT_KEPT:
                os.truncate(self._said, 0)
                self._read = 0

    async def end(self) -> None:
        """End it and all it started. Bounded by the polite wait of `panes.scope`; cancelled, it may still run."""
        process, self._process = self._process, None
        if process is not None:
            await end_process(process)

    def forget(self) -> None:
        """Take its files away, unless it was started anew meanwhile, by another of these."""
        if Resident(self._argv, env={}, cwd="", folder=self._folder).is_alive:
            return
        for file in (self._pipe, self._said, self._note, self._folder / "err"):
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _recall(self) -> None:
        """What an earlier daemon left: the program, if it is still the same, and where its output was read to."""
        try:
            kept = json.loads(self._note.read_bytes())
            found = Process(int(kept["pid"]), int(kept["started"]))
            self.in_turn, self._read = bool(kept["in_turn"]), int(kept["read"])
        except (OSError, ValueError, KeyError, TypeError):
            return
        self._process = found if found.pid > 1 else None


def _closing(files: contextlib.ExitStack, number: int) -> int:
    files.callback(os.close, number)
    return number
