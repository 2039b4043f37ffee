"""Leads of hosts that have nothing in common but a coordinator: its vhost, and its fleet file."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.beginning import Coordinator
from fleettrio.core.compose import Identity, gateway_of, human_of, message
from fleettrio.core.entity import Entity
from fleettrio.core.topology import ControlQueue, LeadQueue, QueueOwner, lead_key
from fleettrio.ids import FleetId, Gid, HostId, MsgId, Tag, WallMs
from fleettrio.wire.envelope import Envelope, Kind, encode_envelope
from fleettrio.wire.fleet import DEFAULT_GRANTS, Fleet, FleetHost, HostKey
from fleettrio.wire.gids import GATEWAY_SALT, derive_gid
from fleettrio.wire.headers import RawHeaders
from fleettrio.wire.signing import Duplicate, Parsed, Refusal, Signer, Verifier, parse_delivery
from tests.core.builders import TRACE, Clock, Host, agent, fleet_of, salt_of, seed_of

LEADS = FleetId("leads")


def leads_fleet(
    coord_ids: dict[str, str], *, revoked: Iterable[str] = (), rev: int = 1, reporters: Iterable[str] | None = None
) -> Fleet:
    """The coordinator's fleet file: host to coordId; an empty one is of a host without a lead.

    Everybody has every grant, except that with `reporters` nobody else reports.
    """
    hosts = {
        HostId(name): FleetHost(
            HostId(name),
            (HostKey(HostId(name), 1, Signer(LEADS, HostId(name), 1, seed_of(name)).public_key),),
            DEFAULT_GRANTS
            | {"stop", "pause", "spawn:any"}
            | ({"report"} if reporters is None or name in reporters else frozenset()),
            coord_id=coord_id,
        )
        for name, coord_id in coord_ids.items()
    }
    return Fleet(LEADS, rev, WallMs(0), hosts, frozenset((HostId(name), 1) for name in revoked), bytes(32))


class Lead(Host):
    """A host whose agent `lead` talks to other leads."""

    def __init__(
        self, name: str, clock: Clock, leads: Fleet, entities: Iterable[Entity] = (), **options: object
    ) -> None:
        self._given = leads
        self.leads_signer = Signer(LEADS, HostId(name), 1, seed_of(name))
        self.leads_verifier = Verifier(leads)
        super().__init__(name, clock, fleet_of((name,)), tuple(entities), **options)  # type: ignore[arg-type]

    def start(self) -> list[do.Action]:
        host = self.name
        me = Identity(host, LEADS, gateway_of(LEADS, host), human_of(LEADS, host), 1)
        coord_id = self._given.coord_id(host) or "nobody"
        self.coordinator = Coordinator(me=me, coord_id=coord_id, lead="lead", fleet=self._given)
        self.abroad: list[do.Publish] = []
        return super().start()

    @property
    def coord_id(self) -> str:
        return self.gateway.coordination.coord_id

    @property
    def mailbox(self) -> LeadQueue:
        return LeadQueue(self.gid("lead"), coord_id=self.coord_id)

    def at_leads(self, event: ev.Event) -> list[do.Action]:
        """Something happened in the session at the coordinator's broker."""
        return self.run(ev.FromCoordinator(event))

    def open_leads(self) -> list[do.Action]:
        return self.at_leads(ev.SessionOpened(1))

    def coord(self, coord_id: str, body: bytes = b"we take src/ui", sender: str = "lead", **fields: object) -> MsgId:
        asked = ask.CoordAsked(
            call=self.call(),
            sender=self.gid(sender),
            coord_id=coord_id,
            body=body,
            msg_id=self.new_id(),
            trace_id=TRACE,
        )
        self.last = self.run(msgspec.structs.replace(asked, **fields))
        return asked.msg_id

    def taken_abroad(self) -> list[do.Publish]:
        out, self.abroad = self.abroad, []
        return out

    def hand_abroad(self, publish: do.Publish, verdict: str = "confirmed") -> Parsed:
        """As the publisher of that session does it, to the verdict."""
        for row in publish.sent:
            self._record(do.RecordSent(row))
        if publish.keyed:
            self._record(publish.keyed)
        self.at_leads(ev.PublishHanded((publish.id,)))
        if verdict:
            self.at_leads(ev.VerdictGiven(publish.id, verdict, ""))
        envelope = publish.envelope
        if not envelope.msg_id:
            envelope = msgspec.structs.replace(envelope, msg_id=self.new_id())
        return self.sign_abroad(envelope, publish.body, publish.sent[0].header if publish.sent else None)

    def sign_abroad(self, envelope: Envelope, body: bytes, header: bytes | None = None) -> Parsed:
        header = header or encode_envelope(envelope)
        ((sig, proof),) = self.leads_signer.sign([(header, body)])
        parsed = parse_delivery(RawHeaders(fleet=header, sig=sig, proof=proof or None), body, body_limit=2**18)
        assert isinstance(parsed, Parsed)
        return parsed

    def get_abroad(self, parsed: Parsed, owner: QueueOwner | None = None) -> list[do.Action]:
        """One delivery from a queue of this host in the coordinator's vhost."""
        owner = owner or (ControlQueue(self.name) if parsed.envelope.to == self.name else self.mailbox)
        known = None
        if isinstance(owner, LeadQueue):
            known = self.ledger.get((parsed.envelope.msg_id, owner.gid))
        tag = Tag(1, 1, next(self._tags))
        leaf = known.leaf if known else None
        (judged,) = self.leads_verifier.judge([parsed], [owner], [leaf], self.clock.now.wall)
        if isinstance(judged, Duplicate):
            return self.at_leads(ev.DuplicateArrived(tag))
        if isinstance(judged, Refusal):
            return self.at_leads(ev.RefusedArrival(tag, owner, judged))
        return self.at_leads(ev.Arrived(tag, owner, judged, known))

    def trust_leads(self, leads: Fleet) -> list[do.Action]:
        self.leads_verifier.set_fleet(leads)
        return self.at_leads(ev.TrustChanged(leads))

    def by_hand(self, kind: Kind, to: str, body: bytes = b"by hand", **fields: object) -> Parsed:
        """Anything in the name of this host's lead, signed for the coordinator's fleet."""
        lead = Entity(gid=derive_gid(LEADS, self.name, salt_of("lead")), name="lead", salt=salt_of("lead"))
        if kind not in (Kind.COORD, Kind.SEND, Kind.ASK, Kind.BROADCAST):
            lead = Entity(gid=gateway_of(LEADS, self.name), name="_gateway", salt=GATEWAY_SALT)
        me = Identity(self.name, LEADS, gateway_of(LEADS, self.name), human_of(LEADS, self.name), 1)
        fields.setdefault("depth", 0)
        envelope = message(
            me,
            kind,
            lead,
            to,
            msg_id=self.new_id(),
            trace_id=TRACE,
            expires_in_ms=300_000,
            now=self.clock.now,
            **fields,
        )
        return self.sign_abroad(envelope, body)


