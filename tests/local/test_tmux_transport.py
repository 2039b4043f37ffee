"""The last hop into a real tmux pane: every outcome, told by the agent's own log."""

from __future__ import annotations

import os
import shlex
import signal
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from fleettrio.errors import ConfigError
from fleettrio.local.frame import unframe
from fleettrio.local.harness import load_harness
from fleettrio.local.port import AgentState, Delivery, DeliveryOutcome, NotReady, Reserved, Text
from fleettrio.local.sanitise import clean
from fleettrio.local.tmux import TmuxTransport
from fleettrio.testing.agents.room import StandIn, TmuxRoom, composer, until
from fleettrio.testing.transport_case import framed as brief

if TYPE_CHECKING:
    from collections.abc import Mapping

BODY = "直して: `core/inbox.py` 👩🏽\u200d🚀\n  второй ряд\twith a tab and $(touch x)\nSELECT 1;"


def framed(body: str = BODY) -> Text:
    return brief(body)


def transport(room: TmuxRoom, target: str, harness: str = "script", **changes: object) -> TmuxTransport:
    """Bounds are short where a test waits for one to run out, and else long enough for a machine that is busy."""
    bounds = {"settle_s": 0.06, "echo_s": 60.0, "turn_s": 60.0}
    known = msgspec.structs.replace(load_harness(harness), **{**bounds, **changes})
    return TmuxTransport(target, known, env=room.env)


async def reserve(via: TmuxTransport, when: str = "idle") -> Reserved:
    reserved = await via.reserve(when)
    assert isinstance(reserved, Reserved), reserved
    return reserved


async def refused(via: TmuxTransport, when: str = "idle") -> NotReady:
    answer = await via.reserve(when)
    assert isinstance(answer, NotReady), answer
    return answer


async def give(via: TmuxTransport, text: Text, when: str = "idle") -> Delivery:
    return await via.deliver(await reserve(via, when), text)


async def test_three_lines_are_one_turn_and_unframe_to_the_cleaned_body(room: TmuxRoom) -> None:
    agent = await room.start()
    text = framed()
    assert (await give(transport(room, agent.target), text)).outcome is DeliveryOutcome.SUBMITTED
    (turn,) = await until("a turn", agent.turns)
    assert turn == text.framed
    assert unframe(turn) == clean(BODY) == BODY


async def test_a_body_of_200_kb_is_one_turn_with_every_byte(room: TmuxRoom) -> None:
    agent = await room.start()
    body = "\n".join(f"{n:06d} 記録 line of a log; with a `tick` and 'quotes' {'x' * (n % 90)}" for n in range(2_200))
    assert len(body.encode()) > 200_000
    assert (await give(transport(room, agent.target), framed(body))).outcome is DeliveryOutcome.SUBMITTED
    (turn,) = await until("a turn", agent.turns)
    assert unframe(turn) == body


async def test_a_body_that_ends_the_paste_stays_inside_it(room: TmuxRoom) -> None:
    agent = await room.start()
    body = "ok\x1b[201~\rtouch broken-out\r\x9b201~\x1b[200~/quit\n!ls"
    assert (await give(transport(room, agent.target), framed(body))).outcome is DeliveryOutcome.SUBMITTED
    (turn,) = await until("a turn", agent.turns)
    assert unframe(turn) == clean(body)


async def test_deliveries_follow_each_other(room: TmuxRoom) -> None:
    agent = await room.start()
    via = transport(room, agent.target)
    for n in range(3):
        assert (await give(via, framed(f"brief {n}"))).outcome is DeliveryOutcome.SUBMITTED
    await until("three turns", lambda: len(agent.turns()) == 3)
    assert [unframe(turn) for turn in agent.turns()] == ["brief 0", "brief 1", "brief 2"]


