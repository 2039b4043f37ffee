"""A private tmux server and two hosts for a whole file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet


@pytest.fixture(scope="module")
def room() -> Iterator[TmuxRoom]:
    with TmuxRoom() as room:
        yield room


@pytest.fixture(scope="module")
def fleet(broker: BrokerNode, room: TmuxRoom) -> Iterator[Fleet]:
    """alpha, which owns the fleet, and beta. A test that stops one of them starts it again."""
    with Fleet(broker, "alpha", "beta", env=room.env) as fleet:
        yield fleet
