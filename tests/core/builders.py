"""Real cores without a shell: hosts whose envelopes are really signed and verified, and whose rows are kept.

A `Host` performs what its core decides as plainly as it can be: rows go into dictionaries, a question to the store is
answered at once, publishes are kept in `out` until somebody carries them. `told()` says a list of actions in words, one
string each, in order: that is what scenarios compare.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.arrivals import known_leaf
from fleettrio.core.beginning import Coordinator
from fleettrio.core.calls import Accepted, AttachedAs, Offered, PongHeard, WaitOver
from fleettrio.core.compose import Identity, human_of
from fleettrio.core.drift import Drift
from fleettrio.core.entity import Entity
from fleettrio.core.gateway import Gateway, Kept, Settings
from fleettrio.core.ledger import Limits, queue_owner
from fleettrio.core.peer import Peer, PeerEntity
from fleettrio.core.rows import Claim, Due, InboxRow, InboxState, JournalRow, SentRow, SentState
from fleettrio.core.spawned import Spawnable, SpawnRow
from fleettrio.core.topology import ControlQueue, InboxQueue, QueueOwner, RosterQueue
from fleettrio.ids import FleetId, Gid, HostId, MsgId, Now, Seconds, Tag, TraceId, WallMs
from fleettrio.wire.bodies import Outcome
from fleettrio.wire.envelope import Envelope, Kind, encode_envelope
from fleettrio.wire.fleet import ALL_GRANTS, DEFAULT_GRANTS, Fleet, FleetHost, HostKey
from fleettrio.wire.gids import GATEWAY_SALT, HUMAN_SALT, derive_gid, new_msg_id
from fleettrio.wire.headers import RawHeaders
from fleettrio.wire.signing import Duplicate, Parsed, Refusal, Signer, Verifier, parse_delivery

FLEET = FleetId("test")
TRACE = TraceId("4bf92f3577b34da6a3ce929d0e0e4736")
START = WallMs(1_800_000_000_000)
BORN = WallMs(START - 86_400_000)
FULL = "disk full"
Key = tuple[MsgId, Gid]


class Clock:
    """Both clocks of a world; `back` turns the wall clock alone."""

    def __init__(self) -> None:
        self.wall, self.mono = int(START), 1_000.0

    @property
    def now(self) -> Now:
        return Now(WallMs(self.wall), Seconds(self.mono))

    def advance(self, seconds: float) -> None:
        self.wall += round(seconds * 1000)
        self.mono += seconds

    def turn(self, seconds: float) -> None:
        self.wall += round(seconds * 1000)


def fleet_of(
    names: Iterable[str],
    *,
    reporters: Iterable[str] = (),
    revoked: Iterable[str] = (),
    rev: int = 1,
    grants: Mapping[str, Iterable[str]] | None = None,
) -> Fleet:
    """A fleet in which the named hosts trust each other; `grants` has further ones by host."""
    hosts = {}
    for name in names:
        key = HostKey(HostId(name), 1, Signer(FLEET, HostId(name), 1, seed_of(name)).public_key)
        granted = (ALL_GRANTS if name in reporters else DEFAULT_GRANTS) | frozenset((grants or {}).get(name, ()))
        hosts[HostId(name)] = FleetHost(HostId(name), (key,), granted)
    gone = frozenset((HostId(name), 1) for name in revoked)
    return Fleet(FLEET, rev, WallMs(0), hosts, gone, bytes(32))


def seed_of(name: str) -> bytes:
    return name.encode().ljust(32, b"\0")


def salt_of(name: str) -> bytes:
    return {"human": HUMAN_SALT}.get(name, name.encode().ljust(16, b"\2"))


def gid_of(name: str, host: str) -> Gid:
    return derive_gid(FLEET, host, salt_of(name))


def agent(name: str, host: str, **changes: object) -> Entity:
    """An agent that messages are pushed into, unless `takes` says otherwise."""
    entity = Entity(gid=gid_of(name, host), name=name, salt=salt_of(name), takes="push", transport="tmux", target="%1")
    if changes.get("takes") == "pull":  # and in no pane
        changes = {"target": "", **changes}
    return msgspec.structs.replace(entity, **changes)


def person(host: str) -> Entity:
    return Entity(gid=human_of(FLEET, HostId(host)), name="human", salt=HUMAN_SALT)


class Host:
    """One gateway, and the store beneath it."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        fleet: Fleet,
        entities: Sequence[Entity] = (),
        *,
        limits: Limits | None = None,
        born: WallMs = BORN,
        standalone: bool = False,
        profiles: Sequence[Spawnable] = (),
        news: Sequence[str] = (),
    ) -> None:
        self.name, self.clock, self.fleet = HostId(name), clock, fleet
        self.signer = Signer(FLEET, self.name, 1, seed_of(name))
        self.verifier = Verifier(fleet)
        self.limits, self.born, self.standalone = limits or Limits(), born, standalone
        self.coordinator: Coordinator | None = None
        self.news, self.notified = tuple(news), list[do.Notify]()
        self.profiles, self.spawns = tuple(profiles), dict[Gid, SpawnRow]()
        self.entities: dict[Gid, Entity] = {e.gid: e for e in (person(name), *entities)}
        self.ledger: dict[Key, InboxRow] = {}
        self.bodies: dict[Key, bytes] = {}
        self.outbox: dict[Key, SentRow] = {}
        self.peers: dict[HostId, Peer] = {}
        self.others: dict[Gid, PeerEntity] = {}
        self.settings: dict[str, str] = {}
        self.claims: dict[str, Claim] = {}
        self.dues: dict[str, Due] = {}
        self.owed: dict[Key, bytes] = {}
        self.keys: dict[tuple[Gid, str], tuple[MsgId, ...]] = {}
        self.journal: list[do.Note] = []
        self.out: list[do.Publish] = []
        self.abroad: list[do.Publish] = []
        """What is to be published at the coordinator's broker."""
        self.injected: list[Key] = []
        self.looks: list[do.LookAtTree] = []
        self.asked: list[do.Reserve | do.Inject] = []
        """What the agents' tasks have to do."""
        self.results: dict[int, object] = {}
        self.resolved: Counter[int] = Counter()
        self.broken = False
        self._calls = itertools.count(1)
        self._tags = itertools.count(1)
        self._entropy = itertools.count(1)
        self.epoch = 0
        self.start()

    # --- the life of a process

    def start(self) -> list[do.Action]:
        """A new process on the same store: what the core knew and did not record is gone."""
        me = Identity(self.name, FLEET, derive_gid(FLEET, self.name, GATEWAY_SALT), human_of(FLEET, self.name), 1)
        self.epoch = max(self.epoch + 1, self.clock.wall)
        settings = Settings(
            me=me,
            fleet=self.fleet,
            version="1",
            standalone=self.standalone,
            epoch=self.epoch,
            trace_id=TRACE,
            born=self.born,
            highest_wall=WallMs(int(self.settings.get("highest-wall", "0"))),
            paused=self.settings.get("paused", ""),
            limits=self.limits,
            profiles=self.profiles,
            coordinator=self.coordinator,
            news=self.news,
            person_seen=WallMs(int(self.settings.get("person-seen", "0"))),
        )
        rows = [r for r in self.ledger.values() if r.state.is_open or not r.notified or _is_unanswered(r)]
        kept = Kept(
            entities=tuple(self.entities.values()),
            inbox=tuple(rows),
            landed=tuple(self._landed()),
            sent=tuple(self.outbox.values()),
            peers=tuple(self.peers.values()),
            others=tuple(self.others.values()),
            spawns=tuple(self.spawns.values()),
            claims=tuple(self.claims.values()),
            dues=tuple(self.dues.values()),
            owed=self.owed,
            untold=tuple(self._untold()),
            seq=max((r.seq for r in self.ledger.values()), default=0),
        )
        self.out, self.asked, self.results = [], [], {}
        self.gateway = Gateway(settings, kept)
        return self.perform(self.gateway.start(self.clock.now))

    def open(self) -> list[do.Action]:
        return self.run(ev.SessionOpened(1))

    def _landed(self) -> list[InboxRow]:
        """The newest two that were put into each entity, as the store reads them."""
        rows = sorted((r for r in self.ledger.values() if r.state in _PUT_IN), key=lambda r: (r.at, r.seq))
        return [row for gid in self.entities for row in [r for r in rows if r.gid == gid][-2:]]

    def _untold(self) -> list[SentRow]:
        """What failed and its sender was not told of, as the store reads it."""
        until = {gid: int(self.settings.get(f"failures-told.{gid}", "0")) for gid in self.entities}
        failed = [r for r in self.outbox.values() if r.state in (SentState.FAILED, SentState.EXPIRED)]
        return [row for row in failed if row.at > until.get(row.sender, 0)]

    # --- facts in, actions out

    def run(self, *events: ev.Event) -> list[do.Action]:
        """Decide about the events as one list and perform it. The actions of what follows at once come after it."""
        listed: list[do.Action] = []
        for event in events:
            listed += self.gateway.decide(event, self.clock.now)
        return self.perform(self.gateway.settle(listed, self.clock.now))

    def expire(self) -> list[do.Action]:
        return self.perform(self.gateway.expire(self.clock.now))

    def wait(self, seconds: float) -> list[do.Action]:
        """Let the time pass, deadline by deadline."""
        end, listed = self.clock.mono + seconds, []
        while (due := self.gateway.next_deadline()) is not None and due <= end:
            self.clock.advance(max(0.0, due - self.clock.mono))
            listed += self.expire()
        self.clock.advance(end - self.clock.mono)
        return listed

    def perform(self, listed: Sequence[do.Action]) -> list[do.Action]:  # noqa: C901 - a table
        records = [a for a in listed if isinstance(a, _RECORDED)]
        assert [a for a in listed if isinstance(a, _RECORDED)] == list(listed[: len(records)]), "store actions first"
        if self.broken and records:
            return [*listed, *self._not_recorded(listed)]
        for record in records:
            self._record(record)
        follow: list[ev.Event] = []
        for action in listed[len(records) :]:
            match action:
                case do.Publish():
                    self.out.append(action)
                case do.AtCoordinator(do.Publish() as publish):
                    self.abroad.append(publish)
                case do.Reserve() | do.Inject():
                    self.asked.append(action)
                    if isinstance(action, do.Inject):
                        self.injected.append((action.row.msg_id, action.row.gid))
                case do.LookAtTree():
                    self.looks.append(action)
                case do.Resolve(call, result):
                    self.results[call] = result
                    self.resolved[call] += 1
                case do.Fail():
                    self.results[action.call] = action
                    self.resolved[action.call] += 1
                case do.Notify():
                    self.notified.append(action)
                case do.LoadTrace(ask, trace_id):
                    follow.append(self._trace_read(ask, trace_id))
                case do.Load(ask, inbox, sent):
                    rows = tuple(self.ledger.get(k) for k in inbox)
                    follow.append(ev.Loaded(ask, rows, tuple(self.outbox.get(k) for k in sent)))
        return [*listed, *(self.run(*follow) if follow else [])]

    def _trace_read(self, ask: int, trace_id: TraceId) -> ev.TraceRead:
        """What this host's store would say; of its journal only the notes."""
        inbox = tuple(row for row in self.ledger.values() if row.trace_id == trace_id)
        sent = tuple(row for row in self.outbox.values() if row.trace_id == trace_id)
        steps = tuple(
            JournalRow(self.clock.now.wall, n.what, n.msg_id, n.gid, n.trace_id, n.peer, n.reason, n.detail, 0)
            for n in self.journal
            if n.trace_id == trace_id
        )
        return ev.TraceRead(ask, inbox, sent, steps)

    def _not_recorded(self, listed: Sequence[do.Action]) -> list[do.Action]:
        records = [a for a in listed if isinstance(a, _RECORDED)]
        calls = tuple(a.call for a in listed if isinstance(a, do.Resolve | do.Fail))
        failed = ev.StoreFailed(FULL, tuple(reversed(records)), calls)
        return self.run(failed, *(event for action in listed for event in _not_done(action)))

    def _record(self, action: do.Action) -> None:  # noqa: C901 - a table
        match action:
            case do.Commit(row=row, body=body):
                self.ledger[row.msg_id, row.gid], self.bodies[row.msg_id, row.gid] = row, body
            case do.Record(row=row):
                self.ledger[row.msg_id, row.gid] = row
            case do.RecordSent(row=sent):
                self.outbox[sent.msg_id, sent.gid] = sent
            case do.KeepBody(msg_id, gid, body):
                self.owed[msg_id, gid] = body
            case do.DropBody(msg_id, gid):
                self.owed.pop((msg_id, gid), None)
            case do.RecordKey(key, sender, ids):
                self.keys.setdefault((sender, key), ids)
            case do.RecordEntity(entity):
                self.entities[entity.gid] = entity
            case do.DropEntity(gid):
                self.entities.pop(gid, None)
            case do.RecordSpawn(row=spawn):
                self.spawns[spawn.spawn_id] = spawn
            case do.RecordClaim(claim):
                self.claims[claim.key] = claim
            case do.RecordDue(due):
                self.dues[due.id] = due
            case do.DropDue(due):
                self.dues.pop(due.id, None)
            case do.RecordPeer(peer):
                self.peers[peer.host] = peer
            case do.RecordPeerEntities(host, entities, replace):
                if replace:
                    self.others = {g: e for g, e in self.others.items() if e.host != host}
                self.others.update((e.gid, e) for e in entities)
            case do.ForgetPeer(host):
                del self.peers[host]
                self.others = {g: e for g, e in self.others.items() if e.host != host}
            case do.RecordSetting(key, value):
                self.settings[key] = value
                self.epoch = int(self.settings.get("epoch", self.epoch))
            case do.Note():
                self.journal.append(action)

    # --- what clients do

    def call(self) -> int:
        return next(self._calls)

    def gid(self, name: str) -> Gid:
        return gid_of(name, self.name)

    def new_id(self) -> MsgId:
        return new_msg_id(self.clock.wall, next(self._entropy).to_bytes(6, "big") + self.name.encode().ljust(4)[:4])

    def send(self, *to: str, body: bytes | None = None, sender: str = "human", **fields: object) -> MsgId:
        """Ask to send; the msgId of the first message. What came of it is in `results` and `outbox`.

        Without a `body` each of an agent's has its own: the same words twice are a loop.
        """
        ids = tuple(self.new_id() for _ in to)
        if body is None:
            body = b"do it" if sender == "human" else f"do it {ids[0]}".encode()
        asked = ask.SendAsked(call=self.call(), sender=self.gid(sender), to=to, body=body, msg_ids=ids, trace_id=TRACE)
        self.last = self.run(msgspec.structs.replace(asked, **fields))
        return ids[0]

    def broadcast(self, group: str = "all", *, body: bytes = b"hear", sender: str = "human", **fields: object) -> MsgId:
        """Ask to broadcast; its msgId. What came of it is in `results` and, member by member, in `outbox`."""
        asked = ask.BroadcastAsked(
            call=self.call(),
            sender=self.gid(sender),
            group=group,
            body=body,
            msg_id=self.new_id(),
            trace_id=TRACE,
        )
        asked = msgspec.structs.replace(asked, **fields)
        self.last = self.run(asked)
        return asked.msg_id

    def reply(self, original: MsgId, sender: str, body: bytes = b"done", **fields: object) -> MsgId:
        row = self.row(original, sender)
        asked = ask.ReplyAsked(call=self.call(), sender=self.gid(sender), original=row, body=body, msg_id=self.new_id())
        self.last = self.run(msgspec.structs.replace(asked, **fields))
        return asked.msg_id

    def pull(self, name: str, session: str = "s", *, wait: bool = False, sender: Gid | None = None) -> object:
        """Pull; the result, None while the call is open."""
        call = self.last_call = self.call()
        self.last = self.run(ask.PullAsked(call, session, self.gid(name), 50, wait, sender))
        return self.results.get(call)

    def confirm(self, cursor: int, session: str = "s") -> list[do.Action]:
        return self.run(ask.Confirmed(self.call(), session, cursor))

    def take(self, name: str) -> list[MsgId]:
        """Pull and confirm at once; the ids that came."""
        offered = self.pull(name)
        assert isinstance(offered, Offered)
        self.confirm(offered.cursor)
        return [msg_id for msg_id, _ in offered.keys]

    def await_answer(self, msg_id: MsgId, sender: str = "human", until: str = "answer") -> int:
        rows = tuple(r for r in self.outbox.values() if r.msg_id == msg_id)
        call = self.call()
        self.last = self.run(ask.WaitAsked(call, "s", self.gid(sender), rows, until))
        return call

    def cancel(self, msg_id: MsgId) -> list[do.Action]:
        return self.run(ask.CancelAsked(self.call(), self.sent(msg_id)))

    # --- what the agent does

    def ready(self, msg_id: MsgId, name: str, drift: Drift | None = None) -> list[do.Action]:
        """The transport looked and would write now."""
        return self.run(ev.AgentReserved(self.gid(name), msg_id, drift))

    def looked(self, drift: Drift | None = None) -> list[do.Action]:
        """The oldest look that was asked for is over; it found the same for all its messages."""
        look = self.looks.pop(0)
        return self.run(ev.TreeLookedAt(look.gid, tuple(((row.msg_id, row.gid), drift) for row in look.rows)))

    def typed(self, msg_id: MsgId, name: str, outcome: str = "submitted", detail: str = "") -> list[do.Action]:
        return self.run(ev.Injected(self.gid(name), msg_id, outcome, "tmux", detail))

    def put_in(self, msg_id: MsgId, name: str) -> list[do.Action]:
        """Look and write: it goes well."""
        self.ready(msg_id, name)
        return self.typed(msg_id, name)

    # --- what is known

    def row(self, msg_id: MsgId, name: str) -> InboxRow:
        return self.ledger[msg_id, self.gid(name)]

    def state(self, msg_id: MsgId, name: str) -> str:
        row = self.row(msg_id, name)
        return f"{row.state}({row.reason})" if row.reason else str(row.state)

    def sent(self, msg_id: MsgId) -> SentRow:
        return next(r for r in self.outbox.values() if r.msg_id == msg_id)

    def fate(self, msg_id: MsgId) -> str:
        row = self.gateway.outbox.get((msg_id, self.sent(msg_id).gid)) or self.sent(msg_id)
        return f"{row.state}({row.reason})" if row.reason else str(row.state)

    # --- the broker

    def taken(self) -> list[do.Publish]:
        """What is to be published, taken away."""
        out, self.out = self.out, []
        return out

    def hand(self, publish: do.Publish) -> list[do.Action]:
        """As the publisher does: the row is recorded, then the bytes are handed over."""
        for row in publish.sent:
            self._record(do.RecordSent(row))
        if publish.keyed:
            self._record(publish.keyed)
        return self.run(ev.PublishHanded((publish.id,)))

    def verdict(self, publish: do.Publish, verdict: str = "confirmed") -> list[do.Action]:
        return self.run(ev.VerdictGiven(publish.id, verdict, ""))

    def signed(self, publish: do.Publish) -> Parsed:
        """The publish as its bytes are on the wire."""
        envelope = publish.envelope
        if not envelope.msg_id:
            envelope = msgspec.structs.replace(envelope, msg_id=self.new_id())
        return self.sign(envelope, publish.body, publish.sent[0].header if publish.sent else None)

    def sign(self, envelope: Envelope, body: bytes, header: bytes | None = None) -> Parsed:
        header = header or encode_envelope(envelope)
        ((sig, proof),) = self.signer.sign([(header, body)])
        parsed = parse_delivery(RawHeaders(fleet=header, sig=sig, proof=proof or None), body, body_limit=2**18)
        assert isinstance(parsed, Parsed)
        return parsed

    def owner(self, envelope: Envelope) -> QueueOwner | None:
        """The queue of this host that takes the envelope."""
        if envelope.to.startswith("roster."):
            return RosterQueue(self.name)
        if envelope.to == self.name:
            return ControlQueue(self.name)
        entity = self.gateway.roster.entities.get(Gid(envelope.to))
        return queue_owner(entity) if entity else None

    def owners(self, envelope: Envelope) -> list[QueueOwner]:
        """All queues of this host that take the envelope: a broadcast goes into several."""
        if envelope.to.startswith("broadcast."):
            inboxes = [queue_owner(entity) for entity in self.gateway.roster.entities.values()]
            return [inbox for inbox in inboxes if inbox.takes(envelope.to)]
        owner = self.owner(envelope)
        return [owner] if owner else []

    def arrival(self, parsed: Parsed, owner: QueueOwner | None = None) -> ev.Event:
        """The event of a delivery from one of this host's queues, judged as the consumer judges it."""
        owner = owner or self.owner(parsed.envelope)
        assert owner is not None, f"{self.name} has no queue for {parsed.envelope.to}"
        acts = self.gateway.controls.knows(parsed.envelope.kind)
        gid = owner.gid if isinstance(owner, InboxQueue) else self.gateway.settings.me.gid if acts else None
        known = self.ledger.get((parsed.envelope.msg_id, gid)) if gid else None
        tag = Tag(1, 1, next(self._tags))
        leaf = None if known is None else known_leaf(known, parsed.envelope.host)
        (judged,) = self.verifier.judge([parsed], [owner], [leaf], self.clock.now.wall)
        if isinstance(judged, Duplicate):
            return ev.DuplicateArrived(tag, (parsed.envelope.msg_id, gid) if gid and acts else None)
        if isinstance(judged, Refusal):
            return ev.RefusedArrival(tag, owner, judged)
        return ev.Arrived(tag, owner, judged, known)

    def get(self, parsed: Parsed, owner: QueueOwner | None = None) -> list[do.Action]:
        """One delivery."""
        return self.run(self.arrival(parsed, owner))

    def trust(self, fleet: Fleet) -> list[do.Action]:
        self.fleet = fleet
        self.verifier.set_fleet(fleet)
        return self.run(ev.TrustChanged(fleet))


