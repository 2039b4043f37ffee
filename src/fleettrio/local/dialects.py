"""How long-lived programs speak on their standard streams, one JSON object a line: what they are fed, what they tell.

`lines`, for scripts of one's own:

    fed    {"type": "message", "id": "9c41d2aa", "text": "the framed message"}
    tells  {"type": "began"}                               its turn began (may be left out)
           {"type": "result", "text": "its last words"}    its turn is over; with `"error": true` it failed

`stream-json`, of `claude -p --input-format stream-json --output-format stream-json --verbose`.

Every other line, JSON or not, is output that nobody reads.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

import msgspec

from fleettrio.local.port import Text, Turn

__all__ = ("LINES", "STREAM_JSON", "Began", "Dialect", "dialect_of")

MOST_WORDS = 48 * 1024
"""Characters of last words; what is longer keeps its end, which says what came of it."""


class Began(msgspec.Struct, frozen=True):
    """A turn began, or goes on."""


class Dialect(Protocol):
    def feed(self, text: Text) -> bytes:
        """The line for one message."""

    def read(self, line: bytes) -> Began | Turn | None:
        """What a line of the program says; never raises."""


class _Lines:
    def feed(self, text: Text) -> bytes:
        return _line({"type": "message", "id": text.short_id, "text": text.framed})

    def read(self, line: bytes) -> Began | Turn | None:
        said = _said(line)
        match said.get("type"):
            case "began":
                return Began()
            case "result":
                return _turn(said.get("text"), failed=said.get("error", False))
        return None


class _StreamJson:
    def feed(self, text: Text) -> bytes:
        content = [{"type": "text", "text": text.framed}]
        return _line({"type": "user", "message": {"role": "user", "content": content}})

    def read(self, line: bytes) -> Began | Turn | None:
        said = _said(line)
        match said.get("type"):
            case "result":
                return _turn(said.get("result"), failed=said.get("is_error", False))
            case "system" | "assistant" | "user" | "stream_event":
                return Began()
        return None


LINES: Dialect = _Lines()
STREAM_JSON: Dialect = _StreamJson()


def dialect_of(name: str) -> Dialect:
    """The dialect that a harness file names with `stream`."""
    return STREAM_JSON if name == "stream-json" else LINES


def _line(message: object) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode() + b"\n"


def _said(line: bytes) -> dict[str, Any]:
    """The object on a line, empty for anything else. A lone surrogate in it is no reason to miss it."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _turn(words: object, *, failed: object) -> Turn:
    said = words if isinstance(words, str) else ""
    is_odd = words is not None and not isinstance(words, str)
    return Turn(said[-MOST_WORDS:].encode("utf-8", "replace") or None, "error" if failed or is_odd else "done")
