"""What the daemon advises, as a model reads it: where there is a tool, the tool is named."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fleettrio
from fleettrio.api.mcp.hints import in_tools

SOURCES = Path(fleettrio.__file__).parent
HAVE_A_TOOL = re.compile(
    r"fleettrio (?:send|reply|ask|answer|list|trace|show|inbox|stop|spawn|claim|release|broadcast)\b"
)
ONLY_A_COMMAND = {
    "`fleettrio send --retry 0a` with the same body sends it again to those who have not",
    "the same again is safe: fleettrio send --retry 0a",
}
"""The same message again is no new message, and no tool sends it."""


@pytest.mark.parametrize(
    ("advice", "said"),
    [
        ("`fleettrio list` shows who is there", "fleet_list shows who is there"),
        ("fleettrio reply ID 'TEXT'", "fleet_reply with id ID"),
        ("a answers it: fleettrio answer 1234abcd 'TEXT'", "a answers it: fleet_answer with id 1234abcd"),
        (
            "it failed; `fleettrio show 1234abcd` tells where it is",
            "it failed; fleet_trace with id 1234abcd tells where it is",
        ),
        ("`fleettrio show` tells where it is", "fleet_trace tells where it is"),
        ("waits for a, who fetches it: fleettrio inbox --take", "waits for a, who fetches it: fleet_poll"),
        ("later, `fleettrio send --retry 12ab` with the same body sends it again", "later, fleet_send sends it again"),
        ("fleettrio send --coord west 'text'", "fleet_send with coord west"),
        ("`fleettrio resume 12ab` on beta lets it go on", "`fleettrio resume 12ab` on beta lets it go on"),
        ("fleettrio attach --name NAME", "fleettrio attach --name NAME"),
        ("write it as the last argument", "say it in text"),
        ("give a shorter --expires", "give a shorter expires_s"),
    ],
)
def test_a_command_that_has_a_tool_becomes_it_and_any_other_stays(advice: str, said: str) -> None:
    assert in_tools(advice) == said


def _advice() -> Iterator[str]:
    """Every text in the code of the API and the core, with something in the place of what is filled in."""
    for file in (*SOURCES.glob("core/*.py"), *SOURCES.glob("api/*.py")):
        nodes: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
        while nodes:
            node = nodes.pop()
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "0a" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value.replace("{id}", "0a")
            else:
                nodes.extend(ast.iter_child_nodes(node))


def test_no_advice_of_the_daemon_reaches_a_model_as_a_command_where_there_is_a_tool() -> None:
    left = {text for text in map(in_tools, _advice()) if HAVE_A_TOOL.search(text)}
    assert {text for text in left if not any(known in text for known in ONLY_A_COMMAND)} == set()
