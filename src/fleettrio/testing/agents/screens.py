"""How a stand-in for Claude Code or Codex looks: what their harness files read, and the title of the terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleettrio.testing.agents.agent import Agent

__all__ = ("paint", "screen")

RULE = "─" * 40
FOLDED_ABOVE = 3
NO_BREAK = "\xa0"


def screen(agent: Agent) -> tuple[str, list[str]]:
    """Title and lines."""
    return _codex(agent) if agent.is_codex else _claude(agent)


def _claude(agent: Agent) -> tuple[str, list[str]]:
    title = "◐ stand-in" if agent.mode == "working" else "✳ stand-in"
    head = ["stand-in agent", *agent.history[-5:], ""]
    if agent.mode == "dialog":
        body = ["Bash command", "   rm -r build", " Do you want to proceed?", " ❯ 1. Yes", "   2. No"]
        return title, [*head, RULE, *body, "", " Esc to cancel · Tab to amend"]
    first, *rest = _draft(agent, "[Pasted text #1 +{} lines]")
    footer = "  ⏵⏵ accept edits on · esc to interrupt" if agent.mode == "working" and not first else "  ? for shortcuts"
    return title, [*head, RULE, f"❯{NO_BREAK}{first}", *(f"  {line}" for line in rest), RULE, footer]


def _codex(agent: Agent) -> tuple[str, list[str]]:
    head = ["stand-in agent", *agent.history[-5:], ""]
    if agent.mode == "dialog":
        body = ["  Would you like to run the following command?", "  $ rm -r build", "› 1. Yes, proceed (y)"]
        return "[ ! ] Action Required | stand-in", [*head, *body, "", "  Press enter to confirm or esc to cancel"]
    busy = ["• Working (3s • esc to interrupt)", ""] if agent.mode == "working" else []
    first, *rest = _draft(agent, "[Pasted Content {} chars]")
    shown = [f"› {first or 'Ask Codex to do anything'}", *(f"  {line}" for line in rest)]
    return "⠋ stand-in" if busy else "stand-in", [*head, *busy, *shown, "", "  gpt-6-codex · 100% left"]


def _draft(agent: Agent, folded: str) -> list[str]:
    text = agent.draft.decode("utf-8", "replace")
    lines = text.split("\n")
    if len(lines) > FOLDED_ABOVE:
        return [folded.format(len(text) if agent.is_codex else len(lines) - 1)]
    return lines


def paint(title: str, lines: list[str]) -> None:
    columns, _ = os.get_terminal_size(1)
    shown = "\x1b[K\r\n".join(
        "".join(c if c.isprintable() or c == NO_BREAK else " " for c in line)[: columns - 2] for line in lines
    )
    sys.stdout.write(f"\x1b]2;{title}\x07\x1b[H\x1b[?7l{shown}\x1b[K\x1b[J\x1b[?7h")
    sys.stdout.flush()
