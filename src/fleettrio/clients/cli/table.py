"""How facts look on a terminal and in a pipe: 80 columns at most, plain in a pipe, and no text of a peer is obeyed.

What was asked for goes to standard output; notes, errors and progress go to standard error.
"""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence

import msgspec

from fleettrio.local.sanitise import one_line

__all__ = ("WIDTH", "at_time", "note", "print_error", "print_json", "print_table", "say", "span", "width")

WIDTH = 80
_CELL_LIMIT = 400


def width() -> int:
    """Columns to fill: never more than 80, less on a narrow terminal."""
    try:
        return max(40, min(WIDTH, os.get_terminal_size(sys.stdout.fileno()).columns))
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


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, indent: str = "") -> None:
    """A table of at most 80 columns. Cells are cleaned, cut and never read as markup; the last column wraps."""
    # Imported here: most commands print no table, and rich is the largest import there is.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    console = Console(
        file=sys.stdout, width=width() - len(indent), color_system="auto" if is_terminal else None, markup=False, emoji=False,
        highlight=False, force_terminal=is_terminal,
    )  # fmt: skip
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold" if is_terminal else "")
    for header in headers[:-1]:
        table.add_column(Text(header), no_wrap=True, overflow="ellipsis")
    table.add_column(Text(headers[-1]), overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell, _CELL_LIMIT)) for cell in row))
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(f"{indent}{line}".rstrip())


def at_time(wall_ms: int) -> str:
    """A moment as the person's clock shows it: the time of today, else with the date; `-` for never."""
    if wall_ms <= 0:
        return "-"
    moment = time.localtime(wall_ms / 1000)
    is_today = moment[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M", moment)


def span(seconds: float) -> str:
    """A length of time in one unit: `12 s`, `3 min`, `2 h`, `5 d`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size or (unit == "min" and seconds >= size):
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _wrapped(text: str, indent: str) -> str:
    lines = textwrap.wrap(text, width(), subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    return "\n".join(lines)
