"""What the fleet needs on its broker: exchanges, queues, bindings and limits as facts, and for reading."""

from __future__ import annotations

import json
import shlex

import msgspec

from fleettrio.clients.cli.table import print_table, say
from fleettrio.core.topology import (
    COORDINATOR_EXCHANGES,
    EXCHANGES,
    Binding,
    InboxQueue,
    LeadQueue,
    Queue,
    control_queue,
    inbox_queue,
    roster_queue,
    shared_queues,
)
from fleettrio.ids import Gid, HostId

__all__ = ("ExchangeView", "PlanView", "PolicyView", "QueueView", "plan_of", "policy_lines", "print_plan")

_LOWERED = ("x-max-length", "x-max-length-bytes", "x-message-ttl")
_POLICIES = (("fleettrio-queues", r"^(agent|control)\."), ("fleettrio-dead-letters", r"^fleet\.dlq"))


class ExchangeView(msgspec.Struct):
    name: str
    type: str
    durable: bool


class QueueView(msgspec.Struct):
    """A queue with its bindings; `<gid>`, `<group>` and `<nonce>` stand for what differs."""

    name: str
    shared: bool
    """One for the fleet, made once; else a host makes its own."""
    durable: bool
    exclusive: bool
    arguments: dict[str, str | int]
    bindings: list[list[str]]
    """Exchange and routing key."""


class PlanView(msgspec.Struct):
    host: str
    exchanges: list[ExchangeView]
    queues: list[QueueView]


class PolicyView(msgspec.Struct):
    lines: list[str]


def plan_of(host: HostId, coord_id: str = "") -> PlanView:
    """For the fleet's virtual host; with `coord_id`, for the coordinator's."""
    shared, shared_bindings = shared_queues()
    if coord_id:
        mailbox = LeadQueue(Gid(""), coord_id=coord_id)
        exchanges, own = COORDINATOR_EXCHANGES, [inbox_queue(host, mailbox), control_queue(host)]
    else:
        every_inbox = InboxQueue(Gid("<gid>"), groups=("<group>",), broadcast=True)
        exchanges = EXCHANGES
        own = [inbox_queue(host, every_inbox), control_queue(host), roster_queue(host, "<nonce>")]
    queues = [*(queue for queue, _ in own), *shared]
    bindings = [*(binding for _, bound in own for binding in bound), *shared_bindings]
    return PlanView(
        host,
        [ExchangeView(exchange.name, exchange.type, exchange.durable) for exchange in exchanges],
        [_queue_view(queue, bindings) for queue in queues],
    )


def _queue_view(queue: Queue, bindings: list[Binding]) -> QueueView:
    bound = [[binding.exchange, binding.routing_key] for binding in bindings if binding.queue == queue.name]
    return QueueView(queue.name, queue.shared, queue.durable, queue.exclusive, dict(queue.arguments), bound)


def print_plan(view: PlanView) -> None:
    print_table(
        ("EXCHANGE", "TYPE", "DURABLE"), ((e.name, e.type, "yes" if e.durable else "no") for e in view.exchanges)
    )
    for queue in view.queues:
        marks = ["the fleet's" if queue.shared else f"made by {view.host}", "durable" if queue.durable else "transient"]
        marks += ["exclusive"] * queue.exclusive
        say(f"\n{queue.name}  ({', '.join(marks)})", indent="  ")
        for exchange, key in queue.bindings:
            say(f"  bound to {exchange}: {key or '(every key)'}", indent="    ")
        for name, value in queue.arguments.items():
            say(f"  {name} = {value}", indent="    ")


def policy_lines(vhost: str) -> list[str]:
    """One line for each kind of queue, with the limits that hold now: of a policy and an argument the smaller wins."""
    shared, _ = shared_queues()
    control, _ = control_queue(HostId("host"))
    lines = []
    for (name, pattern), queue in zip(_POLICIES, (control, shared[0]), strict=True):
        limits = {key.removeprefix("x-"): queue.arguments[key] for key in _LOWERED}
        words = ["set_policy", "-p", vhost, "--apply-to", "queues", name, pattern, json.dumps(limits)]
        lines.append(shlex.join(["rabbitmqctl", *words]))
    return lines
