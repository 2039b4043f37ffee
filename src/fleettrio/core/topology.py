"""Exchanges, queues and bindings as data: names, types and arguments, and which keys an owner takes.

Nothing here talks to a broker. A queue's arguments never change once it exists: other arguments need another name,
which is what the version in an inbox's name is for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from fleettrio.ids import Gid, HostId

__all__ = (
    "CONTROL",
    "COORDINATOR_EXCHANGES",
    "DEAD_LETTERS",
    "DLX",
    "EVERYBODY",
    "EXCHANGES",
    "MSG",
    "OPS",
    "REPORTED_KEY",
    "REPORTED_LETTERS",
    "ROSTER",
    "Binding",
    "ControlQueue",
    "Exchange",
    "InboxQueue",
    "LeadQueue",
    "Queue",
    "QueueOwner",
    "RosterQueue",
    "broadcast_key",
    "control_queue",
    "inbox_of",
    "inbox_queue",
    "lead_key",
    "left_bindings",
    "roster_queue",
    "shared_queues",
)

MSG, ROSTER, CONTROL, DLX, OPS = "fleet.msg", "fleet.roster", "fleet.control", "fleet.dlx", "fleet.ops"

EVERYBODY = "all"
"""The group that every push entity is in. No other group may have the name."""

DEAD_LETTERS, REPORTED_LETTERS, REPORTED_KEY = "fleet.dlq", "fleet.dlq.reported", "dlq.reported"

_DAY_MS = 24 * 60 * 60 * 1000
_MIB = 1024 * 1024


class Exchange(msgspec.Struct, frozen=True):
    name: str
    type: str
    durable: bool = True


class Queue(msgspec.Struct, frozen=True):
    """A queue to declare. `shared` ones belong to the fleet: looked for passively, declared only when absent."""

    name: str
    arguments: Mapping[str, str | int]
    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    shared: bool = False


class Binding(msgspec.Struct, frozen=True):
    queue: str
    exchange: str
    routing_key: str
    shared: bool = False


class InboxQueue(msgspec.Struct, frozen=True):
    """The inbox of an entity: takes its gid and the broadcast keys it is bound to."""

    gid: Gid
    groups: tuple[str, ...] = ()
    broadcast: bool = False
    left: tuple[str, ...] = ()
    """Broadcast keys that it was bound to once: a binding lives as long as its queue, unless it is taken away."""

    @property
    def broadcast_keys(self) -> tuple[str, ...]:
        groups = tuple(broadcast_key(group) for group in self.groups)
        return (broadcast_key(EVERYBODY), *groups) if self.broadcast else groups

    def takes(self, to: str) -> bool:
        return to == self.gid or to in self.broadcast_keys


class LeadQueue(InboxQueue, frozen=True):
    """The mailbox of the lead that lives here as `gid`, in the coordinator's vhost: takes the key of its coordId."""

    coord_id: str = ""

    def takes(self, to: str) -> bool:
        return to == lead_key(self.coord_id)


class ControlQueue(msgspec.Struct, frozen=True):
    """The control queue of a host: takes the host id."""

    host: HostId

    def takes(self, to: str) -> bool:
        return to == self.host


class RosterQueue(msgspec.Struct, frozen=True):
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
COORDINATOR_EXCHANGES = tuple(exchange for exchange in EXCHANGES if exchange.name in (CONTROL, DLX, OPS))
"""What a coordinator's vhost needs of them: coordination, the words about it, and dead letters."""

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


def broadcast_key(group: str) -> str:
    """The routing key of a broadcast to a group; `all` is everybody."""
    return f"broadcast.{group}"


def lead_key(coord_id: str) -> str:
    """The routing key of the lead with this coordId, in the coordinator's vhost."""
    return f"lead.{coord_id}"


def inbox_of(gid: Gid, takes: str, groups: Collection[str], left: Iterable[str] = ()) -> InboxQueue:
    """The inbox of an entity that `takes` mail so and is in `groups`.

    Push entities take what goes to everybody, pull clients by choice: they name the group `all`.
    """
    named = tuple(group for group in groups if group != EVERYBODY)
    return InboxQueue(gid, named, broadcast=takes == "push" or EVERYBODY in groups, left=tuple(left))


def inbox_queue(host: HostId, owner: InboxQueue) -> tuple[Queue, tuple[Binding, ...]]:
    """The inbox of an entity of `host`, or its mailbox in the coordinator's vhost, with its bindings."""
    if isinstance(owner, LeadQueue):
        name = f"lead.{owner.coord_id}.mailbox"
        return Queue(name, _OWN_ARGUMENTS), (Binding(name, OPS, lead_key(owner.coord_id)),)
    name = f"agent.{owner.gid}.inbox.v2.{host}"
    keys = (owner.gid, *owner.broadcast_keys)
    return Queue(name, _OWN_ARGUMENTS), tuple(Binding(name, MSG, key) for key in keys)


def left_bindings(host: HostId, owner: InboxQueue) -> tuple[Binding, ...]:
    """What is to be taken away from the inbox of an entity that left a group."""
    name = inbox_queue(host, owner)[0].name
    return tuple(Binding(name, MSG, key) for key in owner.left)


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
        Queue(DEAD_LETTERS, _DEAD_LETTER_ARGUMENTS, shared=True),
        Queue(REPORTED_LETTERS, _DEAD_LETTER_ARGUMENTS, shared=True),
    )
    bindings = (
        Binding(DEAD_LETTERS, DLX, "", shared=True),
        Binding(REPORTED_LETTERS, OPS, REPORTED_KEY, shared=True),
    )
    return queues, bindings
