"""The implementations of the hot path that this Python has: always the pure one, and the compiled one when it is in use."""

from __future__ import annotations

import importlib
from types import ModuleType

from fleettrio import _accel, _pure

__all__ = ("COMPILED", "TWINS", "outcome")

COMPILED: list[ModuleType] = (
    [importlib.import_module("fleettrio._fast")] if _accel.IMPLEMENTATION == "compiled" else []
)
TWINS: list[ModuleType] = [_pure, *COMPILED]


def outcome(module: ModuleType, name: str, *arguments: object) -> tuple[str, object]:
    """What a function gives: its result, or the type and text of its error."""
    try:
        return "result", getattr(module, name)(*arguments)
    except Exception as error:  # whatever it is: the other twin must do the same
        return type(error).__name__, str(error)
