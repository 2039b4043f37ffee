"""The methods of the red button: what a target means, and which hosts are told.

What is asked of every host (all, a flow) is done when those did it that this host may tell: one that never granted
`pause` is named, and is no failure. An agent or a host that was named is one host's affair, and its no is a failure.
"""

from __future__ import annotations

import trio

from fleettrio.api import reasons
from fleettrio.api.callers import Caller
from fleettrio.api.lookup import Lookup
from fleettrio.api.refused import NOT_GRANTED, refusal_of, why_refused
from fleettrio.api.rpc import CallError, Connection, Handler
from fleettrio.api.schema import pauses as schema
from fleettrio.calls import CallFailed
from fleettrio.core.calls import Accepted
from fleettrio.core.pauses import ALL
from fleettrio.core.requests import PauseAsked, WaitAsked
from fleettrio.core.roster import Target
from fleettrio.core.rows import SentRow, SentState
from fleettrio.errors import FAILED, USAGE
from fleettrio.ids import Gid, HostId, TraceId, short_id
from fleettrio.perform import Performer
from fleettrio.wire.gids import is_trace_id

__all__ = ("Pauses",)

WORD_LIMIT_S = 4.0
"""For the word of another host: it may sleep, and does it when it wakes."""


class Pauses:
    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._me = performer.gateway.settings.me.host
        self._lookup = Lookup(performer)

    def methods(self) -> dict[str, Handler]:
        return {"pause": self.pause, "resume": self.resume}

    async def pause(self, params: schema.Pause, caller: Caller, connection: Connection) -> schema.Paused:
        return await self._give(params, caller, connection, on=True)

    async def resume(self, params: schema.Pause, caller: Caller, connection: Connection) -> schema.Paused:
        return await self._give(params, caller, connection, on=False)

    # --- inside

    async def _give(self, params: schema.Pause, caller: Caller, connection: Connection, *, on: bool) -> schema.Paused:
        if not caller.gid:
            raise CallError(FAILED, "no-identity", caller.problem or "nobody says who is calling", caller.hint)
        if params.all == bool(params.target):
            example = f"fleettrio {'pause' if on else 'resume'} worker"
            raise CallError(USAGE, "usage", "name an agent, a host or a trace, or give --all", example)
        target, words, hosts, is_whole = await self._target(params, Gid(caller.gid))
        if not caller.is_person and (not on or is_whole):
            text = "only a person resumes" if not on else "only a person pauses a host or everything"
            raise CallError(FAILED, "not-a-person", text, "ask the person at this host")
        trace_id = self._performer.new_trace_id()
        whose = "" if target == ALL or is_trace_id(target) else words.removeprefix("host ")
        told = [
            await self._at(
                host, target, Gid(caller.gid), trace_id, connection, on=on, whose=whose if host != hosts[-1] else ""
            )
            for host in hosts
        ]
        return schema.Paused(words, told)

    async def _target(self, params: schema.Pause, gid: Gid) -> tuple[str, str, list[HostId], bool]:
        """What travels, what a person reads, which hosts are told (this one first, the one it is on last), and whether
        it is more than one agent or trace."""
        if params.all:
            return ALL, "everything", self._everywhere(), True
        name, roster = params.target, self._gateway.roster
        found = roster.resolve_here(name)
        if isinstance(found, Target):
            hosts = list(dict.fromkeys((self._me, found.host)))
            return found.gid, roster.address(found.gid, found.host), hosts, False
        if name in {self._me, *roster.fleet_hosts, *roster.peers}:
            return name, f"host {name}", list(dict.fromkeys((self._me, HostId(name)))), True
        if "@" not in name and (trace_id := await self._trace(name, gid)):
            return trace_id, f"trace {trace_id}", self._everywhere(), False
        raise CallError(FAILED, "no-such-target", f"{name!r} is not an agent, host, trace or message here", found.hint)

    async def _trace(self, name: str, gid: Gid) -> str:
        if is_trace_id(name):
            return name
        inbox, sent = await self._performer.store.by_trace(name)
        traces = {row.trace_id for row in inbox} | {row.trace_id for row in sent}
        if len(traces) == 1:
            return traces.pop()
        try:
            inbox, sent = await self._lookup.both(name, gid)
        except CallError as problem:
            if problem.reason in ("no-such-message", "usage"):
                return ""
            raise
        return inbox[0].trace_id if inbox else sent[0].trace_id

    def _everywhere(self) -> list[HostId]:
        fleet = self._gateway.trust.fleet
        return [self._me, *sorted(host for host in fleet.hosts if host != self._me)]

    async def _at(
        self, host: HostId, target: str, sender: Gid, trace_id: TraceId, connection: Connection, *, on: bool, whose: str
    ) -> schema.PausedAt:
        """Tell `host`. `whose`: who it is that lives on another host; empty for one of `host`, or for all."""
        performer = self._performer
        msg_id = performer.new_msg_id()
        call = performer.calls.new()
        await performer.handle(
            PauseAsked(call=call, sender=sender, host=host, target=target, on=on, msg_id=msg_id, trace_id=trace_id)
        )
        try:
            result = await performer.calls.result(call)
        except CallFailed as problem:
            if host == self._me:
                raise
            return schema.PausedAt(host, "failed", str(problem))
        assert isinstance(result, Accepted)
        row = await self._word(result.rows[0], sender, connection)
        is_everywhere = target == ALL or is_trace_id(target)
        done = "holds it; what comes is still taken in"
        if whose:
            done = f"holds what comes from {whose}, which is still taken in"
        return self._said(row, host, done if on else row.detail or "lets it go on", is_everywhere=is_everywhere)

    async def _word(self, row: SentRow, sender: Gid, connection: Connection) -> SentRow:
        """The row with the word of its host, or as it is when that does not come in time."""
        performer = self._performer
        call = performer.calls.new()
        await performer.handle(WaitAsked(call, connection.session, sender, (row,), "delivered"))
        with trio.move_on_after(WORD_LIMIT_S):
            await performer.calls.result(call)
        return await self._lookup.fresh(row)

    def _said(self, row: SentRow, host: HostId, done: str, *, is_everywhere: bool) -> schema.PausedAt:
        match row.state:
            case SentState.DONE:
                return schema.PausedAt(host, "done", done)
            case SentState.FAILED:
                if refusal := refusal_of(row):
                    state = "refused" if is_everywhere and refusal == NOT_GRANTED else "failed"
                    return schema.PausedAt(host, state, why_refused(row, host, self._gateway))
                about, short = (reasons.FAILED, row.reason, row.detail), short_id(row.msg_id)
                why = reasons.reason_text(*about, who=host, host=host, short=short)
                return schema.PausedAt(host, "failed", why)
            case _:
                return schema.PausedAt(host, "waiting", "has not answered yet; it does it when it is heard again")