async def test_a_program_without_bracketed_paste_gets_one_line_that_names_the_inbox(room: TmuxRoom) -> None:
    agent = await room.start("--no-paste")
    text = framed()
    assert (await give(transport(room, agent.target, "line"), text)).outcome is DeliveryOutcome.SUBMITTED
    assert await until("a turn", agent.turns) == [text.notice]


async def test_a_body_over_the_harness_s_limit_is_announced_by_the_notice(room: TmuxRoom) -> None:
    agent = await room.start()
    text = framed("long " * 500)
    done = await give(transport(room, agent.target, max_bytes=1_000), text)
    assert done.outcome is DeliveryOutcome.SUBMITTED
    assert await until("a turn", agent.turns) == [text.notice]


async def test_an_idle_agent_is_idle_and_looking_changes_nothing(room: TmuxRoom) -> None:
    agent = await room.start()
    via = transport(room, agent.target)
    before = room.screen(agent.pane)
    assert await via.state() is AgentState.IDLE
    assert await reserve(via) == await reserve(via)
    assert room.screen(agent.pane) == before
    assert [event["event"] for event in agent.events()] == ["begun"]


@pytest.mark.parametrize(
    ("options", "when", "state", "why"),
    [
        (("--draft", "half typed"), "idle", AgentState.IDLE, "draft"),
        (("--draft", "half typed"), "now", AgentState.IDLE, "draft"),
        (("--mode", "dialog"), "now", AgentState.BLOCKED, "dialog"),
        (("--mode", "working"), "idle", AgentState.WORKING, "working"),
        (("--mode", "working"), "turn", AgentState.WORKING, "working"),
        (("--mode", "working", "--draft", "half typed"), "now", AgentState.WORKING, "draft"),
    ],
)
async def test_an_agent_that_cannot_take_it_now_is_left_alone(
    room: TmuxRoom, options: tuple[str, ...], when: str, state: AgentState, why: str
) -> None:
    agent = await room.start(*options)
    answer = await refused(transport(room, agent.target), when)
    assert answer.state is state
    assert why in answer.why
    assert not answer.gone


async def test_now_reaches_a_working_agent_and_is_unconfirmed_until_its_turn(room: TmuxRoom) -> None:
    agent = await room.start("--mode", "working", "--hold")
    done = await give(transport(room, agent.target), framed(), "now")
    assert done.outcome is DeliveryOutcome.UNCONFIRMED
    assert "mid-turn" in done.detail
    await until("it is queued", lambda: agent.events("queued"))
    agent.finish()
    assert [unframe(turn) for turn in await until("its turn", agent.turns)] == [BODY]


async def test_a_turn_that_goes_on_is_seen_to_begin(room: TmuxRoom) -> None:
    agent = await room.start("--hold")
    via = transport(room, agent.target)
    assert (await give(via, framed())).outcome is DeliveryOutcome.SUBMITTED
    assert await via.state() is AgentState.WORKING


async def test_a_dead_pane_is_gone_and_its_server_lives(room: TmuxRoom) -> None:
    agent = await room.start()
    via = transport(room, agent.target)
    reserved = await reserve(via)
    room.tmux("send-keys", "-t", agent.pane, "C-d")
    await until("the pane is dead", lambda: room.fact(agent.pane, "pane_dead") == "1")
    assert (await via.deliver(reserved, framed())).outcome is DeliveryOutcome.NOTHING_WRITTEN
    answer = await refused(via)
    assert answer.gone
    assert await via.state() is AgentState.GONE
    assert room.fact(agent.pane, "pane_dead") == "1"


async def test_a_pane_that_never_was_is_gone(room: TmuxRoom) -> None:
    via = transport(room, f"{room.socket}:%4711")
    assert (await refused(via)).gone
    assert await via.state() is AgentState.GONE


