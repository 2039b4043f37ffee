"""A host with its real store, performer and tasks, on the broker in memory; its agents are objects that keep texts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import trio

from fleettrio.broker.memory import SETTINGS, MemoryBroker, MemorySession
from fleettrio.clock import SystemClock
from fleettrio.core import actions as do
from fleettrio.core import requests as ask
from fleettrio.core.beginning import Coordinator
from fleettrio.core.compose import Identity, human_of
from fleettrio.core.entity import Entity
from fleettrio.core.gateway import Gateway, Kept, Settings
from fleettrio.core.ledger import Limits
from fleettrio.core.rows import InboxRow, SentRow
from fleettrio.errors import StoreError
from fleettrio.ids import Gid, HostId, MsgId, TraceId, WallMs
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text, Turn
from fleettrio.perform import Performer
from fleettrio.ports import StoreRequest
from fleettrio.session import Session
from fleettrio.store.statements import Transaction
from fleettrio.store.store import Store, open_store
from fleettrio.store.writer import Ticket
from fleettrio.supervise import run_supervisor
from fleettrio.tasks.deliver import run_deliver
from fleettrio.tasks.look import run_looks
from fleettrio.tasks.reads import run_reads
from fleettrio.tasks.sweep import run_sweep
from fleettrio.wire.gids import GATEWAY_SALT, derive_gid, new_msg_id
from fleettrio.wire.signing import Signer, Verifier
from tests.core.builders import FLEET, TRACE, agent, fleet_of, gid_of, person, seed_of

LIMIT_S = 240.0


async def until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Wait for `condition`, at most `LIMIT_S`."""
    with trio.move_on_after(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await trio.sleep(0.005)
        return
    raise AssertionError(f"{what} did not come true within {LIMIT_S:.0f} s")


async def until_stored(read: Callable[[], Awaitable[object]], what: str = "the row") -> None:
    """Wait until the store has what `read` looks for."""
    with trio.move_on_after(LIMIT_S):
        while not await read():  # noqa: ASYNC110 - nor does this
            await trio.sleep(0.005)
        return
    raise AssertionError(f"{what} was not stored within {LIMIT_S:.0f} s")


class UnkindStore(Store):
    """The real store, which refuses writes or reads while it is told to."""

    refuses_writes = False
    refuses_reads = False
    stuck = False

    def submit(self, actions: Sequence[do.StoreAction], at: WallMs, *, may_wait: bool = False) -> Ticket:
        if self.refuses_writes:
            raise StoreError("writing the store failed (disk-full)", reason="disk-full")
        if self.stuck:
            return Ticket(Transaction([], at))
        return super().submit(actions, at, may_wait=may_wait)

    async def probe(self) -> None:
        if self.refuses_writes:
            raise StoreError("writing the store failed (disk-full)", reason="disk-full")
        await super().probe()

    async def known(self, keys: Sequence[tuple[MsgId, Gid]]) -> list[InboxRow | None]:
        if self.refuses_reads:
            raise StoreError("reading the store failed (io)")
        return await super().known(keys)

    async def sent_known(self, keys: Sequence[tuple[MsgId, Gid]]) -> list[SentRow | None]:
        if self.refuses_reads:
            raise StoreError("reading the store failed (io)")
        return await super().sent_known(keys)


class Pane:
    """An agent that takes text, in whatever mood it is told to be."""

    name = "pane"
    wakes = True

    def __init__(self) -> None:
        self.texts: list[Text] = []
        self.state_now = AgentState.IDLE
        self.not_ready = ""
        self.outcome = DeliveryOutcome.SUBMITTED
        self.writing = trio.Event()
        self.may_finish = trio.Event()
        self.may_finish.set()
        self.looking = trio.Event()
        self.may_look = trio.Event()
        self.may_look.set()
        self.breaks = False

    async def state(self) -> AgentState:
        await trio.lowlevel.checkpoint()
        return self.state_now

    async def reserve(self, when: str) -> Reserved | NotReady:
        self.looking.set()
        # Two tasks, as a transport that runs a program has: cancelled, they leave as a group.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.may_look.wait)
            nursery.start_soon(self.may_look.wait)
        if self.not_ready:
            return NotReady(AgentState.BLOCKED, self.not_ready)
        return Reserved("1", self.state_now)

    async def deliver(self, reserved: Reserved, text: Text) -> Delivery:
        self.writing.set()
        await self.may_finish.wait()
        if self.breaks:
            raise RuntimeError("the transport broke")
        if self.outcome is not DeliveryOutcome.NOTHING_WRITTEN:
            self.texts.append(text)
        return Delivery(self.outcome)

    async def close(self) -> None:
        await trio.lowlevel.checkpoint()


class Stays(Pane):
    """A program that stays: what it does is known without waiting."""

    def glance(self) -> Reserved | None:
        return None if self.not_ready else Reserved("1", self.state_now)

    def turns_over(self) -> list[Turn]:
        return []

    async def end(self) -> None:
        """Nothing of it is left."""


class Shell:
    """One running host."""

    def __init__(
        self, name: str, store: UnkindStore, gateway: Gateway, broker: MemoryBroker, clock: SystemClock
    ) -> None:
        self.name, self.store, self.gateway, self.broker = HostId(name), store, gateway, broker
        watch_send, self.watches = trio.open_memory_channel[do.WatchEntity](4096)
        read_send, self.reads = trio.open_memory_channel[StoreRequest](4096)
        self.performer = Performer(gateway, store, clock, watch_send, read_send)
        self.verifier = Verifier(gateway.trust.fleet)
        self.signer = Signer(FLEET, self.name, 1, seed_of(name))
        self.panes: dict[Gid, Pane] = {}
        self.stopping = trio.Event()
        self.session = Session(
            settings=SETTINGS,
            open_session=broker.open,
            realm=self.performer,
            signer=self.signer,
            verifier=self.verifier,
            body_limit=2**18,
            beat_s=0.2,
            grace_s=1.0,
            stopping=self.stopping,
        )

    def gid(self, name: str) -> Gid:
        return gid_of(name, self.name)

    def new_id(self) -> MsgId:
        return new_msg_id(self.performer.clock.now().wall, os.urandom(10))

    async def send(self, to: str, body: bytes = b"do it", sender: str = "human", key: str = "") -> tuple[MsgId, object]:
        """Send, and wait for the verdict."""
        call, msg_id = self.performer.calls.new(), self.new_id()
        await self.performer.handle(
            ask.SendAsked(
                call=call,
                sender=self.gid(sender),
                to=(to,),
                body=body,
                msg_ids=(msg_id,),
                trace_id=TRACE,
                key=key,
            )
        )
        return msg_id, await self.performer.calls.result(call)

    async def is_state(self, msg_id: MsgId, name: str, state: str) -> bool:
        (row,) = await self.store.known([(msg_id, self.gid(name))])
        return row is not None and row.state == state

    async def is_fate(self, msg_id: MsgId, gid: Gid, state: str) -> bool:
        row = await self.store.sent(msg_id, gid)
        return row is not None and row.state == state

    @property
    def link(self) -> str:
        return str(self.gateway.link.state)

    @property
    def now_open(self) -> MemorySession:
        """Its session, to be unkind to."""
        assert self.performer.session is not None
        assert isinstance(self.performer.session.broker, MemorySession)
        return self.performer.session.broker


@contextlib.asynccontextmanager
async def running(
    name: str,
    folder: Path,
    broker: MemoryBroker,
    entities: Sequence[Entity] = (),
    *,
    connected: bool = True,
    limits: Limits | None = None,
    deliver: bool = True,
    coordinator: Coordinator | None = None,
) -> AsyncIterator[Shell]:
    """A host from its start to its polite end (or cancelled with the test)."""
    clock = SystemClock({})
    async with open_store(folder / f"{name}.db", at=WallMs(clock.wall() - 60_000)) as opened:
        opened.__class__ = UnkindStore
        assert isinstance(opened, UnkindStore)
        contents = await opened.load(clock.wall())
        known = {e.gid: e for e in (person(name), *entities, *contents.entities)}
        me = Identity(HostId(name), FLEET, derive_gid(FLEET, name, GATEWAY_SALT), human_of(FLEET, HostId(name)), 1)
        gateway = Gateway(
            Settings(
                me=me,
                fleet=fleet_of(("alpha", "beta")),
                version="1",
                standalone=False,
                epoch=max(int(contents.settings.get("epoch", "0")) + 1, clock.wall()),
                trace_id=TraceId(TRACE),
                born=contents.born,
                limits=limits or Limits(),
                coordinator=coordinator,
            ),
            Kept(
                entities=tuple(known.values()),
                inbox=contents.inbox,
                sent=contents.sent,
                peers=contents.peers,
                others=contents.peer_entities,
                seq=contents.next_seq - 1,
            ),
        )
        shell = Shell(name, opened, gateway, broker, clock)
        await shell.performer.start()
        async with trio.open_nursery() as nursery:
            await nursery.start(run_sweep, shell.performer)
            await nursery.start(run_reads, shell.reads, shell.performer)
            await nursery.start(run_looks, shell.performer)
            for entity in known.values():
                if entity.takes == "push" and deliver:
                    shell.panes[entity.gid] = Pane()
                    await nursery.start(run_deliver, entity, shell.panes[entity.gid], shell.performer)
            if connected:
                nursery.start_soon(run_supervisor, shell.session)
                await until(lambda: shell.link == "up", f"the session of {name}")
                await until(lambda: len(gateway.inbox_state) == len(known), f"every inbox of {name}")
            yield shell
            shell.stopping.set()
            nursery.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def two(folder: Path, broker: MemoryBroker) -> AsyncIterator[tuple[Shell, Shell]]:
    """alpha with a lead that pulls, beta with a worker in a pane; they have heard of each other."""
    lead = agent("lead", "alpha", takes="pull", transport="pull")
    async with (
        running("alpha", folder, broker, [lead]) as alpha,
        running("beta", folder, broker, [agent("worker", "beta")]) as beta,
    ):
        await until(lambda: beta.gid("worker") in alpha.gateway.roster.others, "alpha hearing of worker")
        await until(lambda: alpha.gid("lead") in beta.gateway.roster.others, "beta hearing of lead")
        yield alpha, beta
