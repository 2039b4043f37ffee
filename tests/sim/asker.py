"""Whoever asks: stops in its turn, asks somebody who may be listening, and waits in its calls for the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleettrio.core import requests as ask
from fleettrio.core.calls import Accepted, WaitOver
from fleettrio.ids import MsgId, TraceId, TurnId
from fleettrio.wire.gids import new_msg_id
from tests.core.builders import TRACE
from tests.sim.history import Party, Question

if TYPE_CHECKING:
    from tests.sim.host import Host
    from tests.sim.process import Process
    from tests.sim.world import World

__all__ = ("Asker",)

PATIENCE_S = (3.0, 20.0, 60.0)


class Asker:
    def __init__(self, world: World, hosts: list[Host]) -> None:
        self._world = world
        self._hosts: dict[str, Host] = {host.name: host for host in hosts}
        self._parties = [party for host in hosts for party in host.parties]
        self._numbers = 0

    async def ask(self) -> None:
        """Somebody asks somebody who pulls, mostly elsewhere."""
        rng = self._world.rng
        asker = rng.choice(self._parties)
        others = [party for party in self._parties if not party.is_push and party is not asker]
        full = [party for party in others if self._hosts[party.host].is_full(party.gid)]
        to = rng.choice(full or others)
        host = self._hosts[asker.host]
        process = host.process
        if process is None:
            return
        self._numbers += 1
        question = Question(self._numbers, self._new_id(host), asker, to, f"asks-{self._numbers}")
        if self._hosts[to.host].is_full(to.gid):
            self._world.faults.struck["question-behind-a-full-inbox"] += 1
        call = process.calls.new()

        async def then(result: object) -> None:
            if isinstance(result, Accepted) and result.rows[0].state != "failed":
                await self._wait(process, question)

        process.calls.then[call] = then
        self._world.history.questions[question.number] = question
        asked = ask.AskAsked(
            call=call,
            sender=asker.gid,
            to=to.gid,
            body=question.body,
            msg_id=question.msg_id,
            trace_id=TraceId(TRACE),
            turn_id=TurnId(self._world.rng.randbytes(16).hex()),
            expires_in_ms=int(rng.choice(PATIENCE_S) * 1000),
        )
        await process.enter(lambda: process.performer.handle(asked))

    async def _wait(self, process: Process, question: Question) -> None:
        rows = await process.store.sent_known([(question.msg_id, question.to.gid)])
        call = process.calls.new()

        async def then(result: object) -> None:
            assert isinstance(result, WaitOver)
            stored = await process.store.messages(result.answers)
            process.step()
            for message in stored:
                assert message is not None
                self._world.history.got_answer(question.number, message.body.decode())
            if result.cursor:
                confirmed = ask.Confirmed(process.calls.new(), question.session, result.cursor)
                await process.performer.handle(confirmed)
            elif result.questions:
                await self._wait(process, question)

        process.calls.then[call] = then
        if self._world.rng.random() < 0.2:
            process.soon(self._world.rng.uniform(0.5, 8.0), lambda: self._give_up(process, call, question.session))
        until = ask.WaitAsked(call, question.session, question.asker.gid, tuple(filter(None, rows)), "answer")
        await process.performer.handle(until)

    async def _give_up(self, process: Process, call: int, session: str) -> None:
        if process.calls.then.pop(call, None):
            await process.performer.handle(ask.CallEnded(call, session, gone=True))

    async def answer(self, number: int, party: Party) -> None:
        """The one who was asked answers; now and then twice, from two windows."""
        host = self._hosts[party.host]
        process = host.process
        if process is None:
            return
        question = self._world.history.questions[number]

        async def step() -> None:
            (row,) = await process.store.known([(question.msg_id, party.gid)])
            if row is None:
                return
            question.given.append(f"!{number}.{len(question.given)} by {party.address}")
            body = question.given[-1].encode()
            self._numbers += 1
            given = ask.AnswerAsked(
                call=process.calls.new(), sender=party.gid, question=row, body=body, msg_id=self._new_id(host)
            )
            await process.performer.handle(given)

        await process.enter(step)

    def _new_id(self, host: Host) -> MsgId:
        return new_msg_id(host.clock.now().wall, b"asks" + self._numbers.to_bytes(6, "big"))
