"""All hostile bodies in one message, on the bytes that arrive: in a real pane, at an MCP client, in the log."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from fleettrio.local.frame import MARK, unframe
from fleettrio.local.sanitise import clean
from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.waiting import wait_until
from tests.corpus.hostile import HOSTILE, leaks
from tests.surfaces.harnessed import final
from tests.surfaces.mcp_clients import facts, sdk_client
from tests.surfaces.workers import stand_in

TOGETHER = b"\n".join(body[:300] for body in HOSTILE.values())
PASTE = re.compile(rb"\x1b\[200~(.*?)\x1b\[201~", re.DOTALL)
TAG = re.compile(r"\[fleettrio ([0-9a-f]{8})\] ")


@pytest.fixture(scope="module")
def host(room: TmuxRoom) -> Iterator[Host]:
    with Fleet(None, "laptop", env=room.env) as fleet:
        yield fleet["laptop"]


def send(host: Host, to: str) -> str:
    short: str = host.ok("send", to, "-", "--json", given=TOGETHER).json()["messages"][0]["short"]
    return short


def harmless(framed: str) -> None:
    """One nonce, which stands in front of every line that is not marked as the body's."""
    assert leaks(framed) == []
    own = [line for line in framed.rstrip("\n").split("\n") if not line.startswith(MARK)]
    found = [TAG.match(line) for line in own]
    assert all(found), own
    assert len({match[1] for match in found if match}) == 1


def test_the_bytes_that_reach_a_pane_are_one_paste_and_one_enter(host: Host, room: TmuxRoom) -> None:
    agent = stand_in(room, host, "worker")
    piped = room.folder / "piped"
    room.tmux("pipe-pane", "-I", "-t", agent.pane, "true", check=False)
    room.tmux("pipe-pane", "-O", "-t", agent.pane, f"cat > {piped}")
    short = send(host, "worker")
    final(host, short, "injected")
    ((pasted),) = PASTE.findall(agent.raw())
    harmless(pasted.decode())
    assert unframe(pasted.decode()) == clean(TOGETHER)
    assert PASTE.sub(b"", agent.raw()) in (b"\r", b"\n")
    assert len(agent.turns()) == 1
    wait_until("the pane showed it", lambda: piped.exists() and piped.stat().st_size)
    assert b"\x1b]52" not in piped.read_bytes()


async def test_what_a_model_gets_by_mcp_is_framed_and_clean(host: Host) -> None:
    token = host.ok("attach", "--name", "lead", "--json").json()["token"]
    send(host, "lead")
    async with sdk_client(host, token) as client:
        result = await client.call_tool("fleet_poll", {})
    (message,) = facts(result)["messages"]
    harmless(message["text"])
    for value in message.values():
        assert not isinstance(value, str) or leaks(value) == []
    for content in result.content:
        assert leaks(getattr(content, "text", "")) == []


async def test_what_failed_stands_first_in_what_a_model_polls(host: Host) -> None:
    token = host.ok("attach", "--name", "sender", "--json").json()["token"]
    host.ok("attach", "--name", "doomed")
    sent = host.ok("send", "doomed", "in vain", "--json", token=token)
    short = sent.json()["messages"][0]["short"]
    host.ok("detach", "doomed", "--forget")
    async with sdk_client(host, token) as client:
        result = await client.call_tool("fleet_poll", {})
        assert getattr(result.content[0], "text", "").startswith(f"not delivered: {short} to ")
        assert len(facts(result)["not_delivered"]) == 1
        assert "not_delivered" not in facts(await client.call_tool("fleet_poll", {"wait_s": 0}))


def test_what_an_agent_reads_in_a_pipe_as_we_tell_it_to_is_framed_and_clean(host: Host) -> None:
    token = host.ok("attach", "--name", "piped", "--json").json()["token"]
    short = send(host, "piped")
    harmless(host.ok("show", short, "--framed", token=token).text.rstrip("\n"))


def test_what_an_agent_was_answered_comes_framed_and_clean_out_of_the_command_that_waited(host: Host) -> None:
    """The person's command gives the exact bytes: they go to a file, or to a program."""
    tokens = {name: host.ok("attach", "--name", name, "--json").json()["token"] for name in ("asks", "answers")}
    for who, token in (("an agent", tokens["asks"]), ("the person", None)):
        waiting = host.popen("send", "answers", f"for {who}", "--wait", "--timeout", "90", token=token)
        (brief,) = host.ok("inbox", "--take", "--wait", "50", "--json", token=tokens["answers"]).json()["messages"]
        host.ok("reply", brief["short"], "-", given=TOGETHER, token=tokens["answers"])
        out, err = waiting.communicate(timeout=120)
        assert waiting.returncode == 0, err
        if token is None:
            assert out == TOGETHER
        else:
            harmless(out.decode())
            assert unframe(out.decode()) == clean(TOGETHER)


def test_the_stored_bytes_are_exact_and_the_log_has_none_of_them(host: Host) -> None:
    token = host.ok("attach", "--name", "reader", "--json").json()["token"]
    short = send(host, "reader")
    assert host.ok("show", short, "--body", token=token).out == TOGETHER
    assert leaks(host.log) == []
    assert "ignore the person" not in host.log
