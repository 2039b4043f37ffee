"""Exchanges, queues and bindings as data (`30-broker`): names, types and arguments, and which keys an owner takes.

Nothing here talks to a broker. A queue's arguments never change once it exists: other arguments need another name,
which is what the version in an inbox's name is for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from fleettrio.ids import Gid, HostId

__all__ = (
    "CONTROL",
    "DLX",
    "EXCHANGES",
    "MSG",
    "OPS",
    "ROSTER",
    "Binding",
    "ControlQueue",
    "Exchange",
    "InboxQueue",
    "Queue",
    "QueueOwner",
    "RosterQueue",
    "control_queue",
    "inbox_queue",
    "roster_queue",
    "shared_queues",
)

MSG, ROSTER, CONTROL, DLX, OPS = "fleet.msg", "fleet.roster", "fleet.control", "fleet.dlx", "fleet.ops"

_DAY_MS = 24 * 60 * 60 * 1000
_MIB = 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    name: str
    type: str
    durable: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Queue:
    """A queue to declare. `shared` ones belong to the fleet: looked for passively, declared only when absent."""

    name: str
    arguments: Mapping[str, str | int]
    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    shared: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Binding:
    queue: str
    exchange: str
    routing_key: str
    shared: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class InboxQueue:
    """The inbox of an entity: takes its gid and the broadcast keys it is bound to."""

    gid: Gid
    groups: tuple[str, ...] = ()
    broadcast: bool = False

    def takes(self, to: str) -> bool:
        if to == self.gid:
            return True
        prefix, _, group = to.partition(".")
        if prefix != "broadcast" or not group:
            return False
        return self.broadcast if group == "all" else group in self.groups


@dataclasses.dataclass(frozen=True, slots=True)
class ControlQueue:
    """The control queue of a host: takes the host id."""

    host: HostId

    def takes(self, to: str) -> bool:
        return to == self.host


@dataclasses.dataclass(frozen=True, slots=True)
class RosterQueue:
    """The roster queue of a host: takes every presence key."""

    host: HostId

    def takes(self, to: str) -> bool:
        return to.startswith("roster.")


QueueOwner = InboxQueue | ControlQueue | RosterQueue

EXCHANGES = (
    Exchange(MSG, "topic"),
    Exchange(ROSTER, "topic"),
    Exchange(CONTROL, "direct"),
    Exchange(DLX, "fanout"),
    Exchange(OPS, "direct"),
)

_OWN_ARGUMENTS: Mapping[str, str | int] = {
    "x-queue-type": "classic",
    "x-dead-letter-exchange": DLX,
    "x-overflow": "reject-publish",
    "x-max-length": 10_000,
    "x-max-length-bytes": 64 * _MIB,
    "x-message-ttl": 15 * _DAY_MS,
}
_DEAD_LETTER_ARGUMENTS: Mapping[str, str | int] = {
    "x-queue-type": "classic",
    "x-max-length": 100_000,
    "x-max-length-bytes": 512 * _MIB,
    "x-message-ttl": 31 * _DAY_MS,
}


def inbox_queue(host: HostId, owner: InboxQueue) -> tuple[Queue, tuple[Binding, ...]]:
    """The inbox of an entity of `host`, with its bindings."""
    name = f"agent.{owner.gid}.inbox.v2.{host}"
    keys = [str(owner.gid)]
    if owner.broadcast:
        keys.append("broadcast.all")
    keys.extend(f"broadcast.{group}" for group in owner.groups)
    return Queue(name, _OWN_ARGUMENTS), tuple(Binding(name, MSG, key) for key in keys)


def control_queue(host: HostId) -> tuple[Queue, tuple[Binding, ...]]:
    name = f"control.{host}"
    return Queue(name, _OWN_ARGUMENTS), (Binding(name, CONTROL, host),)


def roster_queue(host: HostId, nonce: str) -> tuple[Queue, tuple[Binding, ...]]:
    """A new name per connection: declaring the old one again races with its own ghost (405)."""
    name = f"roster.{host}.{nonce}"
    arguments: Mapping[str, str | int] = {"x-max-length": 20_000, "x-overflow": "drop-head"}
    queue = Queue(name, arguments, durable=False, exclusive=True, auto_delete=True)
    return queue, (Binding(name, ROSTER, "roster.#"),)


def shared_queues() -> tuple[tuple[Queue, ...], tuple[Binding, ...]]:
    """The dead-letter queues, which belong to the fleet."""
    queues = (
        Queue("fleet.dlq", _DEAD_LETTER_ARGUMENTS, shared=True),
        Queue("fleet.dlq.reported", _DEAD_LETTER_ARGUMENTS, shared=True),
    )
    bindings = (
        Binding("fleet.dlq", DLX, "", shared=True),
        Binding("fleet.dlq.reported", OPS, "dlq.reported", shared=True),
    )
    return queues, bindings
