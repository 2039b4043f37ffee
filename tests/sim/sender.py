"""Whoever sends: people and agents of every host ask for messages to others, and change their minds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from fleettrio.core import requests as ask
from fleettrio.core.calls import Accepted
from fleettrio.core.rows import SentRow
from fleettrio.ids import MsgId, TraceId
from fleettrio.wire.gids import new_msg_id
from tests.core.builders import TRACE
from tests.sim.history import Message, Party

if TYPE_CHECKING:
    from tests.sim.host import Host
    from tests.sim.process import Process
    from tests.sim.world import World

__all__ = ("Sender",)

LIFETIMES_S = (6, 15, 120, 300, 1_800)
REPLY_LIFETIME_S = 14 * 86_400
WHENS = ("idle", "idle", "turn")


class Sender:
    def __init__(self, world: World, hosts: list[Host]) -> None:
        self._world = world
        self._hosts: dict[str, Host] = {host.name: host for host in hosts}
        self._parties = [party for host in hosts for party in host.parties]
        self._numbers = 0

    async def act(self) -> None:
        """Somebody, somewhere, wants something."""
        rng = self._world.rng
        sender = rng.choice(self._parties)
        process = self._hosts[sender.host].process
        if process is None:
            return
        if rng.random() < 0.12:
            await process.enter(lambda: self._broadcast(process, sender))
        else:
            await process.enter(lambda: self._send(process, sender))

    async def _send(self, process: Process, sender: Party) -> None:
        """To somebody else, mostly elsewhere; now and then in place of what was sent before."""
        rng = self._world.rng
        is_far = rng.random() < 0.85
        to = rng.choice([p for p in self._parties if (p.host != sender.host) is is_far and p is not sender])
        lifetime_s = rng.choice(LIFETIMES_S)
        message = self._asked(sender, to, "SEND", rng.choice(WHENS), lifetime_s)
        older = self._older(message) if rng.random() < 0.08 else None
        call = self._new_call(process, [message])
        await process.performer.handle(
            ask.SendAsked(
                call=call,
                sender=sender.gid,
                to=(to.gid,),
                body=message.body,
                msg_ids=(message.msg_id,),
                trace_id=TraceId(TRACE),
                when=message.when,
                expires_in_ms=lifetime_s * 1000,
                supersedes=older.msg_id if older else None,
            )
        )

    def _older(self, message: Message) -> Message | None:
        same = [m for m in self._world.history.messages.values() if (m.sender, m.to) == (message.sender, message.to)]
        found = next((m for m in reversed(same) if m is not message and m.kind == "SEND"), None)
        if found is not None:
            found.was_replaced = True
        return found

    async def _broadcast(self, process: Process, sender: Party) -> None:
        """To every agent that takes broadcasts, several of them on one host."""
        members = [party for party in self._parties if party.is_push and party is not sender]
        lifetime_s = self._world.rng.choice(LIFETIMES_S)
        self._world.faults.struck["two-members-on-one-host"] += 1
        messages = [self._asked(sender, members[0], "BROADCAST", "idle", lifetime_s)]
        messages += [self._asked(sender, to, "BROADCAST", "idle", lifetime_s, messages[0]) for to in members[1:]]
        await process.performer.handle(
            ask.BroadcastAsked(
                call=self._new_call(process, messages),
                sender=sender.gid,
                group="all",
                body=messages[0].body,
                msg_id=messages[0].msg_id,
                trace_id=TraceId(TRACE),
                expires_in_ms=lifetime_s * 1000,
            )
        )

    async def coordinate(self) -> None:
        """A lead tells another one."""
        rng = self._world.rng_of_leads
        host, other = rng.sample(list(self._hosts.values()), 2)
        process = host.process
        if process is not None:
            await process.enter(lambda: self._tell(process, host, other))

    async def _tell(self, process: Process, host: Host, other: Host) -> None:
        assert other.coordinator is not None
        lifetime_s = self._world.rng_of_leads.choice(LIFETIMES_S)
        message = self._asked(host.lead, other.lead, "COORD", "idle", lifetime_s)
        message.mailbox = other.coordinator.me.gid
        await process.performer.handle(
            ask.CoordAsked(
                call=self._new_call(process, [message]),
                sender=host.lead.gid,
                coord_id=other.coordinator.coord_id,
                body=message.body,
                msg_id=message.msg_id,
                trace_id=TraceId(TRACE),
                expires_in_ms=lifetime_s * 1000,
            )
        )

    async def reply(self, agent: Party, number: int) -> None:
        """An agent answers what was put into it, when its turn is over."""
        process = self._hosts[agent.host].process
        original = self._world.history.messages.get((number, agent.gid))
        if process is None or original is None or original.kind == "COORD":
            return

        async def step() -> None:
            (row,) = await process.store.known([(original.msg_id, agent.gid)])
            if row is None:
                return
            message = self._asked(agent, original.sender, "REPLY", "idle", REPLY_LIFETIME_S)
            call, msg_id = self._new_call(process, [message]), message.msg_id
            await process.performer.handle(
                ask.ReplyAsked(call=call, sender=agent.gid, original=row, body=message.body, msg_id=msg_id)
            )

        await process.enter(step)

    # --- second thoughts

    def _think_again(self, message: Message) -> None:
        """It failed, or nobody knows: the same once more. Or it is not wanted any more."""
        rng = self._world.rng
        if message.verdict not in ("confirmed", "held", "injected", "drained") and rng.random() < 0.3:
            self._later(message, self._retry)
        elif message.kind != "COORD" and rng.random() < 0.12:
            self._later(message, self._cancel)

    def _later(self, message: Message, then: Callable[[Process, Message, SentRow], Awaitable[None]]) -> None:
        async def step() -> None:
            process = self._hosts[message.sender.host].process
            if process is not None:
                await process.enter(lambda: self._with_row(process, message, then))

        self._world.after(self._world.rng.uniform(0.1, 12.0), step)

    async def _with_row(
        self, process: Process, message: Message, then: Callable[[Process, Message, SentRow], Awaitable[None]]
    ) -> None:
        row = await process.store.sent(message.msg_id, message.row_gid)
        if row is not None:
            await then(process, message, row)

    async def _retry(self, process: Process, message: Message, row: SentRow) -> None:
        message.was_retried = True
        await process.performer.handle(ask.RetryAsked(process.calls.new(), row, message.body))

    async def _cancel(self, process: Process, message: Message, row: SentRow) -> None:
        message.was_cancelled = True
        await process.performer.handle(ask.CancelAsked(process.calls.new(), row))

    # --- inside

    def _asked(
        self, sender: Party, to: Party, kind: str, when: str, lifetime_s: float, like: Message | None = None
    ) -> Message:
        """Noted as asked, under a number of its own or under that of the broadcast which it belongs to."""
        if like is None:
            self._numbers += 1
        message = Message(
            number=self._numbers,
            msg_id=like.msg_id if like else self._new_id(self._hosts[sender.host]),
            sender=sender,
            to=to,
            kind=kind,
            when=when,
            asked_at=self._world.now,
            expires_at=self._world.now + lifetime_s,
        )
        self._world.history.asked(message)
        return message

    def _new_call(self, process: Process, messages: list[Message]) -> int:
        async def then(result: object) -> None:
            states = {row.gid: str(row.state) for row in result.rows} if isinstance(result, Accepted) else {}
            for message in messages:
                message.verdict = states.get(message.row_gid, "refused")
                if message.kind in ("SEND", "COORD"):
                    self._think_again(message)
                if message.kind == "COORD" and message.verdict != "refused":
                    self._world.faults.struck["lead-to-lead"] += 1

        call = process.calls.new()
        process.calls.then[call] = then
        return call

    def _new_id(self, host: Host) -> MsgId:
        return new_msg_id(host.clock.now().wall, self._numbers.to_bytes(10, "big"))
