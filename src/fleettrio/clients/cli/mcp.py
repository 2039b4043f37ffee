"""`mcp` among the commands, for the help. It is started without this module, which loads too much for it."""

from __future__ import annotations

import click

from fleettrio.clients.mcp_shim import main

__all__ = ("mcp",)


@click.command(epilog="\b\nExample:\n  claude mcp add --scope user fleet -- fleettrio mcp")
@click.option("--names", type=click.Choice(["seed4"]), help="Add the tools of that name.")
def mcp(names: str | None) -> int:
    """Be an MCP server on standard input and output, for a harness to start.

    What it offers is done by the daemon, and it outlives the daemon: after a restart the next call works.
    """
    return main(["--names", names] if names else [])
