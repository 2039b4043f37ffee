"""How soon all is well again once the broker is back: from its open port to fifty open inboxes (G12)."""

from __future__ import annotations

import time
from collections.abc import Iterator

from fleettrio.api.schema import Attach
from fleettrio.bench.context import Context
from fleettrio.bench.crowd import open_inboxes
from fleettrio.bench.results import Row, at_most, no_figure, row
from fleettrio.bench.samples import Samples
from fleettrio.errors import FleetTrioError
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until

__all__ = ("outage",)

INBOXES = 50
_ROUNDS = 3
"""At most: each takes a start of the broker."""
_TITLE = f"the broker's port is open again, until {INBOXES} inboxes are"
_GOAL = at_most(2)
_LIMIT_S = 60.0


def outage(context: Context) -> Iterator[Row]:
    rounds = min(context.rounds, _ROUNDS)
    found: list[float] = []
    try:
        with Fleet(context.broker(), "alpha", fleet_id="bench", more="") as fleet:
            host = fleet["alpha"]
            with host.client() as client:
                for number in range(INBOXES):
                    client.call("attach", Attach(name=f"a{number}", takes="pull"))
            _wait_open(host)
            for number in range(rounds):
                context.progress.step("starting the broker anew", number, rounds)
                found.append(_restart(context, host))
    except FleetTrioError as problem:
        yield no_figure("G12", _TITLE, "s", str(problem), goal=_GOAL)
        return
    yield row("G12", _TITLE, "s", Samples(tuple(found)), goal=_GOAL, fsync="FULL")


def _restart(context: Context, host: Host) -> float:
    broker = context.broker()
    broker.stop()
    wait_until("the host has lost its broker", lambda: host.broker_state() != "connected", _LIMIT_S)
    broker.start()  # returns as soon as its port, which opens last of all, is answered at
    began = time.monotonic()
    _wait_open(host)
    return time.monotonic() - began


def _wait_open(host: Host) -> None:
    """The person has an inbox, too."""
    wait_until(f"{INBOXES} open inboxes", lambda: open_inboxes(host) > INBOXES, _LIMIT_S)
