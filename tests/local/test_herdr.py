"""The last hop into an agent that lives in herdr, against a server that keeps herdr's rules."""

from __future__ import annotations

import os
import unicodedata
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from fleettrio.errors import ConfigError
from fleettrio.local.echoes import Echoes
from fleettrio.local.frame import unframe
from fleettrio.local.harness import load_harness
from fleettrio.local.herdr import HerdrTransport
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text
from fleettrio.local.sanitise import clean
from fleettrio.panes.herdr import Herdr
from fleettrio.panes.herdrsocket import MOST_SENT, HerdrError, socket_of
from fleettrio.testing.agents.composer import PASTE_BEGIN, PASTE_END
from fleettrio.testing.herdr_server import HerdrAgentStandIn, HerdrServer
from fleettrio.testing.transport_case import framed as brief

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.local.conftest import Hostile

BODY = "直して: core/inbox.py\n  второй ряд\twith a tab\nSELECT 1;"
SUBMITTED, UNCONFIRMED, NOTHING = (
    DeliveryOutcome.SUBMITTED,
    DeliveryOutcome.UNCONFIRMED,
    DeliveryOutcome.NOTHING_WRITTEN,
)


@pytest.fixture
def server() -> Iterator[HerdrServer]:
    with HerdrServer() as server:
        yield server


def framed(body: bytes | str = BODY) -> Text:
    return brief(body)


def transport(
    server: HerdrServer,
    agent: HerdrAgentStandIn,
    harness: str = "claude",
    session: str = "",
    echoes: Echoes | None = None,
) -> HerdrTransport:
    return HerdrTransport(server.target(agent), load_harness(harness), session=session, echoes=echoes)


async def reserve(via: HerdrTransport, when: str = "idle") -> Reserved:
    reserved = await via.reserve(when)
    assert isinstance(reserved, Reserved), reserved
    return reserved


async def refused(via: HerdrTransport, when: str = "idle") -> NotReady:
    answer = await via.reserve(when)
    assert isinstance(answer, NotReady), answer
    return answer


async def give(via: HerdrTransport, text: Text, when: str = "idle") -> Delivery:
    return await via.deliver(await reserve(via, when), text)


async def test_a_message_is_one_turn_and_its_bytes_are_the_cleaned_ones(server: HerdrServer) -> None:
    agent = server.add()
    text = framed()
    assert await give(transport(server, agent), text) == Delivery(SUBMITTED)
    assert agent.turns() == [text.framed]
    assert unframe(agent.turns()[0]) == clean(BODY) == BODY


async def test_a_body_that_ends_the_paste_stays_inside_it_though_herdr_passes_everything_on(
    server: HerdrServer,
) -> None:
    agent = server.add()
    await Herdr(server.socket).prompt(agent.terminal, "raw \x1b[201~ passes", 6)
    assert b"raw \x1b[201~ passes" in agent.raw, "herdr itself cleans nothing"
    agent.raw = b""
    body = "ok\x1b[201~\rtouch broken-out\r\x9b201~\x1b[200~/quit"
    assert (await give(transport(server, agent), framed(body))).outcome is SUBMITTED
    assert (agent.raw.count(PASTE_BEGIN), agent.raw.count(PASTE_END), agent.raw.count(b"\x1b")) == (1, 1, 2)
    assert unframe(agent.turns()[-1]) == clean(body)


async def test_no_hostile_body_brings_a_control_byte_into_herdr(server: HerdrServer, hostile: Hostile) -> None:
    agent = server.add()
    assert (await give(transport(server, agent), framed(hostile.body))).outcome is SUBMITTED
    text = agent.raw.removeprefix(PASTE_BEGIN).removesuffix(PASTE_END + b"\r").decode()
    assert not [c for c in text if unicodedata.category(c) == "Cc" and c not in "\n\t"]
    assert [unframe(turn) for turn in agent.turns()] == [clean(hostile.body)]


async def test_done_is_idle_and_messages_follow_each_other(server: HerdrServer) -> None:
    agent = server.add()
    via = transport(server, agent)
    for n in range(3):
        assert (await give(via, framed(f"brief {n}"))).outcome is SUBMITTED
        assert agent.status == "done"
        assert await via.state() is AgentState.IDLE
    assert [unframe(turn) for turn in agent.turns()] == ["brief 0", "brief 1", "brief 2"]


