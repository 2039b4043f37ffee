"""Every Python file of the project, parsed once, for tests that read source."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "fleettrio"


@functools.cache
def parsed(folder: Path) -> dict[str, ast.Module]:
    """Path below `folder` → its tree."""
    return {
        file.relative_to(folder).as_posix(): ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
        for file in sorted(folder.rglob("*.py"))
    }


def package() -> dict[str, ast.Module]:
    return parsed(PACKAGE)


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module that `tree` imports, at the top and inside functions, with the names taken out of packages."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def called(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """Calls of `name(…)` and `anything.name(…)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            if (isinstance(function, ast.Attribute) and function.attr == name) or (
                isinstance(function, ast.Name) and function.id == name
            ):
                yield node
