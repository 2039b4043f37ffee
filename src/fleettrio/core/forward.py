"""The forward lane: messages put into push entities, at most once.

    waiting ──gate opens──► injecting ──► injected | unconfirmed
       ▲                        │
       └────nothing written─────┘

Rules:
1. One message in hand per agent. The transport looks first (`Reserve`); then `injecting` is committed, right before the
   first byte; then it writes (`Inject`).
2. Whatever happens after the mark, the message is never typed again: a crash leaves `unconfirmed(crashed)`, never
   `failed`. Only proof that not one byte went in (`nothing-written`) lets it wait again.
3. Not ready: look again after 0.1 s … 2 s, or as soon as the agent is seen idle. Nothing is polled while nothing waits.
4. Closed while the store takes no writes, and while the clock is behind what it showed before (`wallmark`).
"""

from __future__ import annotations

import dataclasses

from fleettrio.core.actions import Action, Inject, Record, Reserve
from fleettrio.core.calls import Key
from fleettrio.core.ledger import Ledger
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, InboxState
from fleettrio.core.timers import Timers
from fleettrio.core.wallmark import WallMark
from fleettrio.ids import Gid, MsgId, Now, Seconds, WallMs

__all__ = ("ForwardLane",)

RETRY_FIRST_S, RETRY_MOST_S = 0.1, 2.0
CLOSED = ("away", "stopping", "gone")
"""States of an agent in which nothing is put into it."""


@dataclasses.dataclass(slots=True)
class _Agent:
    in_hand: Key | None = None
    backoff_s: float = RETRY_FIRST_S
    why: str = ""
    since: WallMs = WallMs(0)


class ForwardLane:
    def __init__(self, ledger: Ledger, roster: Roster, timers: Timers, mark: WallMark) -> None:
        self.closed = ""
        """Why nothing at all is delivered; empty: the lane is open."""
        self._agents: dict[Gid, _Agent] = {}
        self._mark = mark
        self._ledger = ledger
        self._roster = roster
        self._timers = timers

    def pump(self, gid: Gid, now: Now) -> list[Action]:
        """Start the next delivery to a push entity, unless one is in hand or the agent is not there."""
        entity = self._roster.entities.get(gid)
        if entity is None or entity.takes != "push":
            return []
        agent, lane = self._agent(gid), self._ledger.lane(gid)
        if agent.in_hand or not lane.count:
            return []
        if entity.status in CLOSED:
            self._note_why(agent, f"{entity.name} is {entity.status}", now)
            return []
        if self._is_closed(gid, agent, now):
            return []
        actions: list[Action] = []
        while (row := next(lane.heads(), None)) is not None:
            if row.expires_at <= now.wall:
                actions += self._ledger.finish_undelivered(row, now, InboxState.EXPIRED)
                continue
            agent.in_hand = (row.msg_id, gid)
            self._timers.cancel(("gate", gid))
            return [*actions, Reserve(row)]
        return actions

    def reserved(self, gid: Gid, msg_id: MsgId, now: Now) -> list[Action]:
        """The agent would take it now: mark it, then write. The mark is on disk before the first byte."""
        row = self._ledger.rows.get((msg_id, gid))
        if row is None or row.state is not InboxState.WAITING:
            return self._next(gid, now)
        if row.expires_at <= now.wall:
            return [*self._ledger.finish_undelivered(row, now, InboxState.EXPIRED), *self._next(gid, now)]
        agent = self._agent(gid)
        if self._is_closed(gid, agent, now):
            agent.in_hand = None
            return []
        agent.backoff_s, agent.why = RETRY_FIRST_S, ""
        marked = self._ledger.take_out(row, now, InboxState.INJECTING)
        return [Record(marked, row), Inject(marked)]

    def not_ready(self, gid: Gid, why: str, now: Now) -> None:
        """Not now: look again later, a little less often each time."""
        if gid not in self._roster.entities:
            self.forget(gid)
            return
        agent = self._agent(gid)
        agent.in_hand = None
        self._note_why(agent, why, now)
        self._timers.set(("gate", gid), Seconds(now.mono + agent.backoff_s))
        agent.backoff_s = min(agent.backoff_s * 2, RETRY_MOST_S)

    def injected(self, gid: Gid, msg_id: MsgId, outcome: str, via: str, detail: str, now: Now) -> list[Action]:
        """What came of the write."""
        row = self._ledger.rows.get((msg_id, gid))
        actions: list[Action] = []
        if row is not None and row.state is InboxState.INJECTING:
            match outcome:
                case "submitted":
                    actions = self._ledger.finish(row, now, InboxState.INJECTED, via=via, detail=detail)
                case "nothing-written":
                    actions = self._ledger.back_to_waiting(row, now, repeat=row.repeat)
                case _:
                    actions = self._ledger.finish(
                        row, now, InboxState.UNCONFIRMED, reason="not-observed", via=via, detail=detail
                    )
        if outcome == "nothing-written":
            self.not_ready(gid, detail, now)
            return actions
        return [*actions, *self._next(gid, now)]

    def seen_answered(self, row: InboxRow, now: Now) -> list[Action]:
        """The agent replied to a message that nobody had seen it take: it did."""
        current = self._ledger.get((row.msg_id, row.gid)) or row
        if current.state is not InboxState.UNCONFIRMED:
            return []
        return self._ledger.finish(current, now, InboxState.INJECTED, via=current.via or "reply")

    def interrupted(self, row: InboxRow, now: Now) -> None:
        """The mark could not be recorded: nothing was written, look again later."""
        agent = self._agent(row.gid)
        if agent.in_hand == (row.msg_id, row.gid):
            agent.in_hand = None
            self._timers.set(("gate", row.gid), Seconds(now.mono + RETRY_MOST_S))

    def forget(self, gid: Gid) -> None:
        self._agents.pop(gid, None)
        self._timers.cancel(("gate", gid))

    def why_waiting(self, gid: Gid) -> tuple[str, WallMs]:
        """Why the head of the lane is not delivered yet, and since when; empty when nothing is known."""
        agent = self._agents.get(gid)
        return (agent.why, agent.since) if agent else ("", WallMs(0))

    def _agent(self, gid: Gid) -> _Agent:
        return self._agents.setdefault(gid, _Agent())

    @staticmethod
    def _note_why(agent: _Agent, why: str, now: Now) -> None:
        agent.why = why
        agent.since = agent.since or now.wall

    def _is_closed(self, gid: Gid, agent: _Agent, now: Now) -> bool:
        if self._mark.is_ahead(now):
            self._note_why(agent, self._mark.why_closed(now), now)
            self._timers.set(("gate", gid), self._mark.caught_up_at(now))
            return True
        if self.closed:
            self._note_why(agent, self.closed, now)
        return bool(self.closed)

    def _next(self, gid: Gid, now: Now) -> list[Action]:
        if gid not in self._roster.entities:
            self.forget(gid)
            return []
        agent = self._agent(gid)
        agent.in_hand, agent.since = None, WallMs(0)
        return [*self.pump(gid, now), *self._ledger.check_full(gid, now)]
