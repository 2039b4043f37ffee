"""One call of a tool: who makes it, what it may ask of the daemon, how it tells that it still waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from fleettrio.api import jsonrpc
from fleettrio.api.callers import Caller
from fleettrio.api.mcp.hints import in_tools
from fleettrio.api.mcp.leases import Lease
from fleettrio.api.schema import METHODS
from fleettrio.complaints import complaint
from fleettrio.errors import FleetTrioError, ProtocolMisuse

if TYPE_CHECKING:
    from fleettrio.api.mcp.door import House

__all__ = ("Call", "Refusal", "Said")

PROGRESS_S = 5.0
"""So often a client that wants to know is told that the call still waits."""

Progress = Callable[[float, float | None, str | None], Awaitable[None]]


class Said(msgspec.Struct, frozen=True):
    """What a tool says: facts for programs, and the same as text."""

    facts: dict[str, Any]
    text: str
    is_error: bool = False


class Refusal(FleetTrioError):
    """A call that cannot be done: `reason` is one word, `hint` says what to do."""

    def __init__(self, reason: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason

    @property
    def said(self) -> Said:
        facts = {"error": str(self), "reason": self.reason, **({"hint": self.hint} if self.hint else {})}
        return Said(facts, f"{self}\n{self.hint}" if self.hint else str(self), is_error=True)


class Call:
    """What a tool is run with. `ask` calls a method of the local socket as this caller."""

    def __init__(
        self, house: House, caller: Caller, lease: Lease, *, cwd: str = "", progress: Progress | None = None
    ) -> None:
        self.house = house
        self.caller = caller
        self.cwd = cwd
        self._lease = lease
        self._progress = progress

    async def ask(self, method: str, /, **params: Any) -> Any:
        """The result of a method; raises `Refusal` for what it refuses, and for parameters out of their bounds.

        Cancelled, the request is given up as if its client had gone.
        """
        try:
            typed = msgspec.convert(params, METHODS[method][0], builtin_types=(bytes,))
            return await self.house.methods[method](typed, self.caller, self._lease.connection)
        except msgspec.ValidationError as problem:
            raise Refusal("usage", complaint(problem)) from None
        except ProtocolMisuse:
            raise
        except FleetTrioError as problem:
            body = jsonrpc.failure(problem)
            raise Refusal(body.data.reason, in_tools(body.message), in_tools(body.data.hint)) from None

    def offered(self, cursor: int) -> None:
        """The answer holds what has this cursor: the next call confirms it."""
        self._lease.cursor = max(self._lease.cursor, cursor)

    async def patiently(self, wait_s: float, look: Callable[[float], Awaitable[bool]]) -> None:
        """Call `look(limit_s)` until it is true, for `wait_s` in all; a client that wants to know hears of it."""
        step, spent = PROGRESS_S if self._progress else wait_s, 0.0
        while not await look(min(step, wait_s - spent)) and (spent := spent + step) < wait_s:
            if self._progress:
                await self._progress(spent, wait_s, "nothing yet")
