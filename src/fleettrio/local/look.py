"""One look at an agent's terminal: what it shows, who would get what is typed, and what that means for a text of ours.

A look is of one moment and is never brought up to date: whoever types takes another one (`typist`).
"""

from __future__ import annotations

import collections
import os
import re

import msgspec

from fleettrio.local.harness import Harness, Reading, read_screen
from fleettrio.local.port import AgentState
from fleettrio.panes.foreground import foreground, takes_lines
from fleettrio.panes.terminal import Screen

__all__ = ("Look", "look_at", "trouble")


class Look(msgspec.Struct, frozen=True):
    """One terminal at one moment."""

    screen: Screen
    reading: Reading
    generation: str
    at_shell_prompt: bool
    takes_lines: bool
    is_in_front: bool
    """Whether what is typed goes to the agent's own program, as far as that is known."""

    @property
    def is_open(self) -> bool:
        """Whether keys would reach the agent at all."""
        return self.is_in_front and not (self.screen.facts.dead or self.screen.facts.in_mode)

    @property
    def takes_enter(self) -> bool:
        """Whether Enter would reach its composer: in a dialog it would approve."""
        return self.is_open and self.reading.state is not AgentState.BLOCKED

    def holds(self, mark: str, harness: Harness) -> bool:
        """Whether the composer holds our text. A long one may push the prompt off the screen; its end is seen then."""
        draft = self.reading.draft
        if draft is None:
            return mark in "".join(self.screen.lines)
        pasted = harness.pasted
        # A narrow pane may break the line inside the mark.
        return mark in draft.replace("\n", "") or (pasted is not None and pasted.search(draft) is not None)

    def word_of(self, mark: str, harness: Harness) -> str:
        """A word that is on the screen while our text stands in the composer; empty when there is none in one row."""
        if harness.composer_is_last_line:  # read across rows, which nobody searches
            return ""
        if any(mark in line for line in self.screen.lines):
            return mark
        pasted = harness.pasted and harness.pasted.search(self.reading.draft or "")
        words = re.findall("[A-Za-z]{4,}", pasted[0]) if pasted else []
        return max(words, key=len, default="")

    def words(self) -> collections.Counter[str]:
        """The lines with words on them, without prompts, bullets and indentation: a line that only moved is not new."""
        bare = (re.sub(r"^\W+", "", line) for line in self.screen.lines)
        return collections.Counter(line for line in bare if line)


def look_at(screen: Screen, harness: Harness, program: int) -> Look:
    """What `screen` means where `harness` runs. `program`: the agent's own process; 0: not known."""
    facts = screen.facts
    front = foreground(facts)
    generation = f"{facts.pane}/{facts.pid}/{front.group}"
    reading = read_screen(harness, screen)
    is_in_front = not program or front.group in (0, _group_of(program))
    return Look(screen, reading, generation, front.at_shell_prompt, takes_lines(facts.tty), is_in_front)


def trouble(look: Look | None) -> str:
    """Why Enter cannot be pressed any more."""
    if look is None:
        return "the pane vanished"
    if look.screen.facts.dead or look.at_shell_prompt:
        return "the program ended"
    if not look.is_in_front:
        return "another program came in front of it"
    if look.screen.facts.in_mode:
        return "the pane went into copy mode"
    return "a dialog opened" if look.reading.state is AgentState.BLOCKED else "the text left the screen"


def _group_of(pid: int) -> int:
    """The process group of a process; 0 when there is none."""
    try:
        return os.getpgid(pid)
    except OSError:
        return 0
