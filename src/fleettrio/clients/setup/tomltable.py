"""Our table in somebody else's TOML: put at the end as lines of its own, taken out as lines, nothing else touched.

Rules: after each change the file is read again, and must say what it said before, with or without our table and nothing
more. Where that is not so (servers as one inline table, say), the change is refused.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec

from fleettrio.clients.setup.jsontree import BrokenText

__all__ = ("has_table", "table_of", "with_table", "without_table")

_HEADER = re.compile(r"[ \t]*\[")
_TOKEN = re.compile(r"""\"{3}|'{3}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#.*""")
_ENDS = {'"""': re.compile(r'(?:\\.|[^\\])*?"{3}', re.DOTALL), "'''": re.compile(r".*?'{3}", re.DOTALL)}
"""Strings over several lines, and where they end: what looks like a header in one is none."""


def table_of(text: str, path: tuple[str, str]) -> Any:
    """What stands there, or None. Raises `BrokenText`."""
    found: Any = _read(text)
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def has_table(text: str, path: tuple[str, str], values: Mapping[str, Any]) -> bool:
    """Whether the table has these values; the program may have added some of its own."""
    found = table_of(text, path)
    return isinstance(found, dict) and all(found.get(key) == value for key, value in values.items())


def with_table(text: str, path: tuple[str, str], values: Mapping[str, Any]) -> tuple[str, bool]:
    """The text with the table, and whether its last line had to be ended for that. Raises `BrokenText`."""
    before = _read(text)
    if table_of(text, path) is not None:
        raise BrokenText(f"there is another [{'.'.join(path)}] already")
    newline = "\r\n" if "\r\n" in text else "\n"
    is_open = bool(text) and not text.endswith("\n")
    lines = [f"[{'.'.join(path)}]", *(f"{key} = {_value(value)}" for key, value in values.items())]
    after = text + newline * is_open + newline * bool(text) + newline.join(lines) + newline
    wanted = {**before, path[0]: {**before.get(path[0], {}), path[1]: dict(values)}}
    try:
        is_right = tomllib.loads(after) == wanted
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise BrokenText(f"[{'.'.join(path)}] cannot be added: {path[0]} is written as one value")
    return after, is_open


def without_table(text: str, path: tuple[str, str], *, was_open: bool = False) -> str:
    """The text without the table and what stands below it. Raises `BrokenText` when only a person can do that."""
    before = _read(text)
    if table_of(text, path) is None:
        return text
    ours = re.compile(rf"[ \t]*\[+[ \t]*[\"']?{path[0]}[\"']?[ \t]*\.[ \t]*[\"']?{path[1]}[\"']?[ \t]*[.\]]")
    kept: list[str] = []
    held: list[str] = []
    """Blank lines and comments behind our lines: they go with them only when nothing else follows at all."""
    is_inside, string = False, ""
    for line in text.splitlines(keepends=True):
        was_string, string = string, _string_after(line, string)
        if not was_string and _HEADER.match(line):
            was_inside, is_inside = is_inside, bool(ours.match(line))
            if is_inside and not was_inside and kept and not kept[-1].strip():
                kept.pop()  # the blank line that was put before it
        if not is_inside:
            kept += [*held, line]
            held = []
        elif was_string or (line.strip() and not line.lstrip().startswith("#")):
            held = []
        else:
            held.append(line)
    after = "".join([*kept, *held])
    if was_open and not held:
        after = after.removesuffix("\n").removesuffix("\r")
    wanted = {**before, path[0]: {name: value for name, value in before[path[0]].items() if name != path[1]}}
    if not wanted[path[0]] and path[0] not in _read(after):
        del wanted[path[0]]
    if _read(after) != wanted:
        raise BrokenText(
            f"[{'.'.join(path)}] cannot be taken out without touching what stands around it: do it by hand"
        )
    return after


def _string_after(line: str, string: str) -> str:
    """The quotes of the string that is open behind a line, when `string` is open before it; empty when none is."""
    at = 0
    while True:
        if string:
            end = _ENDS[string].match(line, at)
            if end is None:
                return string
            at, string = end.end(), ""
        token = _TOKEN.search(line, at)
        if token is None:
            return ""
        at = token.end()
        string = token[0] if token[0] in _ENDS else ""


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise BrokenText(str(problem)) from None


def _value(value: object) -> str:
    """Of strings, numbers, booleans and lists of them: TOML writes them as JSON does."""
    return msgspec.json.encode(value).decode()
