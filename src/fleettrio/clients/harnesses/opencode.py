"""opencode: a plugin and an MCP entry (seen with version 1.18.33)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fleettrio.clients.harnesses.programs import MCP_NAME, hook_argv, mcp_command

__all__ = ("HOOK_VARIABLE", "PLUGIN", "config", "environment", "mcp_entry", "plugin_text")

PLUGIN = Path(__file__).with_name("opencode_plugin.js")
"""What opencode has in place of hooks: a file that it loads."""
HOOK_VARIABLE = "FLEETTRIO_HOOK"
"""Where the plugin finds the hook: program and arguments, as a list in JSON."""
_ANY_HOOK = """'["fleettrio-hook"]'"""


def plugin_text() -> str:
    """The plugin as it is written into a folder of opencode: it knows where this installation's hook is."""
    return PLUGIN.read_text("utf-8").replace(_ANY_HOOK, json.dumps(json.dumps(hook_argv())))


def environment() -> dict[str, str]:
    """What one process is given, so that the plugin as it lies here finds the hook."""
    return {HOOK_VARIABLE: json.dumps(hook_argv())}


def mcp_entry() -> dict[str, Any]:
    """Our server, as an entry of `mcp`."""
    return {"type": "local", "command": mcp_command(), "enabled": True}


def config() -> dict[str, Any]:
    """What `OPENCODE_CONFIG_CONTENT` takes; opencode adds it to the person's own configuration."""
    return {"plugin": [PLUGIN.as_uri()], "mcp": {MCP_NAME: mcp_entry()}}
