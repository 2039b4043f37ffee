"""Whose a name is: an agent is its name on its host.

Rules:
1. One live session holds a name. A person may take it all the same.
2. A name that nobody holds goes to a person, to its own token, to its own pane, or to the same harness in the same
   folder.
3. Who gives no name gets the first of `<harness>-<folder>[-n]` that is new, or that the same harness had in the same
   folder and holds no more: what is started again has its id and inbox again.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from fleettrio.api import schema
from fleettrio.api.callers import Caller, TokenUse
from fleettrio.api.rpc import CallError
from fleettrio.core.entity import Entity
from fleettrio.core.gateway import Gateway
from fleettrio.errors import FAILED, USAGE
from fleettrio.panes.scope import Process, process_of
from fleettrio.panes.tmux import Tmux, parse_target

__all__ = ("Names", "Place")

_COMMANDS = ("process", "stream")
_MOST_NAMES = 1_000
_LIVE_S = 600.0
"""An agent without a place is live for so long after it showed its token."""


class Place(msgspec.Struct, frozen=True):
    """Where an agent was found: what its transport needs, and how its processes are recognised."""

    transport: str
    target: str
    tty: str = ""
    pid: int = 0
    wakes: bool = False
    harness: str = ""
    session: str = ""
    program: Process | None = None
    """The harness, where it is not the pane's first process."""
    found: str = ""
    """For the person: what is there."""


class Names:
    def __init__(self, gateway: Gateway, uses: TokenUse) -> None:
        self._gateway = gateway
        self._uses = uses

    async def of_nameless(self, params: schema.Attach) -> str:
        """A name for who gives none."""
        folder = re.sub(r"[^a-z0-9-]+", "-", Path(params.cwd or "/").name.lower()).strip("-") or "agent"
        base = f"{params.harness or 'agent'}-{folder}"[:28].rstrip("-")
        for number in range(1, _MOST_NAMES):
            name = base if number == 1 else f"{base}-{number}"
            known = self._gateway.roster.by_name(name)
            if known is None or await self._is_left(known, params):
                return name
        raise CallError(FAILED, "no-name-left", f"{base} to {base}-{_MOST_NAMES - 1} are all taken", "give one: --name")

    async def _is_left(self, known: Entity, params: schema.Attach) -> bool:
        """Whether the same harness had it in the same folder, and holds it no more."""
        if not (params.harness and params.cwd and _same_home(known, params)) or known.transport in _COMMANDS:
            return False
        is_ours = known.status in ("starting", "stopping") or self._gateway.spawns.started(known.gid) is not None
        return not is_ours and not await self._is_live(known)

    async def check(self, known: Entity, params: schema.Attach, caller: Caller, place: Place) -> None:
        """Whether who attaches may have the name that `known` bears. Raises `CallError`."""
        if known.gid == self._gateway.settings.me.human:
            raise CallError(USAGE, "bad-name", "that name is the person's")
        if known.status in ("starting", "stopping"):
            text = f"{known.name} is {known.status}: nobody can take its name now"
            raise CallError(FAILED, "name-held", text, "take another name, or try again in a moment")
        is_same = _is_same_place(known, place)
        is_live = not is_same and await self._is_live(known)
        if is_live and caller.is_person and not params.take:
            text = f"{known.name} is held by a live session ({_where(known)})"
            raise CallError(FAILED, "name-held", text, "take another name; a person may use --take")
        if caller.is_person:
            return
        if not is_same and (known.transport in _COMMANDS or await self._has_its_pane(known)):
            text = f"{known.name} has its place still ({_where(known)})"
            raise CallError(FAILED, "name-held", text, "take another name; a person may use --take")
        if known.gid == caller.gid or known.name == caller.terminal_of:
            return
        if is_live or not _same_home(known, params) or params.cwd == "" or caller.rule != "mark":
            text = f"{known.name} is known here: a person may take it back, or its harness in its folder once it ended"
            raise CallError(FAILED, "name-known", text, "take another name, or ask a person")

    async def _is_live(self, entity: Entity) -> bool:
        if entity.status in ("away", "gone"):
            return False
        if entity.transport == "tmux":
            return await self._has_its_pane(entity)
        return process_of(entity.pid) is not None or self._uses.idle_s(entity.gid) < _LIVE_S

    async def _has_its_pane(self, entity: Entity) -> bool:
        if entity.transport != "tmux":
            return False
        if entity.program:
            return Process(entity.program, entity.started).is_alive
        socket, pane = parse_target(entity.target)
        facts = await Tmux(socket).facts(pane)
        return facts is not None and not facts.dead and facts.pid == entity.pid


def _is_same_place(known: Entity, place: Place) -> bool:
    if not place.tty:
        return bool(place.target) and (place.transport, place.target) == (known.transport, known.target)
    if (place.tty, place.pid) != (known.tty, known.pid):
        return False
    # Two programs at one shell's prompt, one of them stopped, are two sessions.
    program = Process(known.program, known.started)
    return not known.program or program == place.program or not program.is_alive


def _same_home(known: Entity, params: schema.Attach) -> bool:
    return (known.harness, known.cwd) == (params.harness, params.cwd)


def _where(entity: Entity) -> str:
    if entity.transport == "tmux":
        return f"pane {entity.target}"
    if entity.target:
        return f"{'command' if entity.transport in _COMMANDS else entity.transport} {entity.target}"
    return f"process {entity.pid}" if entity.pid else "its token is in use"
