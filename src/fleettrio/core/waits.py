"""The open calls of this host's clients: found by their number, by whom they are of, and by the messages they wait for.

Many may be open at once, and nothing that happens to one message looks at the calls that wait for others.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from fleettrio.core.actions import Action, Resolve
from fleettrio.core.calls import HandoutCall, Offered, PullCall, SendCall, WaitCall
from fleettrio.core.rows import Key, SentRow
from fleettrio.ids import Gid, MsgId

__all__ = ("Waits",)


class _HasOwner(Protocol):
    @property
    def call(self) -> int: ...
    @property
    def session(self) -> str: ...
    @property
    def gid(self) -> Gid: ...


C = TypeVar("C", bound=_HasOwner)


class _Open(Generic[C]):
    """Open calls of one sort, by number and by the entity whose they are; the one that waits longest first."""

    def __init__(self) -> None:
        self._calls: dict[int, C] = {}
        self._of: dict[Gid, dict[int, C]] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._calls

    def add(self, call: C) -> None:
        self._calls[call.call] = call
        self._of.setdefault(call.gid, {})[call.call] = call

    def end(self, number: int) -> C | None:
        call = self._calls.pop(number, None)
        if call is not None:
            of_gid = self._of[call.gid]
            del of_gid[number]
            if not of_gid:
                del self._of[call.gid]
        return call

    def of(self, gid: Gid) -> list[C]:
        return list(self._of.get(gid, {}).values())

    def of_session(self, session: str) -> list[C]:
        return [call for call in self._calls.values() if call.session == session]


class Waits:
    """The waiting calls of this host's clients."""

    def __init__(self) -> None:
        self._waits: _Open[WaitCall] = _Open()
        self._pulls: _Open[PullCall] = _Open()
        self._handouts: _Open[HandoutCall] = _Open()
        self._sends: dict[int, SendCall] = {}
        self._new: list[SendCall] = []
        """Sends that were asked for just now: those that wait for nothing end with how their messages lie then."""
        self._for: dict[Key, list[SendCall]] = {}
        """The calls that wait for something about each message sent from here."""

    def add_send(self, send: SendCall) -> None:
        """Wait for the verdicts of a send; over when all that came together is decided, if they are there."""
        self._sends[send.call] = send
        self._watch(send)
        if send.is_over:
            self._new.append(send)

    def settle(self) -> list[Action]:
        """End what waits for nothing."""
        new, self._new = self._new, []
        over = [send for send in new if send.is_over and send.call in self._sends]
        for send in over:
            self._end_send(send)
        return [Resolve(send.call, send.result()) for send in over]

    def end_sends_of(self, key: Key) -> list[int]:
        """The calls that wait for the verdict of a message that could not even be recorded."""
        calls = [send.call for send in self._for.get(key, ()) if send.call in self._sends]
        for call in calls:
            self._unwatch(self._sends.pop(call))
        return calls

    def add_wait(self, wait: WaitCall) -> None:
        self._waits.add(wait)
        self._watch(wait)

    def add_pull(self, pull: PullCall) -> None:
        self._pulls.add(pull)

    def add_handout(self, handout: HandoutCall) -> None:
        self._handouts.add(handout)

    def end(self, call: int) -> None:
        ended = self._waits.end(call) or self._sends.pop(call, None)
        if ended is not None:
            self._unwatch(ended)
        self._pulls.end(call)
        self._handouts.end(call)

    def end_session(self, session: str) -> None:
        for calls in (self._waits, self._pulls, self._handouts):
            for call in calls.of_session(session):
                self.end(call.call)

    def answer_wait(self, gid: Gid, re: MsgId | None, by: Gid) -> WaitCall | None:
        """The call of `gid` that waits for an answer to `re` by the one whom it was sent to."""
        return next((wait for wait in self.answer_waits_of(gid) if (re, by) in wait.rows), None)

    def answer_waits_of(self, gid: Gid) -> list[WaitCall]:
        """The open calls of `gid` that wait for answers."""
        return [wait for wait in self._waits.of(gid) if wait.until == "answer"]

    def pulls_of(self, gid: Gid) -> list[PullCall]:
        """The open pulls of `gid`, the one that waits longest first."""
        return self._pulls.of(gid)

    def handouts_of(self, gid: Gid) -> list[HandoutCall]:
        """The open calls by which the agent `gid` takes messages, the one that waits longest first."""
        return self._handouts.of(gid)

    def listener(self, gid: Gid, sender: Gid) -> WaitCall | None:
        """The call of `gid` that waits for an answer and can be shown a question of `sender`: best his own brief's."""
        waits = self.answer_waits_of(gid)
        return next((w for w in waits if any(to == sender for _, to in w.rows)), waits[0] if waits else None)

    def is_open(self, call: int) -> bool:
        """True for any call whose result is still to be decided."""
        return any(call in calls for calls in (self._waits, self._pulls, self._handouts, self._sends))

    def is_waiting(self, call: int) -> bool:
        return call in self._waits

    def pull_for(self, gid: Gid, sender: Gid) -> PullCall | None:
        """The pull of `gid` that is open and takes mail of `sender`; the one that waits longest."""
        return next((pull for pull in self._pulls.of(gid) if pull.sender in (None, sender)), None)

    def over_already(self, wait: WaitCall) -> list[Action]:
        """End a call that has nothing to wait for."""
        if not wait.is_over or wait.call not in self._waits:
            return []
        self.end(wait.call)
        return [Resolve(wait.call, wait.result())]

    def is_pulling(self, call: int) -> bool:
        return call in self._pulls

    def nothing_there(self, call: int) -> list[Action]:
        """End a pull that does not wait and found nothing."""
        self.end(call)
        return [Resolve(call, Offered((), 0))]

    def on_sent_changed(self, key: Key, row: SentRow) -> list[Action]:
        """A sent message changed: calls that waited for just that are over."""
        over: list[Action] = []
        for call in tuple(self._for[key]) if key in self._for else ():
            call.changed(key, row)
            if call.is_over:
                self._end_send(call)
                over.append(Resolve(call.call, call.result()))
        return over

    # --- inside

    def _end_send(self, call: SendCall) -> None:
        if self._sends.pop(call.call, None):
            self._unwatch(call)
        else:
            self.end(call.call)

    def _watch(self, call: SendCall) -> None:
        for key in call.rows:
            self._for.setdefault(key, []).append(call)

    def _unwatch(self, call: SendCall) -> None:
        for key in call.rows:
            calls = self._for[key]
            if len(calls) > 1:
                calls.remove(call)
            else:
                del self._for[key]
