"""Which agent a call of a hook or an MCP server is for: sessions of harnesses, and the entities that they are.

Rules, first that applies:
1. The agent among the caller's ancestors, or on whose terminal it sits (`callers`). Codex may run hooks in a server
   that it shares between sessions: its ancestors are nobody's.
2. The session that the harness names (a hook's input, `_meta.threadId`), when an agent here is known by it. It is this
   session's alone; a token is inherited by all that is started with it.
3. The token it shows.
4. Nobody. The session is *dormant*: nothing is handed to it, and nothing is said.

A harness that an agent starts inside its own session is nobody, although its ancestors are the agent's: the message is
for the one whose name it bears.
"""

from __future__ import annotations

from fleettrio.api.callers import Caller
from fleettrio.api.rpc import Connection
from fleettrio.core.entity import Entity
from fleettrio.core.events import SessionSeen
from fleettrio.ids import Gid
from fleettrio.perform import Performer

__all__ = ("Sessions",)


class Sessions:
    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._roster = performer.gateway.roster

    def entity_of(
        self, caller: Caller, connection: Connection, *, harness: str = "", session: str = "", program: int = 0
    ) -> Entity | None:
        """The agent a call is for; None: dormant. `session` is what the harness says of itself, `program` its pid."""
        entity = self._roster.entities.get(Gid(caller.gid)) if caller.gid and not caller.is_person else None
        if entity is not None and caller.rule == "process" and _is_nested(entity, program, connection):
            return None
        if entity is None or caller.rule == "token":
            entity = self._roster.of_session(session) or entity
        is_other = entity is not None and bool(harness and entity.harness) and entity.harness != harness
        return None if is_other or entity is None or entity.is_let_go else entity

    async def note(self, gid: Gid, *, session: str = "", api: str = "") -> None:
        """Keep what an agent's harness calls its session now, and where it is asked; empty for what is not known."""
        await self._performer.handle(SessionSeen(gid, session, api))


def _is_nested(entity: Entity, program: int, connection: Connection) -> bool:
    """Whether another harness stands between the caller and the agent."""
    pids = [process.pid for process in connection.ancestors]
    if not {program, entity.program} <= set(pids):  # of an agent whose own process is not known nothing can be said
        return False
    return pids.index(program) < pids.index(entity.program)
