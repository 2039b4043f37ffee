"""The example bodies: what people and agents really send, in many scripts and shapes, byte for byte."""

from __future__ import annotations

import dataclasses
from importlib import resources

__all__ = ("Example", "examples")


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    name: str
    """Its file in `examples/messages`."""
    body: bytes


def examples() -> tuple[Example, ...]:
    """All of them, by name. They are package data: an installed demo has them too."""
    folder = resources.files("fleettrio.demo") / "messages"
    files = (file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    return tuple(Example(file.name, file.read_bytes()) for file in sorted(files, key=lambda file: file.name))
