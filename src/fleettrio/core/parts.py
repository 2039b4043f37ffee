"""The parts that a gateway is made of, and who knows whom.

Each part decides about one thing and brings its own tables of rules (`core.rules`). They are made in this order, since
most need some that are made before them. What a part needs of one that is made after it is a table, a list or a hook of
its own, empty at first; all of them are filled in one place, at the end (`_join`).
"""

from __future__ import annotations

from fleettrio.core import events as ev
from fleettrio.core.actions import DropDue, RecordClaim, RecordDue, RecordSpawn
from fleettrio.core.agents import Agents
from fleettrio.core.arrivals import Arrivals
from fleettrio.core.asks import Asks
from fleettrio.core.beginning import Kept, Settings
from fleettrio.core.beside import Beside
from fleettrio.core.broadcasts import Broadcasts
from fleettrio.core.claimgate import ClaimGate
from fleettrio.core.claims import Claims
from fleettrio.core.controls import Controls
from fleettrio.core.coordination import Coordination
from fleettrio.core.deadletters import DeadLetters
from fleettrio.core.depth import Depths
from fleettrio.core.dues import Dues
from fleettrio.core.epochs import Epochs
from fleettrio.core.failures import Failures
from fleettrio.core.fates import LIVE, Fates
from fleettrio.core.guard import Guard
from fleettrio.core.hearing import Hearing
from fleettrio.core.inbox import Inbox
from fleettrio.core.lastwords import LastWords
from fleettrio.core.ledger import Ledger
from fleettrio.core.link import Link
from fleettrio.core.live import Live
from fleettrio.core.lookups import LookUps
from fleettrio.core.neighbours import Neighbours
from fleettrio.core.news import News
from fleettrio.core.notices import Notices
from fleettrio.core.nudges import NUDGE, Nudges
from fleettrio.core.orders import Orders
from fleettrio.core.outbox import Outbox
from fleettrio.core.owed import Owed
from fleettrio.core.pauses import Pauses
from fleettrio.core.pings import Pings
from fleettrio.core.presence import Presence
from fleettrio.core.publishes import Publishes
from fleettrio.core.refusals import Refusals
from fleettrio.core.roster import Roster
from fleettrio.core.rows import Due
from fleettrio.core.rpc import Rpc
from fleettrio.core.sends import Sends
from fleettrio.core.spawn_orders import SpawnOrders
from fleettrio.core.spawns import Spawns
from fleettrio.core.stops import Stops
from fleettrio.core.storefault import StoreFault
from fleettrio.core.timers import Timers
from fleettrio.core.traces import Traces
from fleettrio.core.trust import Trust
from fleettrio.core.waits import Waits
from fleettrio.core.wallmark import WallMark
from fleettrio.core.words import Words
from fleettrio.ids import Now
from fleettrio.wire.envelope import Kind

__all__ = ("Parts",)