def _is_unanswered(row: InboxRow) -> bool:
    return row.state is InboxState.INJECTED and row.wants_reply and not row.answer


def _not_done(action: do.Action) -> list[ev.Event]:
    """What the core is told of a hand-over behind a list that could not be recorded."""
    match action:
        case do.Publish():
            return [ev.PublishNotHanded(action.id, "store", FULL)]
        case do.AtCoordinator(do.Publish(id=publish_id)):
            return [ev.FromCoordinator(ev.PublishNotHanded(publish_id, "store", FULL))]
        case do.Load(ask):
            return [ev.LoadFailed(ask, FULL)]
        case do.Reserve(row):
            return [ev.AgentNotReady(row.gid, row.msg_id, FULL, "idle")]
        case do.LookAtTree(gid, rows):
            return [ev.TreeLookedAt(gid, tuple(((row.msg_id, row.gid), None) for row in rows))]
    return []


class World:
    """Hosts that share a broker and trust each other. `settle` carries everything until all is quiet."""

    def __init__(self, *names: str, reporters: Iterable[str] = (), **options: object) -> None:
        self.clock = Clock()
        self.fleet = fleet_of(names, reporters=reporters)
        agents = {
            "alpha": (agent("lead", "alpha", takes="pull", transport="pull"),),
            "beta": (agent("worker", "beta"),),
        }
        self.hosts = [Host(n, self.clock, self.fleet, agents.get(n, ()), **options) for n in names]  # type: ignore[arg-type]

    def open(self) -> None:
        """Every host has its session and has heard of every other."""
        for host in self.hosts:
            host.open()
        self.settle()
        for host in self.hosts:
            host.run(ev.BeatDue())
        self.settle()
        for host in self.hosts:
            host.wait(0)
        self.clock.advance(4)
        for host in self.hosts:
            host.expire()
        self.settle()

    def settle(self) -> None:
        while any(host.out for host in self.hosts):
            for host in self.hosts:
                for publish in host.taken():
                    self.carry(host, publish)

    def carry(self, sender: Host, publish: do.Publish) -> None:
        """Hand over, confirm, deliver to everybody whom it is for."""
        sender.hand(publish)
        parsed = sender.signed(publish)
        targets = [(host, owner) for host in self.hosts for owner in host.owners(parsed.envelope)]
        sender.verdict(publish, "confirmed" if targets or not publish.mandatory else "unroutable")
        for host, owner in targets:
            if host.gateway.link.is_open:
                host.get(parsed, owner)


