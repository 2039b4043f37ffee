"""Making agents known, and letting them go: an agent is its name on its host.

A name gives its gid, salt and inbox back to whoever comes back under it. One live session holds a name; an absent name
goes to a person, or to the same harness in the same folder.
"""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
import shlex
from pathlib import Path

from fleettrio.api import schema
from fleettrio.api.callers import Caller, hash_token
from fleettrio.api.rpc import CallError, Connection
from fleettrio.core import calls
from fleettrio.core import events as ev
from fleettrio.core.rows import Entity
from fleettrio.local.harness import load_harness
from fleettrio.panes.tmux import Tmux, parse_target
from fleettrio.perform import Performer
from fleettrio.wire.gids import RESERVED_NAMES, derive_gid, is_name

__all__ = ("Agents",)

_USAGE = 2


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """Where an agent was found: what its transport needs, and how its processes are recognised."""

    transport: str
    target: str
    tty: str = ""
    pid: int = 0
    wakes: bool = False


class Agents:
    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._gateway = performer.gateway

    async def attach(self, params: schema.Attach, caller: Caller, connection: Connection) -> schema.Attached:
        self._check_caller(params, caller, connection)
        if params.takes not in ("", "push", "pull"):
            raise CallError(_USAGE, "usage", f"--takes {params.takes!r} is neither push nor pull")
        name = params.name or self._free_name(params)
        if not is_name(name) or name in RESERVED_NAMES:
            text = f"{name!r} is no name for an agent: a-z, 0-9 and -, at most 32, and none of the reserved ones"
            raise CallError(_USAGE, "bad-name", text, f"reserved: {', '.join(sorted(RESERVED_NAMES))}")
        for group in params.groups:
            if not is_name(group) or group in RESERVED_NAMES:
                raise CallError(_USAGE, "bad-group", f"{group!r} is no name for a group", "a-z, 0-9 and -, at most 32")
        place = await self._place(params)
        known = self._gateway.roster.by_name(name)
        if known is not None:
            await self._check_taking_back(known, params, caller, place)
        token = secrets.token_hex(32)
        entity = self._entity(name, known, params, place, token)
        call = self._performer.calls.new()
        await self._performer.handle(ev.Attached(call, entity))
        attached = await self._performer.calls.result(call)
        assert isinstance(attached, calls.AttachedAs)
        return schema.Attached(entity.gid, name, self._gateway.settings.me.host, token, known is None)

    async def detach(self, params: schema.Detach, caller: Caller, connection: Connection) -> schema.Done:
        entity = self._named(params.name)
        if not caller.is_person and caller.gid != entity.gid:
            raise CallError(3, "not-yours", f"only a person, or {entity.name} itself, may detach it", caller.hint)
        if entity.gid == self._gateway.settings.me.human:
            raise CallError(_USAGE, "bad-name", "the person at this host cannot be detached")
        waiting = self._gateway.ledger.lane(entity.gid).count
        call = self._performer.calls.new()
        await self._performer.handle(ev.Detached(call, entity.gid, params.forget))
        await self._performer.calls.result(call)
        if params.forget:
            return schema.Done(f"{entity.name} is gone; {waiting} waiting messages ended, their senders are told")
        return schema.Done(f"{entity.name} is away; {waiting} messages wait for it")

    async def token(self, params: schema.Token, caller: Caller, connection: Connection) -> schema.Attached:
        if not caller.is_person:
            raise CallError(3, "not-a-person", "only a person gives out tokens", "run it at a terminal")
        known = self._gateway.roster.by_name(params.name)
        if known is None:
            return await self.attach(schema.Attach(name=params.name), caller, connection)
        token = secrets.token_hex(32)
        call = self._performer.calls.new()
        await self._performer.handle(ev.Attached(call, dataclasses.replace(known, token_hash=hash_token(token))))
        await self._performer.calls.result(call)
        return schema.Attached(known.gid, known.name, self._gateway.settings.me.host, token, False)

    # --- inside

    def _check_caller(self, params: schema.Attach, caller: Caller, connection: Connection) -> None:
        if connection.uid != os.getuid():
            raise CallError(3, "other-user", caller.problem, caller.hint)
        if caller.gid and not caller.is_person:
            text = f"you are {caller.name} already: an attached agent cannot attach again"
            raise CallError(3, "attached-already", text, "use another shell, or a person's terminal")
        if params.take and not caller.is_person:
            raise CallError(3, "not-a-person", "--take is a person's choice", "run it at a terminal")

    def _free_name(self, params: schema.Attach) -> str:
        folder = re.sub(r"[^a-z0-9-]+", "-", Path(params.cwd or "/").name.lower()).strip("-") or "agent"
        base = f"{params.harness or 'agent'}-{folder}"[:28]
        names = {entity.name for entity in self._gateway.roster.entities.values()}
        return next(n for n in (base, *(f"{base}-{i}" for i in range(2, 1000))) if n not in names)

    async def _place(self, params: schema.Attach) -> _Place:
        if params.harness:
            load_harness(params.harness)
        if params.pane:
            socket, pane = parse_target(params.pane)
            facts = await Tmux(socket).facts(pane)
            if facts is None or facts.dead:
                what = "is dead" if facts else "does not exist"
                raise CallError(
                    3, "no-pane", f"the pane {params.pane} {what}", "tmux list-panes -a shows what is there"
                )
            return _Place("tmux", params.pane, facts.tty, facts.pid, wakes=True)
        if params.command:
            return _Place("process", shlex.join(params.command), wakes=True)
        return _Place("pull", "", "", params.pid)

    async def _check_taking_back(self, known: Entity, params: schema.Attach, caller: Caller, place: _Place) -> None:
        if known.gid == self._gateway.settings.me.human:
            raise CallError(_USAGE, "bad-name", "that name is the person's")
        is_same = place.target == known.target and place.transport == known.transport and place.target != ""
        if not is_same and not params.take and await self._is_live(known):
            where = f"pane {known.target}" if known.transport == "tmux" else f"process {known.pid}"
            text = f"{known.name} is held by a live session ({where})"
            raise CallError(3, "name-held", text, "take another name; a person may use --take")
        same_home = known.harness == params.harness and known.cwd == params.cwd and params.cwd != ""
        if not caller.is_person and not same_home:
            text = f"{known.name} is known here and may be taken back by a person, or from its own folder"
            raise CallError(3, "name-known", text, "take another name, or ask a person")

    async def _is_live(self, entity: Entity) -> bool:
        if entity.status in ("away", "gone"):
            return False
        if entity.transport == "tmux":
            socket, pane = parse_target(entity.target)
            facts = await Tmux(socket).facts(pane)
            return facts is not None and not facts.dead and facts.pid == entity.pid
        return entity.pid > 0 and _is_running(entity.pid)

    def _entity(self, name: str, known: Entity | None, params: schema.Attach, place: _Place, token: str) -> Entity:
        me = self._gateway.settings.me
        salt = known.salt if known else secrets.token_bytes(16)
        takes = params.takes or ("push" if place.target else "pull")
        if takes == "push" and not place.target:
            raise CallError(_USAGE, "usage", "--takes push needs a --pane or a --command to put messages into")
        return Entity(
            gid=derive_gid(me.fleet_id, me.host, salt),
            name=name,
            salt=salt,
            role=params.role or (known.role if known else ""),
            takes=takes,
            groups=tuple(params.groups) or (known.groups if known else ()),
            harness=params.harness,
            status="idle",
            since=self._performer.clock.now().wall,
            transport=place.transport if takes == "push" else "pull",
            target=place.target,
            tty=place.tty,
            pid=place.pid,
            cwd=params.cwd,
            wakes=place.wakes and takes == "push",
            token_hash=hash_token(token),
        )

    def _named(self, name: str) -> Entity:
        entity = self._gateway.roster.by_name(name)
        if entity is None:
            raise CallError(3, "no-such-agent", f"no agent {name!r} is known on this host", "fleettrio list")
        return entity


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
