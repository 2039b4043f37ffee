"""Clients of `fleettrio mcp`, each a process of its own, as a harness starts them: the SDK's, and bare lines."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult

from fleettrio.testing.hosts import COMMAND, Host, end_process

ERAS = ("auto", "legacy")
"""The SDK's client asks `server/discover` first, or begins with `initialize`."""


@contextlib.asynccontextmanager
async def sdk_client(
    host: Host, token: str, *arguments: str, era: str = "auto", cwd: Path | None = None
) -> AsyncIterator[Client]:
    """The SDK's client, connected to a shim of its own that stands in `cwd`."""
    program, *rest = COMMAND
    env = {**host.env, "FLEETTRIO_TOKEN": token}
    server = StdioServerParameters(command=program, args=[*rest, "mcp", *arguments], env=env, cwd=cwd)
    async with Client(stdio_client(server), mode=era) as client:
        yield client


def facts(result: Any) -> dict[str, Any]:
    """What a tool said, which must have been no error."""
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def error(result: Any) -> dict[str, Any]:
    """What a tool said of a call that could not be done."""
    assert isinstance(result, CallToolResult)
    assert result.is_error, result.structured_content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


class Bare:
    """A client of lines: what the SDK's never does."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._ids = 0

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def begin(self, method: str, **params: Any) -> int:
        """Send a request; returns its id."""
        self._ids += 1
        request = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        self.send(json.dumps(request).encode() + b"\n")
        return self._ids

    def read(self) -> dict[str, Any]:
        """The next line."""
        assert self.process.stdout is not None
        message = json.loads(self.process.stdout.readline())
        assert isinstance(message, dict)
        return message

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """A request and its answer."""
        request_id = self.begin(method, **params)
        while (message := self.read()).get("id") != request_id:
            pass
        return message

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result of a tool."""
        result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        assert isinstance(result, dict)
        return result

    def initialize(self) -> None:
        """The handshake of the older era."""
        info = {"name": "test", "version": "1"}
        answer = self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
        assert answer["result"]["protocolVersion"] == "2025-06-18"
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')


@contextlib.contextmanager
def bare_client(host: Host, token: str) -> Iterator[Bare]:
    """A shim and its pipes."""
    process = host.popen("mcp", token=token)
    try:
        yield Bare(process)
    finally:
        end_process(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
