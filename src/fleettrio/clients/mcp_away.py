"""What `fleettrio mcp` answers by itself while no daemon serves it.

`initialize` and `tools/list` are answered from a table that comes with the program, so that the tools are there, and
work as soon as the daemon does; until then each call says what is missing. A probe for the newer era is told no: a
client of the handshake's era can be introduced to a daemon that comes later, and can be told that its tools changed.
"""

from __future__ import annotations

import json
import os

from fleettrio import __version__

TYPE_CHECKING = False  # as in `mcp_shim`
if TYPE_CHECKING:
    from typing import Any

__all__ = ("AWAY", "LOST", "TABLE", "WAITING", "answer", "failure", "is_message", "refusal")

TABLE = os.path.join(os.path.dirname(__file__), "tools.json")
"""What the daemon would say: `make docs` writes it, and a test compares."""
WAITING = ("initialize", "tools/list", "server/discover", "subscriptions/listen")
"""Requests that wait a moment for a daemon that is being started."""

AWAY = "the fleettrio daemon does not run, so nothing was done; ask your person to run `fleettrio up`, then call again"
LOST = (
    "the fleettrio daemon ended while it had this call in hand: it may or may not have been done; "
    "look with fleet_list and fleet_poll before you call again"
)
_DID_NOT_RUN = (
    "When this session began, the fleettrio daemon did not run; your person starts it with `fleettrio up` at a "
    "terminal, and from then on these tools work in this session."
)
_NO_JSON, _NO_MESSAGE, _NO_METHOD, _FAILED = -32700, -32600, -32601, -32000
_HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions of the protocol that begin with `initialize`, the newest last."""


def answer(request: dict[str, Any], names: str, refused: str) -> dict[str, Any]:
    """The answer to a request that no daemon serves. `names`: the set of tools that was asked for; `refused`: why the
    daemon that is there does not."""
    match request["method"]:
        case "initialize":
            return _result(request, _introduced(request.get("params"), refused))
        case "tools/list":
            tools = _brought()["tools"]
            listed = [*tools[""], *(tools[names] if names else ())]
            return _result(request, {"tools": listed, "ttlMs": 0, "cacheScope": "private"})
        case "ping":
            return _result(request, {})
        case "tools/call" | "subscriptions/listen":
            return failure(request, refused or AWAY)
        case _:
            return _error(request["id"], _NO_METHOD, "not known while the fleettrio daemon is away")


def failure(request: dict[str, Any], why: str) -> dict[str, Any]:
    """`why` it was not done: for a call the result that a model is shown, else an error."""
    if request["method"] == "tools/call":
        return _result(request, {"content": [{"type": "text", "text": why}], "isError": True})
    return _error(request["id"], _FAILED, why)


def refusal(line: bytes) -> dict[str, Any]:
    """The answer to a line that is no message, as the daemon gives it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as problem:
        return _error(None, _NO_JSON, f"not JSON: {problem}")
    number = found.get("id") if isinstance(found, dict) else None
    return _error(number if type(number) in (str, int) else None, _NO_MESSAGE, "not a JSON-RPC 2.0 message")


def is_message(line: dict[str, Any]) -> bool:
    """A notification, or an answer: nobody expects an answer to these."""
    is_notification = isinstance(line.get("method"), str) and "id" not in line
    return is_notification or "result" in line or "error" in line


def _introduced(params: object, refused: str) -> dict[str, Any]:
    wanted = params.get("protocolVersion") if isinstance(params, dict) else None
    return {
        "protocolVersion": wanted if wanted in _HANDSHAKES else _HANDSHAKES[-1],
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "fleettrio", "version": __version__},
        "instructions": f"{refused or _DID_NOT_RUN} {_brought()['instructions']}",
    }


def _error(number: str | int | None, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


def _result(request: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """In the newer era a result says that it is one; the older ignores that."""
    return {"jsonrpc": "2.0", "id": request["id"], "result": {**result, "resultType": "complete"}}


def _brought() -> dict[str, Any]:
    with open(TABLE, "rb") as file:
        brought: dict[str, Any] = json.load(file)
    return brought
