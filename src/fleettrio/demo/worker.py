"""The demo's worker: `python -m fleettrio.demo.worker --log FILE --hold FILE`, a program in a tmux pane.

It knows nothing of the demo. On each turn it takes the short id out of the frame, reads the exact body through
`fleettrio show ID --body`, draws a number that nobody could know before, notes both in its log, and answers with
`fleettrio reply ID`. Who it is, the daemon knows by the terminal it sits on.

Rules: a turn is noted before anything is done with it, and the number before it is sent. While the hold file is there
it sits on its answer. A daemon that does not run is waited for; the reply's key makes a repeated one the same message.

A brief that says `Ask NAME: QUESTION` makes it ask in the middle of its turn, and it quotes what it was answered.

The log has one JSON object a line: `begun`, `turn` (`id stale`), `read` (`id size sha256 shown number`), `asked` (`id
answer`), `answered` (`id reply`), `failed` (`id why`). `sha256` is that of the stored body, `shown` that of the text as
it stood in the frame, `stale` what the frame said of code that moved.
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from fleettrio.errors import NO_BROKER, NO_DAEMON, UNKNOWN, USAGE
from fleettrio.local.frame import unframe
from fleettrio.testing.agents.composer import Composer, paint, read_options, run

__all__ = ("ANSWER", "Worker", "find_id")

ANSWER = "I read {size} bytes.\nsha256 {sha256}\nnumber {number}\n"
PATIENCE_S = 120.0
_LOOK_AGAIN_S = 0.1

_foot = re.compile(r"\A\[fleettrio [0-9a-f]+\] end of (?P<id>[0-9a-f]{8}) · to answer:")


_stale = re.compile(r"(?m)^\[fleettrio [0-9a-f]+\] stale: (.+)$")
_question = re.compile(r"(?m)^Ask (?P<who>\S+): (?P<what>.+)$")


def find_id(text: str) -> str | None:
    """The short id that the last line of a framed text names; None when it wants no answer or is no frame."""
    found = _foot.match(text.rsplit("\n", 1)[-1])
    return found["id"] if found else None


class Worker(Composer):
    """A composer whose turns are work. While it works its screen says so, and what is pasted then waits."""

    def __init__(
        self, log: BinaryIO, hold: Path, command: Sequence[str], show: Callable[[list[str]], None] = paint
    ) -> None:
        """`command` is how fleettrio is run, `show` puts the screen on the terminal."""
        super().__init__(read_options(["--hold", "--log", os.devnull]), log)
        self._hold = hold
        self._command = command
        self._show = show

    def screen(self) -> list[str]:
        return ["worker", *super().screen()[1:]]

    def _turn(self, data: bytes) -> None:
        text = data.decode("utf-8", "surrogateescape")
        short = find_id(text)
        if short is None:
            self.note("ignored", text=text[:200])
            return
        self.note("turn", id=short, stale=_stale.findall(text))
        self.mode = "working"
        self._show(self.screen())
        try:
            self.history.append(self._work(short, text))
        except OSError as error:
            self.note("failed", id=short, why=str(error))
        self.rest()

    def _work(self, short: str, text: str) -> str:
        """Read, draw, note, answer; what to say about it on the screen."""
        body = self._read(short)
        sha256 = hashlib.sha256(body).hexdigest()
        shown = hashlib.sha256(unframe(text).encode("utf-8", "surrogateescape")).hexdigest()
        number = secrets.randbelow(10**9)
        self.note("read", id=short, size=len(body), sha256=sha256, shown=shown, number=number)
        _wait_gone(self._hold)
        answer = ANSWER.format(size=len(body), sha256=sha256, number=number) + self._ask(short, body)
        self.note("answered", id=short, reply=self._reply(short, answer.encode()))
        return f"{short}: {len(body)} bytes, number {number}"

    def _read(self, short: str) -> bytes:
        """The stored body, byte for byte. Waits for a daemon that is away; raises `OSError` for any other failure."""
        for done in self._tries(("show", short, "--body")):
            if done.returncode == 0:
                return done.stdout
            if done.returncode != NO_DAEMON:
                raise OSError(_words(done))
        raise OSError("the daemon stayed away")

    def _ask(self, short: str, body: bytes) -> str:
        """Ask what the brief says, and wait; a line that quotes the answer. Empty when there is nothing to ask."""
        question = _question.search(body.decode("utf-8", "replace"))
        if question is None:
            return ""
        command = [*self._command, "ask", question["who"], question["what"]]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != 0:
            raise OSError(_words(done))
        answer = unframe(done.stdout.decode("utf-8", "replace"))
        self.note("asked", id=short, answer=answer)
        return f"answered {answer}\n"

    def _reply(self, short: str, answer: bytes) -> str:
        """Send it, and go on until the broker has it; the reply's id.

        The key makes the same command the same message; one that failed or is unknown is sent again by its id.
        """
        reply = ""
        command: list[str] = ["reply", short, "-", "--key", short, "--json"]
        for done in self._tries(command, answer):
            if done.stdout:
                reply = json.loads(done.stdout)["messages"][0]["msg_id"]
            if done.returncode == 0 or (reply and done.returncode == USAGE):  # settled meanwhile: nothing to retry
                return reply
            if done.returncode not in (UNKNOWN, NO_DAEMON, NO_BROKER):
                raise OSError(_words(done))
            if reply:
                command[:] = ["send", "--retry", reply, "-", "--json"]
        raise OSError("neither daemon nor broker came back")

    def _tries(self, command: Sequence[str], given: bytes = b"") -> Iterator[subprocess.CompletedProcess[bytes]]:
        """Run `command` again and again, as it stands each time, while there is patience."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            yield subprocess.run([*self._command, *command], input=given, capture_output=True, check=False)
            time.sleep(_LOOK_AGAIN_S)


def _words(done: subprocess.CompletedProcess[bytes]) -> str:
    return f"{' '.join(done.args[-4:])}: exit {done.returncode}: {done.stderr.decode(errors='replace').strip()}"


def _wait_gone(hold: Path) -> None:
    """Sit on it while the hold file is there."""
    deadline = time.monotonic() + PATIENCE_S
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
