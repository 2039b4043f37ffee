"""Which message an id on a command line means: a full id, a unique ending or beginning of at least 4, or `@last`."""

from __future__ import annotations

from collections.abc import Sequence

from fleettrio.api.rpc import CallError
from fleettrio.api.tally import in_order
from fleettrio.core.roster import Target
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.errors import FAILED, USAGE
from fleettrio.ids import Gid, MsgId, short_id
from fleettrio.perform import Performer
from fleettrio.store.queries import SHORTEST_PART

__all__ = ("Lookup",)


class Lookup:
    """An agent finds its own messages; the person at this host finds all of them."""

    def __init__(self, performer: Performer) -> None:
        self._gateway = performer.gateway
        self._store = performer.store
        self._human = performer.gateway.settings.me.human

    async def both(self, message_id: str, gid: Gid, *, or_older: bool = False) -> tuple[list[InboxRow], list[SentRow]]:
        """What `message_id` names; `or_older` as in the store."""
        if message_id == "@last":
            received, sent = await self._store.last_in(gid), await self._store.last_sent(gid)
            newest = max((row for row in (received, sent) if row is not None), key=lambda r: r.at, default=None)
            if newest is None:
                raise CallError(FAILED, "no-such-message", "nothing was sent or received yet", "fleettrio inbox --all")
            message_id = newest.msg_id
        if len(message_id) < SHORTEST_PART:
            raise CallError(USAGE, "usage", f"{message_id!r} is too short for an id", "give at least its last 4 digits")
        inbox, sent_rows = await self._store.find(message_id, or_older=or_older)
        if not inbox and not sent_rows:  # decided, and on its way to the disk
            sent_rows = [row for row in self._gateway.outbox.rows.values() if row.msg_id.endswith(message_id)]
        ids = {row.msg_id for row in inbox} | {row.msg_id for row in sent_rows}
        if not ids:
            text = f"no id of a message here ends, or begins, with {message_id!r}"
            raise CallError(FAILED, "no-such-message", text, "fleettrio inbox --all, fleettrio inbox --sent")
        if len(ids) > 1:
            endings = ", ".join(sorted(short_id(i) for i in ids)[:6])
            text = f"the ids of several messages end, or begin, with {message_id!r}: {endings}"
            raise CallError(USAGE, "ambiguous", text, "give one of those")
        return inbox, sent_rows

    async def received(self, message_id: str, gid: Gid) -> InboxRow:
        """A message that came to `gid` (the person may look at all of this host's)."""
        if message_id == "@last":
            return await self._last(await self._store.last_in(gid), gid)
        return await self.to_read(message_id, gid)

    async def to_read(self, message_id: str, gid: Gid) -> InboxRow:
        """The same where `@last` is what it is for `both`: of a message that went out nothing is kept to be read."""
        inbox, sent = await self.both(message_id, gid)
        mine = [row for row in inbox if gid in (row.gid, self._human)]
        if mine:
            return next((row for row in mine if row.gid == gid), mine[0])
        if not any(row.sender == gid for row in sent):
            raise CallError(FAILED, "not-yours", f"{message_id} did not come to you", "fleettrio inbox --all")
        text, hint = f"{short_id(sent[0].msg_id)} is one that you sent: its text is not kept", "fleettrio inbox --all"
        if last := await self._store.last_in(gid):
            text += f"; the last that came to you is {short_id(last.msg_id)}"
            hint = f"fleettrio show {short_id(last.msg_id)} --framed"
        raise CallError(FAILED, "not-kept", text, hint)

    async def to_reply(self, message_id: str, gid: Gid) -> InboxRow:
        """The same for a reply: `@last` is the newest that a reply may go to, never the answer to a question."""
        if message_id == "@last":
            return await self._last(await self._store.last_to_reply(gid), gid)
        return self._at_hand(message_id, gid) or await self.received(message_id, gid)

    def _at_hand(self, message_id: str, gid: Gid) -> InboxRow | None:
        """What most replies are to, found without a look at the store: a message by its full id, or that which was put
        into its agent last, by as much of it as the agent is shown."""
        latest = self._gateway.inbox.forward.latest(gid)
        if latest is not None and message_id == short_id(latest.msg_id):
            return latest
        return self._gateway.ledger.get((MsgId(message_id), gid))

    async def _last(self, row: InboxRow | None, gid: Gid) -> InboxRow:
        if row is not None:
            return row
        if waiting := self._gateway.ledger.lane(gid).count:
            waits = "1 message waits" if waiting == 1 else f"{waiting} messages wait"
            text = f"{waits} for you, and you have taken none yet"
            raise CallError(FAILED, "not-taken", text, "fleettrio inbox --take")
        raise CallError(FAILED, "no-such-message", "no such message came to you yet", "fleettrio inbox --all")

    async def sent(self, message_id: str, gid: Gid) -> SentRow:
        """A message that `gid` sent; of a broadcast its head."""
        return (await self.all_sent(message_id, gid))[0]

    async def all_sent(self, message_id: str, gid: Gid) -> list[SentRow]:
        """All rows of a message that `gid` sent: the head of a broadcast, then its members."""
        if message_id == "@last":
            row = await self._store.last_sent(gid)
            if row is None:
                raise CallError(FAILED, "no-such-message", "you sent nothing yet", "fleettrio inbox --sent")
            message_id = row.msg_id
        _, sent = await self.both(message_id, gid, or_older=True)
        mine = [row for row in sent if gid in (row.sender, self._human)]
        if not mine:
            raise CallError(FAILED, "not-yours", f"{message_id} was not sent by you", "fleettrio inbox --sent")
        return [await self.fresh(row) for row in in_order(mine)]

    async def members(self, head: SentRow) -> list[SentRow]:
        """The rows that a broadcast has beside its head."""
        _, rows = await self._store.find(head.msg_id)
        return [await self.fresh(row) for row in rows if not row.is_head]

    async def replaced(self, message_id: str, sender: Gid, to: Sequence[str]) -> MsgId:
        """The message that a new one to `to` takes the place of: it went to one of them."""
        older = await self.sent(message_id, sender)
        _, rows = await self._store.find(older.msg_id)
        resolved = [self._gateway.roster.resolve(address) for address in to]
        gids = {target.gid for target in resolved if isinstance(target, Target)}
        # An address that nobody has is told by the send itself.
        if len(gids) == len(to) and not gids & {row.gid for row in rows}:
            short, reached = short_id(older.msg_id), [row for row in rows if not row.is_head]
            went = [self._gateway.roster.address(row.gid, row.to_host) for row in reached]
            how = "was broadcast, and reached" if older.is_head else "went to"
            text = f"{short} {how} {', '.join(went) or 'nobody'}: what replaces it goes to the same agent"
            raise CallError(
                USAGE, "usage", text, f"fleettrio send {went[0]} --supersedes {short} 'text'" if went else ""
            )
        return older.msg_id

    async def fresh(self, row: SentRow) -> SentRow:
        """The row as it is now: the core's, else the store's."""
        latest = self._gateway.outbox.get(row.key)
        return latest or await self._store.sent(row.msg_id, row.gid) or row
