"""The workers of the demo: what each wrote down about its turns, and how it is made to sit on its answers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

__all__ = ("WorkerLog",)


class WorkerLog:
    """One worker's own log. Nobody but the worker writes it: it is what the stories are compared with."""

    def __init__(self, folder: Path, name: str) -> None:
        self._log = folder / f"{name}.jsonl"
        self._hold = folder / f"{name}.hold"

    @property
    def command(self) -> list[str]:
        """The worker as a program with its arguments."""
        program = [sys.executable, "-P", "-m", "fleettrio.demo.worker"]
        return [*program, "--log", str(self._log), "--hold", str(self._hold)]

    def events(self, name: str) -> list[dict[str, Any]]:
        """What the worker wrote down under this name, oldest first."""
        lines = self._log.read_bytes().split(b"\n")[:-1] if self._log.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def find(self, name: str, short: str) -> dict[str, Any] | None:
        """Its last event of this name about this message."""
        return next((event for event in reversed(self.events(name)) if event["id"] == short), None)

    def hold(self) -> None:
        """From now on the worker sits on its answers."""
        self._hold.touch()

    def release(self) -> None:
        self._hold.unlink(missing_ok=True)