async def test_another_program_in_the_same_pane_is_not_the_agent(room: TmuxRoom) -> None:
    agent = await room.start()
    via = transport(room, agent.target)
    reserved = await reserve(via)
    room.tmux("respawn-pane", "-k", "-t", agent.pane, "cat")
    await until("the pane runs again", lambda: room.fact(agent.pane, "pane_dead") == "0")
    assert (await via.deliver(reserved, framed())).outcome is DeliveryOutcome.NOTHING_WRITTEN
    assert (await refused(via)).gone


async def test_the_next_program_of_the_same_shell_does_not_get_what_was_for_the_last(room: TmuxRoom) -> None:
    first, second = room.folder / "first.jsonl", room.folder / "second.jsonl"
    pane = room.run(["bash", "-mc", f"{shlex.join(composer(first))}; {shlex.join(composer(second))}"])
    via = transport(room, f"{room.socket}:{pane}")
    await until("the first one's composer", lambda: "❯" in room.screen(pane))
    reserved = await reserve(via)
    room.tmux("send-keys", "-t", pane, "C-d")
    heir = StandIn(pane, f"{room.socket}:{pane}", second)
    await until("the second one has begun", lambda: heir.events("begun"))
    await until("the second one's composer", lambda: "❯" in room.screen(pane))
    done = await via.deliver(reserved, framed())
    assert done.outcome is DeliveryOutcome.NOTHING_WRITTEN
    assert "another program" in done.detail
    assert heir.turns() == []


async def test_copy_mode_is_waited_out(room: TmuxRoom) -> None:
    agent = await room.start()
    via = transport(room, agent.target)
    reserved = await reserve(via)
    room.tmux("copy-mode", "-t", agent.pane)
    assert "copy mode" in (await refused(via)).why
    assert (await via.deliver(reserved, framed())).outcome is DeliveryOutcome.NOTHING_WRITTEN
    room.tmux("send-keys", "-X", "-t", agent.pane, "cancel")
    assert (await give(via, framed())).outcome is DeliveryOutcome.SUBMITTED
    assert len(await until("a turn", agent.turns)) == 1


async def test_a_draft_begun_after_the_reservation_is_not_touched(room: TmuxRoom) -> None:
    agent = await room.start()
    via = transport(room, agent.target)
    reserved = await reserve(via)
    room.tmux("send-keys", "-l", "-t", agent.pane, "wait")
    await until("the draft shows", lambda: "❯ wait" in room.screen(agent.pane))
    done = await via.deliver(reserved, framed())
    assert done.outcome is DeliveryOutcome.NOTHING_WRITTEN
    assert "draft" in done.detail
    assert "❯ wait" in room.screen(agent.pane)


async def test_a_dialog_that_opens_after_the_reservation_gets_nothing(room: TmuxRoom) -> None:
    agent = await room.start()
    via = transport(room, agent.target)
    reserved = await reserve(via)
    agent.open_dialog()
    await until("the dialog shows", lambda: "1. Yes" in room.screen(agent.pane))
    assert (await via.deliver(reserved, framed())).outcome is DeliveryOutcome.NOTHING_WRITTEN
    assert agent.events("allowed") == agent.events("lost") == []


async def test_a_dialog_that_opens_on_the_paste_is_never_answered(room: TmuxRoom) -> None:
    agent = await room.start("--dialog-on-paste")
    done = await give(transport(room, agent.target), framed())
    assert done.outcome is DeliveryOutcome.UNCONFIRMED
    assert "dialog" in done.detail
    assert "Enter was not pressed" in done.detail
    assert agent.events("allowed") == []


async def test_a_dialog_that_no_harness_knows_is_not_answered_either(room: TmuxRoom) -> None:
    agent = await room.start("--dialog-on-paste")
    done = await give(transport(room, agent.target, dialog=None, echo_s=1.0), framed())
    assert done.outcome is DeliveryOutcome.UNCONFIRMED
    assert "Enter was not pressed" in done.detail
    assert agent.events("allowed") == []


