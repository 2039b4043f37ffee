"""Which lane a session has: the fast one with exactly the libraries that it was made for, else the stock one."""

from __future__ import annotations

import importlib.metadata
import re
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from aiormq.connection import Connection

from fleettrio.broker import libraries
from fleettrio.broker.amqp import open_border, open_session
from fleettrio.broker.libraries import doubt_of, why_stock
from fleettrio.broker.port import BrokerSettings, Verdict
from fleettrio.core.topology import EXCHANGES, shared_queues
from fleettrio.errors import ConfigError
from fleettrio.testing.broker_node import BrokerNode
from tests.architecture.sources import ROOT
from tests.border.inbox import INBOX, INBOX_BINDINGS, consume, message, send, take


@pytest.fixture
def altered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let a package say that it has another version."""
    real = importlib.metadata.version

    def alter(package: str, version: str) -> None:
        monkeypatch.setattr(importlib.metadata, "version", lambda asked: version if asked == package else real(asked))

    return alter


def connection(frame_max: object = 131_072) -> Connection:
    return cast(Connection, SimpleNamespace(connection_tune=SimpleNamespace(frame_max=frame_max)))


def test_the_fast_lane_is_made_for_the_versions_of_the_lock_file() -> None:
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\$", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert {package: locked[package] for package, _ in libraries.FAST} == dict(libraries.FAST)


@pytest.mark.parametrize("package", ["aiormq", "pamqp"])
async def test_another_version_has_the_stock_lane_and_works(
    altered: Any, broker: BrokerNode, vhost: str, package: str
) -> None:
    version = {"aiormq": "7.99.0", "pamqp": "4.99"}[package]
    altered(package, version)
    async with open_border(), open_session(BrokerSettings(uris=(broker.uri(vhost=vhost),)), 1) as session:
        lane, why = session.lane
        assert lane == "stock"
        assert why.startswith(f"{package} {version} is installed, the fast lane knows ")
        queues, bindings = shared_queues()
        await session.declare(EXCHANGES, (*queues, INBOX), (*bindings, *INBOX_BINDINGS))
        sent = message()
        assert (await send(session, sent))[sent.id].verdict is Verdict.CONFIRMED
        session.ack((await take(await consume(session))).tag)


async def test_another_major_version_has_no_border_at_all(altered: Any) -> None:
    altered("aiormq", "8.0.0")
    with pytest.raises(ConfigError, match=r"aiormq 8\.0\.0 is installed"):
        async with open_border():
            await trio.lowlevel.checkpoint()


def test_another_form_of_heartbeat_has_the_stock_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pamqp.heartbeat.Heartbeat.marshal", lambda _: b"beat")
    assert why_stock()


@pytest.mark.parametrize("frame_max", [None, "131072", 8, -1])
def test_a_connection_that_is_not_as_expected_has_the_stock_lane(frame_max: object) -> None:
    assert doubt_of(connection(frame_max), writes_whole_frames=True)


def test_a_library_that_does_not_write_whole_frames_has_the_stock_lane() -> None:
    assert doubt_of(connection(), writes_whole_frames=False)
    assert doubt_of(connection(), writes_whole_frames=True) == ""
    assert doubt_of(connection(0), writes_whole_frames=True) == ""