async def test_every_request_has_a_connection_of_its_own(server: HerdrServer) -> None:
    agent = server.add()
    via = transport(server, agent)
    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(via.state)
    assert len(server.requests) >= 8
    stream = await trio.open_unix_socket(server.socket)
    async with stream:
        await stream.send_all(b'{"id":"1","method":"ping","params":{}}\n{"id":"2","method":"ping","params":{}}\n')
        answers = b""
        while chunk := await stream.receive_some():
            answers += chunk
    assert answers.count(b"\n") == 1


@pytest.mark.parametrize(
    ("status", "options", "when", "state", "why"),
    [
        ("working", {}, "idle", AgentState.WORKING, "working"),
        ("working", {}, "turn", AgentState.WORKING, "working"),
        ("blocked", {}, "now", AgentState.BLOCKED, "dialog"),
        ("unknown", {}, "now", AgentState.UNKNOWN, "does not know"),
        ("", {"mode": "dialog"}, "now", AgentState.BLOCKED, "dialog"),
        ("idle", {"mode": "dialog"}, "idle", AgentState.BLOCKED, "dialog"),
        ("", {"draft": "half a thought"}, "idle", AgentState.IDLE, "draft"),
        ("", {"draft": "half a thought"}, "now", AgentState.IDLE, "draft"),
    ],
)
async def test_an_agent_that_cannot_take_it_now_is_left_alone(
    server: HerdrServer, status: str, options: dict[str, Any], when: str, state: AgentState, why: str
) -> None:
    agent = server.add(**options)
    agent.status_override = status
    answer = await refused(transport(server, agent), when)
    assert answer.state is state
    assert why in answer.why
    assert not answer.gone
    assert agent.raw == b""


async def test_a_blocked_agent_of_an_old_server_is_refused_here(server: HerdrServer) -> None:
    with HerdrServer(is_old=True) as old:
        agent = old.add()
        via = transport(old, agent)
        reserved = await reserve(via)
        agent.composer.mode = "dialog"
        assert (await via.deliver(reserved, framed())).outcome is NOTHING
        assert agent.events("allowed") == []
        assert agent.raw == b""


async def test_one_that_is_blocked_between_the_look_and_the_prompt_is_refused_by_the_server(
    server: HerdrServer,
) -> None:
    agent = server.add()
    agent.composer.mode = "dialog"
    with pytest.raises(HerdrError) as caught:
        await Herdr(server.socket).prompt(agent.terminal, "x", 6)
    assert caught.value.code == "agent_blocked"
    assert not caught.value.may_have_run
    assert agent.events("allowed") == []


async def test_a_prompt_without_an_effect_is_unconfirmed_and_not_repeated(server: HerdrServer) -> None:
    agent = server.add(swallow=9)
    done = await give(transport(server, agent), framed())
    assert done.outcome is UNCONFIRMED
    assert "agent_prompt_stalled" in done.detail
    assert agent.raw.count(PASTE_BEGIN) == 1


async def test_the_prompt_hook_s_word_is_evidence_where_herdr_saw_no_effect(server: HerdrServer) -> None:
    agent = server.add(swallow=9)
    echoes, text = Echoes(), framed()
    via = transport(server, agent, echoes=echoes)
    reserved = await reserve(via)
    token = trio.lowlevel.current_trio_token()

    def hear() -> None:
        trio.from_thread.run_sync(echoes.heard, text.framed, trio_token=token)

    agent.on_prompt = hear
    assert (await via.deliver(reserved, text)).outcome is SUBMITTED


async def test_now_into_a_working_agent_is_unconfirmed(server: HerdrServer) -> None:
    agent = server.add(mode="working", hold=True)
    done = await give(transport(server, agent), framed(), "now")
    assert done.outcome is UNCONFIRMED
    assert "mid-turn" in done.detail
    assert agent.events("queued")


async def test_a_pane_that_moves_is_the_same_agent(server: HerdrServer) -> None:
    agent = server.add()
    via = transport(server, agent)
    reserved = await reserve(via)
    server.move(agent)
    assert (await via.deliver(reserved, framed())).outcome is SUBMITTED
    server.move(agent)
    assert await via.state() is AgentState.IDLE


async def test_a_pane_that_moves_while_the_effect_is_waited_for_leaves_it_unconfirmed(server: HerdrServer) -> None:
    agent = server.add()
    agent.on_prompt = lambda: server.move(agent)
    done = await give(transport(server, agent), framed())
    assert done.outcome is UNCONFIRMED
    assert "agent_not_running" in done.detail
    assert agent.raw.count(PASTE_BEGIN) == 1


