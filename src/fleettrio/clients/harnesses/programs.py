"""The command lines that a harness runs: our hook and our MCP server.

Rules:
1. A path is absolute, and the same in every version: Codex trusts a hook by a hash over its command line.
2. What was removed must not break a prompt: a hook whose program is gone ends well and says nothing.
3. No token is ever on a command line: Claude shows the model the command of a hook that stops it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

__all__ = ("MCP_NAME", "TOKEN_VARIABLE", "hook_argv", "hook_command", "hook_program", "mcp_command", "passed_on")

MCP_NAME = "fleet"
"""What our server is called in every harness; its tools are `mcp__fleet__…` to Claude and Codex."""
TOKEN_VARIABLE = "FLEETTRIO_TOKEN"  # noqa: S105  the variable's name
_PASSED_ON = (
    TOKEN_VARIABLE,
    "FLEETTRIO_HOME",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "TMUX",
    "TMUX_PANE",
    "HERDR_PANE_ID",
)
"""What our MCP server reads of the environment; Codex gives its servers only what is named."""


def hook_command(harness: str, *, waits: bool = False) -> str:
    """The line that a harness gives to `/bin/sh -c` for a hook. `waits`: the one that stays to wake the agent."""
    program, *rest = hook_argv()
    words = [program, *rest, *(["wait"] if waits else []), harness]
    script = f"test -x {shlex.quote(program)} && exec {shlex.join(words)} || exit 0"
    return f"sh -c {shlex.quote(script)}"


def hook_program() -> str:
    """The program that those lines test for and run."""
    return hook_argv()[0]


def mcp_command() -> list[str]:
    """Program and arguments of our MCP server."""
    return [*_installed("fleettrio", "fleettrio"), "mcp"]


def passed_on() -> list[str]:
    """Variables that our MCP server is to be given by a harness that gives none by itself."""
    is_module = "-m" in mcp_command()
    return [*_PASSED_ON, *(["PYTHONPATH"] if is_module else [])]


def hook_argv() -> list[str]:
    """Program and first arguments of our hook."""
    return _installed("fleettrio-hook", "fleettrio.clients.hook")


def _installed(script: str, module: str) -> list[str]:
    """The installed script, by the path that outlives an upgrade; without one the module, run by this Python."""
    beside = Path(sys.executable).with_name(script)
    on_path = shutil.which(script)
    if on_path and beside.exists() and os.path.realpath(on_path) == os.path.realpath(beside):
        return [os.path.abspath(on_path)]
    if os.access(beside, os.X_OK):
        return [str(beside)]
    return [sys.executable, "-P", "-m", module]
