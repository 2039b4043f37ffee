"""A host with a thousand agents: how long until all are there, and what they cost while nothing happens (G9)."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterator

from fleettrio.api.schema import Attach
from fleettrio.bench.context import Context
from fleettrio.bench.figures import cpu_s
from fleettrio.bench.programs import CountsDiffer
from fleettrio.bench.results import Goal, Row, at_most, once
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until

__all__ = ("crowd", "open_inboxes", "rss_mib")

ENTITIES = 1_000
_IDLE_S = 20.0
_LIMIT_S = 120.0
_LOOK_S = 0.5
_ROWS: tuple[tuple[str, str, str, Goal], ...] = (
    ("G9", f"attach {ENTITIES} agents, until each has its inbox", "s", at_most(15)),
    ("G9.memory", f"memory of a daemon with {ENTITIES} agents", "MiB", at_most(150)),
    ("G9.idle", f"CPU of a daemon with {ENTITIES} agents at rest, share of a core", "%", at_most(2)),
)


def crowd(context: Context) -> Iterator[Row]:
    yield from once(_ROWS, lambda: _a_fleet(context))


def _a_fleet(context: Context) -> tuple[float, float, float]:
    with Fleet(context.broker(), "alpha", fleet_id="bench", more="") as fleet:
        return _one_round(context, fleet["alpha"])


def _one_round(context: Context, host: Host) -> tuple[float, float, float]:
    began = time.monotonic()
    with host.client() as client:
        for number in range(ENTITIES):
            if number % 100 == 0:
                context.progress.step("attaching agents", number, ENTITIES)
            client.call("attach", Attach(name=f"a{number}", takes="pull"))
    context.progress.step("waiting for their inboxes")
    wait_until(f"{ENTITIES} open inboxes", lambda: _are_open(host), _LIMIT_S)
    attached = time.monotonic() - began
    context.progress.step(f"at rest for {_IDLE_S:.0f} s")
    time.sleep(_IDLE_S / 4)  # what the last ones set off: presence, the store's own work
    spent, before = cpu_s(host.pid), time.monotonic()
    time.sleep(_IDLE_S)
    idle = (cpu_s(host.pid) - spent) / (time.monotonic() - before)
    if (there := len(host.status().fleet.agents)) <= ENTITIES:
        raise CountsDiffer(f"{there} agents are there")
    return attached, rss_mib(host.pid), 100 * idle


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise CountsDiffer(f"nothing is known of the memory of process {pid}")


def _are_open(host: Host) -> bool:
    """Asked now and then: the answer names each of them, which would take the time in which they are opened."""
    if open_inboxes(host) > ENTITIES:
        return True
    time.sleep(_LOOK_S)
    return False


def open_inboxes(host: Host) -> int:
    return sum(agent.inbox == "open" for agent in host.status().fleet.agents)
