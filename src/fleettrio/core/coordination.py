"""Lead to lead: the second realm of this gateway, at a coordinator's broker and with a fleet file of its own.

Rules:
1. What has the kind COORD belongs to the coordinator's realm, everything else to the own fleet's. Each has its own
   link, identity, trust, notices and refusals; no row of one is spoken of in the other. Hosts of both may have the
   same name and be different machines.
2. From the coordinator's vhost come COORD, for the lead alone, and the words about COORD of our own. Any other kind is
   refused, and told there like any refusal: leads share findings, nobody orders anybody about.
3. Who a lead is, the coordinator's fleet file says: it pairs each coordId with a host. A COORD of a host that is paired
   with none is refused; a word counts only from the host that the COORD went to, and a FAILED from one that is granted
   `report` there (`deadletters`).
4. A COORD is delivered like any message (`inbox`): gated by the lead's state, at most once. In the rows of either side
   the other lead has the gid of its host's gateway: it has one lead, and gids of agents do not cross between fleets.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fleettrio.core.actions import Ack, Action, AtCoordinator, Fail, Note, Reject
from fleettrio.core.beginning import Settings
from fleettrio.core.calls import SendCall
from fleettrio.core.compose import gateway_of, message, sent_row
from fleettrio.core.deadletters import DeadLetters
from fleettrio.core.entity import Entity
from fleettrio.core.events import (
    Arrived,
    DuplicateArrived,
    FromCoordinator,
    InboxBound,
    InboxTrouble,
    LinkBlocked,
    LinkHeard,
    LinkUnblocked,
    PublishHanded,
    PublishNotHanded,
    RefusedArrival,
    SessionClosed,
    SessionOpened,
    TrustChanged,
    VerdictGiven,
)
from fleettrio.core.inbox import Inbox
from fleettrio.core.leads import Leads
from fleettrio.core.ledger import Ledger
from fleettrio.core.link import Link
from fleettrio.core.lookups import LookUps
from fleettrio.core.mailbox import Mailbox
from fleettrio.core.notices import Notices
from fleettrio.core.outbox import Outbox
from fleettrio.core.owed import Owed
from fleettrio.core.publishes import Publishes
from fleettrio.core.refusals import Refusals, Refused
from fleettrio.core.requests import CancelAsked, CoordAsked, ReplyAsked
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.core.rules import Rules, TimerRules
from fleettrio.core.sends import Sends
from fleettrio.core.timers import Timers
from fleettrio.core.topology import ControlQueue, LeadQueue, lead_key
from fleettrio.core.trust import lost_trust
from fleettrio.core.waits import Waits
from fleettrio.core.words import party, words_of
from fleettrio.errors import FAILED, USAGE, MalformedEnvelope
from fleettrio.ids import HostId, Now, Tag
from fleettrio.wire.envelope import Kind, default_lifetime_ms, encode_envelope, longest_lifetime_ms
from fleettrio.wire.gids import derive_gid
from fleettrio.wire.signing import Refusal, VerifiedEnvelope

__all__ = ("Coordination", "LeadNotices")

_WORDS = (Kind.INJECTED, Kind.FAILED, Kind.OUTCOME)


class Coordination(Leads):
    """Always there; without a coordinator its link is standalone, and nothing comes from there."""

    def __init__(
        self,
        settings: Settings,
        roster: Roster,
        inbox: Inbox,
        outbox: Outbox,
        owed: Owed,
        lookups: LookUps,
        sends: Sends,
        waits: Waits,
        timers: Timers,
    ) -> None:
        super().__init__(settings, roster)
        self.link = Link(timers, standalone=not self.is_there, is_coordinator=True)
        self._inbox = inbox
        self._ledger: Ledger = inbox.ledger
        self._outbox = outbox
        self._lookups = lookups
        self._sends = sends
        self._waits = waits
        self.mailbox = Mailbox(self, self.link, self._ledger, roster)
        self.publishes = Publishes(self.link, outbox, self._ledger, owed)
        self.refusals = Refusals(self.me, self.link, None, None)
        self.notices = LeadNotices(self.me, self.link, timers, roster)
        self.rules: Rules = {CoordAsked: self._send, FromCoordinator: self._from_coordinator}
        self.timer_rules: TimerRules = {
            "coordinator-link": lambda _, now: self.publishes.late(now),
            self.notices.timer: lambda name, now: self.notices.retry(HostId(name[0]), now),
        }
        self._from_there: Rules = {
            Arrived: self._arrived,
            DuplicateArrived: lambda event, _: [AtCoordinator(Ack(event.tag))],
            RefusedArrival: lambda event, now: self._refuse(event.tag, event.refusal, now),
            PublishHanded: self.publishes.handed,
            PublishNotHanded: self.publishes.not_handed,
            VerdictGiven: self.publishes.verdict,
            SessionOpened: self._opened,
            SessionClosed: self._closed,
            LinkBlocked: self.link.blocked,
            LinkUnblocked: self._unblocked,
            LinkHeard: self.link.rules[LinkHeard],
            InboxBound: self.mailbox.bound,
            InboxTrouble: self.mailbox.troubled,
            TrustChanged: self._trust_changed,
            **DeadLetters(self.me, self.link).rules,
        }

    def _from_coordinator(self, event: FromCoordinator, now: Now) -> list[Action]:
        """Something happened in the session at the coordinator's broker. What has no meaning there is passed over."""
        rule = self._from_there.get(type(event.event))
        return rule(event.event, now) if rule else []

    # --- what the lead asks

    def _send(self, event: CoordAsked, now: Now) -> list[Action]:
        to = lead_key(event.coord_id)
        if (again := self._sends.keys.again_to(event, to)) is not None:
            return again
        lead, host = self.lead(), self.fleet.host_of_lead(event.coord_id)
        if refused := self._not_sent(event, lead):
            return [refused]
        if lead is None or host is None:
            return [self.unknown_lead(event)]
        step = self._sends.step(lead)
        envelope = message(
            self.me,
            Kind.COORD,
            msgspec.structs.replace(lead, gid=derive_gid(self.me.fleet_id, self.me.host, lead.salt)),
            to,
            msg_id=event.msg_id,
            trace_id=step.trace_id or event.trace_id,
            expires_in_ms=event.expires_in_ms or default_lifetime_ms(Kind.COORD),
            now=now,
            depth=step.depth,
        )
        header = encode_envelope(envelope)
        row = sent_row(envelope, header, event.body, gateway_of(self.me.fleet_id, host), host)
        row = msgspec.structs.replace(row, sender=lead.gid)  # on this host it is known by its own gid
        key = row.key
        keyed = self._sends.keys.keyed(event.key, event.sender, {key: row})
        row, actions = self._sends.fork.to_broker(row, envelope, event.body, keyed, now)
        if keyed and not self._outbox.rows.get(key):
            actions.insert(0, keyed)  # it failed at once: the key stands for it all the same
        self._waits.add_send(SendCall(event.call, {key: self._outbox.get(key) or row}))
        return actions

    def _not_sent(self, event: CoordAsked, lead: Entity | None) -> Fail | None:
        """Why this caller may not say this to any lead."""
        if not self.is_there:
            return Fail(event.call, USAGE, "no-coordinator", self.why_not, "`fleettrio config show`: [coordinator]")
        if lead is None or event.sender != lead.gid:
            text = f"only the lead of this host ({self.lead_name!r}) speaks to other leads"
            return Fail(event.call, FAILED, "not-the-lead", text, "coordinator.lead in the configuration names it")
        if event.coord_id == self.coord_id:
            text = f"{event.coord_id!r} is the coordId of this very lead"
            return Fail(event.call, USAGE, "own-coord-id", text, self.others_in_words())
        most = longest_lifetime_ms(Kind.COORD)
        if event.expires_in_ms is not None and not 0 < event.expires_in_ms <= most:
            text = f"coordination may live at most {most // 1000} s"
            return Fail(event.call, USAGE, "lifetime", text, "give a shorter --expires")
        return self._sends.recipients.unfit(event.call, event.body)

    def no_reply(self, event: ReplyAsked) -> Fail:
        """A COORD has no reply: its sender's turn does not wait for one."""
        name = self.correspondent(event.original).removeprefix(lead_key(""))
        text = "coordination is not replied to: leads send to each other"
        return Fail(event.call, USAGE, "not-repliable", text, f"fleettrio send --coord {name} 'text'")

    def no_cancel(self, event: CancelAsked) -> Fail:
        text = "coordination cannot be called back: nothing but coordination goes by the coordinator's broker"
        return Fail(event.call, USAGE, "not-recallable", text, "send the other lead what holds now")

    # --- what comes from there

    def _arrived(self, event: Arrived, now: Now) -> list[Action]:
        self.link.heard(now.mono)
        envelope = event.message.envelope
        try:
            if isinstance(event.owner, LeadQueue):
                return [*self._into_mailbox(event.owner, event.message, now), AtCoordinator(Ack(event.tag))]
            if envelope.kind in _WORDS:
                return self._words(event.tag, event.message, now)
            raise Refused("unknown-kind", f"{envelope.kind}: from a coordinator only coordination is taken")
        except MalformedEnvelope as error:
            reason, detail = "malformed", str(error)
        except Refused as refused:
            reason, detail = refused.reason, refused.detail
        refusal = Refusal(reason, detail, envelope, event.message.leaf, True, envelope.host, envelope.trace_id)
        return self._refuse(event.tag, refusal, now)

    def _into_mailbox(self, owner: LeadQueue, taken: VerifiedEnvelope, now: Now) -> list[Action]:
        envelope = taken.envelope
        if envelope.kind != Kind.COORD:
            raise Refused("unknown-kind", f"{envelope.kind}: a lead's mailbox takes coordination only")
        if not self.fleet.coord_id(envelope.host):
            raise Refused("not-authorised", f"{envelope.host} has no lead in the coordinator's fleet file")
        if envelope.claim is not None or envelope.causal is not None:
            raise Refused("not-authorised", "coordination carries no claim and says nothing of a work tree")
        lead = self.lead()
        if lead is None or lead.gid != owner.gid:
            raise Refused("recipient-gone", "the lead is not here any more")
        known = self._ledger.get((envelope.msg_id, owner.gid))
        if known is not None and known.leaf != taken.leaf:
            raise Refused("conflict", f"{envelope.msg_id} is known with another content")
        if known is not None:
            return []
        sender = gateway_of(self.me.fleet_id, envelope.host)
        return self._inbox.intake.arrive(taken, owner.gid, now, sender=sender)

    def _words(self, tag: Tag, notice: VerifiedEnvelope, now: Now) -> list[Action]:
        """What became of coordination of ours. Recorded first, acknowledged then; it counts by rule 3."""
        words, host, grants = words_of(notice), notice.envelope.host, self.fleet.grants(notice.envelope.host)

        def then(_: Sequence[InboxRow | None], rows: Sequence[SentRow | None], now: Now) -> list[Action]:
            actions: list[Action] = []
            is_party = False
            for word, loaded in zip(words, rows, strict=True):
                row = self._outbox.get(word.key) or loaded
                is_ours = row is not None and row.kind == Kind.COORD and row.leaf == word.leaf
                said_by = party(word, row, notice.envelope, grants) if row and is_ours else ""
                if row is None or not said_by:
                    trace_id, state = notice.envelope.trace_id, word.state[:64]
                    actions.append(Note("not-party", word.msg_id, word.gid, trace_id, host, state, word.reason))
                    continue
                is_party = True
                actions += self._outbox.word(row, word, said_by, now)
            return [*actions, AtCoordinator(Ack(tag) if is_party else Reject(tag))]

        return self._lookups.look_up((), [w.key for w in words], then, now)

    def _refuse(self, tag: Tag, refusal: Refusal, now: Now) -> list[Action]:
        """Told and counted as any refusal; about the mailbox, whose gid is this gateway's there."""
        self.link.heard(now.mono)
        refused = self.refusals.refuse(tag, ControlQueue(self.me.host), refusal, now)
        return [AtCoordinator(action) if isinstance(action, Ack | Reject) else action for action in refused]

    # --- its session

    def _opened(self, _: SessionOpened, now: Now) -> list[Action]:
        self.link.opened(now)
        self.mailbox.session_opened()
        return self.notices.session_opened(now)

    def _closed(self, event: SessionClosed, now: Now) -> list[Action]:
        self.mailbox.session_closed()
        return self.publishes.session_closed(event, now)

    def _unblocked(self, _: LinkUnblocked, now: Now) -> list[Action]:
        self.link.unblocked()
        return []

    def _trust_changed(self, event: TrustChanged, now: Now) -> list[Action]:
        before, self.fleet = self.fleet, event.fleet
        gone = lost_trust(before, self.fleet)
        return [action for host in gone for action in self._inbox.revoke(host, now, is_coordinator=True)]


class LeadNotices(Notices):
    """What other leads are told of theirs, by the coordinator's vhost. No other lead lives on this host."""

    timer = "coordinator-notice"

    def as_sent(self, row: InboxRow) -> InboxRow:
        return msgspec.structs.replace(row, gid=self._me.gid)
