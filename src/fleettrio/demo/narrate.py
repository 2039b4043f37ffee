"""What the demo says while it runs: coloured on a terminal, plain in a pipe.

Whatever takes longer than two seconds says that it still goes on: on a terminal in one live line, elsewhere in a line
now and then.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TextIO, TypeVar

from fleettrio.errors import FleetTrioError

__all__ = ("Narrator", "TooLate")

QUIET_S = 2.0
LIVE_EVERY_S, LINE_EVERY_S = 0.5, 5.0
_LOOK_AGAIN_S = 0.05
_BOLD, _DIM, _GREEN, _RED, _CYAN, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m", "\x1b[36m", "\x1b[0m"
_CLEAR = "\r\x1b[K"

T = TypeVar("T")


class TooLate(FleetTrioError):
    """What was waited for did not come within its bound."""


class Narrator:
    def __init__(self, out: TextIO | None = None, env: Mapping[str, str] | None = None) -> None:
        self._out = sys.stdout if out is None else out
        self._is_terminal = self._out.isatty()
        self._is_coloured = self._is_terminal and not (os.environ if env is None else env).get("NO_COLOR")
        self._turn = threading.Lock()
        self._is_live = False

    def title(self, text: str) -> None:
        self._line("")
        self._line(self._paint(_BOLD, text))

    def say(self, text: str) -> None:
        self._line(f"   {text}")

    def passed(self, text: str) -> None:
        self._line(f"   {self._paint(_GREEN, '✓')} {text}")

    def failed(self, text: str) -> None:
        first, *more = text.split("\n")
        self._line(f"   {self._paint(_RED, '✗')} {first}")
        for line in more:
            self._line(f"     {line}")

    def plain(self, text: str) -> None:
        """A line that is exactly this text, whatever it is written to."""
        self._line(text)

    def id(self, short: str) -> str:
        """A short id, marked."""
        return self._paint(_CYAN, short)

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[None]:
        """For anything that may take a while: tells after two seconds that it still goes on."""
        over = threading.Event()
        teller = threading.Thread(target=self._tell, args=(what, over), daemon=True)
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()

    def until(self, what: str, find: Callable[[], T | None], limit_s: float) -> T:
        """The first true value of `find`. Raises `TooLate`, which names `what`, after `limit_s` seconds."""
        deadline = time.monotonic() + limit_s
        with self.progress(what):
            while not (found := find()):
                if time.monotonic() > deadline:
                    raise TooLate(f"not within {limit_s:g} s: {what}")
                time.sleep(_LOOK_AGAIN_S)
        return found

    def _tell(self, what: str, over: threading.Event) -> None:
        began = time.monotonic()
        pause = QUIET_S
        while not over.wait(pause):
            text = f"   {self._paint(_DIM, f'… {what} ({time.monotonic() - began:.0f} s)')}"
            with self._turn:
                self._out.write(f"{_CLEAR}{text}" if self._is_terminal else f"{text}\n")
                self._out.flush()
                self._is_live = self._is_terminal
            pause = LIVE_EVERY_S if self._is_terminal else LINE_EVERY_S

    def _line(self, text: str) -> None:
        with self._turn:
            self._out.write(f"{_CLEAR if self._is_live else ''}{text}\n")
            self._out.flush()
            self._is_live = False

    def _paint(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._is_coloured else text