class Parts:
    def __init__(self, settings: Settings, kept: Kept) -> None:
        self.settings = settings
        self._link_and_rows(kept)
        self._lanes(kept)
        self._fleet()
        self._requests(kept)
        self._agents_here(kept)
        self._ways_in()
        self._people(kept)
        self._join()

    def _link_and_rows(self, kept: Kept) -> None:
        """The link to the broker, and the rows of messages both ways."""
        me, settings = self.settings.me, self.settings
        self.timers = Timers()
        self.waits = Waits()
        self.mark = WallMark(settings.highest_wall, settings.born)
        self.link = Link(self.timers, standalone=settings.standalone)
        self.roster = Roster(me, kept.entities, kept.peers, kept.others, settings.epoch, settings.fleet.hosts)
        self.outbox = Outbox(kept.sent, self.roster, self.waits, self.timers)
        self.notices = Notices(me, self.link, self.timers, self.roster)
        self.ledger = Ledger(self.roster, self.notices, self.timers, settings.limits)
        self.owed = Owed(me, self.link, self.outbox)
        self.publishes = Publishes(self.link, self.outbox, self.ledger, self.owed)

    def _lanes(self, kept: Kept) -> None:
        """What is delivered here, and what is sent from here."""
        me, settings = self.settings.me, self.settings
        self.depths = Depths(me)
        self.guard = Guard(me, self.depths, self.ledger, self.roster, self.outbox.get)
        self.lookups = LookUps(self.ledger, self.outbox)
        self.inbox = Inbox(
            self.ledger,
            self.roster,
            self.notices,
            self.waits,
            self.timers,
            self.mark,
            self.guard,
            self.lookups,
            self.outbox,
            seq=kept.seq,
        )
        self.pings = Pings(me, self.link, self.roster, version=settings.version)
        self.fates = Fates(me, self.link, self.roster, self.inbox, self.outbox, self.lookups, self.timers)
        self.sends = Sends(
            me,
            self.roster,
            self.link,
            self.inbox,
            self.outbox,
            self.fates,
            self.waits,
            self.depths,
            self.guard,
            settings.body_limit,
        )
        self.broadcasts = Broadcasts(me, self.roster, self.link, self.inbox, self.outbox, self.sends, self.waits)
        self.coordination = Coordination(
            settings,
            self.roster,
            self.inbox,
            self.outbox,
            self.owed,
            self.lookups,
            self.sends,
            self.waits,
            self.timers,
        )

    def _fleet(self) -> None:
        """Trust in other hosts, and what is said and heard of them."""
        me, settings = self.settings.me, self.settings
        self.trust = Trust(settings.fleet, self.roster, self.inbox)
        self.epochs = Epochs(settings, self.roster)
        self.presence = Presence(
            me,
            self.roster,
            self.link,
            self.timers,
            self.epochs,
            version=settings.version,
            trace_id=settings.trace_id,
        )
        self.words = Words(
            me, self.outbox, self.lookups, self.pings, self.roster, self.trust.grants, self.presence.refused
        )
        self.hearing = Hearing(
            me, self.roster, self.link, self.timers, self.fates, self.presence, trace_id=settings.trace_id
        )
        self.refusals = Refusals(me, self.link, self.roster, self.presence.stranger_asked)

    def _requests(self, kept: Kept) -> None:
        """What hosts ask of each other."""
        me, settings = self.settings.me, self.settings
        self.controls = Controls(me, self.inbox, self.notices, self.lookups)
        live = Live(me, self.roster, self.link, self.outbox, self.waits)
        self.rpc = Rpc(me, self.link, live, self.timers, self.controls)
        self.claims = Claims(me, self.roster, self.rpc, kept.claims)
        self.claim_gate = ClaimGate(me, self.roster, self.inbox, self.claims, self.rpc, self.timers)
        self.dead_letters = DeadLetters(me, self.link)
        self.orders = Orders(me, live, self.controls)
        self.asks = Asks(
            me,
            self.roster,
            live,
            self.outbox,
            self.inbox,
            self.notices,
            self.lookups,
            self.pings,
            self.waits,
            self.timers,
            self.owed,
            self.sends.step,
            settings.body_limit,
        )
        self.last_words = LastWords(
            me, self.roster, self.link, self.outbox, self.inbox, self.depths, settings.body_limit
        )
        dues = _dues(kept, nudges=False)
        self.dues = Dues(me, self.roster, self.sends, self.link, self.inbox, self.lookups, self.timers, dues)

    def _agents_here(self, kept: Kept) -> None:
        """The agents of this host: made known, started, ended."""
        me, settings = self.settings.me, self.settings
        self.agents = Agents(self.roster, self.inbox, self.presence, self.depths)
        self.pauses = Pauses(me, self.roster, self.inbox, self.guard, self.controls, self.orders, settings.paused)
        self.spawns = Spawns(
            me,
            self.roster,
            self.ledger,
            self.presence,
            self.controls,
            standalone=settings.standalone,
            grants=self.trust.grants,
            put_into=self.depths.begun,
            seen=self.agents.rules[ev.AgentSeen],
            profiles=settings.profiles,
            rows=kept.spawns,
        )
        self.stops = Stops(
            me, self.roster, self.inbox, self.presence, self.controls, self.spawns, grants=self.trust.grants
        )
        self.spawn_orders = SpawnOrders(me, self.roster, self.orders, self.outbox, self.sends)

    def _ways_in(self) -> None:
        """Which part takes what arrives, and what happens when the store fails."""
        me = self.settings.me
        self.arrivals = Arrivals(
            self.roster,
            self.inbox,
            self.fates,
            self.lookups,
            self.pings,
            self.presence,
            self.hearing,
            self.words,
            self.controls,
            self.refusals,
        )
        self.traces = Traces(me, self.roster, self.link, self.timers)
        self.store_fault = StoreFault(self.inbox, self.outbox, self.sends, self.lookups, self.roster, self.timers)

    def _people(self, kept: Kept) -> None:
        """What the person and the senders here are told of what was decided."""
        settings = self.settings
        self.news = News(settings.me, self.roster, self.link, self.timers, settings.news)
        self.failures = Failures(self.outbox, kept.untold)
        self.beside = Beside(settings.person_seen)
        self.nudges = Nudges(
            self.roster, self.ledger, self.inbox.gate, self.coordination, self.timers, _dues(kept, nudges=True)
        )

    def _join(self) -> None:
        """What parts need of each other."""
        turns, asked, briefs = self.asks.turns, self.asks.asked, self.asks.briefs
        # Whatever arrives has its part; what has one, other hosts are told that it is spoken here.
        self.arrivals.messages[Kind.ASK] = asked.arrive
        self.arrivals.about_ours[Kind.ANSWER] = turns.take
        self.arrivals.tagged[Kind.ABANDONED] = asked.abandoned
        self.arrivals.control |= {
            Kind.RPC: self.rpc.arrive,
            Kind.TRACE: self.traces.on_trace,
            Kind.TRACED: self.traces.on_traced,
        }
        self.presence.kinds, self.presence.profiles = self.arrivals.spoken(), tuple(self.spawns.profiles)
        # Whether a message may land is asked in this order: what is paused is not even looked at. What only one can
        # have is taken last.
        gate, looks = self.inbox.gate, self.inbox.looks
        gate.judges += [self.pauses.judge, self.guard.judge, looks.judge, self.claim_gate.judge, turns.judge]
        gate.takers.append(self.claim_gate.take)
        # The two realms part by the kind of a message.
        self.notices.elsewhere[Kind.COORD] = self.coordination.notices
        self.sends.fork.links[Kind.COORD] = self.coordination.link
        # Words, questions and answers among neighbours; questions and answers that the broker lost.
        self.notices.tell_neighbour = Neighbours(self.outbox, self.lookups).tell
        self.asks.questions.take_question, self.owed.tell_neighbour = asked.arrive, asked.abandoned_here
        self.words.absent |= dict.fromkeys(LIVE, turns.absent)
        # What agents here take, answer and are through with.
        self.sends.replied = briefs.replied
        self.agents.watchers += [turns.seen, briefs.seen]
        self.agents.on_gone.append(self.claims.gone)
        briefs.turn_over, briefs.mode_of = self.inbox.handouts.turn_over, self.spawns.reply_of
        briefs.say, self.publishes.confirmed = self.last_words.say, self.last_words.confirmed
        self.inbox.handouts.took, self.inbox.handouts.over = briefs.took, self.stops.written
        # Calls and orders that wait for a word.
        self.asks.waiting.ended_too += [self.rpc.call_ended, self.traces.call_ended]
        self.outbox.followers[Kind.SPAWN] = self.spawn_orders.word
        self.fates.held = self.pauses.word
        # A store that takes no writes.
        self.publishes.unrecorded = self.coordination.publishes.unrecorded = self.store_fault.unrecorded
        self.store_fault.recovered += [self.spawns.recovered, self.stops.recovered]
        self.store_fault.undo |= {
            RecordSpawn: self.spawns.undo,
            RecordClaim: self.claims.undo,
            RecordDue: self._undo_due,
            DropDue: self.dues.undo_drop,
        }

    # --- for the parts

    def _undo_due(self, action: RecordDue, now: Now) -> None:
        (self.nudges.undo if action.row.what == NUDGE else self.dues.undo_record)(action, now)


def _dues(kept: Kept, *, nudges: bool) -> list[Due]:
    """What the store has due later, of the one sort or the other."""
    return [due for due in kept.dues if (due.what == NUDGE) is nudges]
