"""The methods that move messages: send, reply, wait, pull, show, cancel, trace. They ask the core and word it."""

from __future__ import annotations

import os
from collections.abc import Sequence

import trio

from fleettrio._accel import leaf_of
from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.lookup import Lookup
from fleettrio.api.rpc import CallError, Connection
from fleettrio.api.views import inbox_view, journal_line, sent_view
from fleettrio.core import calls
from fleettrio.core import events as ev
from fleettrio.core.roster import Target
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.ids import Gid, MsgId, TraceId, WallMs, short_id
from fleettrio.local.sanitise import clean, one_line
from fleettrio.perform import Performer
from fleettrio.wire.gids import is_gid, new_msg_id

__all__ = ("Messages",)

MOST_WAIT_S = 50.0
CANCEL_WAIT_S = 4.0
PREVIEW = 60
_USAGE = 2


class Messages:
    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._store = performer.store
        self._lookup = Lookup(performer)

    # --- sending

    async def send(self, params: schema.Send, caller: Caller, connection: Connection) -> schema.SendResult:
        sender = _identity(caller)
        if not params.to:
            raise CallError(_USAGE, "usage", "no recipient was named", "fleettrio send NAME 'text'")
        if params.expires_s is not None and params.expires_s <= 0:
            text = f"a message cannot expire {params.expires_s:g} s from now: it would never be delivered"
            raise CallError(_USAGE, "usage", text, "give --expires a time, as 10m or 2h")
        to = self._each_once(params.to)
        known = await self._keyed(params.key, sender)
        wall = self._performer.clock.now().wall
        supersedes = (await self._lookup.sent(params.supersedes, sender)).msg_id if params.supersedes else None
        call = self._performer.calls.new()
        await self._performer.handle(
            ev.SendAsked(
                call=call,
                sender=sender,
                to=to,
                body=params.body,
                msg_ids=tuple(new_msg_id(wall, os.urandom(10)) for _ in to),
                trace_id=TraceId(os.urandom(16).hex()),
                when=params.when,
                intent=params.intent,
                priority=params.priority,
                expires_in_ms=None if params.expires_s is None else int(params.expires_s * 1000),
                wants_reply=params.wants_reply,
                live=params.live,
                supersedes=supersedes,
                key=params.key,
                known=known,
            )
        )
        return self._accepted(await self._result_of(call, connection))

    async def reply(self, params: schema.Reply, caller: Caller, connection: Connection) -> schema.SendResult:
        sender = _identity(caller)
        known = await self._keyed(params.key, sender)
        original = await self._lookup.received(params.re, sender)
        wall = self._performer.clock.now().wall
        call = self._performer.calls.new()
        await self._performer.handle(
            ev.ReplyAsked(
                call=call,
                sender=sender,
                original=original,
                body=params.body,
                msg_id=new_msg_id(wall, os.urandom(10)),
                key=params.key,
                known=known,
            )
        )
        return self._accepted(await self._result_of(call, connection))

    async def retry(self, params: schema.Retry, caller: Caller, connection: Connection) -> schema.SendResult:
        row = await self._lookup.sent(params.id, _identity(caller))
        if leaf_of(row.header, params.body) != row.leaf:
            text = f"this is not the body of {short_id(row.msg_id)}: a retry is the same bytes"
            raise CallError(_USAGE, "other-body", text, "give the very body again, or send a new message")
        call = self._performer.calls.new()
        await self._performer.handle(ev.RetryAsked(call, row, params.body))
        return self._accepted(await self._result_of(call, connection))

    async def cancel(self, params: schema.Cancel, caller: Caller, connection: Connection) -> schema.Shown:
        row = await self._lookup.sent(params.id, _identity(caller))
        call = self._performer.calls.new()
        await self._performer.handle(ev.CancelAsked(call, row))
        await self._result_of(call, connection)
        rows = [await self._lookup.fresh(row)]
        if rows[0].recalling:
            waiting = self._performer.calls.new()
            await self._performer.handle(ev.WaitAsked(waiting, connection.session, row.sender, tuple(rows), "final"))
            with trio.move_on_after(CANCEL_WAIT_S):
                await self._result_of(waiting, connection)
            rows = [await self._lookup.fresh(row)]
        journal = await self._store.journal(msg_ids=[row.msg_id], limit=200)
        host = self._gateway.settings.me.host
        return schema.Shown([self._sent(rows[0])], [journal_line(line, host) for line in journal])

    # --- waiting and taking

    async def wait(self, params: schema.Wait, caller: Caller, connection: Connection) -> schema.Waited:
        gid = _identity(caller)
        if params.until not in ("answer", "delivered"):
            raise CallError(_USAGE, "usage", f"cannot wait until {params.until!r}", "answer or delivered")
        rows = [await self._lookup.sent(message_id, gid) for message_id in params.ids]
        call = self._performer.calls.new()
        await self._performer.handle(ev.WaitAsked(call, connection.session, gid, tuple(rows), params.until))
        with trio.move_on_after(min(params.limit_s, MOST_WAIT_S)):
            result = await self._result_of(call, connection)
            assert isinstance(result, calls.WaitOver)
            answers = await self._messages(result.answers)
            return schema.Waited(True, [self._sent(row) for row in result.rows], answers, result.cursor)
        return schema.Waited(False, [self._sent(await self._lookup.fresh(row)) for row in rows], [], 0)

    async def pull(self, params: schema.Pull, caller: Caller, connection: Connection) -> schema.Pulled:
        gid = _identity(caller)
        sender = self._sender_gid(params.sender) if params.sender else None
        limit = max(1, min(params.limit, 200))
        call = self._performer.calls.new()
        wait = params.wait_s > 0
        await self._performer.handle(ev.PullAsked(call, connection.session, gid, limit, wait, sender))
        with trio.move_on_after(min(params.wait_s, MOST_WAIT_S) if wait else MOST_WAIT_S):
            result = await self._result_of(call, connection)
            assert isinstance(result, calls.Offered)
            return schema.Pulled(await self._messages(result.keys), result.cursor)
        return schema.Pulled([], 0)

    async def confirm(self, params: schema.Confirm, caller: Caller, connection: Connection) -> schema.Done:
        _identity(caller)
        call = self._performer.calls.new()
        await self._performer.handle(ev.Confirmed(call, connection.session, params.cursor))
        await self._result_of(call, connection)
        return schema.Done()

    async def gone(self, connection: Connection) -> None:
        """A client's connection ended: what it was offered and did not confirm waits again."""
        await self._performer.handle(ev.CallEnded(None, connection.session, gone=True))

    # --- looking

    async def inbox(self, params: schema.Inbox, caller: Caller, connection: Connection) -> schema.InboxRows:
        gid = _identity(caller)
        limit = max(1, min(params.limit, 1_000))
        if params.sent:
            views = [self._sent(row) for row in await self._store.sent_rows(gid, limit=limit)]
        else:
            rows = await self._store.inbox_rows(gid, open_only=not params.all, limit=limit)
            views = [await self._received(row) for row in rows]
        return schema.InboxRows(self._gateway.roster.address(gid, self._gateway.settings.me.host), views)

    async def show(self, params: schema.Show, caller: Caller, connection: Connection) -> schema.Shown:
        gid = _identity(caller)
        inbox, sent = await self._lookup.both(params.id, gid)
        if gid != self._gateway.settings.me.human:
            inbox, sent = [r for r in inbox if gid in (r.gid, r.sender)], [r for r in sent if gid in (r.gid, r.sender)]
            if not inbox and not sent:
                raise CallError(3, "not-yours", f"{params.id} is between others", "fleettrio inbox --all")
        views = [self._sent(row) for row in sent] + [await self._received(row) for row in inbox]
        ids = sorted({view.msg_id for view in views})
        journal = await self._store.journal(msg_ids=[MsgId(i) for i in ids], limit=200)
        host = self._gateway.settings.me.host
        return schema.Shown(views, [journal_line(line, host) for line in journal])

    async def body(self, params: schema.BodyOf, caller: Caller, connection: Connection) -> schema.Body:
        row = await self._lookup.received(params.id, _identity(caller))
        stored = await self._store.message(row.msg_id, row.gid)
        if stored is None:
            text = f"the body of {short_id(row.msg_id)} is not kept any more"
            raise CallError(3, "no-body", text, "bodies are kept until two days after the message expired")
        return schema.Body(row.msg_id, stored.body, clean(stored.body))

    async def trace(self, params: schema.Trace, caller: Caller, connection: Connection) -> schema.Traced:
        gid = _identity(caller)
        inbox, sent = await self._store.by_trace(params.id) if params.id != "@last" else ([], [])
        if not inbox and not sent:
            refused = await self._store.journal(trace_id=TraceId(params.id), limit=1_000)
            if refused and caller.is_person:  # nothing is kept of what was refused but the line that says why
                host = self._gateway.settings.me.host
                return schema.Traced(params.id, [], [journal_line(line, host) for line in refused], [])
            inbox, sent = await self._lookup.both(params.id, gid)
        trace_id = (inbox[0] if inbox else sent[0]).trace_id
        inbox, sent = await self._store.by_trace(trace_id)
        all_ids = {row.msg_id for row in inbox} | {row.msg_id for row in sent}
        if not caller.is_person:
            inbox, sent = [r for r in inbox if gid in (r.gid, r.sender)], [r for r in sent if gid in (r.gid, r.sender)]
        ids = {row.msg_id for row in inbox} | {row.msg_id for row in sent}
        views = [self._sent(row) for row in sent] + [await self._received(row) for row in inbox]
        views.sort(key=lambda view: (view.ts, view.direction != "out"))
        host = self._gateway.settings.me.host
        journal = await self._store.journal(trace_id=trace_id, limit=1_000)
        lines = [journal_line(line, host) for line in journal if caller.is_person or line.msg_id in ids]
        return schema.Traced(trace_id, views, lines, [], len(all_ids - ids))

    # --- inside

    def _each_once(self, to: Sequence[str]) -> tuple[str, ...]:
        """The addresses, each recipient once however often and by whatever name it was given."""
        found: dict[str, str] = {}
        for address in to:
            target = self._gateway.roster.resolve(address)
            found.setdefault(target.gid if isinstance(target, Target) else address, address)
        return tuple(found.values())

    async def _keyed(self, key: str, sender: Gid) -> tuple[SentRow, ...]:
        """What the store has under the sender's idempotency key."""
        ids = (await self._store.key(key, sender) if key else None) or ()
        return tuple([row for msg_id in ids for row in (await self._store.find(msg_id))[1]])

    async def _result_of(self, call: int, connection: Connection) -> object:
        """The call's result; stopped before it, the core forgets the call."""
        try:
            return await self._performer.calls.result(call)
        except trio.Cancelled:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                await self._performer.handle(ev.CallEnded(call, connection.session, gone=False))
            raise

    def _accepted(self, result: object) -> schema.SendResult:
        assert isinstance(result, calls.Accepted)
        return self._result(result.rows)

    def _result(self, rows: Sequence[SentRow]) -> schema.SendResult:
        trace_id = rows[0].trace_id if rows else ""
        return schema.SendResult(trace_id, [self._sent(self._latest(row)) for row in rows])

    def _latest(self, row: SentRow) -> SentRow:
        return self._gateway.outbox.get((row.msg_id, row.gid)) or row

    def _now(self) -> WallMs:
        return self._performer.clock.now().wall

    def _sent(self, row: SentRow) -> schema.MessageView:
        return sent_view(row, self._gateway, self._now())

    async def _received(self, row: InboxRow) -> schema.MessageView:
        latest = self._gateway.ledger.get((row.msg_id, row.gid)) or row
        stored = await self._store.message(row.msg_id, row.gid)
        preview = one_line(stored.body[:400], PREVIEW) if stored else ""
        return inbox_view(latest, self._gateway, self._now(), preview)

    async def _messages(self, keys: Sequence[calls.Key]) -> list[schema.InboxMessage]:
        rows = await self._store.known(keys) if keys else []
        stored = await self._store.messages(keys) if keys else []
        return [
            schema.InboxMessage(
                msg_id=row.msg_id,
                short=short_id(row.msg_id),
                kind=row.kind,
                sender=self._gateway.roster.address(row.sender, row.from_host),
                gid=row.gid,
                trace_id=row.trace_id,
                ts=row.ts,
                re=row.re,
                intent=row.intent,
                auto=row.auto,
                repeat=row.repeat,
                wants_reply=row.wants_reply,
                body=message.body,
                text=clean(message.body),
            )
            for row, message in zip(rows, stored, strict=True)
            if row is not None and message is not None
        ]

    def _sender_gid(self, address: str) -> Gid:
        if is_gid(address):
            return Gid(address)
        target = self._gateway.roster.resolve(address)
        if isinstance(target, Target):
            return target.gid
        raise CallError(3, "no-such-sender", target.message, target.hint)


def _identity(caller: Caller) -> Gid:
    if caller.problem or not caller.gid:
        raise CallError(3, "no-identity", caller.problem or "nobody says who is calling", caller.hint)
    return Gid(caller.gid)
