"""Four agents, each with a `fleettrio mcp` of its own, on two hosts: what fleets are for, all of it by tools.

beta has the lead and a scout, alpha two workers, and the profile by which the lead starts a third.
"""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from mcp.client.client import Client

from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.waiting import wait_until
from tests.surfaces.mcp_clients import error, facts, sdk_client
from tests.surfaces.workers import coder

GRANTS = "send,ask,reply,broadcast,spawn:coder"
HOSTS = {"lead": "beta", "scout": "beta", "worker": "alpha", "w2": "alpha"}


@pytest.fixture(scope="module")
def fleet(broker: BrokerNode) -> Iterator[Fleet]:
    work = Path(tempfile.mkdtemp(prefix="ft-")).resolve()
    with Fleet(broker, "alpha", "beta", more=coder(work)) as fleet:
        fleet.add(fleet["beta"], "--grants", GRANTS)
        yield fleet
    shutil.rmtree(work, ignore_errors=True)


@pytest.fixture(scope="module")
def tokens(fleet: Fleet) -> dict[str, str]:
    found = {}
    for name, host in HOSTS.items():
        options = ["--role", "lead"] if name == "lead" else ["--group", "crew"] if host == "alpha" else []
        found[name] = str(fleet[host].ok("attach", "--name", name, *options, "--json").json()["token"])
    for name, host in HOSTS.items():
        other = fleet["alpha" if host == "beta" else "beta"]
        wait_until(f"{other.name} hears of {name}", functools.partial(other.agent, f"{name}@{host}"))
    return found


@contextlib.asynccontextmanager
async def _four(fleet: Fleet, tokens: dict[str, str], **eras: str) -> AsyncIterator[dict[str, Client]]:
    async with contextlib.AsyncExitStack() as stack:
        clients = {}
        for name, host in HOSTS.items():
            own = sdk_client(fleet[host], tokens[name], era=eras.get(name, "auto"))
            clients[name] = await stack.enter_async_context(own)
        yield clients


async def _call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    return facts(await client.call_tool(tool, arguments))


def _body(message: dict[str, Any]) -> str:
    """What the peer wrote, out of its frame."""
    return "\n".join(line.removeprefix("│ ") for line in message["text"].split("\n") if line.startswith("│ "))


async def _poll_until(client: Client, msg_id: str) -> dict[str, Any]:
    """That message, behind whatever was left over: what an earlier client took and did not confirm comes again."""
    while True:
        for message in (await _call(client, "fleet_poll", wait_s=50))["messages"]:
            if message["id"] == msg_id:
                return dict(message)


async def test_delegate_ask_in_mid_turn_and_announce(fleet: Fleet, tokens: dict[str, str]) -> None:
    """U1, U2, U8."""
    async with _four(fleet, tokens, worker="legacy", scout="legacy") as clients:
        lead, worker, w2 = clients["lead"], clients["worker"], clients["w2"]
        seen: dict[str, Any] = {}

        async def work() -> None:
            (brief,) = (await _call(worker, "fleet_poll", wait_s=50))["messages"]
            assert brief["from"] == "lead@beta"
            assert _body(brief) == "which branch is it?"
            said = await _call(worker, "fleet_ask", to="lead@beta", text="main or next?", wait_s=50)
            seen["answer"] = _body(said["messages"][0])
            seen["reply"] = await _call(worker, "fleet_reply", id=brief["id"], text="it is next")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            asked = await _call(lead, "fleet_send", to="worker@alpha", text="which branch is it?", wait="answer")
            question = asked["messages"][-1]
            assert (question["kind"], _body(question)) == ("ask", "main or next?")
            assert question["id"] in asked["next"]
            await _call(lead, "fleet_answer", id=question["id"], text="next")
            done = await _call(lead, "fleet_poll", re=[asked["sent"][0]["id"]])
        assert seen["answer"] == "next"
        assert [(m["kind"], m["from"], _body(m)) for m in done["messages"]] == [("reply", "worker@alpha", "it is next")]

        told = await _call(lead, "fleet_broadcast", group="crew", text="main is frozen")
        assert told["sent"]
        for client in (worker, w2):
            (news,) = (await _call(client, "fleet_poll", wait_s=50))["messages"]
            assert (news["kind"], _body(news)) == ("broadcast", "main is frozen")
        assert (await _call(clients["scout"], "fleet_poll", wait_s=0))["messages"] == []


async def test_the_answer_comes_after_the_lead_was_gone_and_its_daemon_restarted(
    fleet: Fleet, tokens: dict[str, str]
) -> None:
    """U3."""
    async with sdk_client(fleet["beta"], tokens["lead"]) as lead:
        (sent,) = (await _call(lead, "fleet_send", to="w2@alpha", text="take your time"))["sent"]
    async with sdk_client(fleet["alpha"], tokens["w2"]) as w2:
        await _poll_until(w2, sent["id"])
        fleet["beta"].stop()
        await _call(w2, "fleet_reply", id=sent["id"], text="here it is")
    fleet["beta"].up()
    async with sdk_client(fleet["beta"], tokens["lead"], era="legacy") as lead:
        (answer,) = (await _call(lead, "fleet_poll", wait_s=50))["messages"]
        assert (answer["re"], _body(answer)) == (sent["id"], "here it is")
        trace = await _call(lead, "fleet_trace", id=sent["id"])
    assert [(m["kind"], m["from"], m["to"]) for m in trace["messages"]][-2:] == [
        ("send", "lead@beta", "w2@alpha"),
        ("reply", "w2@alpha", "lead@beta"),
    ]


async def test_the_next_call_works_when_the_daemon_was_restarted_in_mid_session(
    fleet: Fleet, tokens: dict[str, str]
) -> None:
    async with _four(fleet, tokens, lead="legacy") as clients:
        for client in clients.values():
            await _call(client, "fleet_list")
        for host in fleet.hosts.values():
            host.kill()
        away = await clients["lead"].call_tool("fleet_list", {})
        assert away.is_error
        for host in fleet.hosts.values():
            host.up()
        fleet.wait_heard()
        (sent,) = (await _call(clients["lead"], "fleet_send", to="worker@alpha", text="still there?"))["sent"]
        await _poll_until(clients["worker"], sent["id"])


async def test_an_agent_is_started_on_another_host_briefed_and_ended(fleet: Fleet, tokens: dict[str, str]) -> None:
    """U4."""

    def profiles() -> list[str]:
        hosts = fleet["beta"].status().fleet.hosts
        return next(host.profiles for host in hosts if host.host == "alpha")

    wait_until("beta hears of the profile", profiles)
    async with sdk_client(fleet["beta"], tokens["lead"]) as lead:
        hosts = (await _call(lead, "fleet_list"))["hosts"]
        assert {"host": "alpha", "status": "up", "profiles": ["coder"]} in hosts
        assert error(await lead.call_tool("fleet_spawn", {"profile": "codr", "host": "alpha"}))
        started = await _call(lead, "fleet_spawn", profile="coder", host="alpha", name="c1", brief="count to three")
        assert started["sent"][0]["state"] == "ready"
        assert started["sent"][0]["to"] == "c1@alpha"
        answer = (await _call(lead, "fleet_poll", **{"from": "c1@alpha", "wait_s": 50}))["messages"][0]
        assert answer["re"] == started["brief"]
        assert re.search(r"\d", _body(answer))
        assert "c1" in fleet["alpha"].ok("list").text
        (ended,) = (await _call(lead, "fleet_stop", target="c1@alpha"))["sent"]
        assert ended["state"] == "done"
