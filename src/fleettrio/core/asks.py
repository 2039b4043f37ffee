"""What wants an answer, put together: what is asked from here (`questions`) and the turns that wait for it (`turns`),
the entities that are asked here (`asked`), the calls in which both wait (`waiting`), and the briefs that agents here
took (`briefs`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fleettrio.core.actions import Action
from fleettrio.core.asked import Asked
from fleettrio.core.briefs import Briefs
from fleettrio.core.compose import Identity
from fleettrio.core.depth import Step
from fleettrio.core.entity import Entity
from fleettrio.core.fates import LIVE
from fleettrio.core.inbox import Inbox
from fleettrio.core.live import Live
from fleettrio.core.lookups import LookUps
from fleettrio.core.notices import Notices
from fleettrio.core.outbox import Outbox
from fleettrio.core.owed import Owed
from fleettrio.core.pings import Pings
from fleettrio.core.questions import Questions
from fleettrio.core.requests import AnswerAsked, AskAsked
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.core.rules import Rules, TimerRules
from fleettrio.core.timers import Timers
from fleettrio.core.turns import Turns
from fleettrio.core.waiting import Waiting
from fleettrio.core.waits import Waits
from fleettrio.ids import Now

__all__ = ("Asks",)


class Asks:
    def __init__(
        self,
        me: Identity,
        roster: Roster,
        live: Live,
        outbox: Outbox,
        inbox: Inbox,
        notices: Notices,
        lookups: LookUps,
        pings: Pings,
        waits: Waits,
        timers: Timers,
        owed: Owed,
        step: Callable[[Entity], Step],
        body_limit: int,
    ) -> None:
        self.turns = Turns(me, roster, outbox, inbox, waits, timers, owed)
        self.questions = Questions(me, roster, live, inbox.ledger, self.turns, step, body_limit)
        self.asked = Asked(me, roster, live, inbox, notices, lookups, waits, timers, self.turns, body_limit)
        self.briefs = Briefs(inbox.ledger, notices, timers)
        self._roster = roster
        self.waiting = Waiting(waits, outbox, inbox, pings, self.turns, self.asked)
        self.rules: Rules = {
            AskAsked: self.questions.ask,
            AnswerAsked: self.asked.answer,
            **self.waiting.rules,
            **self.briefs.rules,
        }
        self.timer_rules: TimerRules = {
            "turn": self.turns.due,
            "question": self.asked.due,
            **self.briefs.timer_rules,
        }

    @staticmethod
    def is_mine(row: InboxRow) -> bool:
        return row.kind in LIVE

    def start(self, inbox: Sequence[InboxRow], sent: Iterable[SentRow], now: Now) -> list[Action]:
        """Questions and answers that the last process left: its turns, and the calls of whoever listened, are over.
        The turns of agents go on."""
        self.briefs.start(inbox, self._roster.entities.values())
        return [*self.turns.start(sent, now), *self.asked.start(filter(self.is_mine, inbox), now)]
