"""The gateway: one object for the life of the daemon, one synchronous call a fact.

`handle(event, now)` decides what is to be done about an event; `expire(now)` about time that has passed. Both return
actions: store actions first, then hand-overs, each kind in the order in which it was decided. Whoever performs them
keeps that order; nothing is handed over before everything in front of it is recorded. Of events that come together each
is decided about (`decide`), then what follows from all of them is (`settle`).

Rules:
1. Nothing here reads a clock, a socket or a file. Ids and time come in.
2. What a peer can cause is legal in every state. An event that only our own shell can cause, and that the state does
   not allow, raises `ProtocolMisuse` and changes nothing.
3. Sessions come and go beneath; the rows stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.actions import (
    Action,
    OpenInbox,
    WatchEntity,
    parted,
)
from fleettrio.core.beginning import Kept, Settings
from fleettrio.core.harness import PromptTyped
from fleettrio.core.ledger import queue_owner
from fleettrio.core.parts import Parts
from fleettrio.core.rules import Rule, Rules, TimerRules, join
from fleettrio.errors import ProtocolMisuse
from fleettrio.ids import Gid, HostId, Now, Seconds
from fleettrio.wire.envelope import Kind

__all__ = ("Gateway", "Kept", "Settings")


class Gateway(Parts):
    def __init__(self, settings: Settings, kept: Kept) -> None:
        super().__init__(settings, kept)
        self._kept = kept
        self.safe = ""
        self.rules, self.timer_rules = self._rules(), self._timer_rules()
        self.inbox_state: dict[Gid, str] = {}  # in this session: `open`, or its trouble; missing: being opened

    # --- the three calls

    def start(self, now: Now) -> list[Action]:
        """Once, before anything else: what the last process left behind is settled, and agents are watched again."""
        actions = [*self.epochs.start(now), *self.mark.saw(now)]
        actions += self.hearing.start(now)
        actions += [*self.outbox.start(now), *self.spawn_orders.start(now)]
        here = self.roster.entities.values()
        actions += [WatchEntity(e, present=True) for e in here if not self.spawns.to_adopt(e.gid)]
        kept, mine = self._kept, self.settings.me.gid
        self.depths.start(kept.landed)
        self.guard.start(kept.inbox)
        actions += self.asks.start(kept.inbox, kept.sent, now)
        self.last_words.start(kept.sent, kept.owed)
        others = [row for row in kept.inbox if row.gid != mine and not self.asks.is_mine(row)]
        actions += self.inbox.start(others, now)
        actions += self.controls.start([row for row in kept.inbox if row.gid == mine], now)
        actions += [*self.spawns.start(now), *self.stops.start(now), *self.dues.start(now)]
        self.news.start(now)
        actions += self.nudges.start(now)
        self._kept = Kept()
        return self.settle(actions, now)

    def handle(self, event: ev.Event, now: Now) -> list[Action]:
        """What is to be done about `event`."""
        return self.settle(self.decide(event, now), now)

    def decide(self, event: ev.Event, now: Now) -> list[Action]:
        """The same, but for what follows: that is asked for (`settle`) once for all events that came together."""
        rule = self.rules.get(type(event))
        if rule is None:
            raise ProtocolMisuse(f"no rule for {event!r}")
        if self.store_fault.trouble and isinstance(event, ask.Request) and event.needs_store:
            return [self.store_fault.refuse(event.call)]
        return rule(event, now)

    def settle(self, decided: Sequence[Action], now: Now) -> list[Action]:
        """What was decided, and what follows: inboxes, hosts and people are served once, whatever came together."""
        actions = [*self.mark.saw(now), *decided]
        actions += [*self.inbox.intake.settle(now), *self.waits.settle(), *self.coordination.mailbox.follow()]
        actions += [*self.notices.tell(now), *self.coordination.notices.tell(now)]
        records, hand_overs = parted(actions)
        noted = [*self.failures.follow(records, hand_overs), *self.news.follow(records, hand_overs, now)]
        noted_records, told = parted([*noted, *self.nudges.follow(records, now)])
        return [*records, *noted_records, *hand_overs, *told]

    def next_deadline(self) -> Seconds | None:
        """When `expire` has something to do, by the monotonic clock; None when nothing is waited for."""
        return self.timers.next()

    def expire(self, now: Now) -> list[Action]:
        """What is to be done about the time that has passed."""
        actions: list[Action] = []
        for name in self.timers.due(now):
            if name[0] not in self.timer_rules:
                raise ProtocolMisuse(f"no rule for the timer {name!r}")
            actions += self.timer_rules[name[0]](name[1:], now)
        return self.settle(actions, now)

    # --- tables

    def _rules(self) -> Rules:
        return join(
            {
                ev.Arrived: self._heard_then(self.arrivals.take),
                ev.DuplicateArrived: self._heard_then(self.arrivals.again),
                ev.RefusedArrival: self._heard_then(self.refusals.refused),
                ev.PublishHanded: self.publishes.handed,
                ev.PublishNotHanded: self.publishes.not_handed,
                ev.VerdictGiven: self.publishes.verdict,
                ev.AgentFoundReady: self.inbox.forward.found_ready,
                ev.AgentReserved: self.inbox.forward.reserved,
                ev.TreeLookedAt: self.inbox.looked,
                ev.Injected: self._injected,
                ev.SessionOpened: self._session_opened,
                ev.SessionClosed: self._session_closed,
                ev.LinkUnblocked: self._unblocked,
                ev.InboxBound: self._inbox_bound,
                ev.InboxTrouble: self._inbox_trouble,
                ev.ClockAccepted: self._clock_accepted,
                PromptTyped: self._prompt_typed,
                ask.ReplyAsked: self._reply_asked,
                ask.RetryAsked: self.sends.retry,
                ask.CancelAsked: self._cancel_asked,
            },
            self.inbox.handouts.rules,
            self.presence.rules,
            self.hearing.rules,
            self.link.rules,
            self.broadcasts.rules,
            self.coordination.rules,
            self.lookups.rules,
            self.pings.rules,
            self.asks.rules,
            self.agents.rules,
            self.pauses.rules,
            self.dues.rules,
            self.spawns.rules,
            self.stops.rules,
            self.spawn_orders.rules,
            self.trust.rules,
            self.store_fault.rules,
            self.rpc.rules,
            self.dead_letters.rules,
            self.traces.rules,
            self.failures.rules,
            self.beside.rules,
            self.nudges.rules,
        )

    def _timer_rules(self) -> TimerRules:
        return join(
            {
                "link": lambda _, now: self.publishes.late(now),
                "expiry": lambda name, now: self.inbox.expired(Gid(name[0]), now),
                "gate": lambda name, now: self.inbox.forward.pump(Gid(name[0]), now),
                "offer": lambda name, now: self.inbox.intake.let_go([Gid(name[0])], now),
                "held": lambda name, now: self.inbox.intake.still_held(Gid(name[0]), now),
                "lease": lambda name, now: self.inbox.lease_over(int(name[0]), now),
                "notice": lambda name, now: self.notices.retry(HostId(name[0]), now),
            },
            self.inbox.handouts.timer_rules,
            self.presence.timer_rules,
            self.hearing.timer_rules,
            self.fates.timer_rules,
            self.asks.timer_rules,
            self.store_fault.timer_rules,
            self.rpc.timer_rules,
            self.traces.timer_rules,
            self.coordination.timer_rules,
            self.claim_gate.timer_rules,
            self.dues.timer_rules,
            self.news.timer_rules,
            self.nudges.timer_rules,
        )

    def _heard_then(self, rule: Rule) -> Rule:
        """A delivery is a sign of life of the broker, too."""

        def heard(event: ev.Event, now: Now) -> list[Action]:
            self.link.heard(now.mono)
            return rule(event, now)

        return heard

    # --- publishes and sessions

    def _session_opened(self, _: ev.SessionOpened, now: Now) -> list[Action]:
        if self.epochs.copy:
            return self.presence.goodbye()
        self.link.opened(now)
        self.inbox_state.clear()
        inboxes = [OpenInbox(queue_owner(e)) for e in self.roster.entities.values() if not self.ledger.is_full(e.gid)]
        said = [*self.presence.session_opened(now), *self.hearing.session_opened(now)]
        owed = [*self.owed.session_opened(now), *self.last_words.session_opened(now), *self.dues.session_opened(now)]
        return [*inboxes, *said, *self.notices.session_opened(now), *owed]

    def _session_closed(self, event: ev.SessionClosed, now: Now) -> list[Action]:
        self.asks.turns.session_closed()
        return self.publishes.session_closed(event, now)

    def _unblocked(self, _: ev.LinkUnblocked, now: Now) -> list[Action]:
        self.link.unblocked()
        self.presence.unblocked(now)
        return []

    def _inbox_bound(self, event: ev.InboxBound, now: Now) -> list[Action]:
        self.inbox_state[event.gid] = "open"
        return [*self.agents.unbound(event.gid, event.unbound), *self.spawns.inbox_open(event.gid, now)]

    def _inbox_trouble(self, event: ev.InboxTrouble, now: Now) -> list[Action]:
        self.inbox_state[event.gid] = event.trouble
        return []

    def _injected(self, event: ev.Injected, now: Now) -> list[Action]:
        actions = [*self.inbox.forward.injected(event, now), *self.stops.written(event.gid, now)]
        after = self.ledger.get((event.msg_id, event.gid))
        return [*actions, *(self.asks.briefs.took(after, now) if after else [])]

    def _prompt_typed(self, event: PromptTyped, now: Now) -> list[Action]:
        if event.gid not in self.roster.entities:
            return []
        self.depths.typed(event.gid)
        self.guard.typed(event.gid)
        return self.asks.briefs.typed(event.gid, now)

    def keep_safe(self, reason: str) -> None:
        """Keep off the broker until a person says that it need not: the daemon died again and again. Empty: no more."""
        self.safe = reason
        self.link.detail = f"this host runs in safe mode: {reason}" if reason else ""

    @property
    def why_no_session(self) -> str:
        """Why no broker session is opened now; empty when one is."""
        return self.store_fault.trouble or self.epochs.copy or self.safe

    # --- calls

    def _reply_asked(self, event: ask.ReplyAsked, now: Now) -> list[Action]:
        if event.original.kind == Kind.COORD:
            return [self.coordination.no_reply(event)]
        return self.sends.reply(event, now)

    def _cancel_asked(self, event: ask.CancelAsked, now: Now) -> list[Action]:
        if event.row.kind == Kind.COORD:
            return [self.coordination.no_cancel(event)]
        if event.row.kind == Kind.ASK:
            return self.asks.turns.cancel(event, now)
        return self.sends.cancel(event, now)

    # --- time

    def _clock_accepted(self, _: ev.ClockAccepted, now: Now) -> list[Action]:
        return [*self.mark.accept(now), *self.inbox.pump_all(list(self.roster.entities), now)]
