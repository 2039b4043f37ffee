"""One line on a person's terminal that says what is being waited for, and leaves no trace when it is over."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from fleettrio.clients.cli.table import width
from fleettrio.local.sanitise import one_line

__all__ = ("StateLine",)


class StateLine:
    """`with StateLine() as line: line.show("worker@beta: waiting")`. Silent when standard error is no terminal."""

    def __init__(self) -> None:
        self.is_live = sys.stderr.isatty()
        self._shown = ""

    def show(self, text: str) -> None:
        """Replace what the line says."""
        if self.is_live and text != self._shown:
            self._shown = text
            print(f"\r\x1b[2K{one_line(text, width() - 1)}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away, before something else is printed."""
        if self._shown:
            self._shown = ""
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.clear()
