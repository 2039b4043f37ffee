"""Our parts of somebody else's JSON: put in, found, taken out, with every other byte left as it is.

Rules: an entry goes behind the last one, in the manner of its neighbours (indentation, line ends, a comma after the
last entry or none). Taking out is the exact reverse of putting in: `without(with_parts(text)) == text`, also when
others were added in between. Containers that were made for our parts go with the last of them; those that were there
stay, also empty.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec

from fleettrio.clients.setup.jsontree import BrokenText, Node, read_json, skip_trivia

__all__ = ("Ours", "Part", "Path", "containers", "has_all", "with_parts", "without")

Path = tuple[str, ...]
"""Names from the root; an element of an array is called ``""``."""
Ours = Callable[[Path, Any], bool]
"""Whether the value at a path is a part of ours, of this version or another."""

_BLANKS = " \t\r\n"
_INDENT = "  "


class Part(msgspec.Struct, frozen=True):
    """One entry. `path`: where; the last name is the member's own, or ``""`` for an element of an array."""

    path: Path
    value: Any


def has_all(text: str, parts: Sequence[Part], ours: Ours) -> bool:
    """Whether each part is there as it should be, and no other of ours. Raises `BrokenText`."""
    root = read_json(text)
    found = sum(1 for _ in _of_ours(root, ours))
    return found == sum(ours(part.path, part.value) for part in parts) and all(_is_there(root, part) for part in parts)


def with_parts(text: str, parts: Sequence[Part]) -> tuple[str, list[Path]]:
    """The text with all parts, and the containers that were made for them. Raises `BrokenText`.

    A part that is there stays as it is; a member of its name with another value is a fault.
    """
    made: list[Path] = []
    for part in parts:
        text, new = _with_part(text, part)
        made += new
    read_json(text)
    return text, made


def without(text: str, ours: Ours, made: Collection[Path]) -> str:
    """The text without our parts, and without the containers in `made` that are empty then. Raises `BrokenText`."""
    while (found := next(_of_ours(read_json(text), ours), None)) is not None:
        _, holder, entry = found
        text = _cut(text, holder, entry)
    for path in sorted(made, key=len, reverse=True):
        root = read_json(text)
        if not path:
            text = _without_root(text, root)
            continue
        around, name = _at(root, path[:-1]), path[-1]
        inner = around.member(name) if around else None
        if around and inner and isinstance(inner.value, dict | list) and _is_hollow(text, inner):
            text = _cut(text, around, inner)
    return text


def containers(text: str, ours: Ours) -> list[Path]:
    """Every container that a part of ours stands in now, for when nobody remembers which were made for them.

    Raises `BrokenText`.
    """
    found = [path for path, _, _ in _of_ours(read_json(text), ours)]
    return sorted({path[:depth] for path in found for depth in range(1, len(path))})


# --- what is there


def _of_ours(node: Node, ours: Ours, path: Path = ()) -> Iterator[tuple[Path, Node, Node]]:
    """Every entry of ours: its path, its container, and itself; not what is inside of one."""
    for entry in node.entries:
        here = (*path, entry.key if isinstance(node.value, dict) else "")
        if ours(here, entry.value):
            yield here, node, entry
        else:
            yield from _of_ours(entry, ours, here)


def _at(root: Node, path: Path) -> Node | None:
    node: Node | None = root
    for name in path:
        node = node.member(name) if node else None
    return node


def _is_there(root: Node, part: Part) -> bool:
    holder = _at(root, part.path[:-1])
    if holder is None:
        return False
    if part.path[-1]:
        entry = holder.member(part.path[-1])
        return entry is not None and _covers(entry.value, part.value)
    return isinstance(holder.value, list) and part.value in holder.value


