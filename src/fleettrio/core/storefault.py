"""The store takes no writes: a full disk, a dead one. Nothing is accepted, delivered or taken in until it does again.

Rules:
1. What could not be recorded did not happen: every row is what it was, and its callers are told.
2. Intake ends with the broker session, which gives every delivery in hand back in order.
3. The store is tried every 5 s; when it takes writes again, everything goes on by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fleettrio.core.actions import (
    Action,
    Commit,
    EndSession,
    Fail,
    ProbeStore,
    Record,
    RecordEntity,
    RecordSent,
    WatchEntity,
)
from fleettrio.core.events import LoadFailed, StoreFailed, StoreRecovered
from fleettrio.core.forward import CLOSED
from fleettrio.core.inbox import Inbox
from fleettrio.core.lookups import LookUps
from fleettrio.core.outbox import Outbox
from fleettrio.core.roster import Roster
from fleettrio.core.rows import Key
from fleettrio.core.rules import Rules, TimerRules
from fleettrio.core.sends import Sends
from fleettrio.core.timers import Timers
from fleettrio.errors import FAILED
from fleettrio.ids import Now, Seconds

__all__ = ("StoreFault",)

PROBE_S = 5.0

Undo = Callable[[Any, Now], None]


class StoreFault:
    def __init__(
        self, inbox: Inbox, outbox: Outbox, sends: Sends, lookups: LookUps, roster: Roster, timers: Timers
    ) -> None:
        self.trouble = ""
        """Why nothing can be recorded; empty when all is well."""
        self._inbox = inbox
        self._sends = sends
        self._lookups = lookups
        self._roster = roster
        self._timers = timers
        self.undo: dict[type, Undo] = {
            Commit: lambda action, now: inbox.undo(action.row, None, now),
            Record: lambda action, now: inbox.undo(action.row, action.before, now),
            RecordSent: lambda action, now: outbox.undo(action.row, action.before, now),
        }
        """What goes back to what it was. Rows that other parts record are added in `parts`."""
        self.recovered: list[Callable[[Now], list[Action]]] = []
        """Parts that go on when the store takes writes again, too."""
        self.rules: Rules = {
            StoreFailed: self._failed,
            StoreRecovered: self._recovered,
            LoadFailed: self._not_loaded,
        }
        self.timer_rules: TimerRules = {"probe": self._probe}

    def broke(self, reason: str, now: Now) -> list[Action]:
        is_first, self.trouble = not self.trouble, reason
        self._inbox.forward.closed = "this host cannot record what it delivers"
        self._timers.set_if_unset(("probe",), Seconds(now.mono + PROBE_S))
        return [EndSession(f"store: {reason}")] if is_first else []

    def unrecorded(self, keys: Iterable[Key], reason: str, now: Now) -> list[Action]:
        """The publisher could not record the rows of these messages."""
        return [*self.broke(reason, now), *self._sends.not_recorded(keys, reason)]

    def refuse(self, call: int) -> Fail:
        """The answer to a request that would have to be recorded."""
        text = f"this host cannot record messages: {self.trouble}"
        return Fail(call, FAILED, "store", text, "free some disk space; `fleettrio doctor`")

    def _failed(self, event: StoreFailed, now: Now) -> list[Action]:
        actions = self.broke(event.reason, now)
        for action in event.undone:
            if undo := self.undo.get(type(action)):
                undo(action, now)
        self._sends.keys.clear()
        return [*(self.refuse(call) for call in event.calls), *actions]

    def _not_loaded(self, event: LoadFailed, now: Now) -> list[Action]:
        self._lookups.not_loaded(event.ask)
        return self.broke(event.reason, now)

    def _recovered(self, _: StoreRecovered, now: Now) -> list[Action]:
        """Deliveries go on. Agents are recorded and watched anew: one may have come while nothing was recorded."""
        self.trouble = self._inbox.forward.closed = ""
        agents: list[Action] = []
        for entity in self._roster.entities.values():
            agents += [RecordEntity(entity), WatchEntity(entity, present=entity.status not in CLOSED)]
        others = [action for recovered in self.recovered for action in recovered(now)]
        return [*agents, *others, *self._inbox.recovered(now)]

    def _probe(self, _: tuple[str, ...], now: Now) -> list[Action]:
        if not self.trouble:
            return []
        self._timers.set(("probe",), Seconds(now.mono + PROBE_S))
        return [ProbeStore()]
