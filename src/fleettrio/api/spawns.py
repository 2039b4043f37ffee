"""The methods that start and end agents, here or on another host. Whether that may be is decided by the core, there."""

from __future__ import annotations

import difflib
import secrets
from pathlib import PurePath

from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.lookup import Lookup
from fleettrio.api.rpc import CallError, Connection, Handler
from fleettrio.api.views import sent_view
from fleettrio.core import calls
from fleettrio.core import requests as ask
from fleettrio.core.roster import Target
from fleettrio.errors import FAILED, USAGE
from fleettrio.ids import Gid, HostId, MsgId, TraceId
from fleettrio.perform import Performer
from fleettrio.wire.envelope import Kind, decode_envelope
from fleettrio.wire.gids import derive_gid, is_gid, is_name

__all__ = ("Spawns",)


class Spawns:
    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._lookup = Lookup(performer)

    def methods(self) -> dict[str, Handler]:
        return {"spawn": self.spawn, "stop": self.stop}

    async def spawn(self, params: schema.Spawn, caller: Caller, connection: Connection) -> schema.Ordered:
        """Ends with the broker's verdict; what comes of it is waited for as for a message."""
        sender, host = _identity(caller), self._host(params.host)
        if params.name and not is_name(params.name):
            text = f"{params.name!r} is not a name for an agent: a-z, 0-9 and -, at most 32"
            raise CallError(USAGE, "bad-name", text, "leave --name out, and it is named after its profile")
        if params.cwd and not PurePath(params.cwd).is_absolute():
            raise CallError(USAGE, "usage", f"{params.cwd!r} is a relative path", f"give the whole path, as on {host}")
        salt, brief_id = secrets.token_bytes(16), self._new_id()
        asked = ask.SpawnAsked(
            call=self._performer.calls.new(),
            sender=sender,
            host=host,
            profile=params.profile,
            salt=salt,
            msg_id=self._new_id(),
            trace_id=TraceId(secrets.token_hex(16)),
            brief_id=brief_id,
            name=params.name,
            cwd=params.cwd,
            worktree=params.worktree,
            groups=tuple(params.groups),
            brief=params.brief,
        )
        gid = derive_gid(self._gateway.settings.me.fleet_id, host, salt)
        ordered = await self._order(asked, gid)
        ordered.brief = brief_id if params.brief is not None else ""
        return ordered

    async def stop(self, params: schema.Stop, caller: Caller, connection: Connection) -> schema.Ordered:
        sender = _identity(caller)
        gid, host = await self._target(params.target, sender)
        asked = ask.StopAsked(
            call=self._performer.calls.new(),
            sender=sender,
            host=host,
            gid=gid,
            msg_id=self._new_id(),
            trace_id=TraceId(secrets.token_hex(16)),
            reason=params.reason,
        )
        return await self._order(asked, gid)

    async def _order(self, asked: ask.SpawnAsked | ask.StopAsked, gid: Gid) -> schema.Ordered:
        await self._performer.handle(asked)
        accepted = await self._performer.calls.result(asked.call)
        assert isinstance(accepted, calls.Accepted)
        row = await self._lookup.fresh(accepted.rows[0])
        view = sent_view(row, self._gateway, self._performer.clock.now().wall)
        return schema.Ordered(view, gid, asked.host)

    async def _target(self, target: str, sender: Gid) -> tuple[Gid, HostId]:
        """Whom `target` means and where it lives; also one that nobody can send to yet."""
        me, roster = self._gateway.settings.me, self._gateway.roster
        found = roster.resolve_here(target)
        if isinstance(found, Target):
            return found.gid, found.host
        name, _, host = target.partition("@")
        here = roster.by_name(name)
        if here is not None and host in ("", me.host):
            return here.gid, me.host
        if is_gid(name) and host:
            return Gid(name), self._host(host)
        try:
            row = await self._lookup.sent(target, sender)
        except CallError:
            raise CallError(FAILED, "no-such-recipient", found.message, found.hint) from None
        spawn_id = decode_envelope(row.header).spawn_id if row.kind == Kind.SPAWN else None
        if spawn_id is None:
            raise CallError(USAGE, "usage", f"{target} is a message and not an agent", "`fleettrio list`")
        return Gid(spawn_id), row.to_host

    def _host(self, host: str) -> HostId:
        me = self._gateway.settings.me
        known = {me.host, *self._gateway.trust.fleet.hosts, *self._gateway.roster.peers}
        if host in ("", *known):
            return HostId(host or me.host)
        near = difflib.get_close_matches(host, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"hosts known here: {', '.join(sorted(known))}"
        raise CallError(FAILED, "no-such-host", f"no host {host!r} is known here", hint)

    def _new_id(self) -> MsgId:
        return self._performer.new_msg_id()


def _identity(caller: Caller) -> Gid:
    if caller.problem or not caller.gid:
        raise CallError(FAILED, "no-identity", caller.problem or "nobody says who is calling", caller.hint)
    return Gid(caller.gid)
