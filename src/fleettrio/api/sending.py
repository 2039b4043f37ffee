"""The methods that send: they ask the core for messages and word what it says.

However many messages are asked for at once (`send_many`, or several `send` that were read together), the core gets
them together, and each is answered when it has its verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from fleettrio._accel import leaf_of
from fleettrio.api import schema
from fleettrio.api.beliefs import Beliefs
from fleettrio.api.callers import Caller
from fleettrio.api.claims import check_key
from fleettrio.api.jsonrpc import failure
from fleettrio.api.later import Later
from fleettrio.api.lookup import Lookup
from fleettrio.api.results import or_given_up, result_of
from fleettrio.api.rights import identity_of
from fleettrio.api.rpc import Asked, CallError, Connection, Handler, Together
from fleettrio.api.spans import later_ms, lifetime_ms
from fleettrio.api.viewer import Viewer
from fleettrio.api.views import sent_view, sent_word
from fleettrio.calls import CallFailed
from fleettrio.core import calls
from fleettrio.core import requests as ask
from fleettrio.core.actions import Fail
from fleettrio.core.roster import Target
from fleettrio.core.rows import Due, SentRow
from fleettrio.errors import USAGE, FleetTrioError
from fleettrio.ids import Gid, TraceId, WallMs, short_id
from fleettrio.perform import Performer
from fleettrio.wire.kinds import Kind

__all__ = ("Sending",)

_NO_ROWS: tuple[SentRow, ...] = ()
_NOBODY = frozenset[Gid]()
_Event = ask.SendAsked | ask.LaterAsked
_Word = Callable[[_Event, object, WallMs], schema.SendResult | schema.Sent]


class Sending:
    def __init__(self, performer: Performer, lookup: Lookup, later: Later, viewer: Viewer) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._lookup = lookup
        self._later = later
        self._viewer = viewer
        self._beliefs = Beliefs(performer)

    def methods(self) -> dict[str, Handler]:
        return {
            "send": self.send,
            "send_many": self.send_many,
            "broadcast": self.broadcast,
            "coord": self.coord,
            "reply": self.reply,
            "retry": self.retry,
        }

    def together(self) -> dict[str, Together]:
        """What begins together when it was read together: a send that has to look nothing up first."""
        return {"send": Together(_is_plain, self._send_together)}

    # --- one, or many

    async def send(self, params: schema.Send, caller: Caller, connection: Connection) -> schema.SendResult:
        found: list[schema.SendResult | FleetTrioError] = []
        await self._send_together([Asked(params, found.append)], caller, connection)
        (result,) = found
        if isinstance(result, FleetTrioError):
            raise result
        return result

    async def send_many(self, params: schema.SendMany, caller: Caller, connection: Connection) -> schema.SentMany:
        """Each is sent, or is not, whatever becomes of the others."""
        sent = [schema.Sent() for _ in params.messages]

        def keep(number: int, result: schema.Sent | FleetTrioError) -> None:
            sent[number] = not_sent(result) if isinstance(result, FleetTrioError) else result

        asked = [Asked(each, partial(keep, number)) for number, each in enumerate(params.messages)]
        await self._ask(asked, caller, connection, self._brief)
        return schema.SentMany(sent)

    async def _send_together(self, asked: Sequence[Asked], caller: Caller, connection: Connection) -> None:
        await self._ask(asked, caller, connection, self._whole)

    async def _ask(self, asked: Sequence[Asked], caller: Caller, connection: Connection, word: _Word) -> None:
        """Ask the core for all of them together, and give each the word for its result when it has it."""
        sender, wall = identity_of(caller), self._now()
        known = await self._known([one.params.key for one in asked], sender)
        group, answers = self._performer.calls.group(), dict[int, Callable[[Any], None]]()
        events: dict[int, _Event] = {}
        for one in asked:
            call = self._performer.calls.new(group)
            try:
                rows = known.get(one.params.key, _NO_ROWS)
                events[call] = await self._asked(one.params, caller, sender, call, rows, wall)
            except FleetTrioError as problem:
                group.drop(call)
                one.answer(problem)
            else:
                answers[call] = one.answer
        async with or_given_up(self._performer, group.open, connection):
            glances = self._performer.glances(self._neighbours(events.values()))
            await self._performer.handle(*glances, *events.values())
            while came := await group.some():
                now = self._now()
                for call, result in came:
                    answers[call](CallFailed(result) if type(result) is Fail else word(events[call], result, now))

    def _neighbours(self, events: Iterable[_Event]) -> Iterator[Gid]:
        """Those of this host who are written to and get it put in."""
        if not self._performer.lanes:
            return
        for event in events:
            for address in event.to if isinstance(event, ask.SendAsked) else ():
                target = self._gateway.roster.resolve(address)
                if isinstance(target, Target) and target.gid in self._performer.lanes:
                    yield target.gid

    async def _asked(
        self, params: schema.Send, caller: Caller, sender: Gid, call: int, known: tuple[SentRow, ...], wall: WallMs
    ) -> _Event:
        """What the core is asked for. Raises `CallError` for what cannot be sent, as far as it is seen here."""
        if not params.to:
            raise CallError(USAGE, "usage", "no recipient was named", "fleettrio send NAME 'text'")
        if params.after_s and params.key:
            text = "--key goes with what is sent now: what is due later is there once, and can be called off"
            raise CallError(USAGE, "usage", text, "fleettrio cancel ID")
        expires_s, after_ms = params.expires_s, later_ms(params.after_s, "--after")
        expires_in_ms = None if expires_s is None else lifetime_ms(expires_s, Kind.SEND, params.when)
        if params.claim:
            check_key(params.claim)
        to = self._each_once(self._all_of_role(params) if params.claim else params.to)
        supersedes = await self._lookup.replaced(params.supersedes, sender, to) if params.supersedes else None
        belief, shared = (None, _NOBODY) if _is_plain(params) else await self._beliefs.of(params, caller)
        asked = ask.SendAsked(
            call=call,
            sender=sender,
            to=to,
            body=params.body,
            msg_ids=self._performer.new_msg_ids(len(to), wall),
            trace_id=self._performer.new_trace_id(),
            when=params.when,
            intent=params.intent,
            priority=params.priority,
            expires_in_ms=expires_in_ms,
            wants_reply=params.wants_reply,
            live=params.live,
            supersedes=supersedes,
            on_stale="drop" if params.on_stale == "drop" else None,
            belief=belief,
            shared=shared,
            claim=params.claim,
            remind_ms=later_ms(params.remind_s, "--remind") or None,
            key=params.key,
            known=known,
        )
        return ask.LaterAsked(call, asked, after_ms) if after_ms else asked

    # --- others

    async def broadcast(self, params: schema.Broadcast, caller: Caller, connection: Connection) -> schema.SendResult:
        sender = identity_of(caller)
        lives_ms = None if params.expires_s is None else lifetime_ms(params.expires_s, Kind.BROADCAST)
        known = await self._keyed(params.key, sender)
        call = self._performer.calls.new()
        await self._performer.handle(
            ask.BroadcastAsked(
                call=call,
                sender=sender,
                group=params.group,
                body=params.body,
                msg_id=self._performer.new_msg_id(),
                trace_id=self._performer.new_trace_id(),
                when=params.when,
                intent=params.intent,
                priority=params.priority,
                expires_in_ms=lives_ms,
                wants_reply=params.wants_reply,
                key=params.key,
                known=known,
            )
        )
        return await self.accepted(await result_of(self._performer, call, connection))

    async def coord(self, params: schema.Coord, caller: Caller, connection: Connection) -> schema.SendResult:
        sender = identity_of(caller)
        lives_ms = None if params.expires_s is None else lifetime_ms(params.expires_s, Kind.COORD)
        known = await self._keyed(params.key, sender)
        call = self._performer.calls.new()
        await self._performer.handle(
            ask.CoordAsked(
                call=call,
                sender=sender,
                coord_id=params.coord_id,
                body=params.body,
                msg_id=self._performer.new_msg_id(),
                trace_id=self._performer.new_trace_id(),
                expires_in_ms=lives_ms,
                key=params.key,
                known=known,
            )
        )
        return await self.accepted(await result_of(self._performer, call, connection))

    async def reply(self, params: schema.Reply, caller: Caller, connection: Connection) -> schema.SendResult:
        sender = identity_of(caller)
        known = await self._keyed(params.key, sender)
        original = await self._lookup.to_reply(params.re, sender)
        call = self._performer.calls.new()
        await self._performer.handle(
            ask.ReplyAsked(
                call=call,
                sender=sender,
                original=original,
                body=params.body,
                msg_id=self._performer.new_msg_id(),
                key=params.key,
                known=known,
            )
        )
        return await self.accepted(await result_of(self._performer, call, connection))

    async def retry(self, params: schema.Retry, caller: Caller, connection: Connection) -> schema.SendResult:
        row, *members = await self._lookup.all_sent(params.id, identity_of(caller))
        if leaf_of(row.header, params.body) != row.leaf:
            text = f"this is not the body of {short_id(row.msg_id)}: a retry is the same bytes"
            raise CallError(USAGE, "other-body", text, "give the very body again, or send a new message")
        call = self._performer.calls.new()
        again = ask.BroadcastAgainAsked(call, (row, *members), params.body)
        await self._performer.handle(again if row.is_head else ask.RetryAsked(call, row, params.body))
        return await self.accepted(await result_of(self._performer, call, connection))

    # --- inside

    def _all_of_role(self, params: schema.Send) -> list[str]:
        """A message with a claim goes to all who match, and lands with one."""
        roster, to = self._gateway.roster, list[str]()
        for address in params.to:
            matching = roster.matching(address) if address.startswith("role:") else ()
            to += [target.gid for target in matching] or [address]
        return to

    def _each_once(self, to: Sequence[str]) -> tuple[str, ...]:
        """The addresses, each recipient once however often and by whatever name it was given."""
        if len(to) == 1:
            return tuple(to)
        found: dict[str, str] = {}
        for address in to:
            target = self._gateway.roster.resolve(address)
            found.setdefault(target.gid if isinstance(target, Target) else address, address)
        return tuple(found.values())

    async def _known(self, keys: Iterable[str], sender: Gid) -> Mapping[str, tuple[SentRow, ...]]:
        """What the store has under each of the sender's idempotency keys."""
        given = {key for key in keys if key}
        return await self._performer.store.keyed(given, sender) if given else {}

    async def _keyed(self, key: str, sender: Gid) -> tuple[SentRow, ...]:
        return (await self._known([key], sender)).get(key, _NO_ROWS)

    async def accepted(self, result: object) -> schema.SendResult:
        """The result of a call that ended with verdicts."""
        rows = self._rows(result)
        return schema.SendResult(_trace_of(rows), await self._viewer.sent(rows))

    def _whole(self, event: _Event, result: object, now: WallMs) -> schema.SendResult:
        """The same of a send, which goes to nobody but its recipients, now or later."""
        if isinstance(event, ask.LaterAsked):
            assert isinstance(result, Due)
            return schema.SendResult(event.send.trace_id, self._later.views([result]))
        rows = self._rows(result)
        return schema.SendResult(_trace_of(rows), [sent_view(row, self._gateway, now) for row in rows])

    def _brief(self, _: _Event, result: object, now: WallMs) -> schema.Sent:
        if isinstance(result, Due):
            return schema.Sent([schema.SentWord(v.msg_id, v.gid, v.state) for v in self._later.views([result])])
        return schema.Sent([sent_word(row) for row in self._rows(result)])

    def _rows(self, result: object) -> list[SentRow]:
        assert isinstance(result, calls.Accepted)
        return [self._gateway.outbox.get((row.msg_id, row.gid)) or row for row in result.rows]

    def _now(self) -> WallMs:
        return self._performer.clock.now().wall


def _is_plain(params: schema.Send) -> bool:
    """Nothing has to be looked up before it is sent."""
    return not (params.key or params.supersedes or params.cwd or params.paths or params.on_stale == "drop")


def _trace_of(rows: Sequence[SentRow]) -> TraceId:
    return rows[0].trace_id if rows else TraceId("")


def not_sent(problem: FleetTrioError) -> schema.Sent:
    """The words for a message that could not be sent."""
    body = failure(problem)
    return schema.Sent(error=schema.NotSent(body.data.reason, body.message, body.data.hint, body.data.exit))
