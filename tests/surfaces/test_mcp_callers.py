"""For whom a call of MCP is: the agent by the rules of the socket, the session that Codex names, and nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fleettrio.api.schema.hooks import Hook
from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until
from tests.surfaces.harnessed import final, send
from tests.surfaces.mcp_clients import Bare, bare_client
from tests.surfaces.workers import stand_in

THREAD = "019f0000-0000-7000-8000-00000000c0de"


@pytest.fixture(scope="module")
def host(room: TmuxRoom) -> Iterator[Host]:
    with Fleet(None, "solo", env=room.env) as fleet:
        yield fleet["solo"]


def _list(client: Bare, **meta: str) -> dict[str, object]:
    """What fleet_list says to a call with that `_meta`."""
    params = {"name": "fleet_list", "arguments": {}, "_meta": meta}
    result = client.ask("tools/call", **params)["result"]
    found = result["structuredContent"]
    assert isinstance(found, dict)
    return found


def test_codex_says_in_each_call_which_of_its_sessions_makes_it(host: Host) -> None:
    tokens = {}
    for name, session in (("coder", THREAD), ("other", THREAD.replace("c0de", "beef"))):
        tokens[name] = host.ok("attach", "--name", name, "--harness", "codex", "--json").json()["token"]
        told = {"session_id": session, "hook_event_name": "SessionStart", "cwd": "/tmp", "source": "startup"}
        with host.client(tokens[name]) as client:
            client.call("hook", Hook("codex", json.dumps(told).encode()))
    with bare_client(host, "") as client:
        client.initialize()
        assert _list(client)["reason"] == "no-identity"
        assert _list(client, threadId=THREAD)["you"] == "coder@solo"
        assert _list(client, threadId=THREAD.replace("c0de", "beef"))["you"] == "other@solo"
        assert _list(client, threadId="unknown")["reason"] == "no-identity"


def test_one_sessions_call_confirms_nothing_of_anothers(host: Host) -> None:
    send(host, "coder", "for the coder alone")
    with bare_client(host, "") as client:
        client.initialize()
        meta = {"threadId": THREAD}
        poll = {"name": "fleet_poll", "arguments": {"wait_s": 50}, "_meta": meta}
        (message,) = client.ask("tools/call", **poll)["result"]["structuredContent"]["messages"]
        _list(client, threadId=THREAD.replace("c0de", "beef"))
        shown = host.ok("show", message["id"]).text
        assert "not confirmed" in shown
        _list(client, **meta)
        final(host, message["id"], "drained")


def test_another_harness_inside_an_agents_session_is_not_that_agent(host: Host) -> None:
    token = host.ok("attach", "--name", "outer", "--harness", "claude", "--json").json()["token"]
    with bare_client(host, token) as client:
        info = {"name": "codex-mcp-client", "version": "1"}
        client.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
        refused = _list(client)
    assert refused["reason"] == "no-identity"
    assert "outer" in str(refused["error"])


def test_an_agent_in_a_pane_takes_by_a_poll_what_waits_for_it(host: Host, room: TmuxRoom) -> None:
    agent = stand_in(room, host, "busy")
    room.tmux("send-keys", "-t", agent.pane, "half", "typed")
    wait_until("the draft stands there", lambda: "half" in room.screen(agent.pane))
    short = send(host, "busy", "behind the draft")
    wait_until("the draft holds it back", lambda: "draft" in host.ok("show", short).text)
    token = host.ok("token", "create", "--name", "busy", "--json").json()["token"]
    with bare_client(host, token) as client:
        client.initialize()
        (message,) = client.call("fleet_poll", wait_s=50)["structuredContent"]["messages"]
        assert message["id"] == short
        assert "behind the draft" in message["text"]
        client.call("fleet_list")
        final(host, short, "injected")
    assert agent.turns() == []
