"""The gateway: one object for the life of the daemon, one synchronous call a fact.

`handle(event, now)` decides what is to be done about an event; `expire(now)` about time that has passed. Both return
actions: store actions first, then hand-overs, each kind in the order in which it was decided. Whoever performs them
keeps that order; nothing is handed over before everything in front of it is recorded.

Rules:
1. Nothing here reads a clock, a socket or a file. Ids and time come in.
2. What a peer can cause is legal in every state. An event that only our own shell can cause, and that the state does not
   allow, raises `ProtocolMisuse` and changes nothing.
3. Sessions come and go beneath; the rows stay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fleettrio.core import events as ev
from fleettrio.core.actions import (
    Ack,
    Action,
    CloseInbox,
    DropEntity,
    EndSession,
    Fail,
    OpenInbox,
    ProbeStore,
    RecordEntity,
    RecordPeer,
    RecordSetting,
    Reject,
    Resolve,
    StoreAction,
    WatchEntity,
)
from fleettrio.core.calls import AttachedAs, PullCall, WaitCall, Waits
from fleettrio.core.compose import Identity
from fleettrio.core.inbox import Inbox, Limits, queue_owner
from fleettrio.core.link import ForNotice, ForSent, Link
from fleettrio.core.notices import Notices
from fleettrio.core.outbox import Outbox
from fleettrio.core.presence import SPOKEN_KINDS, Presence
from fleettrio.core.questions import Questions
from fleettrio.core.refusals import Refusals
from fleettrio.core.roster import Roster
from fleettrio.core.rows import Entity, InboxRow, Peer, PeerEntity, SentRow
from fleettrio.core.sends import Sends
from fleettrio.core.timers import Timers
from fleettrio.core.topology import InboxQueue
from fleettrio.core.words import Words
from fleettrio.errors import MalformedEnvelope, ProtocolMisuse
from fleettrio.ids import Gid, HostId, MsgId, Now, Seconds, TraceId, WallMs
from fleettrio.wire.envelope import NOTICE_KINDS, Kind, decode_envelope
from fleettrio.wire.fleetfile import Fleet
from fleettrio.wire.signing import Refusal, VerifiedEnvelope

__all__ = ("Gateway", "Kept", "Settings")

PROBE_S = 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a gateway is told once, at its start."""

    me: Identity
    fleet: Fleet
    version: str
    standalone: bool
    epoch: int
    trace_id: TraceId
    """Under which presence and its questions go."""
    born: WallMs
    """When the store was made: an older brief may have been typed already (`ledger-lost`)."""
    limits: Limits = Limits()
    body_limit: int = 256 * 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the store held when the daemon started."""

    entities: tuple[Entity, ...] = ()
    inbox: tuple[InboxRow, ...] = ()
    sent: tuple[SentRow, ...] = ()
    peers: tuple[Peer, ...] = ()
    others: tuple[PeerEntity, ...] = ()
    seq: int = 0


class Gateway:
    def __init__(self, settings: Settings, kept: Kept) -> None:
        me = settings.me
        self.settings = settings
        self.fleet = settings.fleet
        self.timers = Timers()
        self.waits = Waits()
        self.link = Link(self.timers, standalone=settings.standalone)
        self.roster = Roster(me, kept.entities, kept.peers, kept.others, rev=settings.epoch)
        self.outbox = Outbox(kept.sent, self.roster, self.waits, self.timers)
        self.notices = Notices(me, self.link, self.timers, self._takes, self._tell_neighbour)
        self.inbox = Inbox(self.roster, self.notices, self.waits, self.timers, settings.limits, kept.seq)
        self.questions = Questions(
            me,
            self.link,
            self.roster,
            self.inbox,
            self.outbox,
            version=settings.version,
            born=settings.born,
        )
        self.questions.trust_rev = settings.fleet.rev
        self.sends = Sends(
            me, self.roster, self.link, self.inbox, self.outbox, self.questions, settings.body_limit
        )
        self.words = Words(self.outbox, self.questions, self.roster)
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
        self.store_trouble = ""
        self._kept_inbox = kept.inbox
        self.inbox_trouble: dict[Gid, str] = {}

    # --- the three calls

    def start(self, now: Now) -> list[Action]:
        """Once, before anything else: what the last process left behind is settled, and agents are watched again."""
        actions: list[Action] = [RecordSetting("epoch", str(self.settings.epoch))]
        actions += self.outbox.start(now)
        actions += [WatchEntity(e, present=True) for e in self.roster.entities.values()]
        actions += self.inbox.start(self._kept_inbox, now)
        self._kept_inbox = ()
        return _in_order(actions)

    def handle(self, event: ev.Event, now: Now) -> list[Action]:
        """What is to be done about `event`."""
        return _in_order(self._handle(event, now))

    def next_deadline(self) -> Seconds | None:
        """When `expire` has something to do, by the monotonic clock; None when nothing is waited for."""
        return self.timers.next()

    def expire(self, now: Now) -> list[Action]:
        """What is to be done about the time that has passed."""
        actions: list[Action] = []
        for name in self.timers.due(now):
            actions += self._due(name, now)
        return _in_order(actions)

    # --- events

    def _handle(self, event: ev.Event, now: Now) -> list[Action]:  # noqa: C901 - one line per fact, no logic
        match event:
            case ev.Arrived():
                return self._arrived(event, now)
            case ev.DuplicateArrived(tag):
                return [Ack(tag)]
            case ev.RefusedArrival(tag, owner, refusal):
                self.link.heard(now.mono)
                return self.refusals.refuse(tag, owner, refusal, now)
            case ev.PublishHanded(ids):
                return self._handed(ids, now)
            case ev.PublishNotHanded(publish_id, reason, detail):
                return self._not_handed(publish_id, reason, detail, now)
            case ev.VerdictGiven():
                return self._verdict(event, now)
            case ev.AgentReserved(gid, msg_id):
                return self.inbox.reserved(gid, msg_id, now)
            case ev.AgentNotReady():
                return self._not_ready(event, now)
            case ev.Injected(gid, msg_id, outcome, via, detail):
                return self._injected(event, now)
            case ev.AgentSeen(gid, status):
                return self._agent_seen(gid, status, now)
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
            case ev.PullAsked(call, session, gid, limit, wait, sender):
                return self._pull_asked(event, now)
            case ev.Confirmed(call, session, cursor):
                return [*self.inbox.confirmed(session, cursor, now), Resolve(call, None)]
            case ev.CallEnded(call, session, gone):
                return self._call_ended(event, now)
            case ev.PingAsked():
                return self._ping_asked(event, now)
            case ev.Attached(call, entity):
                return self._attached(call, entity, now)
            case ev.Detached(call, gid, forget):
                return self._detached(call, gid, forget, now)
            case ev.BeatDue():
                return self.presence.beat(now)
            case ev.Loaded():
                return self.questions.loaded(event, now)
            case ev.SessionOpened(epoch):
                return self._session_opened(now)
            case ev.SessionClosed(epoch, reason):
                self.link.closed(reason)
                return []
            case ev.LinkBlocked(reason):
                self.link.blocked(reason)
                return []
            case ev.LinkUnblocked():
                self.link.unblocked()
                return []
            case ev.LinkHeard(at):
                self.link.heard(at)
                return []
            case ev.InboxBound(gid):
                self.inbox_trouble.pop(gid, None)
                return []
            case ev.InboxTrouble(gid, trouble, detail):
                self.inbox_trouble[gid] = trouble
                return []
            case ev.TrustChanged(fleet):
                return self._trust_changed(fleet, now)
            case ev.StoreFailed():
                return self._store_failed(event, now)
            case ev.StoreRecovered():
                self.store_trouble = ""
                return [action for gid in self.roster.entities for action in self.inbox.pump(gid, now)]
        raise ProtocolMisuse(f"no rule for {event!r}")

    def _arrived(self, event: ev.Arrived, now: Now) -> list[Action]:
        self.link.heard(now.mono)
        message, kind, tag = event.message, event.message.envelope.kind, event.tag
        try:
            if isinstance(event.owner, InboxQueue):
                return self._message_arrived(event.owner, message, event, now)
            if kind == Kind.PRESENCE:
                return self.presence.arrive(tag, message, now)
            if kind in NOTICE_KINDS:
                return self.words.arrive(tag, message, now)
            if kind not in SPOKEN_KINDS:
                raise _Refused("unknown-kind", f"{kind} is not spoken by this version")
            return [*self._control_arrived(message, now), Ack(tag)]
        except MalformedEnvelope as error:
            return self._refuse(event, "malformed", str(error), now)
        except _Refused as refused:
            return self._refuse(event, refused.reason, refused.detail, now)

    def _refuse(self, event: ev.Arrived, reason: str, detail: str, now: Now) -> list[Action]:
        envelope = event.message.envelope
        refusal = Refusal(
            reason, detail, envelope, event.message.leaf, True, envelope.host, envelope.trace_id
        )
        return self.refusals.refuse(event.tag, event.owner, refusal, now)

    def _message_arrived(
        self, owner: InboxQueue, message: VerifiedEnvelope, event: ev.Arrived, now: Now
    ) -> list[Action]:
        envelope = message.envelope
        if envelope.kind not in SPOKEN_KINDS:
            raise _Refused("unknown-kind", f"{envelope.kind} is not spoken by this version")
        if owner.gid not in self.roster.entities:
            raise _Refused("recipient-gone", "nobody has this inbox any more")
        if self.inbox.holds(message, owner.gid):
            return [Ack(event.tag)]
        answered: list[Action] = []
        if envelope.kind == Kind.REPLY and envelope.re is not None:
            answered = self.questions.answered(envelope.re, envelope.sender, envelope.msg_id, now)
        return [*self.inbox.arrive(message, owner.gid, now), *answered, Ack(event.tag)]

    def _control_arrived(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        match message.envelope.kind:
            case Kind.QUERY:
                return self.questions.on_query(message, now)
            case Kind.RECALL:
                return self.questions.on_recall(message, now)
            case Kind.PING:
                return self.questions.on_ping(message, now)
            case Kind.PONG:
                return self.questions.on_pong(message, now)
            case Kind.ROSTER_ASK:
                return self.presence.on_roster_ask(message, now)
            case Kind.ROSTER:
                return self.presence.on_roster(message, now)
        return []

    # --- publishes

    def _handed(self, ids: tuple[int, ...], now: Now) -> list[Action]:
        for purpose in self.link.handed(ids, now):
            if isinstance(purpose, ForSent):
                self.outbox.written((purpose.msg_id, purpose.gid))
        return []

    def _not_handed(self, publish_id: int, reason: str, detail: str, now: Now) -> list[Action]:
        purpose = self.link.over(publish_id)
        if isinstance(purpose, ForSent):
            key = (purpose.msg_id, purpose.gid)
            return [*self.outbox.fail(key, reason, detail, now), *self.sends.settled(key)]
        if isinstance(purpose, ForNotice):
            return self.notices.verdict(purpose, reason, now)
        return []

    def _verdict(self, event: ev.VerdictGiven, now: Now) -> list[Action]:
        purpose = self.link.over(event.id)
        if event.verdict != "outcome-unknown":
            self.link.heard(now.mono)
        if isinstance(purpose, ForSent):
            key = (purpose.msg_id, purpose.gid)
            return [*self.outbox.verdict(key, event.verdict, event.detail, now), *self.sends.settled(key)]
        if isinstance(purpose, ForNotice):
            return self.notices.verdict(purpose, event.verdict, now)
        return []

    def _session_opened(self, now: Now) -> list[Action]:
        self.link.opened(now)
        self.presence.session_opened(now)
        actions: list[Action] = [
            OpenInbox(queue_owner(e)) for e in self.roster.entities.values() if not self.inbox.is_full(e.gid)
        ]
        actions += self.presence.beat(now)
        for host in list(self.roster.peers):
            actions += self.presence.ask_roster(host, now) if self.roster.peers[host].roster_rev < 0 else []
        return [*actions, *self.notices.session_opened(now)]

    # --- agents

    def _attached(self, call: int, entity: Entity, now: Now) -> list[Action]:
        known = self.roster.entities.get(entity.gid)
        entity = self.roster.put(entity)
        self.presence.changed(entity.gid, now)
        actions: list[Action] = [RecordEntity(entity), WatchEntity(entity, present=True)]
        if known is None or queue_owner(known) != queue_owner(entity):
            actions.append(OpenInbox(queue_owner(entity)))
        return [*actions, Resolve(call, AttachedAs(entity)), *self.inbox.pump(entity.gid, now)]

    def _detached(self, call: int, gid: Gid, forget: bool, now: Now) -> list[Action]:
        entity = self.roster.entities.get(gid)
        if entity is None:
            raise ProtocolMisuse(f"detach of {gid}, which does not live here")
        if not forget:
            away = self.roster.put(dataclasses.replace(entity, status="away", since=now.wall))
            self.presence.changed(gid, now)
            return [RecordEntity(away), WatchEntity(away, present=False), Resolve(call, AttachedAs(away))]
        ended = self.inbox.close(gid, "recipient-gone", now)
        self.roster.drop(gid)
        return [
            *ended,
            DropEntity(gid),
            WatchEntity(entity, present=False),
            CloseInbox(queue_owner(entity)),
            *self.presence.gone(entity, now),
            Resolve(call, AttachedAs(dataclasses.replace(entity, status="gone"))),
        ]

    def _agent_seen(self, gid: Gid, status: str, now: Now) -> list[Action]:
        entity = self.roster.entities.get(gid)
        if entity is None or entity.status in ("stopping", "gone"):
            return []
        actions: list[Action] = []
        if entity.status != status:
            entity = self.roster.put(dataclasses.replace(entity, status=status, since=now.wall))
            self.presence.changed(gid, now)
            actions.append(RecordEntity(entity))
        return [*actions, *(self.inbox.pump(gid, now) if status == "idle" else [])]

    def _not_ready(self, event: ev.AgentNotReady, now: Now) -> list[Action]:
        status = "away" if event.gone else event.status
        return [
            *self.inbox.not_ready(event.gid, event.msg_id, event.why, now),
            *(self._agent_seen(event.gid, status, now) if status not in ("idle", "unknown") else []),
        ]

    def _injected(self, event: ev.Injected, now: Now) -> list[Action]:
        row = self.inbox.rows.get((event.msg_id, event.gid))
        if row is not None and event.outcome == "submitted":
            self.sends.put_into(event.gid, row.depth)
        return self.inbox.injected(event.gid, event.msg_id, event.outcome, event.via, event.detail, now)

    # --- calls

    def _wait_asked(self, event: ev.WaitAsked, now: Now) -> list[Action]:
        rows = {(r.msg_id, r.gid): self.outbox.rows.get((r.msg_id, r.gid), r) for r in event.rows}
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
            self.sends.end_call(event.call)
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
        self.questions.trust_rev = fleet.rev
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
        """The rows are what they were; intake ends with the session, and nothing is accepted until the disk takes it."""
        is_first, self.store_trouble = not self.store_trouble, event.reason
        actions: list[Action] = []
        for row, before in event.undo:
            actions += self.inbox.undo(row, before, now)
        actions += [self._broken(call) for call in event.calls]
        self.timers.set_if_unset(("probe",), Seconds(now.mono + PROBE_S))
        return [*actions, EndSession(f"store: {event.reason}")] if is_first else actions

    def _unless_broken(self, call: int) -> list[Action]:
        return [self._broken(call)] if self.store_trouble else []

    def _broken(self, call: int) -> Fail:
        text = f"this host cannot record messages: {self.store_trouble}"
        return Fail(call=call, code=3, reason="store", message=text, hint="free some disk space; `fleettrio doctor`")

    # --- time

    def _due(self, name: tuple[str, ...], now: Now) -> list[Action]:
        match name:
            case ("link",):
                return self._publishes_late(now)
            case ("expiry", msg_id, gid):
                return self.inbox.expired((MsgId(msg_id), Gid(gid)), now)
            case ("gate", gid):
                return self.inbox.pump(Gid(gid), now)
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

    def _publishes_late(self, now: Now) -> list[Action]:
        actions: list[Action] = []
        for purpose in self.link.late(now):
            if isinstance(purpose, ForSent):
                key = (purpose.msg_id, purpose.gid)
                detail = "the broker did not confirm within 4 s"
                actions += self.outbox.verdict(key, "outcome-unknown", detail, now)
                actions += self.sends.settled(key)
        return actions

    # --- for the parts

    def _takes(self, row: InboxRow) -> str:
        entity = self.roster.entities.get(row.gid)
        return entity.takes if entity else "push"

    def _tell_neighbour(self, row: InboxRow, now: Now) -> list[Action]:
        """The sender lives here: its row learns the word without a broker."""
        sent = self.outbox.rows.get((row.msg_id, row.gid))
        if sent is None:
            return []
        state = str(row.state)
        if row.state.is_open:
            state = "held"
        return self.outbox.word(sent, state, row.reason, row.detail, row.via, row.at, "peer", now)


class _Refused(Exception):
    """A verified delivery that this gateway does not take."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


_RECORDED = tuple(StoreAction.__args__)


def _in_order(actions: Iterable[Action]) -> list[Action]:
    """Store actions first, hand-overs after them, each in the order they were decided."""
    listed = list(actions)
    records = [action for action in listed if isinstance(action, _RECORDED)]
    return [*records, *(action for action in listed if not isinstance(action, _RECORDED))]
