"""The ways into an agent as the benchmark takes them: each stand-in reads message after message, and tells when."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from fleettrio.bench.latency import read
from fleettrio.bench.paths import PATHS, agent_on
from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host

READS = {"hook": 12}
"""Of a turn after the other something may go wrong between two: a figure needs sixty of them."""


@pytest.fixture(scope="module")
def room() -> Iterator[TmuxRoom]:
    with TmuxRoom() as room:
        yield room


@pytest.fixture(scope="module")
def host(room: TmuxRoom) -> Iterator[Host]:
    with Fleet(None, "alpha", env=room.env) as fleet:
        yield fleet["alpha"]


@pytest.mark.parametrize("way", PATHS)
def test_an_agent_reads_message_after_message_by(way: str, host: Host, room: TmuxRoom, tmp_path: pathlib.Path) -> None:
    with agent_on(host, PATHS[way], tmp_path, room=room) as agent, host.client() as client:
        seconds = [read(client, agent) for _ in range(READS.get(way, 2))]
    assert all(0 < one < 30 for one in seconds)
