"""The agents of this host by what a caller is known by: process, terminal, session, token.

Made once for the agents as they are: judging a call takes no longer where there are many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from fleettrio.core.entity import Entity
from fleettrio.ids import Gid

__all__ = ("Registered",)

_ABSENT = frozenset({"away", "gone"})
"""States in which an entity's process has ended: its pid may be somebody else's by now."""


class Registered:
    def __init__(self, entities: tuple[Entity, ...] = ()) -> None:
        self.entities = entities
        self._by_gid = {entity.gid: entity for entity in entities}
        self._by_process: dict[int, list[Entity]] = defaultdict(list)
        self._by_terminal: dict[str, list[Entity]] = defaultdict(list)
        self._by_session: dict[str, Entity] = {}
        self._by_token: dict[bytes, Entity] = {}
        for entity in entities:
            if entity.process > 0:
                self._by_process[entity.process].append(entity)
            if entity.tty:
                self._by_terminal[entity.tty].append(entity)
            if entity.session and entity.status not in _ABSENT:
                self._by_session.setdefault(entity.session, entity)
            if entity.token_hash:
                self._by_token.setdefault(entity.token_hash, entity)

    def at(self, pid: int, tty: str) -> Iterator[Entity]:
        """Those that are there, and are the process `pid` or may sit on the terminal `tty`."""
        near = (*self._by_process.get(pid, ()), *self._by_terminal.get(tty, ()))
        return (entity for entity in near if entity.status not in _ABSENT)

    def away_from(self, tty: str) -> Iterator[Entity]:
        """Those whose terminal it was, and is while they are away."""
        # Of one that was started at a shell's prompt the terminal is the person's again.
        return (one for one in self._by_terminal.get(tty, ()) if one.status == "away" and not one.program)

    def of_session(self, name: str) -> Entity | None:
        """Whom a harness calls so."""
        return self._by_session.get(name)

    def of_gid(self, gid: Gid | None) -> Entity | None:
        return self._by_gid.get(gid) if gid else None

    def of_token(self, shown: bytes) -> Entity | None:
        """Whose token has this hash: how long looking it up takes says nothing about the token."""
        return self._by_token.get(shown)
