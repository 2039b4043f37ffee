"""The implementations of the hot path that this Python has: the pure one, and the compiled one when it is in use."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from types import ModuleType

from fleettrio import _accel, _pure
from fleettrio.errors import MalformedEnvelope

__all__ = ("COMPILED", "TWINS", "chosen", "outcome")

COMPILED: list[ModuleType] = [importlib.import_module("fleettrio._fast")] if _accel.IMPLEMENTATION == "compiled" else []
TWINS: list[ModuleType] = [_pure, *COMPILED]


def outcome(module: ModuleType, name: str, *arguments: object) -> tuple[str, object]:
    """What a function gives: its result, or the type and text of its error."""
    try:
        return "result", getattr(module, name)(*arguments)
    except (MalformedEnvelope, ValueError, TypeError, OverflowError) as error:
        return type(error).__name__, str(error)


def chosen(*lines: str, **environment: str) -> list[str]:
    """`IMPLEMENTATION` and `PROBLEM` in a fresh process that first runs `lines`."""
    script = "\n".join((*lines, "from fleettrio import _accel", "print(_accel.IMPLEMENTATION + '|' + _accel.PROBLEM)"))
    clean = {name: value for name, value in os.environ.items() if name != "FLEETTRIO_NO_EXTENSIONS"}
    run = subprocess.run(
        [sys.executable, "-c", "import sys\n" + script],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip().split("|")
