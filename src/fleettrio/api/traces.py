"""The method `trace`: everything that belongs together, over all hosts of the fleet.

What this host knows comes from its store; the others are asked (`core.traces`). A person sees all of it, an agent the
messages it is party to, and how many more there are.
"""

from __future__ import annotations

import dataclasses

import msgspec

from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.lookup import Lookup
from fleettrio.api.results import result_of
from fleettrio.api.rights import identity_of
from fleettrio.api.rpc import CallError, Connection, Handler
from fleettrio.api.timeline import ordered_lines, ordered_messages, set_right
from fleettrio.api.told import read_told
from fleettrio.api.viewer import Viewer
from fleettrio.core import requests as ask
from fleettrio.core.calls import TraceHeard
from fleettrio.errors import FAILED, USAGE
from fleettrio.ids import Gid, TraceId
from fleettrio.perform import Performer
from fleettrio.wire.gids import is_trace_id

__all__ = ("Traces",)

MOST_LINES = 1_000


@dataclasses.dataclass(slots=True)
class _Flow:
    """What is known of a trace, by all who told."""

    messages: list[schema.MessageView]
    journal: list[schema.JournalLine]
    silent: list[str] = dataclasses.field(default_factory=list)
    cut: list[str] = dataclasses.field(default_factory=list)

    def of_party(self, gid: Gid) -> int:
        """Leave only what `gid` is party to; returns how many messages were between others."""
        all_ids = {view.msg_id for view in self.messages}
        self.messages = [view for view in self.messages if gid in (view.gid, view.sender_gid)]
        ids = {view.msg_id for view in self.messages}
        self.journal = [line for line in self.journal if line.msg_id in ids]
        return len(all_ids - ids)


class Traces:
    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._gateway = performer.gateway
        self._store = performer.store
        self._lookup = Lookup(performer)
        self._viewer = Viewer(performer, self._lookup)

    def methods(self) -> dict[str, Handler]:
        return {"trace": self.trace}

    async def trace(self, params: schema.Trace, caller: Caller, connection: Connection) -> schema.Traced:
        gid = identity_of(caller)
        trace_id = await self._trace_id(params.id, gid)
        flow = await self._here(trace_id)
        if not params.local:
            await self._elsewhere(trace_id, connection, flow)
        others = 0 if caller.is_person else flow.of_party(gid)
        if not (flow.messages or flow.journal or others):
            text = f"nothing is known of the trace {trace_id}"
            raise CallError(FAILED, "no-such-trace", text, "fleettrio inbox --all, fleettrio inbox --sent")
        messages = ordered_messages(flow.messages)
        lines = ordered_lines(flow.journal, messages)
        return schema.Traced(trace_id, messages, lines, flow.silent, others, flow.cut)

    async def _trace_id(self, given: str, gid: Gid) -> TraceId:
        """Of a trace, of one of its messages, or a part of either. A whole one may be known elsewhere alone."""
        if is_trace_id(given.lower()):
            return TraceId(given.lower())
        inbox, sent = await self._store.by_trace(given) if given != "@last" else ([], [])
        if not inbox and not sent:
            inbox, sent = await self._lookup.both(given, gid)
        traces = {row.trace_id for row in inbox} | {row.trace_id for row in sent}
        if len(traces) > 1:
            endings = ", ".join(sorted(trace[-8:] for trace in traces)[:6])
            text = f"the ids of several traces end, or begin, with {given!r}: {endings}"
            raise CallError(USAGE, "ambiguous", text, "give one of those")
        return traces.pop()

    async def _here(self, trace_id: TraceId) -> _Flow:
        inbox, sent = await self._store.by_trace(trace_id)
        views = await self._viewer.sent(sent) + await self._viewer.received(inbox)
        journal = await self._store.journal(trace_id=trace_id, limit=MOST_LINES)
        return _Flow(views, self._viewer.lines(journal))

    async def _elsewhere(self, trace_id: TraceId, connection: Connection, flow: _Flow) -> None:
        """Add what the other hosts know; whoever did not answer in time is named."""
        call = self._performer.calls.new()
        await self._performer.handle(ask.TraceAsked(call, trace_id))
        heard = await result_of(self._performer, call, connection)
        assert isinstance(heard, TraceHeard)
        flow.silent = [*heard.silent]
        now = self._performer.clock.now().wall
        peers = self._gateway.roster.peers
        offsets = {host: peers[host].offset_ms for host in heard.answers if host in peers}
        for host, (rows, is_cut) in sorted(heard.answers.items()):
            views, lines = read_told(rows, host, trace_id, self._gateway, now)
            flow.messages += views
            flow.journal += [msgspec.structs.replace(line, at=line.at - offsets.get(host, 0)) for line in lines]
            flow.cut += [host] if is_cut else []
        flow.messages = [set_right(view, {str(host): ms for host, ms in offsets.items()}) for view in flow.messages]
