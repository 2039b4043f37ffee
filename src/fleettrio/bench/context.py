"""What every benchmark of one call is given: how many rounds, whom to tell, and a private broker when it wants one."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
import time
from types import TracebackType
from typing import Self

from fleettrio.testing.broker_node import BrokerNode

__all__ = ("ROUNDS", "Context", "Progress", "checkout")

ROUNDS = 7


class Progress:
    """Says on standard error what runs now: one line that is written over on a terminal, a line for each in a pipe."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._is_live = sys.stderr.isatty()
        self._name = ""

    def begin(self, name: str) -> None:
        """`name` is the benchmark whose steps are told from now on."""
        self._name = name

    def step(self, what: str, done: int = 0, of: int = 0) -> None:
        far = f" {done}/{of}" if of else ""
        text = f"[{time.monotonic() - self._began:4.0f} s] {self._name}: {what}{far}"
        print(f"\r\x1b[2K{text[:79]}" if self._is_live else text, end="" if self._is_live else "\n", file=sys.stderr)
        sys.stderr.flush()

    def end(self) -> None:
        if self._is_live:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


class Context:
    """A context manager: whatever it started has ended behind it, and its folder is gone."""

    def __init__(self, *, rounds: int = ROUNDS, profile: pathlib.Path | None = None) -> None:
        """`profile`: the hop is to be looked into instead of being measured, and drawn into this folder."""
        self.rounds = rounds
        self.profile = profile
        self.progress = Progress()
        # A short path: sockets below it must fit into 100 bytes.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ft-bench-", dir=_short_place()))
        self._stack = contextlib.ExitStack()
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._broker: BrokerNode | None = None

    def broker(self) -> BrokerNode:
        """The private broker of this call; started when it is first asked for."""
        if self._broker is None:
            self.progress.step("starting a private broker")
            self._broker = self._stack.enter_context(BrokerNode(self.folder / "broker"))
        return self._broker

    @property
    def started_broker(self) -> BrokerNode | None:
        """The private broker, when a benchmark wanted one."""
        return self._broker

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()


def checkout() -> pathlib.Path | None:
    """The folder of the sources that this runs from; None when it was installed without them."""
    root = pathlib.Path(__file__).resolve().parents[3]
    return root if (root / "benchmarks" / "results").is_dir() else None


def _short_place() -> str:
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) <= 50 else "/tmp"  # noqa: S108 - the folder in it has a random name
