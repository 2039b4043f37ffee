"""The table of tools that the MCP program brings along, as the code of the daemon has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fleettrio.api.mcp.server import INSTRUCTIONS, described
from fleettrio.api.mcp.table import TOOLS, tools_for
from fleettrio.clients.mcp_away import TABLE

__all__ = ("as_it_should_be", "draw")


def as_it_should_be() -> dict[str, Any]:
    """What nobody in particular is shown, and what each further set adds."""
    sets = {tool.names: tools_for("", tool.names) for tool in TOOLS}
    own = [tool.name for tool in sets[""]]
    listed = {
        name: [
            described(tool).model_dump(by_alias=True, exclude_none=True)
            for tool in tools
            if not name or tool.name not in own
        ]
        for name, tools in sets.items()
    }
    return {"instructions": INSTRUCTIONS, "tools": listed}


def draw() -> None:
    """Write it."""
    Path(TABLE).write_text(json.dumps(as_it_should_be(), indent=1) + "\n", encoding="utf-8")
