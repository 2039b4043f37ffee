"""A session with the real broker, and an inbox in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from fleettrio.broker.amqp import open_border, open_session
from fleettrio.broker.port import BrokerSession, BrokerSettings
from fleettrio.core.topology import EXCHANGES, shared_queues
from fleettrio.testing.broker_node import BrokerNode
from tests.border.inbox import INBOX, INBOX_BINDINGS

EPOCH = 7


@pytest.fixture
def settings(broker: BrokerNode, vhost: str) -> BrokerSettings:
    return BrokerSettings(uris=(broker.uri(vhost=vhost),))


@pytest.fixture
async def border() -> AsyncIterator[None]:
    async with open_border():
        yield


@pytest.fixture
async def session(border: None, settings: BrokerSettings) -> AsyncIterator[BrokerSession]:
    """A session that has declared everything, with an inbox that nobody consumes yet."""
    async with open_session(settings, EPOCH) as opened:
        queues, bindings = shared_queues()
        await opened.declare(EXCHANGES, (*queues, INBOX), (*bindings, *INBOX_BINDINGS))
        yield opened
