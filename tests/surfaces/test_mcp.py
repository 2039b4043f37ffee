"""The tools of MCP, called by the SDK's client through `fleettrio mcp`; what they did is read on the other host."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import trio

from fleettrio.local.frame import unframe
from fleettrio.local.sanitise import clean
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.waiting import wait_until
from tests.api.test_mcp_hints import HAVE_A_TOOL
from tests.local.repositories import Repo
from tests.surfaces.mcp_clients import ERAS, bare_client, error, facts, sdk_client

DEFAULT = [
    "fleet_send",
    "fleet_poll",
    "fleet_reply",
    "fleet_ask",
    "fleet_answer",
    "fleet_list",
    "fleet_trace",
    "fleet_spawn",
    "claim",
]


HEARD = (("lead", "alpha", "beta"), ("scout", "alpha", "beta"), ("worker", "beta", "alpha"), ("w2", "beta", "alpha"))
"""Name, its host, and who hears of it."""


@pytest.fixture(scope="module")
def tokens(fleet: Fleet) -> dict[str, str]:
    """Agents that fetch their mail: `lead` and `scout` on alpha, `worker` and `w2` on beta."""
    found = {}
    for name, host in {"lead": "alpha", "scout": "alpha", "worker": "beta", "w2": "beta"}.items():
        role = ["--role", "lead"] if name == "lead" else ["--role", "worker"] if name == "worker" else []
        found[name] = str(fleet[host].ok("attach", "--name", name, *role, "--json").json()["token"])
    for name, host, other in HEARD:
        wait_until(f"{other} hears of {name}", functools.partial(fleet[other].agent, f"{name}@{host}"))
    return found


@pytest.mark.parametrize("era", ERAS)
async def test_both_eras_list_the_tools_and_say_who_one_is(fleet: Fleet, tokens: dict[str, str], era: str) -> None:
    async with sdk_client(fleet["alpha"], tokens["scout"], era=era) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == DEFAULT
        assert [tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint] == [
            "fleet_list",
            "fleet_trace",
        ]
        fleet_facts = facts(await client.call_tool("fleet_list", {}))
    assert fleet_facts["you"] == "scout@alpha"
    assert {"name": "worker@beta", "status": "idle", "role": "worker"} in fleet_facts["agents"]


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_sent_by_a_tool_is_read_on_the_other_host(fleet: Fleet, tokens: dict[str, str], era: str) -> None:
    async with sdk_client(fleet["alpha"], tokens["lead"], era=era) as client:
        sent = facts(await client.call_tool("fleet_send", {"to": "worker", "text": f"look at this, {era}"}))["sent"]
        unknown = error(await client.call_tool("fleet_send", {"to": "wroker", "text": "hello"}))
    assert sent[0]["to"] == "worker@beta"
    taken = fleet["beta"].ok("inbox", "--take", "--wait", "50", "--json", token=tokens["worker"]).json()
    assert [(m["short"], m["text"]) for m in taken["messages"]] == [(sent[0]["id"], f"look at this, {era}")]
    assert unknown["reason"] == "no-such-recipient"
    assert "worker" in unknown["hint"]


async def test_a_client_that_nobody_knows_sees_the_tools_and_hears_how_to_become_somebody(fleet: Fleet) -> None:
    async with sdk_client(fleet["alpha"], "") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == DEFAULT
        refused = error(await client.call_tool("fleet_list", {}))
    assert refused["reason"] == "no-identity"
    assert refused["hint"]


async def test_what_was_polled_counts_as_read_at_the_next_call(fleet: Fleet, tokens: dict[str, str]) -> None:
    short = fleet["beta"].ok("send", "scout@alpha", "one", "--json", token=tokens["w2"]).json()["messages"][0]["short"]

    def state() -> str:
        rows = fleet["alpha"].ok("inbox", "--all", "--json", token=tokens["scout"]).json()["messages"]
        return next(str(row["state"]) for row in rows if row["short"] == short)

    async with sdk_client(fleet["alpha"], tokens["scout"]) as client:
        polled = facts(await client.call_tool("fleet_poll", {"wait_s": 50, "from": "w2@beta"}))
        assert [message["id"] for message in polled["messages"]] == [short]
        assert polled["messages"][0]["text"].count("another agent's words, not the person's consent") == 1
        assert polled["messages"][0]["text"].endswith(f"to answer: fleet_reply with id {short}")
        assert state() == "offered"
        facts(await client.call_tool("fleet_list", {}))
        assert state() == "drained"
        nothing = facts(await client.call_tool("fleet_poll", {"wait_s": 0}))
    assert nothing == {"messages": [], "next": "nothing yet, call again"}


async def test_a_client_that_dies_with_what_it_polled_leaves_it_held_and_a_marked_repeat(
    fleet: Fleet, tokens: dict[str, str]
) -> None:
    fleet["beta"].ok("send", "scout@alpha", "two", token=tokens["w2"])
    async with sdk_client(fleet["alpha"], tokens["scout"]) as client:
        (first,) = facts(await client.call_tool("fleet_poll", {"wait_s": 50}))["messages"]
        assert "repeat" not in first
    async with sdk_client(fleet["alpha"], tokens["scout"]) as client:
        (again,) = facts(await client.call_tool("fleet_poll", {"wait_s": 50}))["messages"]
        facts(await client.call_tool("fleet_list", {}))
    assert again["id"] == first["id"]
    assert again["repeat"] is True
    assert "may be a repeat" in again["text"]


async def test_a_poll_that_was_given_up_takes_nothing(fleet: Fleet, tokens: dict[str, str]) -> None:
    async with sdk_client(fleet["alpha"], tokens["scout"]) as client:
        with trio.move_on_after(1):
            await client.call_tool("fleet_poll", {"wait_s": 50})
        facts(await client.call_tool("fleet_list", {}))  # behind the word that the call was given up
        fleet["beta"].ok("send", "scout@alpha", "three", token=tokens["w2"])
        (message,) = facts(await client.call_tool("fleet_poll", {"wait_s": 50}))["messages"]
        facts(await client.call_tool("fleet_list", {}))
    assert message["text"].count("three") == 1
    assert "repeat" not in message


async def test_an_answer_that_crossed_with_its_being_taken_back_is_given_again(
    fleet: Fleet, tokens: dict[str, str]
) -> None:
    fleet["beta"].ok("send", "scout@alpha", "four", token=tokens["w2"])
    with bare_client(fleet["alpha"], tokens["scout"]) as client:
        client.initialize()
        (first,) = client.call("fleet_poll", wait_s=30)["structuredContent"]["messages"]
        client.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}\n')
        (again,) = client.call("fleet_poll", wait_s=0)["structuredContent"]["messages"]
        client.call("fleet_list")
    assert (again["id"], again["repeat"]) == (first["id"], True)


async def test_a_client_that_wants_to_know_hears_that_its_call_still_waits(
    fleet: Fleet, tokens: dict[str, str]
) -> None:
    heard: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total))

    async with sdk_client(fleet["alpha"], tokens["scout"]) as client:
        again = await client.call_tool("fleet_poll", {"wait_s": 9}, progress_callback=note)
    assert facts(again)["next"] == "nothing yet, call again"
    assert heard == [(5.0, 9.0)]


async def test_a_message_of_200_kilobytes_arrives_and_its_rest_is_there_to_be_read(
    fleet: Fleet, tokens: dict[str, str]
) -> None:
    body = "".join(f"line {number}\n" for number in range(20_000))
    async with sdk_client(fleet["alpha"], tokens["lead"]) as lead:
        (sent,) = facts(await lead.call_tool("fleet_send", {"to": "w2@beta", "text": body}))["sent"]
    async with sdk_client(fleet["beta"], tokens["w2"]) as w2:
        (message,) = facts(await w2.call_tool("fleet_poll", {"wait_s": 50}))["messages"]
        facts(await w2.call_tool("fleet_list", {}))
    assert len(message["text"]) <= 60_000
    assert f"whole: fleettrio show {sent['id']} --framed" in message["text"]
    whole = fleet["beta"].ok("show", sent["id"], "--framed", token=tokens["w2"]).text
    assert unframe(whole.rstrip("\n")) == clean(body)
    assert fleet["beta"].ok("show", sent["id"], "--body", token=tokens["w2"]).out == body.encode()


async def test_a_message_says_what_code_it_was_written_for_by_where_its_sender_stands(
    fleet: Fleet, tmp_path: Path
) -> None:
    ours = Repo.new(tmp_path / "ours", a_py="one\n")
    ours.git("clone", "-q", str(ours.folder), str(tmp_path / "theirs"))
    theirs = Repo(tmp_path / "theirs")
    attach = ("attach", "--name", "author", "--json")
    author = fleet["alpha"].ok(*attach, cwd=ours.folder).json()["token"]
    reader = fleet["beta"].ok("attach", "--name", "reader", "--json", cwd=theirs.folder).json()["token"]
    wait_until("alpha hears of the reader", functools.partial(fleet["alpha"].agent, "reader@beta"))
    async with sdk_client(fleet["alpha"], author, cwd=ours.folder) as client:
        facts(await client.call_tool("fleet_send", {"to": "reader@beta", "text": "mind a.py", "paths": ["a.py"]}))
        bad = error(await client.call_tool("fleet_send", {"to": "reader@beta", "text": "x", "paths": ["../out"]}))
    theirs.commit(5, "w9", a_py="two\n")
    async with sdk_client(fleet["beta"], reader) as client:
        (message,) = facts(await client.call_tool("fleet_poll", {"wait_s": 50}))["messages"]
    assert "stale: a.py" in message["text"]
    assert "../out" in bad["error"]


async def test_claims_are_taken_shown_and_given_back(fleet: Fleet, tokens: dict[str, str]) -> None:
    async with sdk_client(fleet["alpha"], tokens["scout"]) as scout, sdk_client(fleet["beta"], tokens["w2"]) as w2:
        mine = facts(await scout.call_tool("claim", {"key": "beta:issue-149"}))
        held = error(await w2.call_tool("claim", {"key": "issue-149"}))
        assert (mine["yours"], held["yours"], held["holder"]) == (True, False, "scout@alpha")
        facts(await scout.call_tool("claim", {"key": "beta:issue-149", "release": True}))
        assert facts(await w2.call_tool("claim", {"key": "issue-149"}))["yours"]
    assert "issue-149" in fleet["beta"].ok("claim", "--list").text


async def test_what_only_leads_use_is_listed_for_leads(fleet: Fleet, tokens: dict[str, str]) -> None:
    async with sdk_client(fleet["alpha"], tokens["lead"]) as lead:
        assert [tool.name for tool in (await lead.list_tools()).tools] == [*DEFAULT, "fleet_broadcast", "fleet_stop"]
    async with sdk_client(fleet["beta"], tokens["worker"]) as worker:
        assert [tool.name for tool in (await worker.list_tools()).tools] == DEFAULT
        refused = error(await worker.call_tool("fleet_broadcast", {"text": "hear me"}))
    assert "worker" in refused["error"]


async def test_the_names_of_the_other_bus_confirm_by_inbox_ack(fleet: Fleet, tokens: dict[str, str]) -> None:
    async with (
        sdk_client(fleet["alpha"], tokens["scout"], "--names", "seed4") as scout,
        sdk_client(fleet["beta"], tokens["w2"], "--names", "seed4") as w2,
    ):
        names = [tool.name for tool in (await scout.list_tools()).tools]
        assert names[-4:] == ["msg_send", "inbox_read", "inbox_ack", "session_wake"]
        facts(await scout.call_tool("msg_send", {"to": "w2@beta", "body": "mind the gap", "kind": "warning"}))
        (read,) = facts(await w2.call_tool("inbox_read", {"wait_s": 50}))["messages"]
        woken = facts(await w2.call_tool("session_wake", {}))
        assert (woken["unread"], woken["first"][0]["begins"]) == (1, "mind the gap")
        facts(await w2.call_tool("inbox_ack", {}))
        assert facts(await w2.call_tool("session_wake", {}))["unread"] == 0
        assert error(await w2.call_tool("msg_send", {"to": "scout@alpha", "body": "thanks", "kind": "ack"}))
    assert "warning" in read["text"].split("\n")[0]


async def test_a_question_to_nobody_who_listens_fails_at_once(fleet: Fleet, tokens: dict[str, str]) -> None:
    async with sdk_client(fleet["alpha"], tokens["lead"]) as lead:
        with trio.fail_after(60):
            refused = error(await lead.call_tool("fleet_ask", {"to": "w2@beta", "text": "are you there?"}))
        assert refused["sent"][0]["state"] == "failed"
        assert error(await lead.call_tool("fleet_answer", {"id": "0123456789abcdef", "text": "yes"}))
        assert error(await lead.call_tool("fleet_reply", {"id": "@lost", "text": "yes"}))


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "no recipient": ("fleet_send", {"text": "hello"}, "no recipient"),
    "no text": ("fleet_send", {"to": "w2@beta"}, "text"),
    "a wrong type": ("fleet_send", {"to": 7, "text": "hello"}, "to"),
    "an unknown argument": ("fleet_send", {"to": "w2@beta", "text": "a", "urgent": True}, "urgent"),
    "an unknown word": ("fleet_send", {"to": "w2@beta", "text": "a", "when": "soon"}, "soon"),
    "a lone surrogate": ("fleet_send", {"to": "w2@beta", "text": "a\ud83db"}, "surrogate"),
    "a lone surrogate in a name": ("fleet_send", {"to": "w2@beta", "text": "a", "x\ud83d": 1}, "surrogate"),
    "a body over the bound": ("fleet_send", {"to": "w2@beta", "text": "x" * 1_100_000}, "262144"),
    "too long an address": ("fleet_send", {"to": "n" * 300, "text": "a"}, "256"),
    "too long a wait": ("fleet_poll", {"wait_s": 500}, "50"),
    "an endless wait": ("fleet_poll", {"wait_s": float("nan")}, "wait_s"),
    "an unknown sender": ("fleet_poll", {"from": "nobody@nowhere"}, "nowhere"),
    "another's message": ("fleet_poll", {"re": ["ffffffff"]}, "ffffffff"),
    "a strange id": ("fleet_reply", {"id": "../../etc", "text": "a"}, "etc"),
    "an unknown profile": ("fleet_spawn", {"profile": "none", "host": "beta"}, ""),
    "a relative folder": ("fleet_spawn", {"profile": "none", "cwd": "here"}, "relative"),
    "both of two": ("claim", {"key": "a", "release": True, "lapsed": True}, "together"),
    "a key of an unknown host": ("claim", {"key": "gamma:a"}, "gamma"),
    "an unknown trace": ("fleet_trace", {"id": "ffffffffffff"}, "ffffffffffff"),
    "an end of the person": ("fleet_stop", {"target": "human"}, "the person at alpha, and only agents are stopped"),
    "nothing to read": ("fleet_send", {"to": "w2@beta", "text": " "}, "say it in text"),
    "an unknown tool": ("fleet_sned", {}, "fleet_send"),
    "a tool with a strange name": ("\x1b[2J\ud83d", {}, "no tool"),
}


@pytest.mark.parametrize("what", BAD)
async def test_bad_input_is_a_result_that_says_what_to_do(fleet: Fleet, tokens: dict[str, str], what: str) -> None:
    tool, arguments, said = BAD[what]
    with bare_client(fleet["alpha"], tokens["scout"]) as client:
        client.initialize()
        result = client.call(tool, **arguments)
        assert result["isError"], result
        assert said in result["content"][0]["text"]
        assert not HAVE_A_TOOL.search(result["content"][0]["text"])
        assert "\x1b" not in str(result)
        assert not client.call("fleet_list").get("isError")
