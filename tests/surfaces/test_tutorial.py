"""The tutorial's commands, run as they are printed, in the order of the page, print what the page says."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleettrio.clients.client import Client, ConnectionLost, DaemonMissing
from fleettrio.home import resolve_paths
from fleettrio.testing.agents.room import SOURCE
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.broker_process import BrokerNodeError
from fleettrio.testing.hosts import Host, clean_environment
from tests.surfaces.tutorial import Block, Machine, blocks, fits, stand_in

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
MACHINES = ("desk", "box")


@pytest.fixture
def machines(broker: BrokerNode) -> Iterator[dict[str, Machine]]:
    """Two machines without a daemon, one of which has the broker; the way by ssh is the loopback."""
    folder = Path(tempfile.mkdtemp(prefix="ft-"))
    env = {**clean_environment(), "TMUX_TMPDIR": str(folder), "BROKER": f"127.0.0.1:{broker.port}"}
    found = {name: Machine(name, folder, env) for name in MACHINES}
    asks = " ".join(f"{key}='{value}'" for key, value in broker.environment.items() if key != "PATH")
    found["desk"].program("rabbitmqctl", f'exec env {asks} {broker.program("rabbitmqctl")} --node {broker.name} "$@"')
    stand_in(found["box"], SOURCE, Path(__file__).with_name("reviewer.py"))
    try:
        with found["desk"], found["box"]:
            yield found
    finally:
        for machine in found.values():
            _end(machine)
        with contextlib.suppress(BrokerNodeError):  # the page broke off before they were there
            for user in MACHINES:
                broker.rabbitmqctl("delete_user", user)
            broker.delete_vhost("fleet")
        shutil.rmtree(folder, ignore_errors=True)


def _end(machine: Machine) -> None:
    """What is left of a page that broke off: its daemon, and its agents."""
    paths = resolve_paths(machine.env)
    try:
        with Client.connect(paths.socket, "") as client:
            os.kill(client.welcome.pid, signal.SIGKILL)
    except (DaemonMissing, ConnectionLost, ProcessLookupError):
        pass
    Host(machine.name, paths.config_dir, machine.env).end_panes()


def test_the_tutorial_does_what_it_says(machines: dict[str, Machine]) -> None:
    page = blocks(PAGE.read_text("utf-8"))
    assert {block.machine for block in page} == set(MACHINES)
    for block in page:
        printed = _typed(machines[block.machine], block)
        if block.prints:
            assert fits(block.prints, printed), f"{block.script}\nprinted:\n{printed}\nthe page says:\n{block.prints}"


def _typed(machine: Machine, block: Block) -> str:
    if block.until:
        return machine.run_until(block.script, block.until, block.answer)
    return machine.run(block.script, block.answer)


def test_every_block_of_the_tutorial_is_run_or_only_a_real_machine_can() -> None:
    text = PAGE.read_text("utf-8")
    left = [part.partition("\n")[2] for part in text.split("```sh")[1:] if part]
    run = {block.script for block in blocks(text)}
    others = [script.partition("```")[0] for script in left if script.partition("```")[0] not in run]
    assert [script.split()[0] for script in others] == ["python3", "ssh", "export"]
