"""JSON as people write it (comments, a comma too many), read into values that know where in the text they stand.

Only reading is here; `jsonparts` changes the text. Accepted beyond JSON: `//` and `/* */` comments, and a comma after
the last entry. Everything else that is not JSON is refused with its line: a file that its harness cannot read either is
not ours to mend.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

__all__ = ("BrokenText", "Node", "read_json", "skip_trivia")

DEEPEST = 100
"""Levels. No settings file comes near, and Python's own stack holds it."""
_TRIVIA = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN = re.compile(r"-?[0-9][0-9eE.+-]*|[A-Za-z]+")


class BrokenText(Exception):
    """What is wrong, and in which line."""


@dataclasses.dataclass(slots=True)
class Node:
    """A value and where it stands: `text[start:end]`."""

    value: Any
    start: int
    end: int = 0
    key: str = ""
    key_start: int = 0
    """Of a member: its name, and where that begins."""
    entries: list[Node] = dataclasses.field(default_factory=list)
    """Members of an object, elements of an array, in the order of the text."""
    last_comma: int = -1
    """Where the comma after the last entry stands; -1 without one."""

    @property
    def begins(self) -> int:
        return self.key_start or self.start

    def member(self, key: str) -> Node | None:
        """The member that counts: of several with one name, the last."""
        found = [entry for entry in self.entries if entry.key == key] if isinstance(self.value, dict) else []
        return found[-1] if found else None


def read_json(text: str) -> Node:
    """The tree of a text; an empty one has an empty object at its end. Raises `BrokenText`."""
    reader = _Reader(text)
    at = reader.trivia(0)
    if at == len(text):
        return Node({}, at, at)
    root = reader.value(at, 0)
    end = reader.trivia(root.end)
    if end != len(text):
        raise reader.broken(end, "nothing more is expected here")
    return root


def skip_trivia(text: str, at: int) -> int:
    """Where the blanks and comments from `at` on are over."""
    found = _TRIVIA.match(text, at)
    assert found is not None, "it matches nothing, too"
    return found.end()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def broken(self, at: int, what: str) -> BrokenText:
        return BrokenText(f"line {self._text.count(chr(10), 0, at) + 1}: {what}")

    def trivia(self, at: int) -> int:
        end = skip_trivia(self._text, at)
        if self._text.startswith("/*", end):
            raise self.broken(end, "this comment does not end")
        return end

    def value(self, at: int, depth: int) -> Node:
        if depth > DEEPEST:
            raise self.broken(at, f"more than {DEEPEST} levels")
        first = self._text[at : at + 1]
        if first == "{":
            return self._object(at, depth)
        if first == "[":
            return self._array(at, depth)
        found = _STRING.match(self._text, at) if first == '"' else _PLAIN.match(self._text, at)
        if found is None:
            raise self.broken(at, f"a value is expected, not {first!r}" if first else "the text ends too early")
        try:
            return Node(json.loads(found[0], parse_constant=_no_constant), at, found.end())
        except ValueError:
            raise self.broken(at, f"{found[0][:40]!r} is not a value") from None

    def _object(self, at: int, depth: int) -> Node:
        node = Node({}, at)
        at = self.trivia(at + 1)
        while self._text[at : at + 1] != "}":
            name = _STRING.match(self._text, at)
            if name is None:
                raise self.broken(at, 'a name in "…" is expected' if at < len(self._text) else "a } is missing")
            colon = self.trivia(name.end())
            if self._text[colon : colon + 1] != ":":
                raise self.broken(colon, "a : is expected")
            entry = self.value(self.trivia(colon + 1), depth + 1)
            try:
                entry.key, entry.key_start = json.loads(name[0]), at
            except ValueError:
                raise self.broken(at, f"{name[0][:40]!r} is not a name") from None
            node.value[entry.key] = entry.value
            at = self._after(node, entry, "}")
        node.end = at + 1
        return node

    def _array(self, at: int, depth: int) -> Node:
        node = Node([], at)
        at = self.trivia(at + 1)
        while self._text[at : at + 1] != "]":
            entry = self.value(at, depth + 1)
            node.value.append(entry.value)
            at = self._after(node, entry, "]")
        node.end = at + 1
        return node

    def _after(self, node: Node, entry: Node, closing: str) -> int:
        """Take an entry in; where the next one, or the end, stands."""
        node.entries.append(entry)
        at = self.trivia(entry.end)
        node.last_comma = -1
        if self._text[at : at + 1] == ",":
            node.last_comma = at
            return self.trivia(at + 1)
        if self._text[at : at + 1] != closing:
            raise self.broken(
                at, f"a comma or {closing} is expected" if at < len(self._text) else f"a {closing} is missing"
            )
        return at


def _no_constant(name: str) -> None:
    raise ValueError(name)
