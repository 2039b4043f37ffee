"""A lead that does not fetch its mail for longer than the broker lets a delivery stay unacknowledged.

`make faults` waits 200 s under the limit of 60 s that an administrator would set; `make test` does the same within
seconds. A witness, an administrator's client that holds a message without acknowledging it, tells that the limit holds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import trio

from fleettrio.api.schema import Confirm, Pull, Pulled
from fleettrio.broker.port import BrokerSession
from fleettrio.core.topology import Queue
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.raw_client import RawClient, properties
from fleettrio.testing.waiting import wait_until
from tests.faults.pair import ROUNDS, attach
from tests.surfaces.broker_hand import by_hand

IS_LONG = ROUNDS >= 20
TIMEOUT_MS, LOOK_EVERY_MS, WAITS_S = (60_000, 5_000, 200.0) if IS_LONG else (5_000, 500, 12.0)
WITNESS_S = 2 * TIMEOUT_MS / 1000 + 90
BRIEFS = 6


@pytest.fixture(scope="module")
def fleet(broker: BrokerNode) -> Iterator[Fleet]:
    """Two hosts whose channels were opened under a short limit."""
    broker.set_consumer_timeout(TIMEOUT_MS, LOOK_EVERY_MS)
    try:
        with Fleet(broker, "alpha", "beta") as fleet:
            yield fleet
    finally:
        broker.set_consumer_timeout()


def wait_for_witness(fleet: Fleet) -> None:
    """Returns once the broker has taken a delivery away from somebody who held it for too long."""
    assert fleet.broker is not None
    port = fleet.broker.port

    async def hold(session: BrokerSession) -> None:
        await session.declare((), (Queue("witness", {}),), ())
        with RawClient(port, fleet.vhost) as raw:
            raw.publish("", "witness", properties(), b"held")
        assert await session.get("witness") is not None
        with trio.fail_after(WITNESS_S):
            while not await session.message_count("witness"):  # noqa: ASYNC110 - the broker tells nobody
                await trio.sleep(0.1)
        await session.delete_queue("witness", if_empty=False)

    by_hand(fleet, hold)


def test_replies_that_nobody_fetches_outlast_the_brokers_limit_and_a_kill_in_order_and_once(fleet: Fleet) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    lead, worker = attach(alpha, "lead"), attach(beta, "worker", "--takes", "pull")
    wait_until("alpha hears of the worker", lambda: alpha.agent("worker@beta"))
    sent = [alpha.ok("send", "worker@beta", f"brief {n}", "--json", token=lead).json() for n in range(BRIEFS)]
    wait_until("the worker has them", lambda: (found := beta.agent("worker@beta")) and found.waiting == BRIEFS)
    beta.ok("inbox", "--take", token=worker)
    losses = alpha.log.count("session lost")

    first, *others = (done["messages"][0]["short"] for done in sent)
    began = time.monotonic()
    beta.ok("reply", first, "answer 0", token=worker)
    wait_until("it is there", lambda: (found := alpha.agent("lead@alpha")) and found.waiting == 1)
    wait_for_witness(fleet)
    wait_until("the first answer waits", lambda: time.monotonic() - began > WAITS_S, WAITS_S + 90)
    assert alpha.log.count("session lost") == losses, "nothing was held that the broker could take away"
    for number, brief in enumerate(others, 1):
        if number == BRIEFS // 2:
            alpha.kill()
        beta.ok("reply", brief, f"answer {number}", token=worker)
    alpha.up()

    taken: list[str] = []
    with alpha.client(lead) as client:
        while len(taken) < BRIEFS:
            pulled: Pulled = client.call("pull", Pull(wait_s=50))
            assert pulled.messages, f"only {taken} came"
            assert not any(message.repeat for message in pulled.messages)
            taken += [message.body.decode() for message in pulled.messages]
            client.call("confirm", Confirm(pulled.cursor))
        assert taken == [f"answer {number}" for number in range(BRIEFS)]
        assert client.call("pull", Pull()).messages == []
