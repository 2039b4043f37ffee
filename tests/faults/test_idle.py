"""A fleet that has nothing to do costs next to nothing."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path

from fleettrio.api.schema import Attach
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until
from tests.faults.pair import ROUNDS

ENTITIES = 20
WINDOW_S = 60.0 if ROUNDS >= 20 else 10.0
SETTLES_S = 30.0 if ROUNDS >= 20 else 5.0
CORE_AT_MOST, MIB_AT_MOST = 0.02, 120
TRIES = 4
"""A machine that is busy takes longer to settle, and more of a core for the same."""
_TICKS = os.sysconf("SC_CLK_TCK")


def _cpu_s(pid: int) -> float:
    """Seconds of a core that a process has used."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    user, system = stat[stat.rindex(")") + 2 :].split()[11:13]
    return (int(user) + int(system)) / _TICKS


def _rss_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def _wait(seconds: float) -> None:
    """Nothing happens here, and that is what is measured."""
    time.sleep(seconds)


def _people(host: Host) -> None:
    with host.client() as client:
        for number in range(ENTITIES):
            command = ["cat"] if number % 2 else []
            client.call("attach", Attach(name=f"{host.name}-{number}", command=command))


def _knows_all(host: Host) -> bool:
    return len(host.status().fleet.agents) == 2 * (ENTITIES + 1)  # the person is one too


def _used(hosts: list[Host]) -> list[float]:
    """Of a core, by each of them, in a while in which nothing happens."""
    before = [_cpu_s(host.pid) for host in hosts]
    began = time.monotonic()
    _wait(WINDOW_S)
    spent = time.monotonic() - began
    return [(_cpu_s(host.pid) - cpu) / spent for host, cpu in zip(hosts, before, strict=True)]


def test_two_idle_gateways_with_twenty_entities_each_need_little(
    broker: BrokerNode, tell: Callable[[str], None]
) -> None:
    with Fleet(broker, "alpha", "beta", more="") as fleet:  # the beat a user gets
        hosts = list(fleet.hosts.values())
        for host in hosts:
            _people(host)
        for host in hosts:
            wait_until(f"{host.name} knows all", functools.partial(_knows_all, host))
        _wait(SETTLES_S)
        for _ in range(TRIES):
            used = _used(hosts)
            if max(used) < CORE_AT_MOST:
                break
        held = [_rss_mib(host.pid) for host in hosts]
    figures = ", ".join(f"{u:.2%} of a core, {m:.0f} MiB" for u, m in zip(used, held, strict=True))
    tell(f"idle for {WINDOW_S:.0f} s: {figures}")
    assert max(used) < CORE_AT_MOST, figures
    assert max(held) < MIB_AT_MOST, figures
