"""The pages for newcomers name files and what is in them; all of it must be there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
STEP = re.compile(r"^(\d+)\. (.+)$", re.MULTILINE)
FILE_AND_NAME = re.compile(r"`([a-z_/]+\.py)` `(\w+)`")


def _steps() -> list[str]:
    return [text for _, text in STEP.findall((ROOT / "AGENTS.md").read_text())]


def _names_in(path: Path) -> set[str]:
    """Classes, functions and tables."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names


def test_the_trace_of_a_message_has_twelve_steps() -> None:
    assert len(_steps()) == 12


def test_every_file_and_name_of_the_trace_exists() -> None:
    found = [pair for step in _steps() for pair in FILE_AND_NAME.findall(step)]
    missing = [f"{file}: {name}" for file, name in found if name not in _names_in(ROOT / "src" / "fleettrio" / file)]

    assert len(found) >= 12
    assert missing == []


def test_every_place_that_the_checklists_name_exists() -> None:
    text = (ROOT / "docs" / "internals.md").read_text()
    found = re.findall(r"`(src/fleettrio/[a-z_/]+\.py)` `(\w+)`", text)
    missing = [f"{file}: {name}" for file, name in found if name not in _names_in(ROOT / file)]

    assert len(found) >= 12
    assert missing == []
