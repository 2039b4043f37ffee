"""Which program has a pane's terminal right now: told from the kernel where it says so (Linux), else not at all.

An agent that ended leaves its shell at the prompt. A message pasted there would be run as commands, so an interactive
shell must be told from an agent that happens to be a shell script.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from fleettrio.panes.tmux import PaneFacts

__all__ = ("Foreground", "foreground")

SHELLS = frozenset({"ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "sh", "tcsh", "xonsh", "zsh"})


@dataclasses.dataclass(frozen=True, slots=True)
class Foreground:
    group: int
    """Process group that has the terminal, 0 when unknown."""
    at_shell_prompt: bool


def foreground(facts: PaneFacts) -> Foreground:
    """Who reads what is typed into the pane. Reads two small files of /proc; never raises."""
    try:
        # Field 8 of stat; the name in field 2 may hold blanks and brackets, so count from its end.
        stat = Path(f"/proc/{facts.pid}/stat").read_text("utf-8", "replace")
        group = int(stat.rpartition(")")[2].split()[5])
        argv = Path(f"/proc/{group}/cmdline").read_text("utf-8", "replace").rstrip("\0").split("\0")
    except (OSError, ValueError, IndexError):
        return Foreground(0, facts.command.lstrip("-") in SHELLS)
    name = argv[0].rpartition("/")[2].lstrip("-")
    # `sh -c …` and `bash script` are programs; a shell with nothing but flags is one that waits for commands.
    is_bare = all(word.startswith("-") for word in argv[1:]) and "-c" not in argv
    return Foreground(group, name in SHELLS and is_bare)
