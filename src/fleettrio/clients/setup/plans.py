"""Which files of which harness get which parts of ours; where those files are, by the harness's own variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from fleettrio.clients.harnesses import claude, codex, opencode
from fleettrio.clients.harnesses.programs import MCP_NAME
from fleettrio.clients.setup.jsonparts import Part
from fleettrio.clients.setup.pieces import JsonPiece, Piece, TomlPiece, WholePiece

__all__ = ("HARNESSES", "Plan", "plan")


class Plan(msgspec.Struct, frozen=True):
    harness: str
    title: str
    """What people call it."""
    folder: Path
    """Its own settings; there when it was ever started."""
    pieces: tuple[Piece, ...]
    afterwards: str
    """What a person should know or do once it is written."""


def plan(harness: str, env: Mapping[str, str]) -> Plan:
    return HARNESSES[harness](env)


def _claude(env: Mapping[str, str]) -> Plan:
    own = env.get("CLAUDE_CONFIG_DIR", "")
    folder = Path(own) if own else _home(env) / ".claude"
    settings = claude.settings()
    allowed = [Part(("permissions", "allow", ""), rule) for rule in settings["permissions"]["allow"]]
    return Plan(
        "claude",
        "Claude Code",
        folder,
        (
            JsonPiece(folder / "settings.json", (*_hooks(settings["hooks"]), *allowed)),
            JsonPiece(
                (folder if own else _home(env)) / ".claude.json",
                (Part(("mcpServers", MCP_NAME), claude.mcp_entry()),),
            ),
            WholePiece(folder / "skills" / "fleet" / "SKILL.md", _skill(), b"fleettrio"),
        ),
        "Claude Code sessions take it up at their next start.",
    )


def _codex(env: Mapping[str, str]) -> Plan:
    folder = Path(env.get("CODEX_HOME") or _home(env) / ".codex")
    entry = codex.mcp_entry()
    return Plan(
        "codex",
        "Codex",
        folder,
        (
            TomlPiece(folder / "config.toml", ("mcp_servers", MCP_NAME), entry),
            JsonPiece(folder / "hooks.json", _hooks(codex.hooks())),
        ),
        "At its next start Codex asks whether you trust these hooks (later: /hooks); until you do, it passes them over"
        " and says nothing.",
    )


def _opencode(env: Mapping[str, str]) -> Plan:
    folder = Path(env.get("XDG_CONFIG_HOME") or _home(env) / ".config") / "opencode"
    files = (folder / "opencode.jsonc", folder / "opencode.json")
    settings = next((file for file in files if file.exists()), files[-1])
    return Plan(
        "opencode",
        "opencode",
        folder,
        (
            JsonPiece(settings, (Part(("mcp", MCP_NAME), opencode.mcp_entry()),)),
            WholePiece(folder / "plugins" / "fleettrio.js", opencode.plugin_text().encode(), b"fleettrio"),
        ),
        "opencode loads the plugin at its next start. Without a way to the npm registry that start may take a minute:"
        " it looks there for the plugin interface once.",
    )


HARNESSES: dict[str, Callable[[Mapping[str, str]], Plan]] = {"claude": _claude, "codex": _codex, "opencode": _opencode}


def _hooks(groups: Mapping[str, list[dict[str, Any]]]) -> tuple[Part, ...]:
    return tuple(Part(("hooks", event, ""), group) for event, found in groups.items() for group in found)


def _skill() -> bytes:
    return resources.files("fleettrio.clients.setup").joinpath("SKILL.md").read_bytes()


def _home(env: Mapping[str, str]) -> Path:
    return Path(env.get("HOME") or Path.home())
