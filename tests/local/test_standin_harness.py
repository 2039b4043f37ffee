"""The stand-in for Claude Code and Codex keeps their contracts with hooks: what the other tests rely on."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import trio

from fleettrio.local.harness import load_harness
from fleettrio.local.port import AgentState
from fleettrio.local.tmux import TmuxTransport
from fleettrio.testing.agents.room import BOUND_S, StandIn, TmuxRoom, until

if TYPE_CHECKING:
    from pathlib import Path


def settings(**commands: str | tuple[str, dict[str, Any]]) -> str:
    """Claude Code's settings with one hook an event."""
    hooks = {}
    for event, command in commands.items():
        text, more = (command, {}) if isinstance(command, str) else command
        hooks[event] = [{"hooks": [{"type": "command", "command": text, "timeout": 10, **more}]}]
    return json.dumps({"hooks": hooks})


def printing(output: object) -> str:
    return f"cat >/dev/null; echo {shlex.quote(output if isinstance(output, str) else json.dumps(output))}"


def contexts(agent: StandIn, event: str) -> list[str]:
    return [entry["text"] for entry in agent.events("context") if entry["name"] == event]


def status(home: Path, agent: StandIn) -> str:
    file = home / ".claude" / "sessions" / f"{agent.pid}.json"
    return str(json.loads(file.read_bytes())["status"]) if file.exists() else "gone"


def type_in(room: TmuxRoom, agent: StandIn, text: str) -> None:
    room.tmux("send-keys", "-t", agent.pane, "-l", text)
    room.tmux("send-keys", "-t", agent.pane, "Enter")


async def becomes(transport: TmuxTransport, state: AgentState) -> None:
    with trio.fail_after(BOUND_S):
        while await transport.state() is not state:
            await trio.lowlevel.checkpoint()


async def test_a_prompt_hook_gets_the_prompt_and_its_context_goes_in(room: TmuxRoom, tmp_path: Path) -> None:
    given = tmp_path / "given"
    context = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "ctx-1"}, "newer": 1}
    hooks = settings(UserPromptSubmit=f"tee {given} | grep -q . ; echo {shlex.quote(json.dumps(context))}")
    agent = await room.start_harness("claude", "--hold", "--settings", hooks, home=tmp_path)
    assert status(tmp_path, agent) == "idle"

    type_in(room, agent, "hello")
    await until("the turn began", agent.turns)

    assert contexts(agent, "UserPromptSubmit") == ["ctx-1"]
    fields = json.loads(given.read_bytes())
    assert (fields["prompt"], fields["hook_event_name"]) == ("hello", "UserPromptSubmit")
    assert fields["prompt_id"]
    assert status(tmp_path, agent) == "busy"
    assert "hook_additional_context" in (tmp_path / ".claude" / "projects").rglob("*.jsonl").__next__().read_text()


async def test_a_stop_hook_keeps_it_going_eight_times_at_most(room: TmuxRoom, tmp_path: Path) -> None:
    more = {"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "more"}}
    agent = await room.start_harness("claude", "--settings", settings(Stop=printing(more)), home=tmp_path)

    type_in(room, agent, "go")
    await until("it stopped", lambda: agent.events("stopped"))

    assert len(contexts(agent, "Stop")) == 8


async def test_an_interrupt_is_silent_and_only_the_session_file_tells(room: TmuxRoom, tmp_path: Path) -> None:
    agent = await room.start_harness("claude", "--hold", "--settings", settings(Stop=printing("")), home=tmp_path)
    type_in(room, agent, "go")
    await until("the turn began", agent.turns)

    room.tmux("send-keys", "-t", agent.pane, "Escape")
    await until("it was interrupted", lambda: agent.events("interrupted"))

    assert status(tmp_path, agent) == "idle"
    assert agent.events("hook") == []


async def test_a_waiting_hook_wakes_it_when_idle_and_leaves_dialog_and_draft_alone(
    room: TmuxRoom, tmp_path: Path
) -> None:
    wait = f"while ! test -e {tmp_path}/go; do sleep 0.02; done; echo rise >&2; exit 2"
    hooks = settings(SessionStart=(wait, {"asyncRewake": True, "timeout": 30}))
    agent = await room.start_harness("claude", "--settings", hooks, "--draft", "half typed", home=tmp_path)
    agent.open_dialog()
    await until("the dialog is open", lambda: status(tmp_path, agent) == "waiting")

    (tmp_path / "go").touch()
    with trio.move_on_after(0.3):
        await until("never: the dialog is open", agent.turns)
    assert agent.turns() == []
    agent.finish()
    await until("it woke", agent.turns)

    assert "rise" in agent.turns()[0]
    await until("its draft stands there", lambda: "half typed" in room.screen(agent.pane))


async def test_what_is_queued_and_taken_back_loses_its_context(room: TmuxRoom, tmp_path: Path) -> None:
    context = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "lost"}}
    hooks = settings(UserPromptSubmit=printing(context))
    agent = await room.start_harness("claude", "--hold", "--settings", hooks, home=tmp_path)
    type_in(room, agent, "one")
    await until("the turn began", agent.turns)
    type_in(room, agent, "two")
    await until("it is queued", lambda: agent.events("queued"))

    room.tmux("send-keys", "-t", agent.pane, "Up")
    await until("it was taken back", lambda: agent.events("taken-back"))
    agent.finish()
    await until("the turn is over", lambda: agent.events("stopped"))

    assert len(contexts(agent, "UserPromptSubmit")) == 1
    assert len(agent.turns()) == 1


async def test_codex_drops_an_output_with_an_unknown_key_and_announces_itself_late(
    room: TmuxRoom, tmp_path: Path
) -> None:
    (tmp_path / ".codex").mkdir()
    specific = {"hookEventName": "UserPromptSubmit", "additionalContext": "ctx"}
    hooks = settings(
        SessionStart=printing("started"),
        UserPromptSubmit=printing({"hookSpecificOutput": specific, "newer": 1}),
        Stop=printing({"decision": "block", "reason": "go on"}),
        Interrupt="cat >/dev/null",
    )
    (tmp_path / ".codex" / "hooks.json").write_text(hooks)
    agent = await room.start_harness("codex", "--hold", home=tmp_path)
    assert agent.events("hook") == []

    type_in(room, agent, "go")
    await until("the turn began", agent.turns)
    assert [entry["name"] for entry in agent.events("hook")] == ["SessionStart", "UserPromptSubmit"]
    assert [entry["name"] for entry in agent.events("dropped")] == ["UserPromptSubmit"]
    agent.finish()
    await until("a stop hook kept it going", lambda: contexts(agent, "Stop"))
    room.tmux("send-keys", "-t", agent.pane, "Escape")
    await until("it was interrupted", lambda: agent.events("interrupted"))
    assert agent.events("hook")[-1]["name"] == "Interrupt"


async def test_the_shipped_harness_files_read_its_screens(room: TmuxRoom, tmp_path: Path) -> None:
    for name in ("claude", "codex"):
        agent = await room.start_harness(name, "--hold", home=tmp_path)
        transport = TmuxTransport(agent.target, load_harness(name), env=room.env)
        await becomes(transport, AgentState.IDLE)
        type_in(room, agent, "go")
        await until("the turn began", agent.turns)
        await becomes(transport, AgentState.WORKING)
        agent.open_dialog()
        await becomes(transport, AgentState.BLOCKED)
        agent.finish()
        await becomes(transport, AgentState.WORKING)
        agent.finish()
        await becomes(transport, AgentState.IDLE)