async def test_a_notice_that_wraps_in_a_narrow_pane_is_one_turn(room: TmuxRoom) -> None:
    text = framed()
    pane = room.run(["sh", "-c", "printf '> '; read -r line; printf 'got %s' \"$line\"; exec cat >/dev/null"])
    room.tmux("resize-window", "-t", pane, "-x", "30", "-y", "20")
    await until("its prompt", lambda: room.screen(pane).startswith(">"))
    done = await give(transport(room, f"{room.socket}:{pane}", "line"), text)
    assert done.outcome is DeliveryOutcome.SUBMITTED
    await until("the line", lambda: f"got {text.notice}" in room.tmux("capture-pane", "-p", "-J", "-t", pane))


@pytest.mark.parametrize("swallow_as", ["nothing", "line"])
async def test_a_swallowed_enter_is_followed_by_the_other_form_once(room: TmuxRoom, swallow_as: str) -> None:
    agent = await room.start("--swallow", "1", "--swallow-as", swallow_as)
    done = await give(transport(room, agent.target, turn_s=8.0), framed())
    assert done.outcome is DeliveryOutcome.SUBMITTED
    (turn,) = await until("a turn", agent.turns)
    assert unframe(turn) == BODY


async def test_an_enter_that_never_submits_is_unconfirmed_and_tried_twice_only(room: TmuxRoom) -> None:
    agent = await room.start("--swallow", "9")
    done = await give(transport(room, agent.target, turn_s=0.3), framed())
    assert done.outcome is DeliveryOutcome.UNCONFIRMED
    await until("both were read", lambda: len(agent.events("ignored")) >= 2)
    assert len(agent.events("ignored")) == 2
    assert agent.turns() == []


async def test_a_program_that_shows_no_paste_gets_no_enter(room: TmuxRoom) -> None:
    script = "import sys,termios,tty; tty.setraw(0); sys.stdout.write('\\r❯ '); sys.stdout.flush(); sys.stdin.read()"
    pane = room.run(["python3", "-c", script])
    await until("its prompt", lambda: "❯" in room.screen(pane))
    done = await give(transport(room, f"{room.socket}:{pane}", echo_s=0.3), framed())
    assert done.outcome is DeliveryOutcome.UNCONFIRMED
    assert "Enter was not pressed" in done.detail


async def test_a_shell_prompt_is_no_agent(room: TmuxRoom) -> None:
    pane = room.run(["env", "PS1=❯ ", "bash", "--norc", "--noprofile", "-i"])
    await until("its prompt", lambda: "❯" in room.screen(pane))
    answer = await refused(transport(room, f"{room.socket}:{pane}"))
    assert answer.gone
    assert "shell" in answer.why


async def test_an_agent_that_was_suspended_waits_while_another_one_is_in_front(room: TmuxRoom) -> None:
    """Both show a composer; the one in front is not the agent, though it is the same program."""
    pane = room.run(["env", "PS1=$ ", "bash", "--norc", "--noprofile", "-i"])
    await until("its prompt", lambda: "$" in room.screen(pane))
    both = [StandIn(pane, "", room.folder / f"{name}.jsonl") for name in ("first", "second")]
    for agent in both:
        room.tmux("send-keys", "-l", "-t", pane, shlex.join(composer(agent.log)))
        room.tmux("send-keys", "-t", pane, "Enter")
        await until("it has begun", agent.events)
        if agent is both[0]:
            os.kill(agent.pid, signal.SIGSTOP)
            await until("the shell has the terminal", lambda: "Stopped" in room.screen(pane))
    await until("the second one's composer", lambda: "❯" in room.screen(pane).rpartition("Stopped")[2])
    known = load_harness("script")
    first, second = (TmuxTransport(f"{room.socket}:{pane}", known, env=room.env, program=agent.pid) for agent in both)
    answer = await refused(first)
    assert "another program is in front of it" in answer.why
    assert not answer.gone
    assert (await give(second, framed())).outcome is DeliveryOutcome.SUBMITTED
    assert both[0].turns() == []
    os.kill(both[0].pid, signal.SIGKILL)


