"""The methods that look at messages and call them back; sending and waiting are beside them."""

from __future__ import annotations

import trio

from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.later import Later
from fleettrio.api.lookup import Lookup
from fleettrio.api.results import result_of
from fleettrio.api.rights import identity_of
from fleettrio.api.rpc import CallError, Connection, Handler
from fleettrio.api.sending import Sending
from fleettrio.api.viewer import Viewer
from fleettrio.api.waiting import Waiting
from fleettrio.core import requests as ask
from fleettrio.core.outbox import CALLED_BACK
from fleettrio.core.rows import Due, InboxRow
from fleettrio.errors import FAILED
from fleettrio.ids import Gid, MsgId, WallMs, short_id
from fleettrio.local.sanitise import clean
from fleettrio.perform import Performer
from fleettrio.tasks.framing import framed_to_read
from fleettrio.wire.envelope import Kind

__all__ = ("Messages",)

CANCEL_WAIT_S = 4.0
_UNDONE_BY: dict[str, str] = {Kind.SPAWN: "fleettrio stop {id}", Kind.PAUSE: "fleettrio resume, with what was paused"}
"""What ends that which an order brought about."""


class Messages:
    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._store = performer.store
        self._lookup = Lookup(performer)
        self._later = Later(performer)
        self._viewer = Viewer(performer, self._lookup)
        self.waiting = Waiting(performer, self._lookup, self._viewer)
        self.sending = Sending(performer, self._lookup, self._later, self._viewer)

    def methods(self) -> dict[str, Handler]:
        return {
            **self.sending.methods(),
            "inbox": self.inbox,
            "show": self.show,
            "body": self.body,
            "framed": self.framed,
            "cancel": self.cancel,
            **self.waiting.methods(),
        }

    async def cancel(self, params: schema.Cancel, caller: Caller, connection: Connection) -> schema.Shown:
        if due := await self._due_later(params.id, identity_of(caller), or_came=False):
            return schema.Shown(await self._later.cancel(due), [])
        rows = await self._lookup.all_sent(params.id, identity_of(caller))
        if rows[0].kind not in CALLED_BACK:
            text = (
                f"{short_id(rows[0].msg_id)} is a {rows[0].kind}, which is not called back: another request undoes it"
            )
            hint = _UNDONE_BY.get(rows[0].kind, "fleettrio show {id}").format(id=short_id(rows[0].msg_id))
            raise CallError(FAILED, "not-called-back", text, hint)
        for row in rows:
            call = self._performer.calls.new()
            await self._performer.handle(ask.CancelAsked(call, row))
            await result_of(self._performer, call, connection)
        rows = [await self._lookup.fresh(row) for row in rows]
        if any(row.recalling for row in rows):
            waiting, sender = self._performer.calls.new(), rows[0].sender
            await self._performer.handle(ask.WaitAsked(waiting, connection.session, sender, tuple(rows), "final"))
            with trio.move_on_after(CANCEL_WAIT_S):
                await result_of(self._performer, waiting, connection)
            rows = [await self._lookup.fresh(row) for row in rows]
        return schema.Shown(await self._viewer.sent(rows), await self._viewer.journal([rows[0].msg_id]))

    # --- looking

    async def inbox(self, params: schema.Inbox, caller: Caller, connection: Connection) -> schema.InboxRows:
        gid = identity_of(caller)
        limit = max(1, min(params.limit, 1_000))
        if params.sent:
            later = self._later.views(self._later.of(gid))
            views = later[:limit] + await self._viewer.sent(await self._store.sent_rows(gid, limit=limit))
            total = len(later) + await self._store.count_sent(gid)
        else:
            rows = await self._store.inbox_rows(gid, open_only=not params.all, limit=limit)
            views = await self._viewer.received(sorted(rows, key=lambda row: not _is_open_question(row)))
            total = await self._store.count_inbox(gid, open_only=not params.all)
        return schema.InboxRows(self._gateway.roster.address(gid, self._gateway.settings.me.host), views, total)

    async def show(self, params: schema.Show, caller: Caller, connection: Connection) -> schema.Shown:
        gid = identity_of(caller)
        if due := await self._due_later(params.id, gid, or_came=True):
            return schema.Shown(self._later.views([due]), await self._viewer.journal([due.id]))
        inbox, sent = await self._lookup.both(params.id, gid)
        if gid != self._gateway.settings.me.human:
            inbox, sent = [r for r in inbox if gid in (r.gid, r.sender)], [r for r in sent if gid in (r.gid, r.sender)]
            if not inbox and not sent:
                raise CallError(FAILED, "not-yours", f"{params.id} is between others", "fleettrio inbox --all")
        views = await self._viewer.sent(sent) + await self._viewer.received(inbox)
        ids = sorted({view.msg_id for view in views})
        return schema.Shown(views, await self._viewer.journal([MsgId(i) for i in ids]))

    async def body(self, params: schema.BodyOf, caller: Caller, connection: Connection) -> schema.Body:
        row, body = await self._received(params.id, caller)
        return schema.Body(row.msg_id, body, row.about or clean(body))

    async def framed(self, params: schema.BodyOf, caller: Caller, connection: Connection) -> schema.Framed:
        row, body = await self._received(params.id, caller)
        return schema.Framed(row.msg_id, framed_to_read(row, body, self._performer).framed)

    # --- inside

    async def _due_later(self, message_id: str, gid: Gid, *, or_came: bool) -> Due | None:
        """What is due later, when `message_id` names it. `@last` does while nothing was sent since it was asked for;
        `or_came`: and nothing came."""
        if message_id != "@last":
            return self._later.find(message_id, gid)
        due = self._later.latest(gid)
        if due is None:
            return None
        sent, came = await self._store.last_sent(gid), await self._store.last_in(gid) if or_came else None
        newer = (sent and (sent.ts, sent.msg_id) > (due.made_at, due.id)) or (came and came.at > due.made_at)
        return None if newer else due

    async def _received(self, message_id: str, caller: Caller) -> tuple[InboxRow, bytes]:
        """A message that came to the caller, and its body."""
        row = await self._lookup.to_read(message_id, identity_of(caller))
        stored = await self._store.message(row.msg_id, row.gid)
        if stored is None:
            text = f"the body of {short_id(row.msg_id)} is not kept any more"
            raise CallError(FAILED, "no-body", text, "bodies are kept until two days after the message expired")
        return row, stored.body

    def _now(self) -> WallMs:
        return self._performer.clock.now().wall


def _is_open_question(row: InboxRow) -> bool:
    """Somebody waits for its answer right now: it is listed first."""
    return row.kind == Kind.ASK and row.state.is_open
