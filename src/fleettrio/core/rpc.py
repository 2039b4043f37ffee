"""Calls between gateways (RPC): one host has another do something by name, and gets its result.

    caller:  asked ──result or error──► over     (too late, client gone: cancel is told, a late answer dropped)
    callee:  call ──recorded, done──► answered    (the same call again: the same answer, nothing is done again)
                                       │ cancel
                                       ▼
                                      undone, where there is something to undo

Rules:
1. One event a call, no polling. Every call ends: by its answer, or by its deadline with an error. Nothing is guessed
   about a host that does not answer.
2. An answer counts only from the host that was called.
3. A call to this host itself is the same procedure, without a broker.
4. What nobody waits for any more is not left done: a cancel takes it back, or stops it when it comes first. It is not
   told again: with the connection it can be lost.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from fleettrio.core.actions import Action, Fail, Resolve
from fleettrio.core.compose import Identity, control
from fleettrio.core.controls import Controls
from fleettrio.core.link import ForControl, Link
from fleettrio.core.live import Live
from fleettrio.core.requests import CallEnded, RpcAsked
from fleettrio.core.rows import InboxRow, InboxState
from fleettrio.core.rules import Rules, TimerRules
from fleettrio.core.timers import Timers
from fleettrio.errors import FAILED, NO_BROKER
from fleettrio.ids import HostId, MsgId, Now, Seconds, TraceId
from fleettrio.wire.bodies import RpcBody, RpcCall
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import VerifiedEnvelope

__all__ = ("Answer", "Failure", "Procedure", "Rpc", "RpcAnswer", "Undo")

K = TypeVar("K")
V = TypeVar("V")
LIMIT_S = 30.0
ANSWERS_KEPT = 1_024
"""For calls that come again, or are cancelled: far more than can be under way."""


class Failure(Exception):
    """A procedure says no; `str()` is the sentence for the caller. Never leaves the core."""


class Answer(msgspec.Struct, frozen=True):
    """What came of a call: `value`, or the `error` in words; `reached` is false when its host never answered."""

    value: Any = None
    error: str = ""
    reached: bool = True


class RpcAnswer(msgspec.Struct, frozen=True):
    """Result of a client's call to another gateway."""

    value: Any


Procedure = Callable[[HostId, Mapping[str, Any], Now], tuple[Any, list[Action]]]
"""Does something for a host; returns the result (a plain value, not None) and the actions. Raises `Failure`."""
Undo = Callable[[Any, Now], list[Action]]
"""Takes back what a procedure did, given its result. Does nothing where something came in between."""
Then = Callable[[Answer, Now], list[Action]]


class _Open(msgspec.Struct, frozen=True):
    host: HostId
    then: Then
    trace_id: TraceId
    call: int | None


class _Done(msgspec.Struct, frozen=True):
    host: HostId
    name: str
    answer: bytes