def _covers(found: Any, wanted: Any) -> bool:
    """The same, or the same and something that a person added."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return all(found.get(key) == value for key, value in wanted.items())
    return bool(found == wanted)


def _is_hollow(text: str, node: Node) -> bool:
    """Nothing in it, not even a comment."""
    return not text[node.start + 1 : node.end - 1].strip(_BLANKS)


# --- putting in


def _with_part(text: str, part: Part) -> tuple[str, list[Path]]:
    root = read_json(text)
    made: list[Path] = []
    if _is_there(root, part):
        return text, made
    if not isinstance(root.value, dict):
        raise BrokenText("an object, { … }, is expected around everything")
    if root.start == root.end:
        text = "{}" + _newline(text) + text
        root = read_json(text)
        made.append(())
    holder, depth = root, 0
    while depth < len(part.path) - 1 and (inner := holder.member(part.path[depth])) is not None:
        holder, depth = inner, depth + 1
    name, value = part.path[depth], part.value
    for inner_name in reversed(part.path[depth + 1 :]):
        value = {inner_name: value} if inner_name else [value]
    if not isinstance(holder.value, dict if name else list):
        where = ".".join(part.path[:depth])
        raise BrokenText(f"{where} should be {'an object, { … }' if name else 'a list, [ … ]'}")
    if name and holder.member(name) is not None:
        raise BrokenText(f"there is another {'.'.join(part.path)} already")
    made += [part.path[:level] for level in range(depth + 1, len(part.path))]
    return _insert(text, holder, name, value), made


def _insert(text: str, holder: Node, name: str, value: Any) -> str:
    newline = _newline(text)
    if not holder.entries:
        inner = text[holder.start + 1 : holder.end - 1]
        outer = _indent_of(text, holder.begins)
        entry = f"{newline}{outer}{_unit(text)}{_render(name, value, text, outer + _unit(text))}"
        head = inner.rstrip(_BLANKS)
        at = holder.start + 1 + len(head)
        return text[:at] + entry + ("" if head else newline + outer) + text[at:]
    first, last = holder.entries[0], holder.entries[-1]
    has_comma = holder.last_comma >= 0
    end = holder.last_comma + 1 if has_comma else last.end
    if "\n" not in text[holder.start : first.begins]:
        plain = json.dumps(value, ensure_ascii=False)
        entry = f"{json.dumps(name, ensure_ascii=False)}: {plain}" if name else plain
        return text[:end] + (f" {entry}," if has_comma else f", {entry}") + text[end:]
    after = text[end : holder.end - 1]
    at = end + len(after.rstrip(_BLANKS))
    indent = _indent_of(text, last.begins)
    entry = newline + indent + _render(name, value, text, indent)
    comma_before, comma_after = ("", ",") if has_comma else (",", "")
    return text[:end] + comma_before + text[end:at] + entry + comma_after + text[at:]


def _render(name: str, value: Any, text: str, indent: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).replace("\n", _newline(text) + indent)
    return f"{json.dumps(name, ensure_ascii=False)}: {lines}" if name else lines


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent_of(text: str, at: int) -> str:
    """The blanks that the line of `at` begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """One step of indentation, as the first entry of the file shows it."""
    root = read_json(text)
    if not root.entries or "\n" not in text[root.start : root.entries[0].begins]:
        return _INDENT
    return _indent_of(text, root.entries[0].begins).removeprefix(_indent_of(text, root.start)) or _INDENT


# --- taking out


def _cut(text: str, holder: Node, entry: Node) -> str:
    """The reverse of `_insert`."""
    number = next(n for n, candidate in enumerate(holder.entries) if candidate is entry)
    is_last = number == len(holder.entries) - 1
    comma = skip_trivia(text, holder.entries[number - 1].end) if number else holder.start
    begin, end = len(text[: entry.begins].rstrip(_BLANKS)), entry.end
    if not is_last or holder.last_comma >= 0:
        end = skip_trivia(text, entry.end) + 1
    if len(holder.entries) == 1 and begin == holder.start + 1:
        # Nothing else is in it: the line end before the closing bracket was made, too.
        made = _newline(text) + _indent_of(text, entry.begins).removesuffix(_unit(text))
        end += len(made) if text.startswith(made, end) else 0
    between = ""
    if skip_trivia(text[:begin] + "x", comma + 1) > begin and not text[end:].lstrip(" \t").startswith(("\n", "\r\n")):
        between = _newline(text)  # or what follows on our line would end up in the comment above it
    if is_last and number and holder.last_comma < 0:
        return text[:comma] + text[comma + 1 : begin] + between + text[end:]
    return text[:begin] + between + text[end:]


def _without_root(text: str, root: Node) -> str:
    if root.start == root.end or not _is_hollow(text, root):
        return text
    end = root.end
    for newline in ("\r\n", "\n"):
        if text.startswith(newline, end):
            end += len(newline)
            break
    return text[: root.start] + text[end:]
