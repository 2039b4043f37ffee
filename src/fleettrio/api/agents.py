"""Making agents known, and letting them go: an agent is its name on its host.

A name gives its gid, salt and inbox back to whoever comes back under it. One live session holds a name; a known name
goes to a person, to its own token, to its own pane, or, when its session is over, to the same harness in the same
folder. Who may attach at all is in `rights`.
"""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
import shlex
from pathlib import Path

import trio

from fleettrio.api import rights, schema
from fleettrio.api.callers import Caller, TokenUse, hash_token
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
_MOST_ROLE = 64
_LIVE_S = 600.0
"""An agent without a place is live for so long after it showed its token."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """Where an agent was found: what its transport needs, and how its processes are recognised."""

    transport: str
    target: str
    tty: str = ""
    pid: int = 0
    wakes: bool = False


class Agents:
    def __init__(self, performer: Performer, uses: TokenUse) -> None:
        self._performer = performer
        self._uses = uses
        self._gateway = performer.gateway

    async def attach(self, params: schema.Attach, caller: Caller, connection: Connection) -> schema.Attached:
        rights.check_caller(params, caller, connection)
        if params.takes not in ("", "push", "pull"):
            raise CallError(_USAGE, "usage", f"--takes {params.takes!r} is neither push nor pull")
        name = params.name or self._free_name(params)
        if not is_name(name) or name in RESERVED_NAMES:
            text = f"{name!r} is no name for an agent: a-z, 0-9 and -, at most 32, and none of the reserved ones"
            raise CallError(_USAGE, "bad-name", text, f"reserved: {', '.join(sorted(RESERVED_NAMES))}")
        for group in params.groups:
            if not is_name(group) or group in RESERVED_NAMES:
                raise CallError(_USAGE, "bad-group", f"{group!r} is no name for a group", "a-z, 0-9 and -, at most 32")
        if len(params.role) > _MOST_ROLE or not params.role.isprintable():
            raise CallError(_USAGE, "bad-role", f"a role is at most {_MOST_ROLE} printable characters", "--role lead")
        place = await self._place(params, caller, connection)
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
        if not caller.is_person:  # not even itself: with its terminal given up it would be taken for the person
            raise CallError(3, "not-a-person", "only a person detaches an agent", caller.hint or "run it at a terminal")
        entity = self._named(params.name)
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

    def _free_name(self, params: schema.Attach) -> str:
        folder = re.sub(r"[^a-z0-9-]+", "-", Path(params.cwd or "/").name.lower()).strip("-") or "agent"
        base = f"{params.harness or 'agent'}-{folder}"[:28]
        names = {entity.name for entity in self._gateway.roster.entities.values()}
        return next(n for n in (base, *(f"{base}-{i}" for i in range(2, 1000))) if n not in names)

    async def _place(self, params: schema.Attach, caller: Caller, connection: Connection) -> _Place:
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
            rights.check_pane(params.pane, facts.tty, facts.pid, caller, connection)
            return _Place("tmux", params.pane, facts.tty, facts.pid, wakes=True)
        if params.command:
            return _Place("process", shlex.join(params.command), wakes=True)
        if params.pid:
            await trio.to_thread.run_sync(rights.check_process, params.pid, caller, connection)
        return _Place("pull", "", "", params.pid)

    async def _check_taking_back(self, known: Entity, params: schema.Attach, caller: Caller, place: _Place) -> None:
        if known.gid == self._gateway.settings.me.human:
            raise CallError(_USAGE, "bad-name", "that name is the person's")
        is_same_pane = bool(place.tty) and (place.tty, place.pid) == (known.tty, known.pid)
        is_same_command = place.transport == known.transport == "process" and place.target == known.target
        is_same = is_same_pane or is_same_command
        is_live = not is_same and await self._is_live(known)
        if is_live and caller.is_person and not params.take:
            text = f"{known.name} is held by a live session ({self._where(known)})"
            raise CallError(3, "name-held", text, "take another name; a person may use --take")
        if caller.is_person:
            return
        if not is_same and (known.transport == "process" or await self._has_its_pane(known)):
            text = f"{known.name} has its place still ({self._where(known)})"
            raise CallError(3, "name-held", text, "take another name; a person may use --take")
        if known.gid == caller.gid or known.name == caller.terminal_of:
            return
        same_home = known.harness == params.harness and known.cwd == params.cwd and params.cwd != ""
        if is_live or not same_home or caller.rule != "mark":
            text = f"{known.name} is known here: a person may take it back, or its harness in its folder once it ended"
            raise CallError(3, "name-known", text, "take another name, or ask a person")

    async def _is_live(self, entity: Entity) -> bool:
        if entity.status in ("away", "gone"):
            return False
        if entity.transport == "tmux":
            return await self._has_its_pane(entity)
        return (entity.pid > 0 and _is_running(entity.pid)) or self._uses.idle_s(entity.gid) < _LIVE_S

    async def _has_its_pane(self, entity: Entity) -> bool:
        if entity.transport != "tmux":
            return False
        socket, pane = parse_target(entity.target)
        facts = await Tmux(socket).facts(pane)
        return facts is not None and not facts.dead and facts.pid == entity.pid

    def _where(self, entity: Entity) -> str:
        if entity.transport == "tmux":
            return f"pane {entity.target}"
        if entity.transport == "process":
            return f"command {entity.target}"
        return f"process {entity.pid}" if entity.pid else "its token is in use"

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
