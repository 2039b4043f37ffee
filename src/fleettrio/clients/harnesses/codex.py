"""Codex: hooks with the hash that it trusts them by, and an MCP entry (seen with version 0.171.0).

A hook that nobody trusts is passed over without a word. What we pass to one process we also vouch for in that process,
for our own handlers alone: `--dangerously-bypass-hook-trust` would let every other one run unseen.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from fleettrio.clients.harnesses.programs import MCP_NAME, hook_command, mcp_command, passed_on

__all__ = ("EVENTS", "hooks", "mcp_entry", "overrides", "toml", "trusted_hash")

EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PermissionRequest",
    "PostToolUse",
    "Interrupt",
    "Stop",
    "SessionEnd",
)
"""What we want to hear of. SessionStart comes with the first prompt, not at the start."""
_HOOK_S, _SHORT_S = 10, 3
_SHORT = frozenset({"Interrupt", "SessionEnd"})
"""Codex ends these after 3 s, and reckons with that in the hash."""
_FLAGS = "/<session-flags>/config.toml"
"""What Codex calls the file that `-c` stands for."""


def hooks() -> dict[str, list[dict[str, Any]]]:
    """Event → the groups of handlers that are added to it (`hooks.json`, `config.toml`)."""
    return {event: [{"hooks": [_handler(event)]}] for event in EVENTS}


def _handler(event: str) -> dict[str, Any]:
    limit = _SHORT_S if event in _SHORT else _HOOK_S
    return {"type": "command", "command": hook_command("codex"), "timeout": limit}


def mcp_entry(*, required: bool = False) -> dict[str, Any]:
    """Our server, as a table of `mcp_servers`. Without `approve` its tools are refused where nobody can be asked.

    `required`: Codex waits for it, and does not start without it. That is for a command without a person, whose first
    answer would come before our tools; what is written for good must not keep Codex from starting once we are removed.
    """
    program, *arguments = mcp_command()
    return {
        "command": program,
        "args": arguments,
        "env_vars": passed_on(),
        "default_tools_approval_mode": "approve",
        **({"required": True} if required else {}),
    }


def overrides(*, required: bool = False) -> list[str]:
    """Values for `-c`: hooks, their trust, and our server, for one process."""
    trust = {_state_key(event): {"trusted_hash": trusted_hash(event, _handler(event))} for event in EVENTS}
    return [
        *(f"hooks.{event}={toml(groups)}" for event, groups in hooks().items()),
        f"hooks.state={toml(trust)}",
        f"mcp_servers.{MCP_NAME}={toml(mcp_entry(required=required))}",
    ]


def trusted_hash(event: str, handler: Mapping[str, Any]) -> str:
    """What Codex compares before it runs a handler that stands alone in its group."""
    identity = {"event_name": _snake(event), "hooks": [{**handler, "async": False}]}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _state_key(event: str) -> str:
    return f"{_FLAGS}:{_snake(event)}:0:0"


def _snake(event: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def toml(value: object) -> str:
    """A value in one line of TOML, as `-c` takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(key)}={toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(toml, value)) + "]"
    # JSON's strings are strings of TOML, but for one character that JSON need not escape.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
