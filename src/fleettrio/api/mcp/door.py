"""Where MCP comes in: the method that makes a connection a client of MCP, and loads the SDK for the first one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
import trio

from fleettrio.api.rpc import Connection, Handler, Lines
from fleettrio.api.schema import Mcp

if TYPE_CHECKING:  # the SDK is behind it
    from fleettrio.api.mcp.server import Server
    from fleettrio.api.sessions import Sessions
    from fleettrio.perform import Performer

__all__ = ("Door", "House")


class House(msgspec.Struct, frozen=True):
    """What every client's tools work with."""

    methods: Mapping[str, Handler]
    performer: Performer
    sessions: Sessions
    gone: Callable[[Connection], Awaitable[None]]
    """A session of the core ended without a word."""


class Door:
    def __init__(self, house: House) -> None:
        self._house = house
        self._server: Server | None = None

    async def serve(self, params: Mcp, lines: Lines) -> None:
        """Be the MCP server of one client until it goes. Cancelled, what it was offered waits again."""
        if self._server is None:
            self._server = await trio.to_thread.run_sync(_load, self._house)
        await self._server.serve(params, lines)


def _load(house: House) -> Server:
    """In a thread: the first import takes about a second."""
    from fleettrio.api.mcp.server import Server

    return Server(house)
