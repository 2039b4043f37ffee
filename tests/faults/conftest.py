"""Two hosts and a worker for a whole file of faults: whatever a round killed, it starts again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from tests.faults.pair import Pair


@pytest.fixture(scope="module")
def pair(broker: BrokerNode) -> Iterator[Pair]:
    with TmuxRoom() as room, Fleet(broker, "alpha", "beta", env=room.env) as fleet:
        yield Pair(fleet, room)


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Says a figure on the terminal, also when the test passes."""

    def say(figure: str) -> None:
        with capsys.disabled():
            print(f"\n  {figure}", end="", flush=True)

    return say
