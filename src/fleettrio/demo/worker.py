"""The demo's worker: `python -m fleettrio.demo.worker --log FILE --hold FILE`, a program in a tmux pane.

It knows nothing of the demo. On each turn it takes the short id out of the frame, reads the exact body through
`fleettrio show ID --body`, draws a number that nobody could know before, notes both in its log, and answers with
`fleettrio reply ID`. Who it is, the daemon knows by the terminal it sits on.

Rules: a turn is noted before anything is done with it, and the number before it is sent. While the hold file is there it
sits on its answer. A daemon that does not run is waited for; the reply's key makes a repeated reply the same message.

The log has one JSON object a line: `begun`, `turn` (`id`), `read` (`id size sha256 shown number`), `answered` (`id
reply`), `failed` (`id why`). `sha256` is that of the stored body, `shown` that of the text as it stood in the frame.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import secrets
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from fleettrio.local.frame import unframe
from fleettrio.testing.agents.composer import Composer, paint, run

__all__ = ("ANSWER", "Worker", "find_id")

ANSWER = "I read {size} bytes.\nsha256 {sha256}\nnumber {number}\n"
HOLD_LIMIT_S = 120.0
NO_DAEMON, STILL_UNKNOWN = 7, 5
DAEMON_LIMIT_S = 90.0
_LOOK_AGAIN_S = 0.05

_foot = re.compile(r"\A\[fleettrio [0-9a-f]+\] end of (?P<id>[0-9a-f]{8}) · to answer:")


def find_id(text: str) -> str | None:
    """The short id that the last line of a framed text names; None when it wants no answer or is no frame."""
    found = _foot.match(text.rsplit("\n", 1)[-1])
    return found["id"] if found else None


class Worker(Composer):
    """A composer whose turns are work. While it works its screen says so, and what is pasted then waits."""

    def __init__(self, log: BinaryIO, hold: Path, command: Sequence[str]) -> None:
        idle = argparse.Namespace(mode="idle", draft="", swallow=0, paste=True, hold=True, dialog_on_paste=False)
        super().__init__(idle, log)
        self._hold = hold
        self._command = command
        self._did: list[str] = []

    def screen(self) -> list[str]:
        return ["worker", *self._did[-8:], *super().screen()[-4 if self.mode == "idle" else -5 :]]

    def _turn(self, data: bytes) -> None:
        text = data.decode("utf-8", "surrogateescape")
        short = find_id(text)
        if short is None:
            self.note("ignored", text=text[:200])
            return
        self.note("turn", id=short)
        self.mode = "working"
        paint(self.screen())
        try:
            self._did.append(self._work(short, text))
        except OSError as error:
            self.note("failed", id=short, why=str(error))
        self.rest()

    def _work(self, short: str, text: str) -> str:
        """Read, draw, note, answer; what to say about it on the screen."""
        body = self._run("show", short, "--body")
        sha256 = hashlib.sha256(body).hexdigest()
        shown = hashlib.sha256(unframe(text).encode("utf-8", "surrogateescape")).hexdigest()
        number = secrets.randbelow(10**9)
        self.note("read", id=short, size=len(body), sha256=sha256, shown=shown, number=number)
        _wait_gone(self._hold)
        answer = ANSWER.format(size=len(body), sha256=sha256, number=number).encode()
        reply = json.loads(self._run("reply", short, "-", "--key", short, "--json", given=answer))
        self.note("answered", id=short, reply=reply["messages"][0]["msg_id"])
        return f"{short}: {len(body)} bytes, number {number}"

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        """One command's output. Waits for a daemon that is away; raises `OSError` with the words of any other failure."""
        deadline = time.monotonic() + DAEMON_LIMIT_S
        while True:
            done = subprocess.run([*self._command, *arguments], input=given, capture_output=True, check=False)
            if done.returncode == 0:
                return done.stdout
            if done.returncode not in (NO_DAEMON, STILL_UNKNOWN) or time.monotonic() > deadline:
                raise OSError(f"{arguments[0]}: exit {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
            time.sleep(_LOOK_AGAIN_S)


def _wait_gone(hold: Path) -> None:
    """Sit on it while the hold file is there."""
    deadline = time.monotonic() + HOLD_LIMIT_S
    while hold.exists() and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN_S)


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Keys as they come, pastes in brackets; the terminal is given back as it was."""
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSANOW)
    os.write(1, b"\x1b[?2004h")
    try:
        yield
    finally:
        os.write(1, b"\x1b[?2004l\r\n")
        termios.tcsetattr(0, termios.TCSANOW, before)


def main() -> None:
    parser = argparse.ArgumentParser(description="an agent in a pane that reads, counts and answers")
    parser.add_argument("--log", required=True, help="file for the events, one JSON object a line")
    parser.add_argument("--hold", required=True, type=Path, help="no answer leaves while this file is there")
    options = parser.parse_args()
    nothing, _ = os.pipe()
    with open(options.log, "ab") as log, _raw_terminal():
        worker = Worker(log, options.hold, [sys.executable, "-P", "-m", "fleettrio"])
        worker.note("begun", pid=os.getpid())
        run(worker, nothing)


if __name__ == "__main__":
    main()
