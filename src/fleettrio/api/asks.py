"""The methods of ask and answer. A call that asks is a turn of its own: when it is over, so is the question."""

from __future__ import annotations

import os

from fleettrio.api.callers import Caller
from fleettrio.api.lookup import Lookup
from fleettrio.api.messages import Messages
from fleettrio.api.results import result_of
from fleettrio.api.rights import identity_of
from fleettrio.api.rpc import CallError, Connection, Handler
from fleettrio.api.schema.asks import Answer, Ask
from fleettrio.api.schema.messages import Wait, Waited
from fleettrio.api.schema.sends import SendResult
from fleettrio.api.spans import lifetime_ms
from fleettrio.core.requests import AnswerAsked, AskAsked
from fleettrio.core.rows import SentState
from fleettrio.errors import FAILED
from fleettrio.ids import MsgId, TurnId
from fleettrio.perform import Performer
from fleettrio.wire.kinds import Kind

__all__ = ("Asks",)

_OVER = frozenset({SentState.FAILED, SentState.EXPIRED})


class Asks:
    def __init__(self, performer: Performer, messages: Messages) -> None:
        self._performer = performer
        self._messages = messages
        self._lookup = Lookup(performer)

    def methods(self) -> dict[str, Handler]:
        return {"ask": self.ask, "answer": self.answer}

    async def ask(self, params: Ask, caller: Caller, connection: Connection) -> Waited:
        sender = identity_of(caller)
        lives_ms = lifetime_ms(params.timeout_s, Kind.ASK)
        call = self._performer.calls.new()
        asked = AskAsked(
            call=call,
            session=connection.session,
            sender=sender,
            to=params.to,
            body=params.body,
            msg_id=self._new_id(),
            trace_id=self._performer.new_trace_id(),
            turn_id=TurnId(os.urandom(16).hex()),
            expires_in_ms=lives_ms,
            has_call=params.wait,
        )
        await self._performer.handle(asked)
        result = await self._messages.sending.accepted(await result_of(self._performer, call, connection))
        is_over = not params.wait or any(view.state in _OVER for view in result.messages)
        if is_over or not params.limit_s:
            return Waited(is_over, result.messages, [], 0)
        wait = Wait([result.messages[0].msg_id], "answer", params.limit_s)
        return await self._messages.waiting.wait(wait, caller, connection)

    async def answer(self, params: Answer, caller: Caller, connection: Connection) -> SendResult:
        sender = identity_of(caller)
        question = await self._lookup.received(params.id, sender)
        if question.gid != sender:
            name = self._performer.gateway.roster.address(question.gid, self._performer.gateway.settings.me.host)
            raise CallError(FAILED, "not-yours", f"it was asked of {name}, and only {name} can answer it", "")
        call = self._performer.calls.new()
        asked = AnswerAsked(call=call, sender=sender, question=question, body=params.body, msg_id=self._new_id())
        await self._performer.handle(asked)
        return await self._messages.sending.accepted(await result_of(self._performer, call, connection))

    def _new_id(self) -> MsgId:
        return self._performer.new_msg_id()
