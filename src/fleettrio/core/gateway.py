"""The gateway: one object for the life of the daemon, one synchronous call a fact.

`handle(event, now)` decides what is to be done about an event; `expire(now)` about time that has passed. Both return
actions: store actions first, then hand-overs, each kind in the order in which it was decided. Whoever performs them
keeps that order; nothing is handed over before everything in front of it is recorded.

Rules:
1. Nothing here reads a clock, a socket or a file. Ids and time come in.
2. What a peer can cause is legal in every state. An event that only our own shell can cause, and that the state does
   not allow, raises `ProtocolMisuse` and changes nothing.
3. Sessions come and go beneath; the rows stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleettrio.core import events as ev
from fleettrio.core.actions import (
    RECORDED,
    Ack,
    Action,
    EndSession,
    Fail,
    OpenInbox,
    ProbeStore,
    RecordEntity,
    RecordPeer,
    Resolve,
    WatchEntity,
)
from fleettrio.core.agents import Agents
from fleettrio.core.arrivals import Arrivals
from fleettrio.core.beginning import Kept, Settings, begin_epoch
from fleettrio.core.calls import PullCall, WaitCall, Waits
from fleettrio.core.forward import CLOSED
from fleettrio.core.inbox import Inbox
from fleettrio.core.ledger import Ledger, queue_owner
from fleettrio.core.link import ForSent, Link
from fleettrio.core.notices import Notices
from fleettrio.core.outbox import Outbox
from fleettrio.core.presence import Presence
from fleettrio.core.publishes import Publishes
from fleettrio.core.questions import Questions
from fleettrio.core.refusals import Refusals
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.core.sends import Sends
from fleettrio.core.timers import Timers
from fleettrio.core.wallmark import WallMark
from fleettrio.core.words import Words
from fleettrio.errors import ProtocolMisuse
from fleettrio.ids import Gid, HostId, MsgId, Now, Seconds, TraceId
from fleettrio.wire.envelope import decode_envelope
from fleettrio.wire.fleetfile import Fleet

__all__ = ("Gateway", "Kept", "Settings")

PROBE_S = 5.0
STORE = "store"
"""Why a publish was not handed over when its row could not be recorded."""


class Gateway:
    def __init__(self, settings: Settings, kept: Kept) -> None:
        me = settings.me
        self.settings = settings
        self.fleet = settings.fleet
        self.timers = Timers()
        self.waits = Waits()
        self.mark = WallMark(settings.highest_wall)
        self.link = Link(self.timers, standalone=settings.standalone)
        self.roster = Roster(me, kept.entities, kept.peers, kept.others, settings.epoch, settings.fleet.hosts)
        self.outbox = Outbox(kept.sent, self.roster, self.waits, self.timers)
        self.notices = Notices(me, self.link, self.timers, self._takes, self._tell_neighbour)
        self.ledger = Ledger(self.roster, self.notices, self.timers, settings.limits)
        self.publishes = Publishes(self.link, self.outbox, self.ledger)
        self.inbox = Inbox(
            self.ledger,
            self.roster,
            self.notices,
            self.waits,
            self.timers,
            self.mark,
            seq=kept.seq,
            born=settings.born,
        )
        self.questions = Questions(me, self.link, self.roster, self.inbox, self.outbox, version=settings.version)
        self.questions.trust_rev = settings.fleet.rev
        self.sends = Sends(
            me, self.roster, self.link, self.inbox, self.outbox, self.questions, self.waits, settings.body_limit
        )
        self.words = Words(self.outbox, self.questions, self.roster, self._grants)
        self.presence = Presence(
            me,
            self.roster,
            self.link,
            self.timers,
            self.questions,
            epoch=settings.epoch,
            version=settings.version,
            trace_id=settings.trace_id,
        )
        self.refusals = Refusals(me, self.link, self.roster)
        self.arrivals = Arrivals(self.roster, self.inbox, self.questions, self.presence, self.words, self.refusals)
        self.agents = Agents(self.roster, self.inbox, self.presence)
        self.store_trouble = ""
        self._kept_inbox = kept.inbox
        self.inbox_state: dict[Gid, str] = {}  # in this session: `open`, or its trouble; missing: being opened

    # --- the three calls

    def start(self, now: Now) -> list[Action]:
        """Once, before anything else: what the last process left behind is settled, and agents are watched again."""
        epoch, recorded = begin_epoch(self.settings, now)
        self.presence.epoch = epoch
        self.roster.begin(epoch, now.wall)
        actions = [*recorded, *self.mark.saw(now)]
        actions += self.outbox.start(now)
        actions += [WatchEntity(e, present=True) for e in self.roster.entities.values()]
        actions += self.inbox.start(self._kept_inbox, now)
        self._kept_inbox = ()
        return _in_order(actions)

    def handle(self, event: ev.Event, now: Now) -> list[Action]:
        """What is to be done about `event`."""
        return _in_order([*self.mark.saw(now), *self._handle(event, now)])

    def next_deadline(self) -> Seconds | None:
        """When `expire` has something to do, by the monotonic clock; None when nothing is waited for."""
        return self.timers.next()

    def expire(self, now: Now) -> list[Action]:
        """What is to be done about the time that has passed."""
        actions = self.mark.saw(now)
        for name in self.timers.due(now):
            actions += self._due(name, now)
        return _in_order(actions)

    # --- events

    def _handle(self, event: ev.Event, now: Now) -> list[Action]:  # noqa: C901 - one line per fact, no logic
        match event:
            case ev.Arrived():
                self.link.heard(now.mono)
                return self.arrivals.take(event, now)
            case ev.DuplicateArrived(tag):
                self.link.heard(now.mono)
                return [Ack(tag)]
            case ev.RefusedArrival(tag, owner, refusal):
                self.link.heard(now.mono)
                return self.refusals.refuse(tag, owner, refusal, now)
            case ev.PublishHanded(ids):
                self.publishes.handed(ids, now)
                return []
            case ev.PublishNotHanded():
                return self._not_handed(event, now)
            case ev.VerdictGiven():
                return self.publishes.verdict(event, now)
            case ev.AgentReserved(gid, msg_id):
                return self.inbox.forward.reserved(gid, msg_id, now)
            case ev.AgentNotReady(gid, _, why, status, gone):
                return self.agents.not_ready(gid, why, status, gone, now)
            case ev.Injected():
                return self._injected(event, now)
            case ev.AgentSeen(gid, status):
                return self.agents.seen(gid, status, now)
            case ev.SendAsked():
                return self._unless_broken(event.call) or self.sends.send(event, now)
            case ev.ReplyAsked():
                return self._unless_broken(event.call) or self.sends.reply(event, now)
            case ev.RetryAsked():
                envelope = decode_envelope(event.row.header)
                return self._unless_broken(event.call) or self.sends.retry(event, envelope, now)
            case ev.CancelAsked():
                return self._unless_broken(event.call) or self.sends.cancel(event, now)
            case ev.WaitAsked():
                return self._wait_asked(event, now)
            case ev.PullAsked():
                return self._pull_asked(event, now)
            case ev.Confirmed(call, session, cursor):
                return [*self.inbox.offers.confirmed(session, cursor, now), Resolve(call, None)]
            case ev.CallEnded():
                return self._call_ended(event, now)
            case ev.PingAsked():
                return self._ping_asked(event, now)
            case ev.Attached(call, entity):
                return self.agents.attached(call, entity, now)
            case ev.Detached(call, gid, forget):
                return self.agents.detached(call, gid, forget, now)
            case ev.BeatDue():
                return self.presence.beat(now)
            case ev.Loaded():
                return self.questions.loaded(event, now)
            case ev.LoadFailed(ask, reason):
                self.questions.not_loaded(ask)
                return self._store_broke(reason, now)
            case ev.SessionOpened():
                return self._session_opened(now)
            case ev.SessionClosed(_, reason):
                return self.publishes.session_closed(reason, now)
            case ev.LinkBlocked(reason):
                self.link.blocked(reason)
                return []
            case ev.LinkUnblocked():
                self.link.unblocked()
                self.presence.unblocked(now)
                return []
            case ev.LinkHeard(at):
                self.link.heard(at)
                return []
            case ev.InboxBound(gid):
                self.inbox_state[gid] = "open"
                return []
            case ev.InboxTrouble(gid, trouble):
                self.inbox_state[gid] = trouble
                return []
            case ev.TrustChanged(fleet):
                return self._trust_changed(fleet, now)
            case ev.ClockAccepted():
                return [*self.mark.accept(now), *self._pump_all(now)]
            case ev.StoreFailed():
                return self._store_failed(event, now)
            case ev.StoreRecovered():
                return self._store_recovered(now)
        raise ProtocolMisuse(f"no rule for {event!r}")

    # --- publishes and sessions

    def _not_handed(self, event: ev.PublishNotHanded, now: Now) -> list[Action]:
        if event.reason != STORE:
            return self.publishes.not_handed(event, now)
        purpose = self.link.over(event.id)
        trouble = self._store_broke(event.detail, now)
        if isinstance(purpose, ForSent):
            return [*trouble, *self.sends.not_recorded((purpose.msg_id, purpose.gid), event.detail)]
        return [*trouble, *self.publishes.came_to(purpose, event.reason, "", now)]

    def _session_opened(self, now: Now) -> list[Action]:
        self.link.opened(now)
        self.inbox_state.clear()
        inboxes = [OpenInbox(queue_owner(e)) for e in self.roster.entities.values() if not self.ledger.is_full(e.gid)]
        return [*inboxes, *self.presence.session_opened(now), *self.notices.session_opened(now)]

    def _injected(self, event: ev.Injected, now: Now) -> list[Action]:
        row = self.ledger.get((event.msg_id, event.gid))
        if row is not None and event.outcome == "submitted":
            self.sends.put_into(event.gid, row.depth)
        return self.inbox.forward.injected(event.gid, event.msg_id, event.outcome, event.via, event.detail, now)

    # --- calls

    def _wait_asked(self, event: ev.WaitAsked, now: Now) -> list[Action]:
        rows = {(r.msg_id, r.gid): self.outbox.get((r.msg_id, r.gid)) or r for r in event.rows}
        wait = WaitCall(event.call, event.session, event.gid, rows, event.until)
        self.waits.add_wait(wait)
        offered = self.inbox.answers(wait, now) if event.until == "answer" else []
        return offered or self.waits.over_already(wait)

    def _pull_asked(self, event: ev.PullAsked, now: Now) -> list[Action]:
        pull = PullCall(event.call, event.session, event.gid, event.limit, event.sender)
        self.waits.add_pull(pull)
        actions = self.inbox.pull(pull, now)
        if not event.wait and self.waits.is_pulling(event.call):
            return [*actions, *self.waits.nothing_there(event.call)]
        return actions

    def _call_ended(self, event: ev.CallEnded, now: Now) -> list[Action]:
        if event.call is not None:
            self.waits.end(event.call)
            self.questions.end_ping(event.call)
        return self.inbox.session_gone(event.session, now) if event.gone else []

    def _ping_asked(self, event: ev.PingAsked, now: Now) -> list[Action]:
        if why := self.link.why_not():
            return [Fail(call=event.call, code=8, reason=why[0], message=why[1])]
        trace_id = TraceId(event.msg_id.replace("-", ""))
        return self.questions.ping(event.call, event.host, trace_id, now)

    # --- trust, store

    def _trust_changed(self, fleet: Fleet, now: Now) -> list[Action]:
        """Effective at once, on waiting messages too. The own fleet id never changes under a running daemon."""
        before, self.fleet = self.fleet, fleet
        self.questions.trust_rev, self.roster.fleet_hosts = fleet.rev, frozenset(fleet.hosts)
        actions: list[Action] = []
        for host in before.hosts:
            if self._is_trusted(before, host) and not self._is_trusted(fleet, host):
                actions += self.inbox.revoke(host, now)
        for peer in list(self.roster.peers.values()):
            if peer.we_refuse and self._is_trusted(fleet, peer.host):
                actions.append(RecordPeer(self.roster.note_refusal(peer.host, by_us="")))
        return actions

    @staticmethod
    def _is_trusted(fleet: Fleet, host: HostId) -> bool:
        entry = fleet.hosts.get(host)
        return entry is not None and any((host, key.gen) not in fleet.revoked for key in entry.keys)

    def _store_failed(self, event: ev.StoreFailed, now: Now) -> list[Action]:
        """The rows are what they were; intake ends with the session; nothing is accepted until the disk takes it."""
        actions = self._store_broke(event.reason, now)
        for row, before in event.undo:
            self.inbox.undo(row, before, now)
        for sent, sent_before in event.undo_sent:
            self.outbox.undo(sent, sent_before, now)
        self.sends.forget_keys()
        return [*(self._broken(call) for call in event.calls), *actions]

    def _store_broke(self, reason: str, now: Now) -> list[Action]:
        is_first, self.store_trouble = not self.store_trouble, reason
        self.inbox.forward.closed = "this host cannot record what it delivers"
        self.timers.set_if_unset(("probe",), Seconds(now.mono + PROBE_S))
        return [EndSession(f"store: {reason}")] if is_first else []

    def _store_recovered(self, now: Now) -> list[Action]:
        """Deliveries go on. Agents are recorded and watched anew: one may have come while nothing was recorded."""
        self.store_trouble = self.inbox.forward.closed = ""
        agents: list[Action] = []
        for entity in self.roster.entities.values():
            agents += [RecordEntity(entity), WatchEntity(entity, present=entity.status not in CLOSED)]
        return [*agents, *self.inbox.recovered(now)]

    def _pump_all(self, now: Now) -> list[Action]:
        return [action for gid in list(self.roster.entities) for action in self.inbox.forward.pump(gid, now)]

    def _unless_broken(self, call: int) -> list[Action]:
        return [self._broken(call)] if self.store_trouble else []

    def _broken(self, call: int) -> Fail:
        text = f"this host cannot record messages: {self.store_trouble}"
        return Fail(call=call, code=3, reason="store", message=text, hint="free some disk space; `fleettrio doctor`")

    # --- time

    def _due(self, name: tuple[str, ...], now: Now) -> list[Action]:  # noqa: C901 - a table
        match name:
            case ("link",):
                return self.publishes.late(now)
            case ("expiry", msg_id, gid):
                return self.inbox.expired((MsgId(msg_id), Gid(gid)), now)
            case ("gate", gid):
                return self.inbox.forward.pump(Gid(gid), now)
            case ("lease", cursor):
                return self.inbox.lease_over(int(cursor), now)
            case ("bound", msg_id, gid):
                row, actions = self.outbox.bound_passed((MsgId(msg_id), Gid(gid)), now)
                return [*actions, *(self.questions.recall(row.to_host, now) if row else [])]
            case ("silence", msg_id, gid):
                row, actions = self.outbox.silence_passed((MsgId(msg_id), Gid(gid)), now)
                return [*actions, *(self.questions.ask_one(row, now) if row else [])]
            case ("announce", gid):
                return self.presence.announce(Gid(gid), now)
            case ("roster", host):
                return self.presence.ask_roster(HostId(host), now)
            case ("roster-again", host):
                return self.presence.roster_still_missing(HostId(host), now)
            case ("notice", host):
                return self.notices.retry(HostId(host), now)
            case ("probe",):
                if self.store_trouble:
                    self.timers.set(("probe",), Seconds(now.mono + PROBE_S))
                    return [ProbeStore()]
                return []
        raise ProtocolMisuse(f"no rule for the timer {name!r}")

    # --- for the parts

    def _grants(self, host: HostId) -> frozenset[str]:
        return self.fleet.grants(host)

    def _takes(self, row: InboxRow) -> str:
        entity = self.roster.entities.get(row.gid)
        return entity.takes if entity else "push"

    def _tell_neighbour(self, row: InboxRow, now: Now) -> list[Action]:
        """The sender lives here: its row learns the word without a broker."""
        state = "held" if row.state.is_open else str(row.state)

        def then(_: Sequence[InboxRow | None], sent: Sequence[SentRow | None], now: Now) -> list[Action]:
            known = sent[0]
            if known is None:
                return []
            return self.outbox.word(known, state, row.reason, row.detail, row.via, row.at, "peer", now)

        return self.questions.look_up((), ((row.msg_id, row.gid),), then, now)


def _in_order(actions: Iterable[Action]) -> list[Action]:
    """Store actions first, hand-overs after them, each in the order they were decided."""
    listed = list(actions)
    records = [action for action in listed if isinstance(action, RECORDED)]
    return [*records, *(action for action in listed if not isinstance(action, RECORDED))]
