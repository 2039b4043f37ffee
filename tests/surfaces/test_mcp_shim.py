"""`fleettrio mcp` itself: it starts in a moment, outlives the daemon, and answers whatever happens."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleettrio.clients.mcp_shim import HOLD_S, LINE_LIMIT
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import COMMAND, END_S, Host, clean_environment
from tests.surfaces.mcp_clients import Bare, bare_client, facts, sdk_client


@pytest.fixture(scope="module")
def alone() -> Iterator[Fleet]:
    with Fleet(None, "solo") as fleet:
        yield fleet


@pytest.fixture(scope="module")
def token(alone: Fleet) -> str:
    return str(alone["solo"].ok("attach", "--name", "bot", "--json").json()["token"])


@pytest.fixture
def up(alone: Fleet) -> Host:
    """The host with its daemon running, whatever the test before it did."""
    if not alone["solo"].is_up:
        alone["solo"].up()
    return alone["solo"]


@pytest.fixture
def down(alone: Fleet, token: str) -> Host:
    """The host without a daemon; `token` is that of an agent there."""
    if alone["solo"].is_up:
        alone["solo"].kill()
    return alone["solo"]


@pytest.fixture
def bare(up: Host, token: str) -> Iterator[Bare]:
    with bare_client(up, token) as client:
        client.initialize()
        yield client


def test_nothing_that_starts_slowly_is_imported() -> None:
    look = (
        "import sys; sys.argv = ['fleettrio', 'mcp', '--help']\n"
        "from fleettrio.__main__ import main\n"
        "try: main()\nexcept SystemExit: print(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", look], env=clean_environment(), capture_output=True, text=True)
    loaded = set(done.stdout.partition("[")[2].replace("'", "").rstrip("]\n").split(", "))
    assert "fleettrio.clients.mcp_shim" in loaded
    outside = {"click", "msgspec", "rich", "trio", "mcp", "asyncio", "subprocess", "platformdirs", "typing_extensions"}
    assert loaded & outside == set()


def test_one_at_work_is_small(alone: Fleet, bare: Bare) -> None:
    bare.call("fleet_list")
    bare.call("fleet_send", to="nobody", text="x" * 100_000)
    facts = Path(f"/proc/{bare.process.pid}/status").read_text()
    peak_kib = next(int(line.split()[1]) for line in facts.splitlines() if line.startswith("VmHWM"))
    assert peak_kib <= 16 * 1024


def test_a_call_while_the_daemon_is_away_is_answered_at_once_and_the_next_one_after_its_return_works(
    alone: Fleet, bare: Bare
) -> None:
    host = alone["solo"]
    assert bare.call("fleet_list")["structuredContent"]["you"] == "bot@solo"
    host.kill()
    away = bare.call("fleet_list")
    assert away["isError"]
    assert "fleettrio up" in away["content"][0]["text"]
    host.up()
    assert bare.call("fleet_list")["structuredContent"]["you"] == "bot@solo"


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_call_in_the_daemons_hands_when_it_ends_gets_a_tool_error(alone: Fleet, bare: Bare, how: str) -> None:
    waiting = bare.begin("tools/call", name="fleet_poll", arguments={"wait_s": 50})
    assert bare.call("fleet_list")["structuredContent"]["you"] == "bot@solo"  # the other one is in hand by now
    if how == "killed":
        alone["solo"].kill()
    else:
        alone["solo"].stop()
    answer = bare.read()
    assert answer["id"] == waiting
    assert answer["result"]["isError"]
    assert "may or may not" in answer["result"]["content"][0]["text"]


def test_a_daemon_that_does_not_serve_it_is_told_with_its_reason(up: Host) -> None:
    with bare_client(up, "t" * 300) as client:
        refused = client.call("fleet_list")
        assert refused["isError"]
        assert "at most 256" in refused["content"][0]["text"]
        assert client.call("fleet_list") == refused


def test_lists_wait_for_a_daemon_that_is_coming(alone: Fleet, bare: Bare) -> None:
    alone["solo"].kill()
    asked = bare.begin("tools/list")
    alone["solo"].up()
    answer = bare.read()
    assert answer["id"] == asked
    assert answer["result"]["tools"]


def test_a_line_over_the_bound_is_refused_and_one_under_it_goes_through(bare: Bare) -> None:
    refused = bare.call("fleet_send", to="nobody", text="x" * LINE_LIMIT)
    assert refused["isError"]
    assert str(LINE_LIMIT) in refused["content"][0]["text"]
    too_long = bare.call("fleet_send", to="nobody", text="x" * (LINE_LIMIT // 3))
    assert too_long["structuredContent"]["reason"] == "oversize"  # which the daemon says, and not the shim


@pytest.mark.parametrize("daemon", ["up", "away"])
def test_lines_that_are_no_message_are_answered_alike_and_the_next_one_counts(
    alone: Fleet, bare: Bare, daemon: str
) -> None:
    if daemon == "away":
        alone["solo"].kill()
    lines = {
        b"not json": (None, -32700),
        b"\xff\xfe": (None, -32700),
        b'{"id": 7}': (7, -32600),
        b"[1]": (None, -32600),
        b'{"id":8,"method":"tools/list"}': (8, -32600),
        b'{"jsonrpc":"1.0","id":9,"method":"tools/list"}': (9, -32600),
        b'{"jsonrpc":"2.0","id":10,"method":5}': (10, -32600),
        b'{"jsonrpc":"2.0","id":11,"method":"resources/list"}': (11, -32601),
    }
    for line, told in lines.items():
        bare.send(line + b"\n")
        answer = bare.read()
        assert (answer["id"], answer["error"]["code"]) == told, line
    assert bare.call("fleet_list").get("isError", False) is (daemon == "away")


@pytest.mark.parametrize("daemon", ["up", "away"])
def test_a_request_with_a_strange_id_is_refused_and_never_taken_for_a_notification(
    alone: Fleet, bare: Bare, daemon: str
) -> None:
    if daemon == "away":
        alone["solo"].kill()
    for strange in ("1.5", "1.0", "true", "null", "{}", "[1]"):
        bare.send(b'{"jsonrpc":"2.0","id":%s,"method":"tools/list"}\n' % strange.encode())
        answer = bare.read()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600), strange
    bare.send(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}\n')
    assert bare.ask("ping")["result"] is not None


def test_a_harness_that_starts_before_the_daemon_gets_the_tools_and_they_work_once_it_is_there(
    down: Host, token: str
) -> None:
    with bare_client(down, token) as client:
        began = time.monotonic()
        assert client.ask("server/discover")["error"]["code"] == -32601
        info = {"name": "test", "version": "1"}
        hello = client.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)["result"]
        client.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        given = client.ask("tools/list")["result"]["tools"]
        assert time.monotonic() - began < 2 * HOLD_S + 30, "each of the three waited for the daemon, or longer"
        assert hello["protocolVersion"] == "2025-06-18"
        assert "`fleettrio up`" in hello["instructions"]
        away = client.call("fleet_list")
        assert away["isError"]
        assert "`fleettrio up`" in away["content"][0]["text"]
        down.up()
        request = client.begin("tools/call", name="fleet_list", arguments={})
        said = [client.read(), client.read()]
        assert {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"} in said
        (answer,) = [message for message in said if message.get("id") == request]
        assert answer["result"]["structuredContent"]["you"] == "bot@solo"
        assert client.ask("tools/list")["result"]["tools"] == given


async def test_the_sdks_client_starts_before_the_daemon(down: Host, token: str) -> None:
    async with sdk_client(down, token, "--names", "seed4") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert (names[0], names[-1]) == ("fleet_send", "session_wake")
        down.up()
        assert facts(await client.call_tool("fleet_list", {}))["you"] == "bot@solo"


@pytest.mark.parametrize("how", ["term", "eof"])
def test_it_ends_with_its_input_and_by_sigterm(alone: Fleet, token: str, how: str) -> None:
    with bare_client(alone["solo"], token) as client:
        if how == "term":
            client.process.send_signal(signal.SIGTERM)
        else:
            assert client.process.stdin is not None
            client.process.stdin.close()
        assert client.process.wait(END_S) in (0, -signal.SIGTERM)


def test_the_command_knows_its_options() -> None:
    done = subprocess.run([*COMMAND, "mcp", "--nmaes"], env=clean_environment(), capture_output=True, text=True)
    assert done.returncode == 2
    assert "--names seed4" in done.stderr
    assert json.dumps(done.stdout) == '""'
