"""What belongs to one trace, asked of every host of the fleet and told to every host that asks.

    asked ──► TRACE to each host that is heard ──► all have answered, or 2 s are over ──► told, silent hosts named

Rules:
1. TRACE carries the trace in its `traceId` and has no body. The answer (TRACED) has what that host knows: its rows of
   the messages and its journal; never a body. Any trusted host may ask.
2. An answer has at most 200 rows, messages first; `cut` says that there are more.
3. Only a host that was asked answers, once. Who has not by the end is named as silent; so is, at once, a host that is
   not heard or does not speak TRACE.
4. Nothing of it is recorded: it changes nothing, and who asks waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fleettrio.core.actions import Action, LoadTrace, Resolve
from fleettrio.core.calls import TraceHeard
from fleettrio.core.compose import Identity, control
from fleettrio.core.events import TraceRead
from fleettrio.core.link import ForControl, Link
from fleettrio.core.requests import CallEnded, TraceAsked
from fleettrio.core.roster import Roster
from fleettrio.core.rows import InboxRow, JournalRow, SentRow
from fleettrio.core.rules import Rules, TimerRules
from fleettrio.core.timers import Timers
from fleettrio.errors import MalformedEnvelope
from fleettrio.ids import HostId, MsgId, Now, Seconds, TraceId
from fleettrio.wire.bodies import TracedBody
from fleettrio.wire.envelope import Kind
from fleettrio.wire.kinds import MESSAGE_KINDS
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("MOST_ROWS", "Traces", "told_inbox", "told_sent", "told_step")

WAIT_S = 2.0
MOST_ROWS = 200
MOST_READS = 64
"""Questions of others that wait for the store at a time; more are not answered."""
_DETAIL = 120

Told = Mapping[str, Any]
"""One row of an answer: plain values, names in camel case, what is empty is absent."""


class _Call(msgspec.Struct):
    trace_id: TraceId
    waits_for: set[HostId]
    silent: list[HostId]
    answers: dict[HostId, tuple[tuple[Told, ...], bool]] = msgspec.field(default_factory=dict)


class Traces:
    def __init__(self, me: Identity, roster: Roster, link: Link, timers: Timers) -> None:
        self._me = me
        self._roster = roster
        self._link = link
        self._timers = timers
        self._calls: dict[int, _Call] = {}
        self._reads: dict[int, tuple[HostId, MsgId, TraceId]] = {}
        self._next_read = 1
        self.rules: Rules = {TraceAsked: self._asked, TraceRead: self._read}
        self.timer_rules: TimerRules = {"trace": lambda name, _: self._over(int(name[0]))}

    def call_ended(self, event: CallEnded, _: Now) -> list[Action]:
        """Nobody waits for the answers any more."""
        if event.call is not None:
            self._end(event.call)
        return []

    # --- asking

    def _asked(self, event: TraceAsked, now: Now) -> list[Action]:
        others = sorted(self._roster.fleet_hosts - {self._me.host})
        asked = [host for host in others if self._link.is_open and self._can_answer(host, now)]
        call = _Call(event.trace_id, set(asked), [host for host in others if host not in asked])
        self._calls[event.call] = call
        if not asked:
            return self._over(event.call)
        self._timers.set(("trace", str(event.call)), Seconds(now.mono + WAIT_S))
        questions = [control(self._me, Kind.TRACE, host, trace_id=event.trace_id, now=now) for host in asked]
        return [self._link.publish(ForControl(), envelope, b"") for envelope in questions]

    def _can_answer(self, host: HostId, now: Now) -> bool:
        peer = self._roster.peers.get(host)
        speaks = peer is None or not peer.kinds or Kind.TRACE in peer.kinds
        return speaks and (self._link.is_settling(now) or not self._roster.is_silent(host, now.wall))

    def on_traced(self, message: VerifiedEnvelope, _: Now) -> list[Action]:
        body, envelope = TracedBody.from_bytes(message.body), message.envelope
        actions: list[Action] = []
        for number, call in list(self._calls.items()):
            if call.trace_id == envelope.trace_id and envelope.host in call.waits_for:
                call.waits_for.discard(envelope.host)
                call.answers[envelope.host] = (body.rows[:MOST_ROWS], body.cut)
                actions += [] if call.waits_for else self._over(number)
        return actions

    def _end(self, call: int) -> None:
        self._calls.pop(call, None)
        self._timers.cancel(("trace", str(call)))

    def _over(self, number: int) -> list[Action]:
        call = self._calls.get(number)
        if call is None:
            return []
        self._end(number)
        silent = tuple(sorted({*call.silent, *call.waits_for}))
        return [Resolve(number, TraceHeard(call.answers, silent))]

    # --- being asked

    def on_trace(self, message: VerifiedEnvelope, _: Now) -> list[Action]:
        envelope = message.envelope
        if len(self._reads) >= MOST_READS:
            return []
        read, self._next_read = self._next_read, self._next_read + 1
        self._reads[read] = (envelope.host, envelope.msg_id, envelope.trace_id)
        return [LoadTrace(read, envelope.trace_id)]

    def _read(self, event: TraceRead, now: Now) -> list[Action]:
        asked = self._reads.pop(event.ask, None)
        if asked is None or not self._link.is_open:
            return []
        host, msg_id, trace_id = asked
        rows = [
            *(told_sent(row, self._roster.address(row.sender, self._me.host)) for row in event.sent),
            *(told_inbox(row, self._roster.address(row.gid, self._me.host)) for row in event.inbox),
            *(told_step(step, self._roster) for step in event.steps),
        ]
        envelope = control(self._me, Kind.TRACED, host, trace_id=trace_id, now=now, re=msg_id)
        return [self._link.publish(ForControl(), envelope, _fitting(rows))]


def _fitting(rows: Sequence[Told]) -> bytes:
    """An answer with as many rows as go into one body: other hosts have a say in how long a row is."""
    most = MOST_ROWS
    while True:
        try:
            return TracedBody(rows=tuple(rows[:most]), cut=len(rows) > most).to_bytes()
        except MalformedEnvelope:
            if most == 0:
                raise
            most //= 2


def told_inbox(row: InboxRow, name: str) -> Told:
    """A message that came to an entity of this host; `name` is its address."""
    return _plain(row, "in", name, fromHost=row.from_host, arrivedAt=row.arrived_at, size=row.size, held=row.held)


def told_sent(row: SentRow, name: str) -> Told:
    """A message that an entity of this host sent; `name` is its address."""
    return _plain(row, "out", name, toHost=row.to_host, answeredBy=row.answered_by or "", late=row.late)


def told_step(step: JournalRow, roster: Roster) -> Told:
    known = step.gid is not None and step.gid in roster.entities
    return _present(
        row="step",
        at=step.at,
        what=step.what,
        msgId=step.msg_id or "",
        gid=step.gid or "",
        name=roster.entities[step.gid].name if step.gid and known else "",
        peer=step.peer,
        reason=step.reason,
        detail=step.detail[:_DETAIL],
        ms=step.ms,
    )


def _plain(row: InboxRow | SentRow, side: str, name: str, **more: str | int) -> Told:
    return _present(
        row=side,
        name=name,
        msgId=row.msg_id,
        gid=row.gid,
        sender=row.sender,
        kind=str(row.kind),
        state=str(row.state),
        reason=row.reason,
        detail=row.detail[:_DETAIL],
        via=row.via,
        ts=row.ts,
        at=row.at,
        expiresAt=row.expires_at,
        re=row.re or "",
        to=row.to,
        about="" if row.kind in MESSAGE_KINDS else row.about,  # how a message begins is its two ends' own
        **more,
    )


def _present(**values: str | int) -> Told:
    return {name: value for name, value in values.items() if value or name in _ALWAYS}


_ALWAYS: Sequence[str] = ("at", "ts")
