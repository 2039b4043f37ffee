"""How facts look on a terminal and in a pipe: 80 columns at most, plain in a pipe, and no text of a peer is obeyed.

What was asked for goes to standard output; notes, errors and progress go to standard error.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from unicodedata import combining, east_asian_width

import msgspec

from fleettrio.local.sanitise import one_line

__all__ = ("WIDTH", "at_time", "note", "print_error", "print_json", "print_table", "say", "span", "width")

WIDTH = 80
_CELL_LIMIT = 400
_GAP = 2
_LAST_COLUMN = 16
"""What the last column has at least, if it has so much to say."""
_READABLE = 5
"""What any other column has at least beside an address."""


def width() -> int:
    """Columns to fill: never more than 80, less on a narrow terminal."""
    try:
        return max(40, min(WIDTH, os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH))
    except (OSError, ValueError):
        return WIDTH


def say(text: str = "", *, indent: str = "") -> None:
    """One paragraph on standard output, wrapped. `indent` is for its second and later lines."""
    print(_wrapped(text, indent))


def note(text: str) -> None:
    """One paragraph on standard error."""
    print(_wrapped(text, "  "), file=sys.stderr)


def print_error(message: str, hint: str = "") -> None:
    """`error: what happened` for each line of the message, then `hint: what to do next`."""
    for line in message.splitlines() or ["failed"]:
        print(_wrapped(f"error: {line}", "       "), file=sys.stderr)
    if hint:
        print(_wrapped(f"hint: {hint}", "      "), file=sys.stderr)


def print_json(facts: msgspec.Struct) -> None:
    """The facts as JSON: indented for a person, one line for a program."""
    data = msgspec.json.encode(facts)
    if sys.stdout.isatty():
        data = msgspec.json.format(data, indent=2)
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, indent: str = "", has_address: bool = False
) -> None:
    """A table of at most 80 columns. Cells are cleaned, cut and never read as markup; the last column wraps.

    `has_address`: the first column is what a person or a program types back, so it is never cut; the others give way,
    and those at the right are left out when nothing of them would remain. In a pipe no cell of such a table is cut.
    """
    # Imported here: most commands print no table, and rich is the largest import there is.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    lines = [[one_line(cell, _CELL_LIMIT) for cell in row] for row in rows]
    is_terminal = sys.stdout.isatty()
    room = width() - len(indent)
    if has_address and not is_terminal:
        room = max(room, _needed([headers, *lines]))
    elif has_address:
        room = max(room, _needs([headers, *lines])[0])
        shown = _columns_beside_address([headers, *lines], room)
        headers, lines = headers[:shown], [line[:shown] for line in lines]
    widths = _column_widths([headers, *lines], room, is_first_whole=has_address)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold" if is_terminal else "")
    for header, columns in zip(headers[:-1], widths, strict=True):
        table.add_column(Text(header), width=columns, no_wrap=True, overflow="ellipsis")
    table.add_column(Text(headers[-1]), overflow="fold")
    for line in lines:
        table.add_row(*map(Text, line))
    console = Console(
        width=room,
        color_system="auto" if is_terminal else None,
        force_terminal=is_terminal,
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as captured:
        console.print(table)
    for text in captured.get().splitlines():
        print(f"{indent}{text}".rstrip())


def _column_widths(lines: Sequence[Sequence[str]], room: int, *, is_first_whole: bool) -> list[int]:
    """Widths of all columns but the last: what they need, the widest ones giving way until the last has its room."""
    widths = _needs(lines)
    widths[-1] = min(_LAST_COLUMN, widths[-1])
    room -= _GAP * (len(widths) - 1)
    # The last one wraps, so it gives way only beside an address, which never does.
    giving_way = range(1, len(widths)) if is_first_whole else range(len(widths) - 1)
    while sum(widths) > room and giving_way:
        widths[max(giving_way, key=widths.__getitem__)] -= 1
    return widths[:-1]


def _columns_beside_address(lines: Sequence[Sequence[str]], room: int) -> int:
    """How many columns there is room for when the first is shown whole and each other one is readable."""
    first, *others = _needs(lines)
    room -= first
    shown = 1
    for need in others:
        room -= _GAP + min(need, _READABLE)
        if room < 0:
            break
        shown += 1
    return shown


def _needs(lines: Sequence[Sequence[str]]) -> list[int]:
    """What each column needs to show its widest cell."""
    return [max(_cells(cell) for cell in column) for column in zip(*lines, strict=True)]


def _needed(lines: Sequence[Sequence[str]]) -> int:
    return sum(need + _GAP for need in _needs(lines))


def at_time(wall_ms: int) -> str:
    """A moment as the person's clock shows it: the time of today, else with its date; `-` for never."""
    if wall_ms <= 0:
        return "-"
    moment = time.localtime(wall_ms / 1000)
    today = time.localtime()
    form = "%H:%M" if moment[:3] == today[:3] else "%m-%d %H:%M" if moment[0] == today[0] else "%Y-%m-%d"
    return time.strftime(form, moment)


def span(seconds: float) -> str:
    """A length of time in one unit: `12 s`, `3 min`, `2 h`, `5 d`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size or (unit == "min" and seconds >= size):
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _cells(text: str) -> int:
    """Columns that a terminal gives to `text`."""
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def _wrapped(text: str, indent: str) -> str:
    """Words on lines of at most `width()` columns; a word longer than a line is cut."""
    room = width()
    lines: list[str] = []
    line = ""
    for word in re.findall(r" *[^ ]+", text):
        piece = word if line.strip() or not lines else word.lstrip()
        is_cut_anyway = _cells(word) > room - len(indent)
        if _cells(line + piece) > room and line.strip() and not is_cut_anyway:
            lines.append(line)
            line, piece = indent, word.lstrip()
        for char in piece:
            if _cells(line + char) > room:
                lines.append(line)
                line = indent
            line += char
    return "\n".join([*lines, line])
