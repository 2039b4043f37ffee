"""The connection that speaks MCP from then on."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fleettrio.api.schema.base import Done, Line, Methods, Path

__all__ = ("METHODS", "Mcp")


class Mcp(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Every line after the answer is MCP's."""

    token: Line = ""
    names: Annotated[str, Meta(pattern="^(seed4|)$")] = ""
    """`seed4` adds the tools of that name."""
    cwd: Path = ""
    """Where the harness stands: what its messages are about is looked at there."""


METHODS: Methods = {"mcp": (Mcp, Done)}
