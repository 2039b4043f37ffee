"""A host that hears a large fleet: two hundred others with twenty agents each, every beat signed by its own key (G10).

The others are programs of their own (`beats`), on the same broker; the host is a daemon with shipped settings, started
when all of them beat and none is known to it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Iterator

import msgspec

from fleettrio.bench.beats import Task, seed_of
from fleettrio.bench.context import Context
from fleettrio.bench.figures import cpu_s
from fleettrio.bench.programs import program, wait_ready
from fleettrio.bench.results import Row, at_most, once
from fleettrio.clock import SystemClock
from fleettrio.fleet_owner import add_host
from fleettrio.ids import FleetId, HostId
from fleettrio.private_files import write_private
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host, clean_environment
from fleettrio.testing.waiting import wait_until
from fleettrio.wire.fleet import DEFAULT_GRANTS, HostKey
from fleettrio.wire.signing import Signer

__all__ = ("neighbours",)

HOSTS, ENTITIES = 200, 20
_PROGRAMS = 4
_FLEET = "bench"
_WATCHED_S = 20.0
_LOOK_S = 0.2
_LIMIT_S = 60.0
_ROWS = (
    ("G10", f"CPU of hearing {HOSTS} hosts × {ENTITIES} agents, share of a core", "%", at_most(10)),
    ("G10.settle", f"connected, until {HOSTS * ENTITIES:,} agents are known", "s", at_most(3)),
)


def neighbours(context: Context) -> Iterator[Row]:
    yield from once(_ROWS, lambda: _one_round(context))


def _one_round(context: Context) -> tuple[float, float]:
    """The share of a core, in per cent, and the seconds of settling."""
    names = [f"h{number}" for number in range(HOSTS)]
    with contextlib.ExitStack() as stack:
        fleet = stack.enter_context(Fleet(context.broker(), "alpha", fleet_id=_FLEET, more=""))
        host = fleet["alpha"]
        host.stop()
        context.progress.step(f"signing {HOSTS} hosts into the fleet")
        for name in names:
            key = Signer(FleetId(_FLEET), HostId(name), 1, seed_of(name)).public_key
            add_host(host.paths, HostKey(HostId(name), 1, key), DEFAULT_GRANTS, SystemClock({}).wall())
        password = context.folder / "guest.password"
        write_private(password, b"guest\n", replace=True)
        for number in range(_PROGRAMS):
            context.progress.step("starting the others", number, _PROGRAMS)
            task = Task(
                uri=fleet.uri(),
                user="guest",
                password_file=str(password),
                fleet_id=_FLEET,
                hosts=names[number::_PROGRAMS],
                entities=ENTITIES,
            )
            command = [sys.executable, "-P", "-m", "fleettrio.bench.beats"]
            wait_ready(stack.enter_context(program(command, msgspec.json.encode(task), clean_environment())))
        context.progress.step("the host comes")
        settled = _settle(host)
        context.progress.step(f"hearing them for {_WATCHED_S:.0f} s")
        spent, before = cpu_s(host.pid), time.monotonic()
        time.sleep(_WATCHED_S)
        share = (cpu_s(host.pid) - spent) / (time.monotonic() - before)
        host.stop()
    return 100 * share, settled


def _settle(host: Host) -> float:
    host.up(broker=("connected",))
    began = time.monotonic()
    wait_until("all agents are known", functools.partial(_are_known, host), _LIMIT_S)
    return time.monotonic() - began


def _are_known(host: Host) -> bool:
    """Asked now and then: the answer names each of them, which costs the host more than hearing them."""
    if len(host.status().fleet.agents) > HOSTS * ENTITIES:
        return True
    time.sleep(_LOOK_S)
    return False
