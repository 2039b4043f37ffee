"""A host without socket and broker: what is asked is decided, recorded and handed out as always."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import AsyncIterator, Sequence

import trio

from fleettrio.clock import SystemClock
from fleettrio.core.actions import WatchEntity
from fleettrio.core.beginning import Kept, Settings
from fleettrio.core.calls import Offered
from fleettrio.core.compose import Identity, gateway_of, human_of
from fleettrio.core.entity import Entity
from fleettrio.core.gateway import Gateway
from fleettrio.core.ledger import Limits
from fleettrio.core.peer import PeerEntity
from fleettrio.core.requests import Confirmed, PullAsked, SendAsked
from fleettrio.ids import FleetId, Gid, HostId, MsgId, TraceId, WallMs
from fleettrio.perform import Performer
from fleettrio.ports import StoreRequest
from fleettrio.store.store import Store, open_store
from fleettrio.tasks.reads import run_reads
from fleettrio.tasks.sweep import run_sweep
from fleettrio.wire.fleet import HostKey, solo_fleet
from fleettrio.wire.gids import HUMAN_SALT, derive_gid, new_msg_id
from fleettrio.wire.signing import Signer

__all__ = ("Bus", "bus")

HUMAN = "human"
THERE = HostId("there")
_PULL = 200
_SESSION = "bench"
_CAPACITY = 64


class Bus:
    """A running host without socket and broker. Made by `bus`."""

    def __init__(self, performer: Performer, store: Store, gids: dict[str, Gid]) -> None:
        self.performer = performer
        self.store = store
        self.gids = gids

    async def send(self, *to: str, body: bytes) -> list[MsgId]:
        """One message to each of `to`, asked for together, from the person here; returns when all are accepted."""
        asked = await self.ask(*to, body=body)
        for one in asked:
            await self.performer.calls.result(one.call)
        return [one.msg_ids[0] for one in asked]

    async def ask(self, *to: str, body: bytes) -> list[SendAsked]:
        """The same, but what comes of their calls is not waited for."""
        performer, wall = self.performer, self.performer.clock.now().wall
        asked = [
            SendAsked(
                call=performer.calls.new(),
                sender=self.gids[HUMAN],
                to=(name,),
                body=body,
                msg_ids=(new_msg_id(wall, os.urandom(10)),),
                trace_id=TraceId(os.urandom(16).hex()),
            )
            for name in to
        ]
        await performer.handle(*asked)
        return asked

    async def pull(self, name: str, most: int = _PULL, confirmed: int = 0) -> tuple[list[MsgId], list[bytes], int]:
        """What waits for `name`, as soon as something does: ids, bodies, and the cursor to confirm it by. `confirmed`:
        the cursor of what is there; that is said together with asking for more."""
        call = self.performer.calls.new()
        asked = PullAsked(call, _SESSION, self.gids[name], most, True)
        if confirmed:
            said = self.performer.calls.new()
            await self.performer.handle(Confirmed(said, _SESSION, confirmed), asked)
            await self.performer.calls.result(said)
        else:
            await self.performer.handle(asked)
        offered = await self.performer.calls.result(call)
        assert isinstance(offered, Offered)
        stored = await self.store.messages(offered.keys)
        return [msg_id for msg_id, _ in offered.keys], [one.body for one in stored if one], offered.cursor

    async def confirm(self, cursor: int) -> None:
        call = self.performer.calls.new()
        await self.performer.handle(Confirmed(call, _SESSION, cursor))
        await self.performer.calls.result(call)


@contextlib.asynccontextmanager
async def bus(
    folder: pathlib.Path, *names: str, elsewhere: Sequence[str] = (), limits: Limits | None = None
) -> AsyncIterator[Bus]:
    """A host whose agents `names` take messages by a call; its store is in `folder`. It knows of agents `elsewhere`, on
    another host, whom nothing reaches while there is no session with a broker."""
    fleet_id, host, clock = FleetId("bench"), HostId("here"), SystemClock({})
    me = Identity(host, fleet_id, gateway_of(fleet_id, host), human_of(fleet_id, host), 1)
    key = HostKey(host, 1, Signer(fleet_id, host, 1, bytes(32)).public_key)
    entities = [Entity(gid=me.human, name=HUMAN, salt=HUMAN_SALT)]
    for name in names:
        salt = name.encode().ljust(16)
        entities.append(Entity(gid=derive_gid(fleet_id, host, salt), name=name, salt=salt, takes="pull"))
    others = tuple(
        PeerEntity(gid=derive_gid(fleet_id, THERE, name.encode().ljust(16)), host=THERE, name=name)
        for name in elsewhere
    )
    async with open_store(folder / "store.db", at=WallMs(clock.wall() - 1_000)) as store:
        contents = await store.load(clock.wall())
        settings = Settings(
            me=me,
            fleet=solo_fleet(fleet_id, key),
            version="bench",
            standalone=not elsewhere,
            epoch=clock.wall(),
            trace_id=TraceId(os.urandom(16).hex()),
            born=contents.born,
            limits=limits or Limits(),
        )
        gateway = Gateway(settings, Kept(entities=tuple(entities), others=others))
        watches, _watched = trio.open_memory_channel[WatchEntity](len(entities))
        reads, asked = trio.open_memory_channel[StoreRequest](_CAPACITY)
        performer = Performer(gateway, store, clock, watches, reads)
        await performer.start()
        async with trio.open_nursery() as nursery:
            await nursery.start(run_sweep, performer)
            await nursery.start(run_reads, asked, performer)
            yield Bus(performer, store, {one.name: one.gid for one in entities})
            nursery.cancel_scope.cancel()