async def test_a_session_is_found_again_in_another_terminal(server: HerdrServer) -> None:
    """herdr was restarted: it resumes its agents in new terminals."""
    agent = server.add(session="b7e1")
    via = transport(server, agent)
    await reserve(via)
    agent.terminal = "term-99"
    assert (await give(via, framed())).outcome is SUBMITTED
    known = HerdrTransport(f"{server.socket}#term-1", load_harness("claude"), session="b7e1")
    assert await known.state() is AgentState.IDLE


async def test_another_agent_in_the_same_terminal_gets_nothing(server: HerdrServer) -> None:
    agent = server.add()
    via = transport(server, agent)
    reserved = await reserve(via)
    agent.session = "another"
    assert (await via.deliver(reserved, framed())).outcome is NOTHING
    agent.kind = "codex"
    answer = await refused(via)
    assert answer.gone
    assert "codex" in answer.why
    assert agent.raw == b""


async def test_a_program_without_a_description_gets_one_line(server: HerdrServer) -> None:
    agent = server.add(kind="pi")
    text = framed()
    assert (await give(transport(server, agent, "line"), text)).outcome is SUBMITTED
    assert agent.turns() == [text.notice]


async def test_a_body_over_the_harness_s_limit_is_announced(server: HerdrServer) -> None:
    agent = server.add()
    small = msgspec.structs.replace(load_harness("claude"), max_bytes=1_000)
    text = framed("long " * 500)
    assert (await give(HerdrTransport(server.target(agent), small), text)).outcome is SUBMITTED
    assert agent.turns() == [text.notice]


async def test_an_agent_that_is_gone_and_a_server_that_is_gone_are_gone(server: HerdrServer) -> None:
    agent = server.add()
    via = transport(server, agent)
    reserved = await reserve(via)
    server.agents.clear()
    assert (await refused(via)).gone
    assert (await via.deliver(reserved, framed())).outcome is NOTHING
    nobody = HerdrTransport(f"{server.folder}/none.sock#term-1", load_harness("claude"))
    answer = await refused(nobody)
    assert answer.gone
    assert "no herdr server" in answer.why
    assert await nobody.state() is AgentState.GONE


@pytest.mark.parametrize(
    "garbage", [b"", b"\n", b"{}\n", b"not json\n", b'{"id":"x","result":{"type":"ok"}}\n', b"[" * 99]
)
async def test_an_answer_that_is_none_is_not_taken_for_one(server: HerdrServer, garbage: bytes) -> None:
    agent = server.add()
    via = transport(server, agent)
    server.garbage = garbage
    answer = await refused(via)
    assert answer.state is AgentState.UNKNOWN
    assert not answer.gone
    with pytest.raises(HerdrError) as caught:
        await Herdr(server.socket).prompt(agent.terminal, "x", 6)
    assert caught.value.may_have_run


async def test_a_body_over_herdr_s_own_limit_is_announced_and_never_sent(server: HerdrServer) -> None:
    agent = server.add()
    text = framed('"' * (MOST_SENT * 2 // 3))
    assert (await give(transport(server, agent), text)).outcome is SUBMITTED
    assert agent.turns() == [text.notice]
    with pytest.raises(HerdrError) as caught:
        await Herdr(server.socket).prompt(agent.terminal, "x" * MOST_SENT, 6)
    assert caught.value.code == "too_long"


async def test_ping_tells_the_version(server: HerdrServer) -> None:
    assert await Herdr(server.socket).ping() == "0.8.2"


def test_the_socket_is_found_by_herdr_s_own_rules() -> None:
    assert socket_of({"HERDR_SOCKET_PATH": "/run/h.sock", "HERDR_SESSION": "x"}) == "/run/h.sock"
    assert (
        socket_of({"HOME": "/home/kim", "HERDR_SESSION": "work"}) == "/home/kim/.config/herdr/sessions/work/herdr.sock"
    )
    assert socket_of({"HOME": "/home/kim"}) == "/home/kim/.config/herdr/herdr.sock"
    assert os.path.isabs(socket_of({}))


@pytest.mark.parametrize("target", ["", "#", "/run/h.sock", "/run/h.sock#", "h.sock#term-1", "/run/h.sock#\n"])
def test_a_target_that_names_no_agent_of_herdr_is_refused(target: str) -> None:
    with pytest.raises(ConfigError, match="not an agent of herdr"):
        HerdrTransport(target, load_harness("claude"))
