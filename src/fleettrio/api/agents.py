"""Making agents known, and letting them go: an agent is its name on its host.

A name gives its gid, salt and inbox back to whoever comes back under it; whose it is, is in `names`. Who may attach at
all is in `rights`.
"""

from __future__ import annotations

import os
import secrets
import shlex

import msgspec
import trio

from fleettrio.api import rights, schema
from fleettrio.api.callers import Caller, TokenUse, hash_token
from fleettrio.api.names import Names, Place
from fleettrio.api.places import Found, check_free, in_herdr, in_pane
from fleettrio.api.rpc import CallError, Connection, Handler
from fleettrio.core import calls
from fleettrio.core import events as ev
from fleettrio.core.entity import Entity
from fleettrio.core.roster import UnknownRecipient
from fleettrio.core.topology import EVERYBODY
from fleettrio.errors import FAILED, USAGE
from fleettrio.ids import Gid
from fleettrio.local.harness import load_harness
from fleettrio.local.port import NotReady
from fleettrio.local.process import find_program
from fleettrio.local.transports import BUILT_IN, BY_NAME, open_transport
from fleettrio.panes.scope import Process, process_of
from fleettrio.perform import Performer
from fleettrio.tasks.look import announce_place
from fleettrio.wire.gids import RESERVED_NAMES, derive_gid, is_name

__all__ = ("Agents",)

_MOST_ROLE = 64


class Agents:
    def __init__(self, performer: Performer, uses: TokenUse) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._names = Names(performer.gateway, uses)
        self._naming = trio.Lock()

    def methods(self) -> dict[str, Handler]:
        return {
            "attach": self.attach,
            "detach": self.detach,
            "token": self.token,
        }

    async def attach(self, params: schema.Attach, caller: Caller, connection: Connection) -> schema.Attached:
        rights.check_caller(params, caller, connection)
        async with self._naming:  # of two that come at once, each gets a name of its own
            return await self._attach(params, caller, connection)

    async def _attach(self, params: schema.Attach, caller: Caller, connection: Connection) -> schema.Attached:
        if params.takes not in ("", "push", "pull"):
            raise CallError(USAGE, "usage", f"--takes {params.takes!r} is neither push nor pull")
        place = await self._place(params, caller, connection)
        params.harness = params.harness or place.harness
        name = params.name or await self._names.of_nameless(params)
        if not is_name(name):
            text = f"{name!r} is not a name for an agent: a-z, 0-9 and -, at most 32, and none of the reserved ones"
            raise CallError(USAGE, "bad-name", text, f"reserved: {', '.join(sorted(RESERVED_NAMES))}")
        for group in params.groups or ():
            if group != EVERYBODY and not is_name(group):
                text = f"{group!r} is not a name for a group"
                raise CallError(USAGE, "bad-group", text, "a-z, 0-9 and -, at most 32")
        if len(params.role) > _MOST_ROLE or not params.role.isprintable():
            raise CallError(USAGE, "bad-role", f"a role is at most {_MOST_ROLE} printable characters", "--role lead")
        known = self._gateway.roster.by_name(name)
        if known is not None:
            await self._names.check(known, params, caller, place)
        check_free(place, name, self._gateway.roster.entities.values())
        token = secrets.token_hex(32)
        entity = self._entity(name, known, params, place, token)
        call = self._performer.calls.new()
        await self._performer.handle(ev.Attached(call, entity))
        attached = await self._performer.calls.result(call)
        assert isinstance(attached, calls.AttachedAs)
        await announce_place(entity.gid, self._performer)
        return schema.Attached(entity.gid, name, self._gateway.settings.me.host, token, known is None, place.found)

    async def detach(self, params: schema.Detach, caller: Caller, connection: Connection) -> schema.Done:
        if not caller.is_person:  # not even itself: with its terminal given up it would be taken for the person
            hint = caller.hint or "run it at a terminal"
            raise CallError(FAILED, "not-a-person", "only a person detaches an agent", hint)
        entity = self._named(params.name)
        if entity.gid == self._gateway.settings.me.human:
            raise CallError(USAGE, "bad-name", "the person at this host cannot be detached")
        is_ours = self._gateway.spawns.started(entity.gid) is not None
        if entity.status in ("starting", "stopping") or (params.forget and is_ours):
            text = f"{entity.name} was started by this host: it is ended, not let go"
            raise CallError(FAILED, "spawned", text, f"fleettrio stop {entity.name}")
        waiting = self._gateway.ledger.lane(entity.gid).count
        call = self._performer.calls.new()
        await self._performer.handle(ev.Detached(call, entity.gid, params.forget))
        await self._performer.calls.result(call)
        if params.forget:
            return schema.Done(f"{entity.name} is gone; {waiting} waiting messages ended, their senders are told")
        return schema.Done(f"{entity.name} is away; {waiting} messages wait for it")

    async def token(self, params: schema.Token, caller: Caller, connection: Connection) -> schema.Attached:
        if not caller.is_person:
            raise CallError(FAILED, "not-a-person", "only a person gives out tokens", "run it at a terminal")
        known = self._gateway.roster.by_name(params.name)
        if known is None:
            return await self.attach(schema.Attach(name=params.name), caller, connection)
        token = secrets.token_hex(32)
        call = self._performer.calls.new()
        await self._performer.handle(ev.Attached(call, msgspec.structs.replace(known, token_hash=hash_token(token))))
        await self._performer.calls.result(call)
        return schema.Attached(known.gid, known.name, self._gateway.settings.me.host, token, False)

    # --- inside

    async def _place(self, params: schema.Attach, caller: Caller, connection: Connection) -> Place:
        if params.harness:
            load_harness(params.harness)
        if params.pane:
            found = _found(await in_pane(params, caller, connection))
            if params.program:
                return msgspec.structs.replace(found, program=await self._program(params, caller, connection))
            return found
        if params.transport == "herdr":
            return _found(await in_herdr(params, caller, connection))
        if params.command:
            _check_program(params.command[0], params.cwd)
            return Place("stream" if params.stream else "process", shlex.join(params.command), wakes=True)
        if params.transport:
            return await _other_place(params)
        if params.pid:
            await trio.to_thread.run_sync(rights.check_process, params.pid, caller, connection)
        return Place("pull", "", "", params.pid)

    async def _program(self, params: schema.Attach, caller: Caller, connection: Connection) -> Process | None:
        await trio.to_thread.run_sync(rights.check_process, params.program, caller, connection)
        return process_of(params.program)

    def _entity(self, name: str, known: Entity | None, params: schema.Attach, place: Place, token: str) -> Entity:
        me = self._gateway.settings.me
        salt = known.salt if known else secrets.token_bytes(16)
        takes = params.takes or ("push" if place.target else "pull")
        if takes == "push" and not place.target:
            text = "--takes push needs a --pane, a --command or a --transport to put messages into"
            raise CallError(USAGE, "usage", text)
        # A client that fetches is nudged in its pane; any other place is of no use to it.
        is_reached = takes == "push" or place.transport == "tmux"
        return Entity(
            gid=derive_gid(me.fleet_id, me.host, salt),
            name=name,
            salt=salt,
            role=params.role or (known.role if known else ""),
            takes=takes,
            groups=(known.groups if known else ()) if params.groups is None else tuple(params.groups),
            harness=params.harness,
            status="idle",
            since=self._performer.clock.now().wall,
            transport=place.transport if takes == "push" else "pull",
            target=place.target if is_reached else "",
            tty=place.tty,
            pid=place.pid,
            cwd=params.cwd,
            wakes=place.wakes and is_reached,
            token_hash=hash_token(token),
            reply=params.reply or (known.reply if known else ""),
            session=params.session or place.session,
            program=place.program.pid if place.program else 0,
            started=place.program.started if place.program else 0,
        )

    def _named(self, name: str) -> Entity:
        entity = self._gateway.roster.by_name(name)
        if entity is None:
            found = self._gateway.roster.resolve_here(name)
            hint = (
                found.hint if isinstance(found, UnknownRecipient) else f"it is {found.name}@{found.host}: do it there"
            )
            raise CallError(FAILED, "no-such-agent", f"no agent {name!r} is known on this host", hint)
        return entity


