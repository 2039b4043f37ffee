"""The lanes: where each scenario of the contract is played."""

from __future__ import annotations

import pytest

from tests.contract.lanes import Lane, ModelLane, RabbitLane
from tests.lanes import LANES


@pytest.fixture(params=(*LANES, "model"))
def lane(request: pytest.FixtureRequest) -> Lane:
    if request.param == "model":
        return ModelLane()
    return RabbitLane(request.getfixturevalue("broker"), request.getfixturevalue("vhost"), request.param)
