"""A gateway with a login of its own: what the fleet shares is found, not made; what is its own, it makes."""

from __future__ import annotations

import pytest

from fleettrio.broker.amqp import open_session
from fleettrio.broker.port import BrokerSession, BrokerSettings, ConsumerLocked, Verdict
from fleettrio.core.permissions import permissions_of
from fleettrio.core.topology import EXCHANGES, InboxQueue, control_queue, inbox_queue, shared_queues
from fleettrio.errors import SessionLost
from fleettrio.ids import Gid, HostId
from fleettrio.testing.broker_node import BrokerNode
from tests.border.inbox import INBOX, INBOX_BINDINGS, message, send


@pytest.fixture
def restricted(broker: BrokerNode, vhost: str) -> BrokerSettings:
    """The settings of host `here`, whose login may configure its own queues alone."""
    name = f"here-{vhost}"
    may = permissions_of("here")
    broker.add_user(name, "secret", vhost, may.configure, may.write, may.read)
    return BrokerSettings(uris=(broker.uri(name, vhost, password="secret"),))


async def test_a_restricted_login_boots_where_an_administrator_was_before(
    session: BrokerSession, restricted: BrokerSettings
) -> None:
    queues, bindings = shared_queues()
    control, control_bindings = control_queue(HostId("here"))
    async with open_session(restricted, 1) as own:
        for _ in range(2):
            await own.declare(EXCHANGES, (*queues, INBOX, control), (*bindings, *INBOX_BINDINGS, *control_bindings))
        sent = message()
        assert (await send(own, sent))[sent.id].verdict is Verdict.CONFIRMED


async def test_what_the_fleet_shares_and_nobody_made_is_named(border: None, restricted: BrokerSettings) -> None:
    async with open_session(restricted, 1) as own:
        with pytest.raises(SessionLost, match=r"exchange fleet\.msg is missing") as lost:
            await own.declare(EXCHANGES, (), ())
        assert lost.value.hint


async def test_the_inbox_of_another_host_is_refused(session: BrokerSession, restricted: BrokerSettings) -> None:
    theirs, _ = inbox_queue(HostId("there"), InboxQueue(Gid("theirs")))
    await session.declare((), (theirs,), ())
    async with open_session(restricted, 1) as own:
        with pytest.raises(ConsumerLocked, match="ACCESS_REFUSED"):
            await own.declare((), (theirs,), ())
        assert await own.message_count(INBOX.name) == 0
