"""Lines of the local socket as the SDK's streams of messages, and back.

Rules:
1. A line that is no message of MCP is answered with an error, under its id where it has one that may be; the next line
   is read. With an id that is neither text nor a whole number it is a request all the same, and none of MCP.
2. At most `MOST_OPEN` requests of a client are open; one more is answered `busy`.
3. A request that its client took back is told so (`Request.unanswered`), also when its answer and that word have
   crossed: a client shows nothing of an answer that it does not expect any more.
4. Text may hold lone surrogates, which JSON can spell and UTF-8 cannot: they pass in, and are escaped on their way out.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

import mcp_types as types
import pydantic
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from fleettrio.api.jsonrpc import BadRequest, encode_error
from fleettrio.api.rpc import Lines

__all__ = ("MOST_OPEN", "Inward", "Outward", "Request")

MOST_OPEN = 64
_BUSY = "too many calls are open: try again in a second"


@dataclasses.dataclass(eq=False, slots=True)
class Request:
    """One request of a client. `on_unanswered` are run when no answer goes out, or the client did not want it."""

    on_unanswered: list[Callable[[], Awaitable[None]]] = dataclasses.field(default_factory=list)

    async def unanswered(self) -> None:
        for tell in self.on_unanswered:
            await tell()


class _Stream:
    """What the SDK wants of both: closing does nothing, the connection ends by itself."""

    async def aclose(self) -> None:
        """The connection's owner closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class Outward(_Stream):
    """What the SDK says, as lines."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.open: dict[str | int, Request] = {}
        self._answered: dict[str | int, Request] = {}
        """The latest ones, which may still be taken back."""

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            self._note_answer(message.id)
        plain = message.model_dump(by_alias=True, exclude_unset=True)
        await self._lines.send(json.dumps(plain, separators=(",", ":")).encode() + b"\n")

    def _note_answer(self, request_id: str | int) -> None:
        if (request := self.open.pop(request_id, None)) is None:
            return
        self._answered[request_id] = request
        if len(self._answered) > MOST_OPEN:
            del self._answered[next(iter(self._answered))]

    async def taken_back(self, request_id: object) -> None:
        """The client gave a request up that may have its answer already."""
        if isinstance(request_id, str | int) and (request := self._answered.pop(request_id, None)):
            await request.unanswered()

    async def refuse(self, request_id: str | int | None, code: int, text: str) -> None:
        """Answer a line that the SDK never sees."""
        error = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}}
        await self._lines.send(json.dumps(error).encode() + b"\n")


class Inward(_Stream):
    """What the client says, as messages."""

    def __init__(self, lines: Lines, outward: Outward) -> None:
        self._lines = lines
        self._outward = outward

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        while True:
            try:
                line = await self._lines.next()
            except BadRequest as problem:
                await self._lines.send(encode_error(None, problem.body))
                line = None
            if line is None:
                raise StopAsyncIteration
            if line.strip() and (message := await self._read(line)) is not None:
                return message

    async def receive(self) -> SessionMessage:
        return await self.__anext__()

    async def _read(self, line: bytes) -> SessionMessage | None:
        plain: Any = None
        try:
            plain = json.loads(line)
            if isinstance(plain, dict) and _has_strange_id(plain):
                await self._outward.refuse(None, types.INVALID_REQUEST, "an id is a text or a whole number")
                return None
            message = types.jsonrpc_message_adapter.validate_python(plain, by_name=False)
        except pydantic.ValidationError:
            request_id = plain.get("id") if isinstance(plain, dict) else None
            await self._outward.refuse(request_id, types.INVALID_REQUEST, "not a JSON-RPC 2.0 message")
            return None
        except (ValueError, RecursionError) as problem:
            await self._outward.refuse(None, types.PARSE_ERROR, f"not JSON: {problem}")
            return None
        if isinstance(message, types.JSONRPCRequest):
            return await self._begin(message)
        if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            await self._outward.taken_back((message.params or {}).get("requestId"))
        return SessionMessage(message)

    async def _begin(self, message: types.JSONRPCRequest) -> SessionMessage | None:
        opened = self._outward.open
        if message.id in opened:
            await self._outward.refuse(message.id, types.INVALID_REQUEST, "a request with this id is open already")
            return None
        if len(opened) >= MOST_OPEN:
            await self._outward.refuse(message.id, -32000, _BUSY)
            return None
        request = opened[message.id] = Request()

        async def unanswered() -> None:
            opened.pop(message.id, None)
            await request.unanswered()

        metadata = ServerMessageMetadata(request_context=request, on_request_unanswered=unanswered)
        return SessionMessage(message, metadata)


def _has_strange_id(plain: dict[str, Any]) -> bool:
    """It has an id that no request has; only the error of a client that could not read ours may have none."""
    request_id = plain.get("id", "")
    return type(request_id) not in (str, int) and not (request_id is None and "error" in plain)
