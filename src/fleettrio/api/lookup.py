"""Which message an id on a command line means: a full id, a unique ending of at least 4, or `@last`."""

from __future__ import annotations

from fleettrio.api.rpc import CallError
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.ids import Gid, short_id
from fleettrio.perform import Performer
from fleettrio.store.queries import SHORTEST_ENDING

__all__ = ("Lookup",)

_USAGE = 2


class Lookup:
    """An agent finds its own messages; the person at this host finds all of them."""

    def __init__(self, performer: Performer) -> None:
        self._gateway = performer.gateway
        self._store = performer.store
        self._human = performer.gateway.settings.me.human

    async def both(self, message_id: str, gid: Gid) -> tuple[list[InboxRow], list[SentRow]]:
        """What `message_id` names: a full id, a unique ending of at least 4, or `@last`."""
        if message_id == "@last":
            received, sent = await self._store.last_in(gid), await self._store.last_sent(gid)
            newest = max((row for row in (received, sent) if row is not None), key=lambda r: r.at, default=None)
            if newest is None:
                raise CallError(3, "no-such-message", "nothing was sent or received yet", "fleettrio inbox --all")
            message_id = newest.msg_id
        if len(message_id) < SHORTEST_ENDING:
            raise CallError(
                _USAGE, "usage", f"{message_id!r} is too short for an id", "give at least its last 4 digits"
            )
        inbox, sent_rows = await self._store.find(message_id)
        ids = {row.msg_id for row in inbox} | {row.msg_id for row in sent_rows}
        if not ids:
            text = f"no message here ends with {message_id!r}"
            raise CallError(3, "no-such-message", text, "fleettrio inbox --all, fleettrio inbox --sent")
        if len(ids) > 1:
            endings = ", ".join(sorted(short_id(i) for i in ids)[:6])
            raise CallError(_USAGE, "ambiguous", f"{message_id!r} is the end of several: {endings}", "give more digits")
        return inbox, sent_rows

    async def received(self, message_id: str, gid: Gid) -> InboxRow:
        """A message that came to `gid` (the person may look at all of this host's)."""
        if message_id == "@last":
            row = await self._store.last_in(gid)
            if row is None:
                raise CallError(3, "no-such-message", "no message came to you yet", "fleettrio inbox --all")
            return row
        inbox, _ = await self.both(message_id, gid)
        mine = [row for row in inbox if row.gid == gid]
        if not mine and gid == self._human:
            mine = inbox
        if not mine:
            raise CallError(3, "not-yours", f"{message_id} did not come to you", "fleettrio inbox --all")
        return mine[0]

    async def sent(self, message_id: str, gid: Gid) -> SentRow:
        if message_id == "@last":
            row = await self._store.last_sent(gid)
            if row is None:
                raise CallError(3, "no-such-message", "you sent nothing yet", "fleettrio inbox --sent")
            return row
        _, sent = await self.both(message_id, gid)
        mine = [row for row in sent if gid in (row.sender, self._human)]
        if not mine:
            raise CallError(3, "not-yours", f"{message_id} was not sent by you", "fleettrio inbox --sent")
        return await self.fresh(mine[0])

    async def fresh(self, row: SentRow) -> SentRow:
        """The row as it is now: the core's, else the store's."""
        latest = self._gateway.outbox.get((row.msg_id, row.gid))
        return latest or await self._store.sent(row.msg_id, row.gid) or row
