"""A client of a pull entity: pulls, confirms with its next call, dies in between, comes back as another session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from fleettrio.core import requests as ask
from fleettrio.core.calls import Offered
from tests.sim.history import Party, number_in

if TYPE_CHECKING:
    from tests.sim.host import Host
    from tests.sim.process import Process

__all__ = ("Client",)


class Client:
    def __init__(self, host: Host, party: Party) -> None:
        self._host = host
        self._world = host.world
        self.party = party
        self._lives = 0
        self._session = ""
        self._cursor = 0
        """Up to where it was handed messages that it has not confirmed."""
        self._next_life()
        self.answers: Callable[[int, Party], Awaitable[None]]
        """Answers the question with this number."""

    def _next_life(self) -> None:
        self._lives += 1
        self._session = f"{self.party.address}-{self._lives}"
        self._cursor = 0

    async def go_on(self) -> None:
        """One thing after the other, for ever: mostly a call, now and then its death."""
        rng, is_healed = self._world.rng, self._world.faults.is_healed
        self._world.after(self._pause_s(), self.go_on)
        process = self._host.process
        if process is None:
            return
        session = self._session
        if not is_healed and rng.random() < 0.08:
            self._next_life()
            await process.enter(lambda: process.performer.handle(ask.CallEnded(None, session, gone=True)))
        elif self._cursor and rng.random() < 0.8:
            await process.enter(self._confirm)
        else:
            await process.enter(self._pull)

    def _pause_s(self) -> float:
        rng = self._world.rng
        if not self._world.faults.is_healed:
            return rng.uniform(0.5, 6.0)
        return rng.uniform(6.0, 10.0) if self._world.is_quiet and not self._cursor else rng.uniform(0.5, 2.0)

    async def _pull(self) -> None:
        process, session = self._host.process, self._session
        assert process is not None
        call = process.calls.new()

        async def then(result: object) -> None:
            if result is None:  # nothing came in this call, and the next one follows
                await process.performer.handle(ask.CallAgain(session, self.party.gid))
                return
            assert isinstance(result, Offered)
            rows = await process.store.known(result.keys)
            stored = await process.store.messages(result.keys)
            process.step()
            if session != self._session or not result.keys:
                return
            self._cursor = result.cursor
            for row, message in zip(rows, stored, strict=True):
                assert row is not None
                assert message is not None
                store = self._host.store_number
                text = message.body.decode()
                if text.startswith("?"):
                    self._asked(number_in(text))
                    continue
                self._world.history.was_handed(text, self.party, store, row.repeat, session, result.cursor)

        process.calls.then[call] = then
        is_patient = not self._world.is_quiet and self._world.rng.random() < 0.5
        if is_patient:
            process.soon(self._world.rng.uniform(2.0, 6.0), lambda: self._call_again(process, call, session))
        await process.performer.handle(ask.PullAsked(call, session, self.party.gid, 50, wait=is_patient))

    async def _call_again(self, process: Process, call: int, session: str) -> None:
        """It has waited its time."""
        if call in process.calls.then:
            await process.performer.handle(ask.CallTimedOut(call, session))

    def _asked(self, number: int) -> None:
        """A question came: mostly it is answered."""
        rng = self._world.rng
        for _ in range(rng.choice((0, 1, 1, 1, 1, 2))):
            self._world.after(rng.uniform(0.2, 5.0), lambda: self.answers(number, self.party))

    async def _confirm(self) -> None:
        process = self._host.process
        assert process is not None
        cursor, self._cursor = self._cursor, 0
        self._world.history.has_confirmed(self._session, cursor)
        call = process.calls.new()
        await process.performer.handle(ask.Confirmed(call, self._session, cursor))
