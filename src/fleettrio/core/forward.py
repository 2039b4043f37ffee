"""The forward lane: messages put into push entities, at most once.

    waiting ──gate opens──► injecting ──► injected | unconfirmed
       ▲                        │
       └────nothing written─────┘

Rules:
1. One message in hand per agent; calls of its own go first (`handouts`). The transport looks first (`Reserve`); then
   `injecting` is committed, right before the first byte; then it writes (`Inject`). Where a glance shows that the agent
   would take it at once (`AgentFoundReady`), that mark is in the commit of what has just come.
2. Whatever happens after the mark, the message is never typed again: a crash leaves `unconfirmed(crashed)`, never
   `failed`. Only proof that not one byte went in (`nothing-written`) lets it wait again.
3. Not ready: look again after 0.1 s … 2 s, or as soon as the agent is seen idle. Nothing is polled while nothing waits.
4. Closed while the store takes no writes, and while the clock is behind what it showed before (`wallmark`).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fleettrio.core.actions import Action, Inject, Record, Reserve
from fleettrio.core.entity import Entity
from fleettrio.core.events import AgentFoundReady, AgentReserved, Injected
from fleettrio.core.gate import End, Gate, Hold
from fleettrio.core.lane import Lane, urgency
from fleettrio.core.ledger import Ledger
from fleettrio.core.looks import dropped
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, InboxState, Key
from fleettrio.core.timers import Timers, at_wall
from fleettrio.core.wallmark import WallMark
from fleettrio.ids import Gid, Now, Seconds, WallMs

__all__ = ("ForwardLane",)

RETRY_FIRST_S, RETRY_MOST_S = 0.1, 2.0
CLOSED = ("away", "stopping", "gone")
"""States of an agent in which nothing is put into it."""


class _Agent(msgspec.Struct):
    in_hand: Key | None = None
    written: Key | None = None
    """What was in hand when the latest write began."""
    backoff_s: float = RETRY_FIRST_S
    why: str = ""
    since: WallMs = WallMs(0)
    answered: Key | None = None
    """What it answered before the write was over."""


class ForwardLane:
    def __init__(
        self,
        ledger: Ledger,
        gate: Gate,
        roster: Roster,
        timers: Timers,
        mark: WallMark,
        landed: Callable[[InboxRow], None],
    ) -> None:
        self.closed = ""
        """Why nothing at all is delivered; empty: the lane is open."""
        self._agents: dict[Gid, _Agent] = {}
        self._found_ready: set[Gid] = set()
        """Agents that would take a message now, while all that came together is decided about."""
        self._mark = mark
        self._ledger = ledger
        self._gate = gate
        self._roster = roster
        self._timers = timers
        self._landed = landed
        self.to_calls: Callable[[Gid, Now], list[Action]] = lambda _gid, _now: []
        """What open calls of an agent take by themselves goes before what is put in (`handouts`)."""
        self.is_handed_out: Callable[[Gid], bool] = lambda _gid: False
        """Whether something that an agent took so is on its way into it."""

    def pump(self, gid: Gid, now: Now) -> list[Action]:
        """Start the next delivery to a push entity, unless one is in hand or the agent is not there."""
        entity = self._roster.entities.get(gid)
        if entity is None or entity.takes != "push":
            return []
        agent, lane = self._agent(gid), self._ledger.lane(gid)
        taken = self.to_calls(gid, now) if lane.count else []
        if agent.in_hand or not lane.count:
            return taken
        if why := self._why_not(entity):
            self._note_why(agent, why, now)
            return taken
        if self.is_shut(gid, now):
            return taken
        row, actions = self._next_free(lane, now)
        if actions:  # some ended on the way: there may be room again
            actions += self._ledger.check_full(gid, now)
        if row is None:
            return [*taken, *actions]
        agent.in_hand = (row.msg_id, gid)
        self._timers.cancel(("gate", gid))
        if gid in self._found_ready and not row.has_causal:
            self._found_ready.discard(gid)
            return [*taken, *actions, *self.reserved(AgentReserved(gid, row.msg_id), now)]
        return [*taken, *actions, Reserve(row)]

    def found_ready(self, event: AgentFoundReady, _: Now) -> list[Action]:
        """Until everything is decided that came with this."""
        self._found_ready.add(event.gid)
        return []

    def settled(self) -> None:
        """It is: from here on agents may be doing anything."""
        self._found_ready.clear()

    def _why_not(self, entity: Entity) -> str:
        """Why nothing is put into this agent now; empty: it may be."""
        if entity.status in CLOSED:
            return f"{entity.name} is {entity.status}"
        return "what it just took is on its way" if self.is_handed_out(entity.gid) else ""

    def _next_free(self, lane: Lane, now: Now) -> tuple[InboxRow | None, list[Action]]:
        """The most urgent message that may land; those that are over end on the way, those that are held stay."""
        actions: list[Action] = []
        free: list[InboxRow] = []
        for queue in lane.queues():
            for row in queue:
                match self._gate.judge(row, now):
                    case End(state, reason, detail):
                        actions += self._ledger.finish_undelivered(row, now, state, reason, detail)
                        continue
                    case Hold() as hold:
                        self.held(row, hold, now)
                        if hold.passes:
                            continue
                    case _:
                        free.append(row)
                break
        return min(free, key=urgency, default=None), actions

    def held(self, row: InboxRow, hold: Hold, now: Now) -> None:
        """It is judged again when that is over."""
        self._note_why(self._agent(row.gid), hold.why, now)
        if hold.until is not None:
            self._timers.set_if_earlier(("gate", row.gid), at_wall(hold.until, now))

    def reserved(self, event: AgentReserved, now: Now) -> list[Action]:
        """The agent would take it now: mark it, then write. The mark is on disk before the first byte."""
        gid = event.gid
        row = self._ledger.rows.get((event.msg_id, gid))
        if row is None or row.state is not InboxState.WAITING:
            return self._next(gid, now)
        agent = self._agent(gid)
        if self.is_shut(gid, now):
            agent.in_hand = None
            return []
        verdict, taken = self._gate.take(row, now, is_looked_at=True)
        match dropped(row, event.drift) or verdict:
            case End(state, reason, detail):
                ended = self._ledger.finish_undelivered(row, now, state, reason, detail)
                return [*taken, *ended, *self._next(gid, now)]
            case Hold():
                return [*taken, *self._next(gid, now)]
        agent.backoff_s, agent.why = RETRY_FIRST_S, ""
        stale = event.drift.note if event.drift else ""
        agent.written = (row.msg_id, gid)
        marked = self._ledger.take_out(row, now, InboxState.INJECTING, stale)
        return [*taken, Record(marked, row), Inject(marked)]

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

    def injected(self, event: Injected, now: Now) -> list[Action]:
        """What came of the write."""
        gid, msg_id, via, detail = event.gid, event.msg_id, event.via, event.detail
        row = self._ledger.rows.get((msg_id, gid))
        actions: list[Action] = []
        if row is not None and row.state is InboxState.INJECTING:
            if event.outcome != "nothing-written":
                self._landed(row)
            match "submitted" if self._agent(gid).answered == (msg_id, gid) else event.outcome:
                case "submitted":
                    actions = self._ledger.finish(row, now, InboxState.INJECTED, via=via, detail=detail)
                case "nothing-written":
                    actions = self._ledger.back_to_waiting(row, now, repeat=row.repeat)
                case _:
                    actions = self._ledger.finish(
                        row, now, InboxState.UNCONFIRMED, reason=self._why_unseen(row), via=via, detail=detail
                    )
        if event.outcome == "nothing-written":
            self.not_ready(gid, detail, now)
            return actions
        return [*actions, *self._next(gid, now)]

    def _why_unseen(self, row: InboxRow) -> str:
        """What was typed in the middle of a turn may still be taken back by the person."""
        entity = self._roster.entities.get(row.gid)
        is_working = entity is not None and entity.status == "working"
        return "mid-turn" if is_working and row.when == "now" else "not-observed"

    def seen_answered(self, row: InboxRow, now: Now) -> list[Action]:
        """The agent replied to a message that nobody had seen it take: it did."""
        key = row.key
        current = self._ledger.get(key) or row
        if current.state is InboxState.INJECTING:
            self._agent(row.gid).answered = key
        if current.state is not InboxState.UNCONFIRMED:
            return []
        return self._ledger.finish(current, now, InboxState.INJECTED, via=current.via or "reply")

    def interrupted(self, row: InboxRow, now: Now) -> None:
        """The mark could not be recorded: nothing was written, look again later."""
        agent = self._agent(row.gid)
        if agent.in_hand == row.key:
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
        if why != agent.why or not agent.since:
            agent.why, agent.since = why, now.wall

    def latest(self, gid: Gid) -> InboxRow | None:
        """The message that was put in last, while something is still known of it here."""
        agent = self._agents.get(gid)
        return self._ledger.get(agent.written) if agent and agent.written else None

    def being_written(self, gid: Gid) -> InboxRow | None:
        """The message that is being put in."""
        agent = self._agents.get(gid)
        row = self._ledger.rows.get(agent.written) if agent and agent.written else None
        return row if row is not None and row.state is InboxState.INJECTING else None

    def is_shut(self, gid: Gid, now: Now) -> bool:
        """True while nothing at all lands."""
        agent = self._agent(gid)
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
