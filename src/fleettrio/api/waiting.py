"""The methods in which a client waits: for what becomes of its messages, for what comes for it.

A call that waited its time without a result says "nothing yet, call again"; its client counts as listening until then.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.digests import Digests
from fleettrio.api.lookup import Lookup
from fleettrio.api.results import or_given_up, result_of, result_within
from fleettrio.api.rights import identity_of
from fleettrio.api.rpc import CallError, Connection, Handler
from fleettrio.api.viewer import Viewer
from fleettrio.core import calls
from fleettrio.core import requests as ask
from fleettrio.core.roster import Target
from fleettrio.core.rows import Key
from fleettrio.errors import FAILED, USAGE
from fleettrio.ids import Gid, short_id
from fleettrio.perform import Performer
from fleettrio.tasks.framing import framed_to_read
from fleettrio.tasks.look import announce_place
from fleettrio.wire.gids import is_gid

__all__ = ("MOST_WAIT_S", "Waiting")

MOST_WAIT_S = 50.0


class Waiting:
    def __init__(self, performer: Performer, lookup: Lookup, viewer: Viewer) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._store = performer.store
        self._lookup = lookup
        self._viewer = viewer
        self._digests = Digests(performer)

    def methods(self) -> dict[str, Handler]:
        return {"wait": self.wait, "pull": self.pull, "confirm": self.confirm}

    async def wait(self, params: schema.Wait, caller: Caller, connection: Connection) -> schema.Waited:
        gid = identity_of(caller)
        if params.until not in ("answer", "delivered"):
            raise CallError(USAGE, "usage", f"cannot wait until {params.until!r}", "answer or delivered")
        rows = [row for message_id in params.ids for row in await self._lookup.all_sent(message_id, gid)]
        waited_for = tuple(row for row in rows if not row.is_head)
        call = self._performer.calls.new()
        await self._performer.handle(ask.WaitAsked(call, connection.session, gid, waited_for, params.until))
        limit_s = min(params.limit_s, MOST_WAIT_S)
        if (result := await result_within(self._performer, call, connection, trio.move_on_after(limit_s))) is not None:
            assert isinstance(result, calls.WaitOver)
            is_framed = params.framed and not caller.is_person
            async with or_given_up(self._performer, (call,), connection):
                views = await self._viewer.sent([*(row for row in rows if row.is_head), *result.rows])
                answers, questions = [
                    await self.handed(keys, is_framed=is_framed) for keys in (result.answers, result.questions)
                ]
            return schema.Waited(not questions, views, answers, result.cursor, questions)
        await self._performer.handle(ask.CallAgain(connection.session, gid))
        return schema.Waited(False, await self._viewer.sent([await self._lookup.fresh(row) for row in rows]), [], 0)

    async def pull(self, params: schema.Pull, caller: Caller, connection: Connection) -> schema.Pulled:
        gid = identity_of(caller)
        sender = self._sender_gid(params.sender) if params.sender else None
        limit = max(1, min(params.limit, 200))
        await announce_place(gid, self._performer)
        call = self._performer.calls.new()
        wait = params.wait_s > 0 and not self._gateway.failures.of(gid)  # what failed is told at once
        await self._performer.handle(ask.PullAsked(call, connection.session, gid, limit, wait, sender))
        limit_s = min(params.wait_s, MOST_WAIT_S) if wait else MOST_WAIT_S
        if (result := await result_within(self._performer, call, connection, trio.move_on_after(limit_s))) is not None:
            assert isinstance(result, calls.Offered)
            async with or_given_up(self._performer, (call,), connection):
                failed = await self._digests.take_failures(gid)
                return schema.Pulled(await self.handed(result.keys), result.cursor, failed)
        if wait:
            await self._performer.handle(ask.CallAgain(connection.session, gid))
        return schema.Pulled([], 0, await self._digests.take_failures(gid))

    async def confirm(self, params: schema.Confirm, caller: Caller, connection: Connection) -> schema.Done:
        identity_of(caller)
        call = self._performer.calls.new()
        await self._performer.handle(ask.Confirmed(call, connection.session, params.cursor))
        await result_of(self._performer, call, connection)
        return schema.Done()

    async def gone(self, connection: Connection) -> None:
        """A client's connection ended: what it was offered and did not confirm waits again."""
        await self._performer.handle(ask.CallEnded(None, connection.session, gone=True))

    # --- inside

    async def handed(self, keys: Sequence[Key], *, is_framed: bool = False) -> list[schema.InboxMessage]:
        """Messages as a client gets them; `is_framed`: an agent reads them as they come out of its call."""
        here = [self._gateway.ledger.get(key) for key in keys]
        rows = here if all(here) else await self._store.known(keys)
        stored = await self._store.messages(keys) if keys else []
        return [
            schema.InboxMessage(
                msg_id=row.msg_id,
                short=short_id(row.msg_id),
                kind=row.kind,
                sender=self._gateway.coordination.correspondent(row),
                gid=row.gid,
                trace_id=row.trace_id,
                ts=row.ts,
                expires_at=row.expires_at,
                re=row.re,
                intent=row.intent,
                auto=row.auto,
                repeat=row.repeat,
                wants_reply=row.wants_reply,
                stale=row.stale,
                body=message.body,
                framed=framed_to_read(row, message.body, self._performer).framed if is_framed else "",
                sender_gid=row.sender,
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
        raise CallError(FAILED, "no-such-sender", target.message, target.hint)
