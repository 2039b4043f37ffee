"""Claude Code: settings with hooks and a permission, and an MCP entry (seen with version 2.1.332)."""

from __future__ import annotations

from typing import Any

from fleettrio.clients.harnesses.programs import MCP_NAME, hook_command, mcp_command

__all__ = ("EVENTS", "PERMISSIONS", "hooks", "mcp_entry", "settings")

EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PermissionRequest",
    "PostToolUse",
    "Notification",
    "Stop",
    "SessionEnd",
)
"""What we want to hear of. An interrupt is told by none of them (its session file tells)."""
PERMISSIONS = (f"mcp__{MCP_NAME}__*",)
"""Our own tools need no asking, or an agent that nobody watches would wait at a prompt."""
WAKING = ("SessionStart", "Stop")
"""After these an agent may fall idle: a hook stays behind that can wake it."""
_HOOK_S, _END_S = 10, 1
_WAKE_S = 86_400


def hooks() -> dict[str, list[dict[str, Any]]]:
    """Event → the groups of handlers that are added to it."""
    return {event: [{"hooks": _handlers(event)}] for event in EVENTS}


def _handlers(event: str) -> list[dict[str, Any]]:
    # Claude ends what a SessionEnd hook does after 1.5 s.
    limit = _END_S if event == "SessionEnd" else _HOOK_S
    handlers: list[dict[str, Any]] = [{"type": "command", "command": hook_command("claude"), "timeout": limit}]
    if event in WAKING:
        waiting = hook_command("claude", waits=True)
        handlers.append({"type": "command", "command": waiting, "asyncRewake": True, "timeout": _WAKE_S})
    return handlers


def settings() -> dict[str, Any]:
    """What `--settings` takes, or belongs into `settings.json`."""
    return {"hooks": hooks(), "permissions": {"allow": list(PERMISSIONS)}}


def mcp_entry() -> dict[str, Any]:
    """Our server, as an entry of `mcpServers`. `alwaysLoad`: else the model only sees the names of its tools."""
    program, *arguments = mcp_command()
    return {"type": "stdio", "command": program, "args": arguments, "alwaysLoad": True}
