"""The broker is away: the sender is told within five seconds, whatever way it is away, and neighbours notice nothing.

Measured from outside: the whole command, from its start to its exit.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from collections.abc import Callable, Iterator

import pytest

from fleettrio.api.schema import Confirm, Pull, Pulled, Send
from fleettrio.clients.client import Client
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.hosts import Fleet, Host, wait_until
from fleettrio.testing.proxy import Proxy
from tests.faults.pair import ROUNDS, attach

WITHIN_S = 5.0
SAMPLES = 100
SLOWER_AT_MOST = 1.5
UNKNOWN, NO_BROKER = 5, 8
# Alpha beats once a minute, so that the first thing it writes after the fault is the message of the test.
QUIET = "[timers]\nbeat_s = 60.0\n"


class Outage:
    """alpha reaches the broker through a proxy, beta directly. Each fault can strike and be mended."""

    def __init__(self, fleet: Fleet, broker: BrokerNode, proxy: Proxy) -> None:
        self.fleet, self.broker, self.proxy = fleet, broker, proxy
        self.alpha, beta = fleet["alpha"], fleet["beta"]
        attach(beta, "reader")
        self.neighbour = attach(self.alpha, "neighbour")
        wait_until("alpha hears of the reader", lambda: self.alpha.agent("reader@beta"))
        self.alpha.stop()
        self.alpha.configure(fleet.uri(proxy.port), *fleet.logins["alpha"], more=QUIET)
        self.alpha.up()

    def local_sends_s(self) -> list[float]:
        """What sends to a neighbour take, one after the other; the neighbour takes them away."""
        with self.alpha.client() as person, self.alpha.client(self.neighbour) as neighbour:
            spent = [_timed(lambda: person.call("send", Send(to=["neighbour"], body=b"x"))) for _ in range(SAMPLES)]
            _take_all(neighbour)
        return spent


def _typical(spent: list[float]) -> float:
    """The lower quartile: what else runs on this machine only ever adds to a time."""
    return statistics.quantiles(spent, n=4)[0]


def _timed(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def _take_all(client: Client) -> None:
    while True:
        pulled: Pulled = client.call("pull", Pull(limit=200))
        if not pulled.messages:
            return
        client.call("confirm", Confirm(pulled.cursor))


@pytest.fixture(scope="module")
def outage(broker: BrokerNode) -> Iterator[Outage]:
    with Proxy(broker.port) as proxy, Fleet(broker, "alpha", "beta") as fleet:
        yield Outage(fleet, broker, proxy)


@contextlib.contextmanager
def _black_hole(outage: Outage) -> Iterator[None]:
    outage.proxy.black_hole()
    try:
        yield
    finally:
        outage.proxy.forward()


@contextlib.contextmanager
def _frozen(outage: Outage) -> Iterator[None]:
    outage.broker.freeze()
    try:
        yield
    finally:
        outage.broker.thaw()


@contextlib.contextmanager
def _blocked(outage: Outage) -> Iterator[None]:
    outage.broker.raise_memory_alarm()
    try:
        yield
    finally:
        outage.broker.clear_alarm()


FAULTS = {"black-holed": _black_hole, "frozen": _frozen, "blocked": _blocked}


def _send(host: Host, code: int) -> None:
    done = host.cli("send", "reader@beta", "hello")
    assert (done.code, done.seconds < WITHIN_S) == (code, True), done


def _state(host: Host, short: str) -> str:
    return str(host.ok("show", short, "--json").json()["messages"][0]["state"])


@pytest.mark.parametrize("fault", FAULTS)
def test_what_was_written_is_unknown_and_settled_later_and_every_later_send_fails_fast(
    outage: Outage, fault: str
) -> None:
    alpha = outage.alpha
    usual: list[float] = []
    meanwhile: list[float] = []
    for _ in range(ROUNDS):
        wait_until("alpha is connected and at ease", lambda: alpha.status().broker == "connected")
        usual += outage.local_sends_s()
        with FAULTS[fault](outage):
            began = time.monotonic()
            written = alpha.popen("send", "reader@beta", "was it written?", "--json")
            wait_until("it is on its way", lambda: alpha.status().outstanding > 0)
            meanwhile += outage.local_sends_s()
            out, err = written.communicate(timeout=30)
            assert (written.returncode, time.monotonic() - began < WITHIN_S) == (UNKNOWN, True), err
            for _ in range(2):
                _send(alpha, NO_BROKER)
        short = json.loads(out)["messages"][0]["short"]
        wait_until("the late confirm or a question settles it", lambda: _state(alpha, short) == "held")  # noqa: B023
    figures = f"local send {_typical(usual) * 1000:.1f} ms, during the outage {_typical(meanwhile) * 1000:.1f} ms"
    print(figures)
    assert _typical(meanwhile) <= SLOWER_AT_MOST * _typical(usual), figures


@contextlib.contextmanager
def _refused(outage: Outage) -> Iterator[None]:
    outage.proxy.refuse()
    try:
        yield
    finally:
        outage.proxy.forward()


@pytest.mark.parametrize("away", [_refused, _black_hole], ids=["refused", "silent"])
def test_a_broker_that_is_not_there_at_the_start_is_8_and_found_when_it_comes(
    outage: Outage, away: Callable[[Outage], contextlib.AbstractContextManager[None]]
) -> None:
    alpha = outage.alpha
    alpha.stop()
    with away(outage):
        alpha.up(broker=("connecting",))
        for _ in range(ROUNDS):
            _send(alpha, NO_BROKER)
    alpha.wait_broker("connected")
    _send(alpha, 0)
