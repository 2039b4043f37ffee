"""What a client was given and has not confirmed: the cursors that a model need not think about.

Rules:
1. Each call has a session of its own towards the core while it runs; one after the other they share it. So the cursor
   of one call says nothing of what another call, which was given up, was offered.
2. The next call of the same agent confirms what the calls before it were given, as far as they were answered.
3. A call that was given up, or whose answer did not go out, confirms nothing: its session is gone, and what it was
   offered waits again, marked as a repeat.
"""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import trio

from fleettrio.api.rpc import Connection

__all__ = ("Lease", "Leases")

_END_S = 2.0


@dataclasses.dataclass(eq=False, slots=True)
class Lease:
    """A session of the core for one call at a time."""

    gid: str
    connection: Connection
    cursor: int = 0
    """Up to here its calls were offered something that is not confirmed yet."""
    calls: int = 0
    """How many it has served."""
    dropped: bool = False


class Leases:
    """Those of one client. `confirm` and `gone` tell the core."""

    def __init__(
        self,
        connection: Connection,
        confirm: Callable[[Lease, int], Awaitable[None]],
        gone: Callable[[Connection], Awaitable[None]],
    ) -> None:
        self._connection = connection
        self._confirm = confirm
        self._gone = gone
        self._free: list[Lease] = []

    async def take(self, gid: str, upto: int | None = None) -> Lease:
        """A session for a call of `gid`, confirming what was given before it (with `upto`, to that cursor).

        Cancelled, what was confirmed by then stays so.
        """
        mine = [lease for lease in self._free if lease.gid == gid]
        for one in mine:
            if cursor := one.cursor if upto is None else min(upto, one.cursor):
                one.cursor = 0 if cursor == one.cursor else one.cursor
                await self._confirm(one, cursor)
        lease = next((one for one in mine if one in self._free), None)
        if lease is None:
            lease = Lease(gid, dataclasses.replace(self._connection, session=uuid.uuid4().hex))
        else:
            self._free.remove(lease)
        lease.calls += 1
        return lease

    async def drop(self, lease: Lease, call: int) -> None:
        """Its `call` was given up, or nobody wanted its answer. Runs to its end, bounded, also when cancelled.

        With a later call on it, what that one was given is confirmed already, or its own affair.
        """
        if lease.calls != call or lease.dropped:
            return
        lease.dropped = True
        if lease in self._free:
            self._free.remove(lease)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _END_S):
            await self._gone(lease.connection)

    @contextlib.asynccontextmanager
    async def session(self, gid: str, upto: int | None = None) -> AsyncIterator[Lease]:
        """As `take`, given back at the end, or dropped when that is an exception."""
        lease = await self.take(gid, upto)
        try:
            yield lease
        except BaseException:
            await self.drop(lease, lease.calls)
            raise
        if not lease.dropped:
            self._free.append(lease)

    async def close(self) -> None:
        """The client went: all that it did not confirm waits again."""
        for lease in list(self._free):
            await self.drop(lease, lease.calls)
