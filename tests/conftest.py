"""What tests of several folders share: one private broker for the whole run, a virtual host for each test."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator

import hypothesis
import pytest
import structlog

from fleettrio.testing.broker_node import BrokerNode

# A busy machine takes its time for an example; and what one run found no fault with, the next one must not.
hypothesis.settings.register_profile(
    "fleettrio", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("fleettrio")

_VHOSTS = itertools.count(1)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs deaf to Ctrl-C, and what they start inherits it; some tests press Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """A test that sets up the log must not leave its stream, closed by then, to the tests after it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerNode]:
    """The broker of this run, with TLS on a second port. A test that stops or freezes it puts it back as it was."""
    with BrokerNode(tmp_path_factory.mktemp("broker"), tls=True) as node:
        yield node


@pytest.fixture
def vhost(broker: BrokerNode) -> Iterator[str]:
    """An empty virtual host, in which `guest` may do everything."""
    name = f"test-{next(_VHOSTS)}"
    broker.add_vhost(name)
    yield name
    broker.delete_vhost(name)
