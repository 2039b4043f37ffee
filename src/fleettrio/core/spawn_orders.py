"""What clients here ask: start an agent on a host, and give it its brief; end one.

A brief is an ordinary message. Its row is recorded in front of the request, so its id stands for something from then
on. It goes out when the word `ready` comes, by this gateway, whether its client still waits or not; any other end of
the request is its end, too. Its body is kept in memory only: after a restart of this daemon it has failed.
"""

from __future__ import annotations

import msgspec

from fleettrio.core.actions import Action, Fail, RecordSent
from fleettrio.core.admission import no_profile
from fleettrio.core.compose import Identity, gateway_of, human_of
from fleettrio.core.entity import Entity
from fleettrio.core.orders import Order, Orders
from fleettrio.core.outbox import Outbox
from fleettrio.core.requests import SpawnAsked, StopAsked
from fleettrio.core.roster import Roster, Target
from fleettrio.core.rows import Key, SentRow, SentState
from fleettrio.core.rules import Rules
from fleettrio.core.sends import Sends
from fleettrio.errors import FAILED
from fleettrio.ids import Gid, Now, SpawnId
from fleettrio.wire.bodies import SpawnBody, StopBody
from fleettrio.wire.envelope import Kind
from fleettrio.wire.gids import derive_gid

__all__ = ("SpawnOrders",)

WORKER = "worker"


class _Brief(msgspec.Struct, frozen=True):
    target: Target
    body: bytes
    row: SentRow


class SpawnOrders:
    def __init__(self, me: Identity, roster: Roster, orders: Orders, outbox: Outbox, sends: Sends) -> None:
        self._me = me
        self._roster = roster
        self._orders = orders
        self._outbox = outbox
        self._sends = sends
        self._briefs: dict[Key, _Brief] = {}
        self.rules: Rules = {SpawnAsked: self._spawn, StopAsked: self._stop}

    def start(self, now: Now) -> list[Action]:
        """What the last process promised: its bodies ended with it."""
        promised = [row for row in self._outbox.open_rows() if row.is_promised]
        return [action for row in promised for action in self._outbox.fail(row.key, "spawn-interrupted", "", now)]

    def _spawn(self, event: SpawnAsked, now: Now) -> list[Action]:
        sender = self._sender(event.call, event.sender, Kind.SPAWN)
        if isinstance(sender, Fail):
            return [sender]
        unfit = None if event.brief is None else self._sends.recipients.unfit(event.call, event.brief)
        if failed := self._no_such_profile(event) or unfit:
            return [failed]
        spawn_id = derive_gid(self._me.fleet_id, event.host, event.salt)
        step = self._sends.step(sender)
        trace_id = step.trace_id or event.trace_id
        body = SpawnBody(
            profile=event.profile,
            name=event.name,
            groups=event.groups,
            cwd=event.cwd,
            worktree=event.worktree,
            salt=event.salt,
        )
        order = Order(
            kind=Kind.SPAWN,
            host=event.host,
            sender=sender,
            body=body.to_bytes(),
            msg_id=event.msg_id,
            trace_id=trace_id,
            fields=(("spawn_id", SpawnId(spawn_id)), ("depth", step.depth)),
        )
        key = (event.msg_id, gateway_of(self._me.fleet_id, event.host))
        if event.brief is None:
            return self._orders.give(event.call, order, now)
        target = Target(spawn_id, event.host, event.name, "push")
        row = self._sends.promise(target, sender, event.brief, event.brief_id, trace_id, now)
        self._briefs[key] = _Brief(target, event.brief, row)
        given = self._orders.give(event.call, order, now)
        if any(isinstance(action, Fail) and action.call == event.call for action in given):
            del self._briefs[key]
            self._outbox.forget(row.key)
            return given
        return [RecordSent(row), *given]

    def _stop(self, event: StopAsked, now: Now) -> list[Action]:
        sender = self._sender(event.call, event.sender, Kind.STOP)
        if isinstance(sender, Fail):
            return [sender]
        if no_agent := self._no_agent(event):
            return [no_agent]
        order = Order(
            kind=Kind.STOP,
            host=event.host,
            sender=sender,
            body=StopBody(gid=event.gid, reason=event.reason).to_bytes(),
            msg_id=event.msg_id,
            trace_id=self._sends.step(sender).trace_id or event.trace_id,
            fields=(("spawn_id", SpawnId(event.gid)),),
        )
        return self._orders.give(event.call, order, now)

    def _sender(self, call: int, gid: Gid, kind: Kind) -> Entity | Fail:
        sender = self._roster.entities.get(gid)
        if sender is None:
            text = "you are not attached any more"
            return Fail(call, FAILED, "no-identity", text, "fleettrio attach")
        if sender.role == WORKER:
            text = f"{sender.name} is a worker: workers do not {'start' if kind == Kind.SPAWN else 'stop'} agents"
            return Fail(call, FAILED, "not-allowed", text, "ask the lead, or a person")
        return sender

    def _no_such_profile(self, event: SpawnAsked) -> Fail | None:
        """What that host said of itself is enough to spare it the question."""
        peer = self._roster.peers.get(event.host)
        if event.host == self._me.host or peer is None or not peer.heard_at or event.profile in peer.profiles:
            return None
        text = no_profile(event.host, event.profile, peer.profiles)
        return Fail(event.call, FAILED, "no-such-profile", text, "`fleettrio list` shows them")

    def _no_agent(self, event: StopAsked) -> Fail | None:
        """Every host has these two, and refuses to end them."""
        fleet_id, host = self._me.fleet_id, event.host
        who = {human_of(fleet_id, host): f"the person at {host}", gateway_of(fleet_id, host): f"the daemon of {host}"}
        if event.gid not in who:
            return None
        text = f"that is {who[event.gid]}, and only agents are stopped"
        return Fail(event.call, FAILED, "not-an-agent", text, "`fleettrio list` shows them")

    def word(self, row: SentRow, now: Now) -> list[Action]:
        """What became of a SPAWN of ours: its brief goes out, or fails with it."""
        if row.state not in (SentState.READY, SentState.FAILED, SentState.EXPIRED):
            return []
        brief = self._briefs.pop(row.key, None)
        if brief is None:
            return []
        if row.state is SentState.READY:
            return self._sends.keep_promise(brief.target, brief.row, brief.body, now)
        key = brief.row.key
        return self._outbox.fail(key, "spawn-failed", row.reason or str(row.state), now)
