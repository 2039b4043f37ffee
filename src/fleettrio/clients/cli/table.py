"""How facts look on a terminal and in a pipe: 80 columns at most, plain in a pipe, and no text of a peer is obeyed.

What was asked for goes to standard output; notes, errors and progress go to standard error.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from unicodedata import combining, east_asian_width

import msgspec

from fleettrio.local.sanitise import one_line, unmarked

__all__ = ("WIDTH", "at_time", "note", "print_error", "print_json", "print_table", "say", "span", "width")

WIDTH = 80
_CELL_LIMIT = 400
_GAP = 2
_LAST_COLUMN = 16
"""What the last column has at least, if it has so much to say."""
_READABLE = 5
"""What any other column has at least beside those that are shown whole."""


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
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    indent: str = "",
    whole: Collection[str] = (),
    is_cut: bool = False,
    is_wide: bool = False,
    has_heading: bool = True,
) -> None:
    """A table of at most 80 columns. Cells are cleaned, cut and never read as markup; the last column wraps.

    `whole`: the columns that are never cut, as what a person or a program types back. When nothing readable of the
    others would remain beside them, each row becomes a block of lines. `is_cut`: the last column is cut, too, so that
    each row is one line. `is_wide`: in a pipe nothing is cut, however wide it gets.
    """
    lines = [[one_line(cell, _CELL_LIMIT) for cell in row] for row in rows]
    needs = [max(map(_cells, column)) for column in zip(headers, *lines, strict=True)]
    rigid = [header in whole for header in headers]
    least = [need if is_whole else min(need, _READABLE) for need, is_whole in zip(needs, rigid, strict=True)]
    room = width() - len(indent)
    gaps = _GAP * (len(headers) - 1)
    if is_wide and not sys.stdout.isatty():
        room = max(room, sum(needs) + gaps)
    if whole and sum(least) + gaps > room:
        _print_blocks(headers, lines, indent)
        return
    widths = _column_widths(needs, rigid, room - gaps)
    for text in _rendered(headers, lines, widths, room, is_cut=is_cut, has_heading=has_heading):
        print(f"{indent}{text}".rstrip())


def _print_blocks(headers: Sequence[str], lines: Sequence[Sequence[str]], indent: str) -> None:
    """A row as the first cell, and below it a line for each other one that says something."""
    label = max(map(_cells, headers[1:]), default=0)
    for first, *others in lines:
        print(f"{indent}{first}")
        for header, cell in zip(headers[1:], others, strict=True):
            if cell not in ("", "-"):
                start = f"{indent}  {header:<{label}}  "
                print(_wrapped(start + cell, " " * len(start)))


def _rendered(
    headers: Sequence[str],
    lines: Sequence[Sequence[str]],
    widths: Sequence[int],
    room: int,
    *,
    is_cut: bool,
    has_heading: bool,
) -> list[str]:
    # Imported here: most commands print no table, and rich is the largest import there is.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    table = Table(
        show_header=has_heading,
        box=None,
        pad_edge=False,
        padding=(0, _GAP, 0, 0),
        header_style="bold" if is_terminal else "",
    )
    for place, (header, columns) in enumerate(zip(headers, widths, strict=True), 1):
        is_wrapped = place == len(headers) and not is_cut
        table.add_column(
            Text(header), width=columns, no_wrap=not is_wrapped, overflow="fold" if is_wrapped else "ellipsis"
        )
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
    return captured.get().splitlines()


def _column_widths(needs: Sequence[int], rigid: Sequence[bool], room: int) -> list[int]:
    """What the columns need, the widest ones giving way until the last has its room; it takes what is left."""
    widths = [*needs[:-1], min(_LAST_COLUMN, needs[-1])]
    # The last one wraps, so it gives way only beside columns that never do.
    giving_way = [i for i in range(len(widths) - (not any(rigid))) if not rigid[i]]
    while sum(widths) > room and giving_way:
        widths[max(giving_way, key=widths.__getitem__)] -= 1
    return [*widths[:-1], max(1, min(needs[-1], room - sum(widths[:-1])))]


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
    """Words on lines of at most `width()` columns; a word longer than a line is cut.

    Whatever they are, they are cleaned, and none of them begins a paragraph of its own.
    """
    text = unmarked(text).replace("\n", " ")
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