def _found(found: Found) -> Place:
    return Place(
        found.transport,
        found.target,
        found.tty,
        found.pid,
        wakes=True,
        harness=found.harness,
        session=found.session,
        program=found.program,
        found=found.words,
    )


def _check_program(program: str, cwd: str) -> None:
    """Raises CallError for what would fail at the first delivery only."""
    if find_program(program, cwd, os.environ.get("PATH")) is None:
        text = f"--command: there is no program {program!r} that the daemon can run"
        hint = "give its whole path; for a line of shell: --command \"sh -c 'cat; date'\""
        raise CallError(USAGE, "no-program", text, hint)


async def _other_place(params: schema.Attach) -> Place:
    """Where a transport finds the agent that is attached by name and target. Raises CallError when it finds none."""
    if params.transport in BUILT_IN and params.transport not in BY_NAME:
        text = f"--transport {params.transport}: its agents are not attached by a target"
        raise CallError(USAGE, "usage", text, "attach with --pane, --here or --command")
    made = Entity(
        gid=Gid(""),
        name=params.name,
        salt=b"",
        harness=params.harness,
        transport=params.transport,
        target=params.target,
        cwd=params.cwd,
    )
    via = open_transport(made, os.environ)
    try:
        found = await via.reserve("idle")
    finally:
        await via.close()
    if isinstance(found, NotReady) and found.gone:
        raise CallError(
            3, "no-agent", f"nobody is at {params.target!r}: {found.why}", "give the --target of a live one"
        )
    return Place(params.transport, params.target, wakes=via.wakes)
