"""Calls of local clients that wait: they begin, take what is there for them, are given up, come again.

What is there for a call: the answers to what it waits for, then questions that were asked of it meanwhile, then the
news that nothing can come any more.

Whether a call has a result is known here alone: what is decided for it is recorded first, and its time may be over
meanwhile. So whoever made it says that its time is over, and is told how it ended, by a `Resolve` in every case.
"""

from __future__ import annotations

from collections.abc import Callable

from fleettrio.core.actions import Action, Resolve
from fleettrio.core.asked import Asked
from fleettrio.core.calls import PullCall, WaitCall
from fleettrio.core.inbox import Inbox
from fleettrio.core.outbox import Outbox
from fleettrio.core.pings import Pings
from fleettrio.core.requests import CallAgain, CallEnded, CallTimedOut, Confirmed, PullAsked, WaitAsked
from fleettrio.core.rules import Rules
from fleettrio.core.turns import Turns
from fleettrio.core.waits import Waits
from fleettrio.ids import Now

__all__ = ("Waiting",)


class Waiting:
    def __init__(self, waits: Waits, outbox: Outbox, inbox: Inbox, pings: Pings, turns: Turns, asked: Asked) -> None:
        self._waits = waits
        self._outbox = outbox
        self._inbox = inbox
        self._pings = pings
        self._turns = turns
        self._asked = asked
        self.ended_too: list[Callable[[CallEnded, Now], list[Action]]] = []
        """Other parts in which a call may wait for something: it was given up."""
        self.rules: Rules = {
            WaitAsked: self.wait,
            PullAsked: self.pull,
            Confirmed: self.confirmed,
            CallEnded: self.ended,
            CallTimedOut: self.timed_out,
            CallAgain: self.again,
        }

    def wait(self, event: WaitAsked, now: Now) -> list[Action]:
        rows = {r.key: self._outbox.get(r.key) or r for r in event.rows}
        wait = WaitCall(event.call, rows, event.session, event.gid, event.until)
        self._waits.add_wait(wait)
        if event.until != "answer":
            return self._waits.over_already(wait)
        self._turns.polled(wait, now)
        actions = self._inbox.offers.answers_here(wait, now)
        if self._waits.is_waiting(wait.call):
            actions += self._waits.over_already(wait)
        if self._waits.is_waiting(wait.call):
            actions += self._asked.call_began(wait, now)
        if not self._waits.is_waiting(wait.call):
            self._turns.poll_over(wait, now)
        return actions

    def pull(self, event: PullAsked, now: Now) -> list[Action]:
        pull = PullCall(event.call, event.session, event.gid, event.limit, event.sender, event.wait)
        self._waits.add_pull(pull)
        if pull.wait:
            self._asked.call_began(pull, now)
        return [*self._inbox.pull(pull, now), *self._inbox.picks.not_waiting(pull)]

    def confirmed(self, event: Confirmed, now: Now) -> list[Action]:
        session, cursor = event.session, event.cursor
        taken = self._inbox.handouts.confirmed(session, cursor, now)
        return [*self._inbox.offers.confirmed(session, cursor, now), *taken, Resolve(event.call, None)]

    def ended(self, event: CallEnded, now: Now) -> list[Action]:
        if event.call is not None:
            self._waits.end(event.call)
            self._pings.end(event.call)
        back = self._inbox.session_gone(event.session, now) if event.gone else []
        back += self._inbox.offers.call_ended(event.call, now) if event.call is not None else []
        back += self._inbox.handouts.call_ended(event, now)
        for end in self.ended_too:
            back += end(event, now)
        return [*back, *self._turns.call_ended(event, now)]

    def timed_out(self, event: CallTimedOut, now: Now) -> list[Action]:
        if not self._waits.is_open(event.call):
            return []
        return [*self.ended(CallEnded(event.call, event.session, gone=False), now), Resolve(event.call, None)]

    def again(self, event: CallAgain, now: Now) -> list[Action]:
        self._asked.call_again(event, now)
        self._turns.call_again(event)
        return []
