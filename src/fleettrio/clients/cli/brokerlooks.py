"""What is on the broker: made by an administrator's login, and compared with the plan by anybody's.

Everything goes through the broker's AMQP port. What a login may not see is said to be so, and is not taken for wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from fleettrio.clients.cli.connect import try_connect
from fleettrio.clients.cli.table import say
from fleettrio.core.topology import (
    EXCHANGES,
    Exchange,
    InboxQueue,
    Queue,
    control_queue,
    inbox_queue,
    shared_queues,
)
from fleettrio.errors import BrokerUnavailable, SessionLost, first_of
from fleettrio.ids import Gid, HostId

if TYPE_CHECKING:
    from fleettrio.broker.port import BrokerSettings

__all__ = ("CheckView", "LookView", "compare", "make_shared", "own_inboxes", "print_looks")


class LookView(msgspec.Struct):
    what: str
    name: str
    state: str
    """`ok`, `missing`, `differs`, `cannot tell`."""
    detail: str
    fix: str


class CheckView(msgspec.Struct):
    host: str
    looks: list[LookView]
    note: str


def own_inboxes(host: HostId) -> list[Queue] | None:
    """The inboxes of this host's agents, as its daemon knows them; None when none runs."""
    from fleettrio.api.schema import Empty, Fleet

    client = try_connect()
    if client is None:
        return None
    with client:
        fleet: Fleet = client.call("list", Empty())
    return [inbox_queue(host, InboxQueue(Gid(agent.gid)))[0] for agent in fleet.agents if agent.host == host]


def make_shared(settings: BrokerSettings, exchanges: Sequence[Exchange]) -> None:
    """Make what the fleet shares. Raises `BrokerUnavailable`."""
    from fleettrio.broker.amqp import open_border, open_setup

    async def declare() -> None:
        queues, bindings = shared_queues()
        async with open_border(), open_setup(settings) as setup:
            await setup.declare(exchanges, queues, bindings)

    _run(declare)


def compare(settings: BrokerSettings, host: HostId, inboxes: list[Queue]) -> list[LookView]:
    """What is there against the plan: what is shared, and what is `host`'s. Raises `BrokerUnavailable`."""
    from fleettrio.broker.amqp import open_border, open_setup

    shared, _ = shared_queues()
    control, _ = control_queue(host)
    things: list[Exchange | Queue] = [*EXCHANGES, *shared, control, *inboxes]
    found: list[LookView] = []

    async def look() -> None:
        async with open_border(), open_setup(settings) as setup:
            for thing in things:
                seen = await setup.look(thing)
                what = "exchange" if isinstance(thing, Exchange) else "queue"
                found.append(LookView(what, thing.name, str(seen.fit), seen.detail, _fix(thing, str(seen.fit))))

    _run(look)
    return found


def _fix(thing: Exchange | Queue, state: str) -> str:
    is_shared = isinstance(thing, Exchange) or thing.shared
    match state:
        case "missing" if is_shared:
            return "an administrator makes it: fleettrio broker plan --apply --user NAME"
        case "missing":
            return "its daemon makes it when it connects: fleettrio up"
        case "differs" if isinstance(thing, Exchange):
            return "it cannot be changed: use another virtual host, or delete it while every daemon is stopped"
        case "differs":
            return f"drain it, stop what uses it, then: rabbitmqctl delete_queue {thing.name}; it is made anew"
        case "cannot tell":
            return "fleettrio broker check --user NAME, with an administrator's login"
        case _:
            return ""


def print_looks(looks: list[LookView], note: str) -> None:
    """What is not as planned, with what mends it; then how many. `note` comes last."""
    for look in looks:
        say(f"{look.state:<11}  {look.what} {look.name}" + (f": {look.detail}" if look.detail else ""), indent=" " * 13)
        if look.fix and look.state != "cannot tell":
            say(f"{'':<11}  → {look.fix}", indent=" " * 15)
    hidden = sum(look.state == "cannot tell" for look in looks)
    wrong = sum(look.state in ("missing", "differs") for look in looks)
    say(f"{wrong} of {len(looks)} are not as planned" if wrong else "nothing found that is not as planned")
    if hidden:
        say(f"{hidden} could not be compared with this login: fleettrio broker check --user NAME", indent="  ")
    if note:
        say(note, indent="  ")


def _run(function: Callable[[], Awaitable[None]]) -> None:
    """Run it to its end. Raises `BrokerUnavailable` when the broker cannot be reached or asked."""
    import trio

    lost: BaseException | None = None
    try:
        trio.run(function)
    except* SessionLost as group:
        lost = first_of(group)
    if lost is not None:  # raised up there, early releases of Python 3.11 would put it into a group again
        raise BrokerUnavailable(str(lost), hint=getattr(lost, "hint", "")) from lost
