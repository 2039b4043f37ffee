"""The driver against a real tmux: bytes arrive whole or not at all, and the server outlives every call."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleettrio.panes.foreground import foreground
from fleettrio.panes.terminal import PaneFacts
from fleettrio.panes.tmux import Tmux, TmuxError, parse_target
from fleettrio.testing.agents.room import TmuxRoom, until


def driver(room: TmuxRoom) -> Tmux:
    return Tmux(room.socket, room.env)


async def facts(room: TmuxRoom, pane: str) -> PaneFacts:
    found = await driver(room).facts(pane)
    assert found is not None
    return found


def test_a_target_is_a_pane_or_a_server_and_a_pane() -> None:
    assert parse_target("%3") == (None, "%3")
    assert parse_target("work:%12") == ("work", "%12")
    assert parse_target("/tmp/tmux-0/default:%0") == ("/tmp/tmux-0/default", "%0")


async def test_a_pane_is_described(room: TmuxRoom) -> None:
    pane = room.run(["cat"])
    await until("it has the terminal", lambda: room.fact(pane, "pane_current_command") == "cat")
    room.tmux("select-pane", "-t", pane, "-T", "a|b ✳ title")
    found = await facts(room, pane)
    assert (found.pane, found.dead, found.in_mode, found.command) == (pane, False, False, "cat")
    assert (found.width, found.height, found.title) == (110, 40, "a|b ✳ title")
    assert found.pid == int(room.fact(pane, "pane_pid"))
    assert found.tty.startswith("/dev/")
    assert await driver(room).exists(pane)
    assert await driver(room).resolve(pane) == pane


async def test_what_is_not_there_is_none(room: TmuxRoom) -> None:
    tmux = driver(room)
    assert await tmux.facts("%999") is None
    assert await tmux.capture("%999") is None
    assert await tmux.resolve("nowhere:9") is None
    assert not await tmux.exists("%999")
    assert not await tmux.paste("%999", b"x")
    assert not await tmux.send_enter("%999", "Enter")
    assert room.tmux("list-buffers") == ""


async def test_without_a_server_nothing_is_there_and_nothing_is_written(room: TmuxRoom) -> None:
    tmux = Tmux(f"{room.socket}-none", room.env)
    assert await tmux.facts("%0") is None
    assert not await tmux.send_enter("%0", "C-m")
    assert not await tmux.paste("%0", b"x")


async def test_wide_characters_and_wrapped_lines_are_captured_as_they_are(room: TmuxRoom) -> None:
    line = "漢字 👩🏽 and " + "long " * 40 + "end"
    pane = room.run(["sh", "-c", 'printf "%s\\n❯\\302\\240\\n" "$1"; exec cat', "sh", line])
    await until("it is printed", lambda: "end" in room.screen(pane))
    lines = await driver(room).capture(pane)
    assert lines is not None
    assert lines[0] == line
    assert lines[1] == "❯\xa0"


@pytest.mark.parametrize("trouble", ["dead", "copy mode"])
async def test_a_pane_that_cannot_take_it_gets_nothing_and_the_server_lives(room: TmuxRoom, trouble: str) -> None:
    pane = room.run(["true"] if trouble == "dead" else ["cat"])
    if trouble == "dead":
        await until("it is dead", lambda: room.fact(pane, "pane_dead") == "1")
    else:
        room.tmux("copy-mode", "-t", pane)
    tmux = driver(room)
    assert not await tmux.paste(pane, b"words\n")
    assert not await tmux.send_enter(pane, "Enter")
    found = await facts(room, pane)
    assert (found.dead, found.in_mode) == (trouble == "dead", trouble != "dead")
    assert "words" not in room.screen(pane)
    assert room.tmux("list-buffers") == ""


@pytest.mark.parametrize("ending", [";", "\\;", " ;", "'", "-", "#{pane_id}"])
async def test_a_paste_is_exact_and_leaves_no_buffer_behind(room: TmuxRoom, ending: str) -> None:
    agent = await room.start()
    tmux = driver(room)
    text = "-t %0 first\n\tsecond 漢字 " + ending
    assert await tmux.paste(agent.pane, text.encode())
    await until("the paste shows", lambda: "second" in room.screen(agent.pane))
    assert await tmux.send_enter(agent.pane, "C-m")
    assert await until("a turn", agent.turns) == [text]
    assert room.tmux("list-buffers") == ""


async def test_a_missing_tmux_is_said(room: TmuxRoom) -> None:
    tmux = Tmux(room.socket, {**room.env, "PATH": str(room.folder)})
    with pytest.raises(TmuxError, match="cannot be started") as caught:
        await tmux.paste("%0", b"x")
    assert not caught.value.may_have_run


@pytest.mark.parametrize(
    ("argv", "at_prompt"),
    [
        (["bash", "--norc", "--noprofile", "-i"], True),
        (["sh"], True),
        (["sh", "-c", "echo started; cat; true"], False),
        (["cat"], False),
    ],
)
async def test_a_shell_that_waits_for_commands_is_told_from_a_program(
    room: TmuxRoom, argv: list[str], at_prompt: bool
) -> None:
    pane = room.run(argv)
    command_line = Path("/proc", room.fact(pane, "pane_pid"), "cmdline")
    # The shell that tmux starts it by has handed over the process by then.
    await until("it runs", lambda: command_line.read_bytes().split(b"\0")[:-1] == [word.encode() for word in argv])
    assert foreground(await facts(room, pane)).at_shell_prompt is at_prompt
