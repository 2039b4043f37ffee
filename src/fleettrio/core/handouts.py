"""What an agent takes by a call of its own: a hook, a call left waiting to be woken, its own poll.

    waiting ──the call takes it──► injecting ──seen──► injected
                                       └──not seen in time, call broken off──► unconfirmed ──seen later──► injected

Rules:
1. What is taken are rows of the forward lane, in its order, judged by `gate` as any delivery; paused, held and closed
   is for hand-outs what it is for the lane, and nothing overtakes what is just being put in. `injecting` is committed
   before the call has its result.
2. One hand-out a message, ever. Nobody can know what became of a result that a client did not confirm: the message is
   `unconfirmed`, and never handed out or typed again.
3. A waiting call goes before the transport: `Reserve` is said only for what no such call can take. One that wakes its
   agent (`rewake`) takes while the agent is idle and nothing else is on its way into it.
4. Evidence makes it `injected`: its harness shows it, it was answered, its client confirmed; of a poll also that the
   turn ended by itself. There are 10 s for a hook; a poll is confirmed by the client's next call, so
   it has the lease of an offer. Evidence that comes later counts, too.
5. The agent is let alone by the transport until that is known, but for a poll: whoever polls is at work.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from fleettrio.core.actions import Action, Record, Resolve
from fleettrio.core.calls import HandoutCall, Offered
from fleettrio.core.forward import ForwardLane
from fleettrio.core.gate import End, Gate, Hold, Look
from fleettrio.core.harness import HandoutAsked, HandoutSeen
from fleettrio.core.ledger import Ledger
from fleettrio.core.looks import Looks
from fleettrio.core.offers import LEASE_S
from fleettrio.core.picks import Picks
from fleettrio.core.requests import CallEnded
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, InboxState, Key
from fleettrio.core.rules import Rules, TimerRules
from fleettrio.core.timers import Timers
from fleettrio.core.waits import Waits
from fleettrio.ids import Gid, Now, Seconds

__all__ = ("EVIDENCE_S", "POLL", "REWAKE", "Handouts")

EVIDENCE_S = 10.0
MOST_LATE = 256
"""Of those polls."""
POLL, REWAKE = "poll", "rewake"
_ENDING = ("stopping", "gone")


class _Batch(msgspec.Struct):
    """What one call took: its messages, each with what it comes to when nobody sees it."""

    gid: Gid
    call: int
    session: str
    via: str
    unseen: dict[Key, str]


class Handouts:
    def __init__(
        self,
        ledger: Ledger,
        gate: Gate,
        roster: Roster,
        looks: Looks,
        waits: Waits,
        timers: Timers,
        picks: Picks,
        forward: ForwardLane,
        landed: Callable[..., None],
        next_cursor: Callable[[], int],
    ) -> None:
        self._ledger = ledger
        self._gate = gate
        self._roster = roster
        self._looks = looks
        self._waits = waits
        self._timers = timers
        self._picks = picks
        self._forward = forward
        self._landed = landed
        self._next_cursor = next_cursor
        self._batches: dict[int, _Batch] = {}
        self._late: dict[int, _Batch] = {}
        """Polls that were answered, and not confirmed in their time: that may still come."""
        self.took: Callable[[InboxRow, Now], list[Action]] = lambda _row, _now: []
        """A message is in its agent: what that begins (`briefs`)."""
        self.over: Callable[[Gid, Now], list[Action]] = lambda _gid, _now: []
        """Nothing of an agent is on its way any more: what waited for that (`stops`)."""
        forward.to_calls, forward.is_handed_out = self.give_all, self.is_on_its_way
        self.rules: Rules = {HandoutAsked: self._asked, HandoutSeen: self._seen}
        self.timer_rules: TimerRules = {"handout": lambda name, now: self._in_vain(int(name[0]), now)}

    # --- a call takes

    def _asked(self, event: HandoutAsked, now: Now) -> list[Action]:
        call = HandoutCall(
            event.call, event.session, event.gid, event.whens, event.room, event.most, event.via, wait=event.wait
        )
        return self.begin(call, now)

    def begin(self, call: HandoutCall, now: Now) -> list[Action]:
        """A call begins to wait: it takes what is there for it."""
        self._waits.add_handout(call)
        return [*self._give(call, now), *self._picks.not_waiting(call)]

    def give_all(self, gid: Gid, now: Now) -> list[Action]:
        """Something may land in this agent: its open calls take it first."""
        return [action for call in self._waits.handouts_of(gid) for action in self._give(call, now)]

    def looked(self, gid: Gid, now: Now) -> list[Action]:
        """The calls that waited for a look at the work tree go on."""
        calls = self._waits.handouts_of(gid)
        return [action for call in calls for action in (*self._give(call, now), *self._picks.not_waiting(call))]

    def is_on_its_way(self, gid: Gid) -> bool:
        """True while it is not known whether the agent has what its hook was just given."""
        return any(batch.gid == gid and batch.via != POLL for batch in self._batches.values())

    def _give(self, call: HandoutCall, now: Now) -> list[Action]:
        if not self._may(call, now):
            return []
        if not self._looks.is_at_hand and (unseen := self._to_look_at(call, now)):
            return self._looks.ask(call.gid, unseen)
        held = functools.partial(self._forward.held, now=now)
        picked = self._picks.among(self._in_order(call), held, now, most=call.most, room=call.room)
        actions = picked.actions
        if picked.rows:
            self._waits.end(call.call)
            actions += self._hand_out(call, picked.rows, now)
        elif picked.unseen:
            actions += self._looks.ask(call.gid, picked.unseen)
        return [*actions, *(self._ledger.check_full(call.gid, now) if actions else [])]

    def _may(self, call: HandoutCall, now: Now) -> bool:
        entity = self._roster.entities.get(call.gid)
        if entity is None or entity.takes != "push" or entity.status in _ENDING:
            return False
        if self._forward.is_shut(call.gid, now):
            return False
        is_at_rest = entity.status == "idle" and self._forward.being_written(call.gid) is None
        return call.via != REWAKE or (is_at_rest and not self.is_on_its_way(call.gid))

    def _in_order(self, call: HandoutCall) -> Iterable[InboxRow]:
        lane, first = self._ledger.lane(call.gid).in_order(call.sender), self._forward.being_written(call.gid)
        behind = (first.sender, first.when) if first else None
        return (row for row in lane if row.when in call.whens and (row.sender, row.when) != behind)

    def _to_look_at(self, call: HandoutCall, now: Now) -> list[InboxRow]:
        """Among those that it would take, those for which the work tree is to be looked at first."""
        judged = ((row, self._gate.judge(row, now)) for row in self._in_order(call))
        free = ((row, verdict) for row, verdict in judged if not isinstance(verdict, End | Hold))
        return [row for row, verdict in islice(free, call.most) if isinstance(verdict, Look)]

    def _hand_out(self, call: HandoutCall, rows: list[InboxRow], now: Now) -> list[Action]:
        is_working = self._roster.entities[call.gid].status == "working"
        self._landed(*rows)
        taken = [self._ledger.take_out(row, now, InboxState.INJECTING, self._looks.note(row)) for row in rows]
        unseen = {row.key: "mid-turn" if is_working and row.when == "now" else "not-observed" for row in rows}
        cursor = self._next_cursor()
        self._batches[cursor] = _Batch(call.gid, call.call, call.session, call.via, unseen)
        limit = LEASE_S if call.via == POLL else EVIDENCE_S
        self._timers.set(("handout", str(cursor)), Seconds(now.mono + limit))
        records = [Record(after, row) for after, row in zip(taken, rows, strict=True)]
        return [*records, Resolve(call.call, Offered(tuple(unseen), cursor))]

    # --- what came of it

    def _seen(self, event: HandoutSeen, now: Now) -> list[Action]:
        return self._all_arrived([(msg_id, event.gid) for msg_id in event.ids], now)

    def turn_over(self, gid: Gid, now: Now) -> list[Action]:
        """The turn of an agent ended by itself: what it polled in it, it has read."""
        given = [*self._late.values(), *self._batches.values()]
        polled = [batch for batch in given if batch.gid == gid and batch.via == POLL]
        return self._all_arrived([key for batch in polled for key in batch.unseen], now)

    def answered(self, row: InboxRow, now: Now) -> list[Action]:
        """The agent answered a message before it had shown that it has it."""
        key = row.key
        is_unseen = any(key in batch.unseen for batch in self._batches.values())
        return [*self._arrived(key, now), *self._after(row.gid, now)] if is_unseen else []

    def confirmed(self, session: str, cursor: int, now: Now) -> list[Action]:
        """The client has what its polls got up to `cursor`."""
        given = {**self._late, **self._batches}
        batches = [batch for number, batch in given.items() if batch.session == session and number <= cursor]
        return self._all_arrived([key for batch in batches for key in batch.unseen], now)

    def _all_arrived(self, keys: Iterable[Key], now: Now) -> list[Action]:
        actions: list[Action] = []
        gids: dict[Gid, None] = {}
        for key in dict.fromkeys(keys):
            if arrived := self._arrived(key, now):
                actions += arrived
                gids[key[1]] = None
        return [*actions, *(action for gid in gids for action in self._after(gid, now))]

    def _arrived(self, key: Key, now: Now) -> list[Action]:
        """The agent has it, and if nobody thought so any more."""
        via = next((batch.via for batch in self._batches.values() if key in batch.unseen), "")
        row = self._ledger.get(key)
        self._forget(key)
        is_mine = via and row is not None and row.state is InboxState.INJECTING
        if row is None or not (is_mine or row.state is InboxState.UNCONFIRMED):
            return []
        done = self._ledger.finish(row, now, InboxState.INJECTED, via=via or row.via)
        return [*done, *self.took(self._ledger.get(key) or row, now)]

    def _in_vain(self, cursor: int, now: Now) -> list[Action]:
        """The time for evidence is over."""
        batch = self._batches[cursor]
        late = msgspec.structs.replace(batch, unseen=dict(batch.unseen))
        actions = [*self._lost(cursor, "", now), *self._after(batch.gid, now)]
        if batch.via == POLL:
            self._late[cursor] = late
        if len(self._late) > MOST_LATE:
            del self._late[next(iter(self._late))]
        return actions

    def _lost(self, cursor: int, detail: str, now: Now) -> list[Action]:
        """Nobody knows whether the agent has it, and it never gets it again."""
        batch, actions = self._batches[cursor], list[Action]()
        for key, reason in list(batch.unseen.items()):
            self._forget(key)
            row = self._ledger.rows.get(key)
            if row is not None and row.state is InboxState.INJECTING:
                actions += self._ledger.finish(
                    row, now, InboxState.UNCONFIRMED, reason=reason, via=batch.via, detail=detail
                )
        return actions

    def call_ended(self, event: CallEnded, now: Now) -> list[Action]:
        """A call was broken off after it had taken something; or the client is gone that had to confirm its polls.

        A hook is always gone: it ends when it has printed what it got.
        """
        if event.gone:
            self._late = {number: batch for number, batch in self._late.items() if batch.session != event.session}
        lost = {
            number: batch.gid
            for number, batch in self._batches.items()
            if batch.call == event.call or (event.gone and batch.session == event.session and batch.via == POLL)
        }
        actions = [action for number in lost for action in self._lost(number, "its call was broken off", now)]
        return [*actions, *(action for gid in set(lost.values()) for action in self._after(gid, now))]

    def close(self, gid: Gid, now: Now) -> list[Action]:
        """The agent is ended: its calls are over, and nobody will see any more what it had been given."""
        calls = [action for call in self._waits.handouts_of(gid) for action in self._waits.nothing_there(call.call)]
        mine = [number for number, batch in self._batches.items() if batch.gid == gid]
        self._late = {number: batch for number, batch in self._late.items() if batch.gid != gid}
        return [*calls, *(action for number in mine for action in self._lost(number, "it was ended", now))]

    def undo(self, row: InboxRow) -> None:
        """The store could not record a step of it: what stays `injecting` is settled when the store is well again."""
        self._forget(row.key)

    def _forget(self, key: Key) -> None:
        for batches in (self._late, self._batches):
            for number, batch in list(batches.items()):
                if batch.unseen.pop(key, None) is not None and not batch.unseen:
                    del batches[number]
                    self._timers.cancel(("handout", str(number)))

    def _after(self, gid: Gid, now: Now) -> list[Action]:
        """What waited for it: the end of an agent, the next message."""
        ended = self.over(gid, now)
        return [*ended, *self._forward.pump(gid, now), *self._ledger.check_full(gid, now)]
