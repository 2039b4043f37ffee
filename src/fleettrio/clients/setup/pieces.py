"""What setup writes, file by file: entries of a JSON file, a table of a TOML file, a whole file of ours.

Each piece says whether it is there as it should be (`is_complete`), puts itself into a file's bytes (`put`) and takes
itself out (`take`), also out of a file that somebody edited since. None instead of bytes is a file that is not there.
All raise `ConfigError` for a file that cannot be understood.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from fleettrio.clients.setup.dotfiles import Dotfile, as_bytes, as_text
from fleettrio.clients.setup.jsonparts import Part, containers, has_all, with_parts, without
from fleettrio.clients.setup.jsontree import BrokenText
from fleettrio.clients.setup.tomltable import has_table, table_of, with_table, without_table
from fleettrio.errors import ConfigError

__all__ = ("JsonPiece", "Made", "Piece", "TomlPiece", "WholePiece", "is_our_server")

_HOOK = re.compile(r"\bfleettrio(-hook|\.clients\.hook)\b")
"""In each command that a harness runs for us."""
Made = list[list[str]]
"""What `put` made beside our parts, so that `take` takes that, too."""
_OPEN_LINE = ["\n"]


class Piece(Protocol):
    @property
    def path(self) -> Path: ...

    def at(self, path: Path) -> Piece:
        """The same in another file."""
        ...

    def is_complete(self, file: Dotfile) -> bool: ...

    def put(self, file: Dotfile) -> tuple[bytes, Made]: ...

    def take(self, file: Dotfile, made: Made | None) -> bytes | None:
        """`made` None: nobody remembers what was made."""
        ...


class JsonPiece(msgspec.Struct, frozen=True):
    path: Path
    parts: tuple[Part, ...]

    def at(self, path: Path) -> JsonPiece:
        return msgspec.structs.replace(self, path=path)

    def is_complete(self, file: Dotfile) -> bool:
        with _readable(file):
            return file.data is not None and has_all(as_text(file), self.parts, self._is_ours)

    def put(self, file: Dotfile) -> tuple[bytes, Made]:
        with _readable(file):
            after, made = with_parts(as_text(file), self.parts)
        added = [list(part.path) for part in self.parts if self._is_shared(part) and not self._has(file, part)]
        return as_bytes(after, file.data), [list(path) for path in made] + added

    def take(self, file: Dotfile, made: Made | None) -> bytes | None:
        if file.data is None:
            return None
        known = None if made is None else [tuple(path) for path in made]
        shared = {
            part.path: part.value
            for part in self.parts
            if self._is_shared(part) and (known is None or part.path in known)
        }

        def ours(path: tuple[str, ...], value: Any) -> bool:
            return self._is_ours(path, value) or (path in shared and shared[path] == value)

        with _readable(file):
            text = as_text(file)
            left = without(text, ours, containers(text, ours) if known is None else known)
        return as_bytes(left, file.data)

    def _has(self, file: Dotfile, part: Part) -> bool:
        with _readable(file):
            return has_all(as_text(file), (part,), lambda _path, _value: False)

    def _is_shared(self, part: Part) -> bool:
        """A value that the person may have written as well: taken out only when it was put in."""
        return not self._is_ours(part.path, part.value)

    def _is_ours(self, path: tuple[str, ...], value: Any) -> bool:
        if len(path) > 2 and path[0] == "hooks" and not path[2]:
            return _is_our_hook(value)
        return any(part.path == path for part in self.parts) and is_our_server(value)


class TomlPiece(msgspec.Struct, frozen=True):
    path: Path
    table: tuple[str, str]
    values: Mapping[str, Any]

    def at(self, path: Path) -> TomlPiece:
        return msgspec.structs.replace(self, path=path)

    def is_complete(self, file: Dotfile) -> bool:
        with _readable(file):
            return file.data is not None and has_table(as_text(file), self.table, self.values)

    def put(self, file: Dotfile) -> tuple[bytes, Made]:
        with _readable(file):
            after, was_open = with_table(as_text(file), self.table, self.values)
        return as_bytes(after, file.data), [_OPEN_LINE] if was_open else []

    def take(self, file: Dotfile, made: Made | None) -> bytes | None:
        with _readable(file):
            text = as_text(file)
            if not is_our_server(table_of(text, self.table)):
                return file.data
            left = without_table(text, self.table, was_open=made is not None and _OPEN_LINE in made)
        return as_bytes(left, file.data)


class WholePiece(msgspec.Struct, frozen=True):
    """`mark`: bytes that only our file has, of any version."""

    path: Path
    content: bytes
    mark: bytes

    def at(self, path: Path) -> WholePiece:
        return msgspec.structs.replace(self, path=path)

    def is_complete(self, file: Dotfile) -> bool:
        return file.data == self.content

    def put(self, file: Dotfile) -> tuple[bytes, Made]:
        if file.data is not None:
            raise ConfigError(
                [f"{file.path} is there already, and is not fleettrio's; nothing was written"],
                hint="move it away, then run this again",
            )
        return self.content, []

    def take(self, file: Dotfile, made: Made | None) -> bytes | None:
        return None if file.data is None or self.mark in file.data else file.data


def is_our_server(value: Any) -> bool:
    """Whether an MCP entry starts our shim, from whatever place."""
    if not isinstance(value, dict):
        return False
    command, arguments = value.get("command"), value.get("args", [])
    words = [*command] if isinstance(command, list) else [command, *(arguments if isinstance(arguments, list) else [])]
    texts = [word for word in words if isinstance(word, str)]
    return "mcp" in texts[1:] and any(Path(text).name == "fleettrio" or text == "fleettrio" for text in texts)


def _is_our_hook(value: Any) -> bool:
    """A handler of ours, or a group of nothing else."""
    if not isinstance(value, dict):
        return False
    if "hooks" in value:
        handlers = value["hooks"]
        return isinstance(handlers, list) and bool(handlers) and all(_is_our_hook(handler) for handler in handlers)
    return isinstance(value.get("command"), str) and _HOOK.search(value["command"]) is not None


@contextlib.contextmanager
def _readable(file: Dotfile) -> Iterator[None]:
    try:
        yield
    except BrokenText as problem:
        raise ConfigError(
            [f"{file.path}: {problem}; nothing was written"], hint="mend that file, then run this again"
        ) from None