def pair(**options: object) -> tuple[World, Host, Host]:
    """alpha with a lead that pulls, beta with a worker that is pushed into; both know each other."""
    world = World("alpha", "beta", **options)  # type: ignore[arg-type]
    world.open()
    alpha, beta = world.hosts
    alpha.taken()
    beta.taken()
    return world, alpha, beta


# --- actions in words ---------------------------------------------------------------------------


def told(actions: Iterable[do.Action]) -> list[str]:
    """Each action in words. The highest wall time, recorded now and then, and what senders know, are left out."""
    words = [_word(action) for action in actions]
    return [word for word in words if word not in ("setting highest-wall", "setting failures-told")]


def _state(row: InboxRow | SentRow) -> str:
    return f"{row.state}({row.reason})" if row.reason else str(row.state)


def _word(action: do.Action) -> str:  # noqa: C901 - a table
    match action:
        case do.Commit(row=row):
            return f"commit {_state(row)}" + (" repeat" if row.repeat else "")
        case do.Record(row=row):
            return f"record {_state(row)}" + (" repeat" if row.repeat else "") + ("" if row.notified else " owed")
        case do.RecordSent(row=sent):
            return (
                f"sent {_state(sent)}"
                + (" recalling" if sent.recalling else "")
                + (" answered" if sent.answered_by else "")
            )
        case do.RecordKey():
            return "key"
        case do.RecordEntity(entity):
            return f"agent {entity.name} {entity.status}"
        case do.DropEntity():
            return "drop agent"
        case do.RecordSpawn(row=spawn):
            return f"spawn {spawn.state}" + (f"({spawn.reason})" if spawn.reason else "")
        case do.RecordClaim(claim):
            return f"claim {claim.key}" + ("" if claim.holder else " free")
        case do.RecordPeer(peer):
            return f"peer {peer.host}"
        case do.RecordPeerEntities(host, entities, replace):
            return f"entities {host} {' '.join(sorted(e.name for e in entities))}" + (" whole" if replace else "")
        case do.ForgetPeer(host):
            return f"forget {host}"
        case do.RecordSetting(key):
            return f"setting {key.partition('.')[0]}"
        case do.Note():
            return f"note {action.what} {action.reason}"
        case do.Ack() | do.Reject():
            return type(action).__name__.lower()
        case do.Publish():
            return _publish_word(action)
        case do.AtCoordinator(abroad):
            return f"coordinator: {_word(abroad)}"
        case do.OpenInbox():
            return "open inbox"
        case do.CloseInbox():
            return "close inbox"
        case do.PauseInbox():
            return "pause inbox"
        case do.WatchEntity(entity, present):
            return f"watch {entity.name}" if present else f"unwatch {entity.name}"
        case do.Resolve(_, result):
            return f"resolve {_result_word(result)}".rstrip()
        case do.Fail():
            return f"fail {action.code} {action.reason}"
        case do.Notify():
            return f"notify {action.what}: {action.text}"
        case _:
            return type(action).__name__.lower()


def _publish_word(action: do.Publish) -> str:
    envelope = action.envelope
    word = f"publish {envelope.kind}"
    if envelope.kind == Kind.OUTCOME:
        fates = [f.state + (f"({f.reason})" if f.reason else "") for f in Outcome.from_bytes(action.body).fates]
        return f"{word} {envelope.to} {' '.join(fates)}"
    if envelope.kind == Kind.PRESENCE:
        return f"{word} {'gateway' if envelope.to.endswith('_gateway') else 'agent'}"
    return word if action.sent else f"{word} {envelope.to}"


def _result_word(result: object) -> str:
    match result:
        case Accepted(rows):
            return " ".join(_state(row) for row in rows)
        case Offered(keys):
            return f"offered {len(keys)}"
        case WaitOver(rows, answers):
            return f"over {' '.join(_state(row) for row in rows)} answers {len(answers)}"
        case PongHeard():
            return "pong" + (f" refused {result.refused}" if result.refused else "")
        case AttachedAs(entity):
            return f"attached {entity.name} {entity.status}"
        case _:
            return ""


_PUT_IN = (InboxState.INJECTED, InboxState.DRAINED, InboxState.OFFERED)
_RECORDED = tuple(do.RECORDED)
WAITING = InboxState.WAITING
