"""Entities by their gid, found by their names as well: what a person types is a name, and there may be a thousand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from fleettrio.core.entity import Entity
from fleettrio.core.peer import PeerEntity
from fleettrio.ids import Gid, HostId

__all__ = ("Named", "Others")

E = TypeVar("E", bound=Entity | PeerEntity)


class Named(dict[Gid, E], Generic[E]):
    """Changed by `d[gid] = entity`, `d.pop(gid)` and `d.clear()` alone; `changes` counts them."""

    def __init__(self, entities: Iterable[E] = ()) -> None:
        super().__init__()
        self.changes = 0
        self._by_name: dict[str, dict[Gid, None]] = {}
        for entity in entities:
            self[entity.gid] = entity

    def named(self, name: str) -> list[E]:
        return [self[gid] for gid in self._by_name.get(name, ())]

    def __setitem__(self, gid: Gid, entity: E) -> None:
        before = self.get(gid)
        if before is None or before.name != entity.name:
            if before is not None:
                self._unname(before)
            self._by_name.setdefault(entity.name, {})[gid] = None
        self.changes += 1
        super().__setitem__(gid, entity)

    def pop(self, gid: Gid) -> E:  # type: ignore[override]
        """Raises `KeyError` when there is none."""
        self.changes += 1
        entity = super().pop(gid)
        self._unname(entity)
        return entity

    def clear(self) -> None:
        self.changes += 1
        super().clear()
        self._by_name.clear()

    def _unname(self, entity: E) -> None:
        namesakes = self._by_name[entity.name]
        del namesakes[entity.gid]
        if not namesakes:
            del self._by_name[entity.name]


class Others(Named[PeerEntity]):
    """Those of other hosts, found by their host, too: each of many hosts has a few."""

    def __init__(self, entities: Iterable[PeerEntity] = ()) -> None:
        self._by_host: dict[HostId, dict[Gid, None]] = {}
        super().__init__(entities)

    def of_host(self, host: HostId) -> tuple[PeerEntity, ...]:
        return tuple(self[gid] for gid in self._by_host.get(host, ()))

    def count(self, host: HostId) -> int:
        return len(self._by_host.get(host, ()))

    def __setitem__(self, gid: Gid, entity: PeerEntity) -> None:
        if (before := self.get(gid)) is not None and before.host != entity.host:
            self.pop(gid)
        self._by_host.setdefault(entity.host, {})[gid] = None
        super().__setitem__(gid, entity)

    def pop(self, gid: Gid) -> PeerEntity:  # type: ignore[override]
        entity = super().pop(gid)
        there = self._by_host[entity.host]
        del there[gid]
        if not there:
            del self._by_host[entity.host]
        return entity

    def clear(self) -> None:
        super().clear()
        self._by_host.clear()
