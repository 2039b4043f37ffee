"""A session with the real broker, and an inbox in it."""

from __future__ import annotations

import gc
import logging
from collections.abc import AsyncIterator, Iterator

import pytest

from fleettrio.broker.amqp import open_border, open_session
from fleettrio.broker.port import BrokerSession, BrokerSettings
from fleettrio.core.topology import EXCHANGES, shared_queues
from fleettrio.testing.broker_node import BrokerNode
from tests.border.inbox import INBOX, INBOX_BINDINGS
from tests.lanes import LANES, lane_of

EPOCH = 7
PATIENCE_S = 30.0
"""With a broker that shares the machine with others which start; the bounds have tests of their own."""


def is_leftover(record: logging.LogRecord) -> bool:
    return record.name == "asyncio" and record.levelno >= logging.ERROR


@pytest.fixture(autouse=True)
def nothing_left_behind(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """asyncio only logs what is left of a loop: tasks destroyed while pending, errors nobody looked at."""
    yield
    gc.collect()
    assert [record.getMessage() for record in caplog.get_records("call") if is_leftover(record)] == []


@pytest.fixture(params=LANES)
def settings(request: pytest.FixtureRequest, broker: BrokerNode, vhost: str) -> BrokerSettings:
    """On each lane, every test of the border."""
    return BrokerSettings(
        uris=(broker.uri(vhost=vhost),),
        fast_lane=request.param == "fast",
        call_limit_s=PATIENCE_S,
        connect_limit_s=PATIENCE_S,
    )


@pytest.fixture
async def border() -> AsyncIterator[None]:
    async with open_border():
        yield


@pytest.fixture
async def session(border: None, settings: BrokerSettings) -> AsyncIterator[BrokerSession]:
    """A session that has declared everything, with an inbox that nobody consumes yet."""
    async with open_session(settings, EPOCH) as opened:
        assert opened.lane == lane_of(settings)
        queues, bindings = shared_queues()
        await opened.declare(EXCHANGES, (*queues, INBOX), (*bindings, *INBOX_BINDINGS))
        yield opened
