"""What a person's own settings say that keeps our parts from working: nothing fails then, and nobody would notice.

Only the files that setup itself writes are looked at; a project's own settings, or an administrator's, may say more.
A file that nobody can read has no obstacles: setting up tells what is wrong with it.
"""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from fleettrio.clients.harnesses.programs import MCP_NAME
from fleettrio.clients.setup.dotfiles import as_text, read_dotfile
from fleettrio.clients.setup.jsontree import BrokenText, read_json
from fleettrio.clients.setup.plans import Plan

__all__ = ("Obstacle", "obstacles")

_TOOLS = f"mcp__{MCP_NAME}"


class Obstacle(msgspec.Struct, frozen=True):
    file: Path
    detail: str
    """Goes on after the file's name."""


def obstacles(plan: Plan) -> list[Obstacle]:
    """Raises `ConfigError` when a file cannot be read."""
    if plan.harness == "claude":
        file = plan.folder / "settings.json"
        return [Obstacle(file, detail) for detail in _of_claude(as_text(read_dotfile(file)))]
    if plan.harness == "codex":
        file = plan.folder / "config.toml"
        return [Obstacle(file, detail) for detail in _of_codex(as_text(read_dotfile(file)))]
    return []


def _of_claude(text: str) -> Iterator[str]:
    try:
        settings = read_json(text).value
    except BrokenText:
        return
    if text.strip() and not _is_plain(text):
        yield "has comments or a comma too many: Claude Code skips such a file as a whole, our hooks with it"
    if _at(settings, "disableAllHooks") is True:
        yield "has disableAllHooks: no hook of ours runs"
    denied = _at(settings, "permissions", "deny")
    for rule in denied if isinstance(denied, list) else []:
        if isinstance(rule, str) and (rule == _TOOLS or fnmatchcase(f"{_TOOLS}__", rule)):
            yield f"denies our tools: permissions.deny has {rule}"


def _of_codex(text: str) -> Iterator[str]:
    with contextlib.suppress(tomllib.TOMLDecodeError):
        if _at(tomllib.loads(text), "features", "hooks") is False:
            yield "has hooks = false in [features]: no hook of ours runs"


def _is_plain(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
