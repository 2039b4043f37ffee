"""What this host's person decides about hosts: a clock is right, a copy is gone, a host is forgotten."""

from __future__ import annotations

from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.rpc import CallError, Connection, Handler
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.errors import FAILED
from fleettrio.ids import HostId
from fleettrio.perform import Performer

__all__ = ("Hosts",)


class Hosts:
    def __init__(self, performer: Performer) -> None:
        self._performer = performer

    def methods(self) -> dict[str, Handler]:
        return {
            "accept_clock": self.accept_clock,
            "copy_ended": self.copy_ended,
            "leave_safe": self.leave_safe,
            "forget_host": self.forget_host,
        }

    async def accept_clock(self, _params: schema.Empty, caller: Caller, _connection: Connection) -> schema.Done:
        _require_person(caller, "says that a clock is right")
        await self._performer.handle(ev.ClockAccepted())
        return schema.Done("the clock is taken as it is; deliveries go on")

    async def copy_ended(self, _params: schema.Empty, caller: Caller, _connection: Connection) -> schema.Done:
        _require_person(caller, "says that no other machine uses this host's key")
        if not self._performer.gateway.epochs.copy:
            return schema.Done("no other machine was seen with this host's key: nothing to do")
        await self._ask(ask.CopyEnded(call := self._performer.calls.new()), call)
        return schema.Done("this host connects to the broker again")

    async def leave_safe(self, _params: schema.Empty, caller: Caller, _connection: Connection) -> schema.Done:
        _require_person(caller, "says that this host is well again")
        if not self._performer.gateway.safe:
            return schema.Done("this host does not run in safe mode: nothing to do")
        self._performer.store.in_hand.leave_safe()
        self._performer.gateway.keep_safe("")
        return schema.Done("this host connects to the broker again")

    async def forget_host(self, params: schema.ForgetHost, caller: Caller, _connection: Connection) -> schema.Done:
        _require_person(caller, "makes this host forget another one")
        host = HostId(params.host)
        await self._ask(ask.ForgetAsked(call := self._performer.calls.new(), host), call)
        return schema.Done(f"{host} and its agents are forgotten here; it is known again when it is heard")

    async def _ask(self, request: ask.Request, call: int) -> None:
        await self._performer.handle(request)
        await self._performer.calls.result(call)


def _require_person(caller: Caller, what: str) -> None:
    if not caller.is_person:
        raise CallError(FAILED, "not-a-person", f"only a person {what}", "run it at a terminal")
