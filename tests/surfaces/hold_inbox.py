"""Another gateway that has an inbox: consumes it until its standard input ends. Arguments: URI, host, gid."""

from __future__ import annotations

import sys

import trio

from fleettrio.broker.amqp import open_border, open_session
from fleettrio.broker.port import BrokerSettings, RawDelivery
from fleettrio.core.topology import InboxQueue, inbox_queue
from fleettrio.ids import Gid, HostId


async def hold(uri: str, host: str, gid: str) -> None:
    queue, bindings = inbox_queue(HostId(host), InboxQueue(Gid(gid)))
    deliveries, _kept = trio.open_memory_channel[list[RawDelivery]](64)
    async with open_border(), open_session(BrokerSettings(uris=(uri,)), 1) as session:
        await session.declare((), (queue,), bindings)
        await session.consume(queue.name, prefetch=1, deliveries=deliveries)
        print("held", flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)


if __name__ == "__main__":
    _, given_uri, given_host, given_gid = sys.argv
    trio.run(hold, given_uri, given_host, given_gid)