class Rpc:
    def __init__(self, me: Identity, link: Link, live: Live, timers: Timers, controls: Controls) -> None:
        self._me = me
        self._link = link
        self._live = live
        self._timers = timers
        self._controls = controls
        self._open: dict[MsgId, _Open] = {}
        self._done: OrderedDict[MsgId, _Done] = OrderedDict()
        self._cancelled: OrderedDict[tuple[HostId, MsgId], None] = OrderedDict()
        """Cancels that came before their calls."""
        self.procedures: dict[str, Procedure] = {}
        self.undoing: dict[str, Undo] = {}
        self.counts: Counter[str] = Counter()
        """`late`: answers that nobody waited for any more."""
        controls.add(Kind.RPC, self._act, self._cut_off, self._repeat)
        self.rules: Rules = {RpcAsked: self._asked}
        self.timer_rules: TimerRules = {"rpc": self._too_late}

    # --- calling

    def call(
        self,
        host: HostId,
        name: str,
        args: Mapping[str, Any],
        then: Then,
        now: Now,
        *,
        msg_id: MsgId,
        trace_id: TraceId,
        limit_s: float = LIMIT_S,
        call: int | None = None,
    ) -> list[Action]:
        """Have `host` do it and go on with `then`."""
        if host == self._me.host:
            value, error, actions = self._do(host, name, args, now)
            return [*actions, *then(Answer(value, error), now)]
        if refused := self._live.refuse(0, Kind.RPC, host, now):
            return then(
                Answer(error=f"{host} cannot be asked: {refused.message}", reached=refused.code != NO_BROKER), now
            )
        self._open[msg_id] = _Open(host, then, trace_id, call)
        self._timers.set(("rpc", msg_id), Seconds(now.mono + limit_s))
        envelope = control(self._me, Kind.RPC, host, trace_id=trace_id, now=now)
        envelope = msgspec.structs.replace(envelope, msg_id=msg_id)
        body = RpcBody(call=RpcCall(name=name, args=args)).to_bytes()
        return [self._link.publish(ForControl(), envelope, body)]

    def call_ended(self, event: CallEnded, now: Now) -> list[Action]:
        """The client went away: its host need not answer any more."""
        gone = [msg_id for msg_id, entry in self._open.items() if entry.call is not None and entry.call == event.call]
        return [action for msg_id in gone for action in self._cancel(msg_id, now)]

    def _asked(self, event: RpcAsked, now: Now) -> list[Action]:
        def then(answer: Answer, _: Now) -> list[Action]:
            if answer.error:
                code, reason = (FAILED, "refused") if answer.reached else (NO_BROKER, "host-silent")
                hint = "" if answer.reached else f"`fleettrio ping {event.host}`"
                return [Fail(event.call, code, reason, answer.error, hint)]
            return [Resolve(event.call, RpcAnswer(answer.value))]

        return self.call(
            event.host,
            event.name,
            event.args,
            then,
            now,
            msg_id=event.msg_id,
            trace_id=event.trace_id,
            limit_s=event.limit_s,
            call=event.call,
        )

    def _too_late(self, name: tuple[str, ...], now: Now) -> list[Action]:
        entry = self._open.get(MsgId(name[0]))
        if entry is None:
            return []
        cancelled = self._cancel(MsgId(name[0]), now)
        return [*cancelled, *entry.then(Answer(error=f"{entry.host} did not answer in time", reached=False), now)]

    def _cancel(self, msg_id: MsgId, now: Now) -> list[Action]:
        entry = self._open.pop(msg_id)
        self._timers.cancel(("rpc", msg_id))
        if not self._link.is_open:
            return []
        return [self._tell(entry.host, msg_id, entry.trace_id, RpcBody(cancel=True), now)]

    # --- being called, being answered

    def arrive(self, message: VerifiedEnvelope, now: Now) -> list[Action]:
        """An RPC of another host. Raises `MalformedEnvelope`."""
        body, re = RpcBody.from_bytes(message.body), message.envelope.re
        if body.call is not None:
            return self._controls.take(message, now)
        if body.cancel:
            self.counts["cancelled"] += 1
            return self._undo(message.envelope.host, re, now) if re is not None else []
        entry = self._open.get(re) if re is not None else None
        if entry is None or re is None or entry.host != message.envelope.host:
            self.counts["late"] += 1
            return []
        del self._open[re]
        self._timers.cancel(("rpc", re))
        if body.error is not None:
            return entry.then(Answer(error=f"{entry.host}: {body.error}"), now)
        return entry.then(Answer(value=body.result), now)

    def _undo(self, host: HostId, msg_id: MsgId, now: Now) -> list[Action]:
        done = self._done.get(msg_id)
        if done is None:
            _keep(self._cancelled, (host, msg_id), None)
            return []
        undo, answer = self.undoing.get(done.name), RpcBody.from_bytes(done.answer)
        if undo is None or done.host != host or answer.error is not None:
            return []
        return undo(answer.result, now)

    def _act(self, message: VerifiedEnvelope, row: InboxRow, now: Now) -> list[Action]:
        call = RpcBody.from_bytes(message.body).call
        assert call is not None
        if (row.from_host, row.msg_id) in self._cancelled:
            return self._controls.finish(row, now, InboxState.DONE, reason="cancelled", tell=False)
        value, error, actions = self._do(row.from_host, call.name, call.args, now)
        answer = RpcBody(error=error) if error else RpcBody(result=value)
        _keep(self._done, row.msg_id, _Done(row.from_host, call.name, answer.to_bytes()))
        done = self._controls.finish(row, now, InboxState.DONE, reason=call.name, tell=False)
        return [*actions, *done, self._tell(row.from_host, row.msg_id, row.trace_id, answer, now)]

    def _do(self, host: HostId, name: str, args: Mapping[str, Any], now: Now) -> tuple[Any, str, list[Action]]:
        """Result, error, actions."""
        procedure = self.procedures.get(name)
        if procedure is None:
            return None, f"no procedure {name[:64]!r} here", []
        try:
            value, actions = procedure(host, args, now)
        except Failure as failure:
            return None, str(failure), []
        return value, "", actions

    def _repeat(self, row: InboxRow, now: Now) -> list[Action]:
        kept = self._done.get(row.msg_id)
        answer = RpcBody(error="it was answered before; its answer is not kept")
        if kept is not None and kept.host == row.from_host:
            answer = RpcBody.from_bytes(kept.answer)
        return [self._tell(row.from_host, row.msg_id, row.trace_id, answer, now)]

    def _cut_off(self, row: InboxRow, now: Now) -> list[Action]:
        """Recorded by a process that died before it was done: a call is done and recorded in one transaction."""
        return self._controls.finish(row, now, InboxState.FAILED, reason="crashed", tell=False)

    def _tell(self, host: HostId, re: MsgId, trace_id: TraceId, body: RpcBody, now: Now) -> Action:
        envelope = control(self._me, Kind.RPC, host, trace_id=trace_id, now=now, re=re)
        return self._link.publish(ForControl(), envelope, body.to_bytes())


def _keep(kept: OrderedDict[K, V], key: K, value: V) -> None:
    """At most `ANSWERS_KEPT` of them, the newest."""
    kept[key] = value
    if len(kept) > ANSWERS_KEPT:
        kept.popitem(last=False)
