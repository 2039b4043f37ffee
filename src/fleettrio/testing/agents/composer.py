"""A composer in a terminal: `python -m fleettrio.testing.agents.composer --log FILE [options]`.

Rules: a bracketed paste is one piece of text, Enter submits, a line feed from the keyboard adds a line. Without
`--paste` the program asks for no brackets, and every line end submits, as in any program that reads lines.

At a dialog pasted text is lost, and Enter allows. While it works, Enter queues. From outside: SIGUSR1 opens the dialog,
SIGURG begins work, SIGUSR2 ends the work (or the dialog).

The log has one JSON object a line: `{"event": …}` with `turn` (`text`), `queued`, `ignored` (an Enter), `lost` (a
paste), `allowed`, `draft` (`text`, at each change), `begun` and `ended`. A text is exact:
`text.encode("utf-8", "surrogateescape")` gives the bytes back. Every byte that the terminal gave is in FILE.raw.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Sequence
from typing import BinaryIO

PASTE_BEGIN, PASTE_END = b"\x1b[200~", b"\x1b[201~"
NAMED_ENTER = b"\x1b[13u"
"""What some terminals send for Enter by its name to a program that knows it; this one does not."""
RULE = "─" * 40
SHOWN_LINES = 6
FOLDED_ABOVE = 12
"""Lines. Longer pastes show as one line that counts them, as real composers do."""

_token = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|[^\x00-\x1f\x7f]+|[\x00-\x1f\x7f]")


class Composer:
    """The state of the program: a mode, a composer, a history."""

    def __init__(self, options: argparse.Namespace, log: BinaryIO, raw: BinaryIO | None = None) -> None:
        self.options = options
        self.mode: str = options.mode
        self.draft: bytes = options.draft.encode()
        self.swallow: int = options.swallow
        self.queue: list[bytes] = []
        self.history: list[str] = []
        self.turns = 0
        self._log = log
        self._raw = raw
        self._pending = b""
        self._noted = self.draft
        self._pasted_at = 0.0
        self.swallow_under_s = 0.0

    def note(self, event: str, **fields: object) -> None:
        self._log.write(json.dumps({"event": event, "at": time.time(), **fields}).encode() + b"\n")
        self._log.flush()

    def feed(self, data: bytes) -> None:
        """Takes what the terminal gave; an unfinished paste waits for its end."""
        if self._raw is not None:
            self._raw.write(data)
        self._pending += data
        while self._pending:
            if self._pending.startswith(PASTE_BEGIN):
                block, end, rest = self._pending[len(PASTE_BEGIN) :].partition(PASTE_END)
                if not end:
                    return
                self._pending = rest
                self._paste(block)
                continue
            match = _token.match(self._pending)
            if match is None or PASTE_BEGIN.startswith(self._pending):
                return
            self._pending = self._pending[match.end() :]
            self._key(match[0])

    def note_draft(self) -> None:
        """What stands in the composer now, if it changed."""
        if self.draft != self._noted:
            self._noted = self.draft
            self.note("draft", text=self.draft.decode("utf-8", "surrogateescape"))

    def _paste(self, block: bytes) -> None:
        if self.mode == "dialog":
            self.note("lost", size=len(block))
        else:
            self.draft += block
            self._pasted_at = time.monotonic()
        if self.options.dialog_on_paste:
            self.mode = "dialog"

    def _key(self, key: bytes) -> None:
        if key == b"\r" or (key == b"\n" and not self.options.paste):
            self._enter()
        elif key == NAMED_ENTER:
            self.note("ignored")
        elif self.mode != "dialog" and (key == b"\n" or key[0] >= 0x20):
            self.draft += key

    def _enter(self) -> None:
        if self.mode == "dialog":
            self.note("allowed")
            self.mode = "idle"
        elif self.swallow:
            self.swallow -= 1
            self.note("ignored")
            if self.options.swallow_as == "line":
                self.draft += b"\n"
        elif time.monotonic() - self._pasted_at < self.swallow_under_s:
            self.note("ignored")
            self.draft += b"\n"
        elif not self.draft.strip():
            self.note("ignored")
        elif self.mode == "working":
            self.queue.append(self.draft)
            self.note("queued")
            self.draft = b""
        else:
            text, self.draft = self.draft, b""
            self._turn(text)

    def _turn(self, data: bytes) -> None:
        self.turns += 1
        text = data.decode("utf-8", "surrogateescape")
        self.note("turn", text=text)
        count = text.count("\n") + 1
        self.history.append(f"turn {self.turns}: {len(data)} bytes, {count} lines")
        self.mode = "working" if self.options.hold else "idle"

    def rest(self) -> None:
        """The work is over, or the dialog closed."""
        self.mode = "idle"
        if self.queue:
            self._turn(self.queue.pop(0))

    def screen(self) -> list[str]:
        head = ["stand-in agent", *self.history[-5:]]
        if self.mode == "dialog":
            return [*head, "Allow it to go on?", f"{self.options.glyph} 1. Yes", "  2. No"]
        busy = ["✻ Working…"] if self.mode == "working" else []
        lines = self.draft.decode("utf-8", "replace").split("\n")
        if len(lines) > FOLDED_ABOVE:
            lines = [f"[pasted {len(lines)} lines]"]
        shown = [f"{self.options.glyph} {lines[0]}", *("  " + line for line in lines[1:SHOWN_LINES])]
        # Without brackets it is a plain line program: the cursor stays at the end of what is typed.
        return [*head, *busy, RULE, *shown, RULE] if self.options.paste else [*head, *busy, *shown]


def paint(lines: list[str]) -> None:
    columns, _ = os.get_terminal_size(1)
    shown = "\x1b[K\r\n".join("".join(c if c.isprintable() else " " for c in line)[: columns - 2] for line in lines)
    sys.stdout.write(f"\x1b[H\x1b[?7l{shown}\x1b[J\x1b[?7h")
    sys.stdout.flush()


def run(composer: Composer, wake: int) -> None:
    """Until the end of input. Signals arrive through the pipe `wake`."""
    while True:
        paint(composer.screen())
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            for number in os.read(wake, 64):
                if number == signal.SIGUSR1:
                    composer.mode = "dialog"
                elif number == signal.SIGURG:
                    composer.mode = "working"
                elif number == signal.SIGUSR2:
                    composer.rest()
        if 0 in ready:
            data = os.read(0, 65_536)
            if not data or data == b"\x04":
                return
            composer.feed(data)
        composer.note_draft()


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """How the composer behaves, from these arguments or those of the program."""
    parser = argparse.ArgumentParser(description="a composer in a terminal that stands in for an agent")
    parser.add_argument("--log", required=True, help="file for the events, one JSON object a line")
    parser.add_argument("--paste", action=argparse.BooleanOptionalAction, default=True, help="ask for bracketed paste")
    parser.add_argument("--mode", choices=("idle", "working", "dialog"), default="idle", help="how it starts")
    parser.add_argument("--draft", default="", help="text that is half typed at the start")
    parser.add_argument("--hold", action="store_true", help="a turn lasts until SIGUSR2")
    parser.add_argument("--swallow", type=int, default=0, help="so many times Enter does not submit")
    parser.add_argument("--swallow-as", choices=("nothing", "line"), default="nothing", help="what such an Enter does")
    parser.add_argument(
        "--swallow-under", type=int, default=0, metavar="MS", help="an Enter so soon is part of the paste"
    )
    parser.add_argument("--glyph", default="❯", help="what its prompt begins with")
    parser.add_argument("--dialog-on-paste", action="store_true", help="a dialog opens as soon as text was pasted")
    return parser.parse_args(arguments)


def main() -> None:
    options = read_options()
    wake, wake_in = os.pipe()
    os.set_blocking(wake_in, False)
    signal.set_wakeup_fd(wake_in)
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGURG):
        signal.signal(number, lambda *_: None)
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSANOW)
    try:
        sys.stdout.write("\x1b[?2004h" if options.paste else "")
        with open(options.log, "ab") as log, open(f"{options.log}.raw", "ab", buffering=0) as raw:
            composer = Composer(options, log, raw)
            composer.swallow_under_s = options.swallow_under / 1000
            composer.note("begun", pid=os.getpid())
            run(composer, wake)
            composer.note("ended", turns=composer.turns)
    finally:
        sys.stdout.write("\x1b[?2004l\r\n")
        sys.stdout.flush()
        termios.tcsetattr(0, termios.TCSANOW, before)


if __name__ == "__main__":
    main()
