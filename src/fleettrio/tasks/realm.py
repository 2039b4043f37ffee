"""What the tasks of one broker session see of the performer: of the own fleet's realm, or of the coordinator's.

A session, its supervisor and its tasks are the same code for both. Here the realms part on the way in: what happens in
the coordinator's session reaches the core as `FromCoordinator`; on the way out the core says `AtCoordinator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from fleettrio.calls import Calls
from fleettrio.clock import Clock, Pulse
from fleettrio.core.events import Event, FromCoordinator, StoreFailed
from fleettrio.core.gateway import Gateway
from fleettrio.core.link import Link
from fleettrio.ids import Gid
from fleettrio.perform import Performer
from fleettrio.ports import SessionPorts
from fleettrio.store.inhand import Hand
from fleettrio.store.store import Store
from fleettrio.wire.fleet import Fleet

__all__ = ("CoordinatorRealm", "Realm")


class Realm(Protocol):
    """As the `Performer` itself is, for the own fleet."""

    gateway: Gateway
    store: Store
    clock: Clock
    calls: Calls
    pulse: Pulse | None
    session: SessionPorts | None

    @property
    def link(self) -> Link:
        """The state of this realm's link to its broker."""

    @property
    def fleet(self) -> Fleet:
        """Whom this realm trusts."""

    @property
    def may_take(self) -> bool: ...

    @property
    def hands(self) -> Sequence[Hand]:
        """Where its two consumers, of messages and of control, note what they have in hand."""

    def acts_on(self, kind: str) -> bool:
        """True for control kinds that are recorded, and known again."""

    def kept_as(self, gid: Gid) -> Gid:
        """By which gid the rows of what was sent to `gid` in this realm are kept here."""

    def glances(self, gids: Iterable[Gid]) -> list[Event]:
        """What a glance at these agents shows, to be told at once with what came for them."""

    async def handle(self, *events: Event) -> None: ...

    async def confirms_settled(self) -> None: ...


class CoordinatorRealm:
    """The performer for a session at the coordinator's broker."""

    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self.gateway, self.store, self.clock = performer.gateway, performer.store, performer.clock
        self.calls, self.pulse = performer.calls, performer.pulse

    @property
    def session(self) -> SessionPorts | None:
        return self._performer.coordinator

    @session.setter
    def session(self, ports: SessionPorts | None) -> None:
        self._performer.coordinator = ports

    @property
    def link(self) -> Link:
        return self.gateway.coordination.link

    @property
    def fleet(self) -> Fleet:
        return self.gateway.coordination.fleet

    @property
    def may_take(self) -> bool:
        return self._performer.may_take

    @property
    def hands(self) -> Sequence[Hand]:
        return self.store.in_hand.hands[2:]

    def acts_on(self, kind: str) -> bool:
        """Nothing from there acts on this host."""
        return False

    def kept_as(self, gid: Gid) -> Gid:
        return self.gateway.coordination.kept_as(gid)

    def glances(self, gids: Iterable[Gid]) -> list[Event]:
        """Coordination is looked after with everything else that a lead is told."""
        return []

    async def handle(self, *events: Event) -> None:
        """As `Performer.handle`. The store is one for both realms."""
        await self._performer.handle(*(e if isinstance(e, StoreFailed) else FromCoordinator(e) for e in events))

    async def confirms_settled(self) -> None:
        await self._performer.confirms_settled(self.link)
