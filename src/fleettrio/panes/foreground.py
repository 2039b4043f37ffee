"""Which program has a pane's terminal right now: told from the kernel where it says so (Linux), else not at all.

An agent that ended leaves its shell at the prompt. A message pasted there would be run as commands, so an interactive
shell must be told from an agent that happens to be a shell script. Whether the terminal itself collects lines is asked
of the terminal: what such a program gets beyond `MOST_OF_A_LINE` bytes of one line is thrown away without a word.
"""

from __future__ import annotations

import os
import sys
import termios
from pathlib import Path

import msgspec

from fleettrio.panes.terminal import PaneFacts

__all__ = ("MOST_OF_A_LINE", "Foreground", "foreground", "takes_lines")

INTERPRETERS = frozenset({"bun", "node", "python"})
MOST_OF_A_LINE = 4_095 if sys.platform == "linux" else 1_023
"""Bytes that the system keeps of one line."""

SHELLS = frozenset({"ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "sh", "tcsh", "xonsh", "zsh"})


class Foreground(msgspec.Struct, frozen=True):
    group: int
    """Process group that has the terminal, 0 when unknown."""
    at_shell_prompt: bool
    words: tuple[str, ...] = ()
    """Names of its program: its file, and the script where that file is an interpreter."""


def foreground(facts: PaneFacts) -> Foreground:
    """Who reads what is typed into the pane. Reads two small files of /proc; never raises."""
    try:
        # Field 8 of stat; the name in field 2 may hold blanks and brackets, so count from its end.
        stat = Path(f"/proc/{facts.pid}/stat").read_text("utf-8", "replace")
        group = int(stat.rpartition(")")[2].split()[5])
        argv = Path(f"/proc/{group}/cmdline").read_text("utf-8", "replace").rstrip("\0").split("\0")
    except (OSError, ValueError, IndexError):
        return Foreground(0, facts.command.lstrip("-") in SHELLS, (facts.command,))
    name = argv[0].rpartition("/")[2].lstrip("-")
    # `sh -c …` and `bash script` are programs; a shell with nothing but flags is one that waits for commands.
    is_bare = all(word.startswith("-") for word in argv[1:]) and "-c" not in argv
    words = argv[:2] if name.rstrip("0123456789.") in INTERPRETERS else argv[:1]
    return Foreground(group, name in SHELLS and is_bare, tuple(word.rpartition("/")[2] for word in words))


def takes_lines(tty: str) -> bool:
    """Whether the terminal hands out whole lines (canonical mode), and so knows no paste. Never raises."""
    try:
        number = os.open(tty, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return bool(termios.tcgetattr(number)[3] & termios.ICANON)
    except termios.error:
        return False
    finally:
        os.close(number)
