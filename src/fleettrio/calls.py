"""Local calls that wait for the core: a task asks, and takes what the core resolves it with.

A call has a number, which goes into the event that asks and comes back in `Resolve` or `Fail`. It is resolved once.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

import trio

from fleettrio.core.actions import Fail
from fleettrio.errors import FleetTrioError

__all__ = ("CallFailed", "Calls", "Group")


class CallFailed(FleetTrioError):
    """A local call ended with an error; `exit_code` and `reason` are for its client."""

    def __init__(self, fail: Fail) -> None:
        super().__init__(fail.message, hint=fail.hint)
        self.exit_code = fail.code
        self.reason = fail.reason


class Group:
    """Calls whose results are waited for together."""

    __slots__ = ("_calls", "_came", "_changed", "open")

    def __init__(self, calls: dict[int, Group]) -> None:
        self._calls = calls
        self._came: list[tuple[int, object]] = []
        self._changed = trio.Event()
        self.open: set[int] = set()
        """Those whose results were not taken yet."""

    def add(self, number: int) -> int:
        self._calls[number] = self
        self.open.add(number)
        return number

    def came(self, number: int, result: object) -> None:
        self._came.append((number, result))
        self._changed.set()

    async def some(self) -> list[tuple[int, object]]:
        """What is there now, at least one; nothing when all were taken. A `Fail` is a result, too.

        Cancelled, nothing is taken.
        """
        while self.open and not self._came:
            self._changed = trio.Event()
            await self._changed.wait()
        taken, self._came = self._came, []
        for number, _ in taken:
            self.drop(number)
        return taken

    def drop(self, number: int) -> None:
        """A later result is dropped."""
        self.open.discard(number)
        self._calls.pop(number, None)


class Calls:
    """The local calls that wait for the core: numbered, resolved once."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Group] = {}

    def new(self, group: Group | None = None) -> int:
        """A call by itself, whose `result` is waited for, or one of a group."""
        return (group or self.group()).add(next(self._numbers))

    def group(self) -> Group:
        return Group(self._waiting)

    def resolve(self, number: int, result: object) -> None:
        if group := self._waiting.get(number):
            group.came(number, result)

    async def result(
        self,
        number: int,
        patience: trio.CancelScope | None = None,
        timed_out: Callable[[], Awaitable[None]] | None = None,
    ) -> object:
        """The call's result; raises `CallFailed`. Cancelled, the call is forgotten: a later result is dropped.

        When `patience` ends without one, `timed_out` tells the core, which ends the call then.
        """
        group, came = self._waiting[number], list[tuple[int, object]]()
        try:
            with patience or trio.CancelScope():
                came = await group.some()
            if not came and timed_out is not None:
                await timed_out()
            (_, result), *_ = came or await group.some()
        finally:
            group.drop(number)
        if isinstance(result, Fail):
            raise CallFailed(result)
        return result
