"""Queues and exchanges that the scenarios share."""

from __future__ import annotations

from fleettrio.core.topology import Binding, Exchange, Queue
from tests.contract.stage import Player

DLX = Exchange("dlx", "fanout")
DEAD = Queue("dead", {"x-queue-type": "classic"})
DEAD_BINDING = Binding("dead", "dlx", "")


def queue(name: str = "inbox", **arguments: str | int) -> Queue:
    """A durable classic queue. Arguments without their `x-`, with `_` for `-`."""
    given = {f"x-{argument.replace('_', '-')}": value for argument, value in arguments.items()}
    return Queue(name, {"x-queue-type": "classic", **given})


def refusing(name: str = "inbox", **arguments: str | int) -> Queue:
    return queue(name, overflow="reject-publish", **arguments)


def mortal(name: str = "inbox", **arguments: str | int) -> Queue:
    """A queue whose dead go to `dead`."""
    return queue(name, dead_letter_exchange="dlx", **arguments)


async def make_graveyard(player: Player) -> None:
    await player.make(DLX, DEAD, DEAD_BINDING)