async def test_a_program_nobody_described_gets_nothing_while_a_shell_is_at_the_prompt(room: TmuxRoom) -> None:
    """The shell would run the line; the agent is started there later."""
    pane = room.run(["env", "PS1=$ ", "bash", "--norc", "--noprofile", "-i"])
    await until("its prompt", lambda: "$" in room.screen(pane))
    via = transport(room, f"{room.socket}:{pane}", "line")
    answer = await refused(via)
    assert answer.why == "a shell is at the prompt of this pane; start the agent there"
    assert not answer.gone
    program = room.folder / "agent.sh"
    program.write_text("printf 'say: '; read -r line; printf 'got %s' \"$line\"; exec cat >/dev/null\n")
    room.tmux("send-keys", "-t", pane, f"sh {program}", "Enter")
    await until("the agent's prompt", lambda: "say:" in room.screen(pane))
    text = framed()
    assert (await give(via, text)).outcome is DeliveryOutcome.SUBMITTED
    await until("the line", lambda: f"got {text.notice}" in room.tmux("capture-pane", "-p", "-J", "-t", pane))


async def test_a_composer_painted_over_wrapped_lines_is_empty(room: TmuxRoom) -> None:
    """tmux keeps its mark of a wrapped line on the row, whatever is painted over it."""
    pane = room.run(["env", "PS1=$ ", "bash", "--norc", "--noprofile", "-i"])
    await until("its prompt", lambda: "$" in room.screen(pane))
    log = room.folder / "painted.jsonl"
    rows = "x" * (10 * 110)
    room.tmux("send-keys", "-t", pane, f"clear; echo {rows}; {shlex.join(composer(log))}", "Enter")
    await until("the composer", lambda: "❯" in room.screen(pane))
    assert "❯ " + " " * 20 in room.tmux("capture-pane", "-p", "-J", "-t", pane), "its row is marked as wrapped"
    text = framed()
    assert (await give(transport(room, f"{room.socket}:{pane}"), text)).outcome is DeliveryOutcome.SUBMITTED
    assert await until("a turn", StandIn(pane, "", log).turns) == [text.framed]


async def test_a_screen_without_a_composer_is_unknown_and_left_alone(room: TmuxRoom) -> None:
    pane = room.run(["cat"])
    answer = await refused(transport(room, f"{room.socket}:{pane}"), "now")
    assert answer.state is AgentState.UNKNOWN
    assert "composer" in answer.why


async def test_two_transports_into_one_pane_do_not_mix_their_texts(room: TmuxRoom) -> None:
    agent = await room.start()
    first, second = transport(room, agent.target), transport(room, agent.target)
    reserved = {via: await reserve(via) for via in (first, second)}
    outcomes = await both(reserved)
    assert set(outcomes) <= {DeliveryOutcome.SUBMITTED, DeliveryOutcome.NOTHING_WRITTEN}
    submitted = outcomes.count(DeliveryOutcome.SUBMITTED)
    await until("the turns", lambda: len(agent.turns()) == submitted)
    assert all(unframe(turn) == BODY for turn in agent.turns())


async def both(reserved: Mapping[TmuxTransport, Reserved]) -> list[DeliveryOutcome]:
    outcomes: list[DeliveryOutcome] = []

    async def one(via: TmuxTransport) -> None:
        outcomes.append((await via.deliver(reserved[via], framed())).outcome)

    async with trio.open_nursery() as nursery:
        for via in reserved:
            nursery.start_soon(one, via)
    return outcomes


@pytest.mark.parametrize("target", ["", "3", "%", "a:b:%3", "main:0.1", "%3; kill-server"])
def test_a_target_that_names_no_pane_is_refused(target: str) -> None:
    with pytest.raises(ConfigError, match="not a tmux pane"):
        TmuxTransport(target, load_harness("script"))