def mailbox_gid(host: str) -> Gid:
    """By which the lead on `host` is known in the rows of others."""
    return gateway_of(LEADS, HostId(host))


def carry(sender: Lead, recipient: Lead) -> list[do.Action]:
    """Everything that `sender` has for the coordinator's broker: confirmed, and delivered; what `recipient` decided."""
    listed: list[do.Action] = []
    for publish in sender.taken_abroad():
        parsed = sender.hand_abroad(publish)
        assert parsed.envelope.to in (recipient.name, lead_key(recipient.coord_id))
        listed += recipient.get_abroad(parsed)
    return listed


def two_leads(*, takes: str = "pull", third: str = "") -> tuple[Lead, Lead, Lead]:
    """alpha's lead-a pulls; beta's lead-b too, or it `takes` pushes; gamma has the coordId `third`, or none."""
    clock = Clock()
    fleet = leads_fleet({"alpha": "lead-a", "beta": "lead-b", "gamma": third})
    puller = {"takes": "pull", "transport": "pull"}
    beta = puller if takes == "pull" else {}
    hosts = (
        Lead("alpha", clock, fleet, [agent("lead", "alpha", **puller), agent("worker", "alpha")]),
        Lead(
            "beta",
            clock,
            fleet,
            [agent("lead", "beta", **beta), agent("worker", "beta")],
        ),
        Lead("gamma", clock, fleet, [agent("lead", "gamma", **puller)]),
    )
    for host in hosts:
        host.open_leads()
    return hosts
