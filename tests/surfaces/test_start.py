"""`fleettrio claude|codex|opencode`: agents from their first moment on, in panes, with nothing written anywhere."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.waiting import wait_until
from tests.surfaces.started import FLEETTRIO, Desk


@pytest.fixture
def desk(room: TmuxRoom) -> Iterator[Desk]:
    with Desk(room) as desk:
        yield desk


def words_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")


def test_one_machine_is_two_commands_and_nothing_else(desk: Desk) -> None:
    """The daemon starts by itself; what an agent's shell sends is the agent's, with or without its token."""
    panes = {name: desk.terminal() for name in "ab"}
    for name, pane in panes.items():
        desk.start(pane, f"claude --name {name}")
    a, b = (desk.wait_agent(name) for name in "ab")
    assert (a.takes, a.path.split(", ")[-1], a.wakes, a.harness) == ("push", "tmux", True, "claude")
    for agent in (a, b):
        desk.wait_up(agent)
        assert desk.events(agent, "begun")[0]["session"] == agent.session
        assert not any("FLEETTRIO_TOKEN" in word for word in words_of(agent.pid))
    desk.type(panes["a"], f"run env -u FLEETTRIO_TOKEN {FLEETTRIO} send b 'a word for you'")
    desk.wait_saw(b, "a word for you")
    assert "a@alpha" in desk.saw(b, "a word for you")[0]["text"]
    written = {path.relative_to(desk.home).parts[:2] for path in desk.home.rglob("*") if path.is_file()}
    assert written <= {(".claude", "sessions"), (".claude", "projects")}, "only what the program itself writes"


def test_a_session_is_an_address_and_clear_keeps_id_and_inbox(desk: Desk) -> None:
    pane = desk.terminal()
    desk.start(pane, "claude --name a")
    before = desk.wait_agent("a")
    desk.wait_up(before)
    assert desk.host.ok("send", f"session:{before.session}", "by its session").code == 0
    desk.wait_saw(before, "by its session")
    desk.type(pane, "/clear")
    after = desk.wait_agent("a", is_so=lambda agent: agent.session not in ("", before.session))
    assert (after.gid, after.pid) == (before.gid, before.pid)
    assert desk.host.cli("send", f"session:{before.session}", "the old one").code == 3


def test_six_with_one_configuration_are_six_and_restarts_keep_them(desk: Desk) -> None:
    def six() -> dict[str, str] | None:
        there = {name: agent.gid for name, agent in desk.agents().items() if agent.status != "away"}
        return there if len(there) == 6 else None

    def start_six() -> dict[str, str]:
        started = [desk.host.popen("claude", "--detach", cwd=desk.work) for _ in range(6)]
        for process in started:
            out, err = process.communicate(timeout=300)
            assert process.returncode == 0, (out, err)
        return wait_until("all six are there", six)

    first = start_six()
    assert sorted(first) == ["claude-work", *(f"claude-work-{n}" for n in range(2, 7))]
    assert len(set(first.values())) == 6
    pids = {name: agent.pid for name, agent in desk.agents().items()}
    desk.kill_daemon()
    desk.host.ok("up")
    wanted = {name: (first[name], pids[name]) for name in first}
    wait_until("all are known", lambda: {n: (a.gid, a.pid) for n, a in desk.agents().items()} == wanted)
    again = desk.agents()
    short = desk.host.ok("send", "claude-work-3", "after the restart", "--json").json()["messages"][0]["short"]
    desk.wait_saw(again["claude-work-3"], "after the restart")
    assert short
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    for name in first:
        desk.wait_agent(name, "away")
    assert start_six() == first


def test_at_its_end_the_agent_is_away_the_code_is_its_own_and_the_terminal_the_persons(desk: Desk) -> None:
    pane = desk.terminal()
    desk.start(pane, 'opencode --name o; echo "code $?"')
    desk.wait_agent("o")
    desk.wait_screen(pane, "opencode is here")
    desk.type(pane, "quit 7")
    desk.wait_screen(pane, "code 7")
    assert not desk.wait_agent("o", "away").wakes
    desk.start(pane, "claude --name a --detach")
    a = desk.wait_agent("a")
    desk.start(pane, "send a 'from my prompt'")
    desk.wait_saw(a, "from my prompt")
    assert "human@alpha" in desk.saw(a, "from my prompt")[0]["text"]


def test_what_came_while_it_was_away_waits_for_it(desk: Desk) -> None:
    pane = desk.terminal()
    desk.start(pane, 'claude --name a; echo "code $?"')
    before = desk.wait_agent("a")
    desk.wait_up(before)
    desk.type(pane, "/quit")
    desk.wait_agent("a", "away")
    desk.wait_screen(pane, "code 0")  # the terminal is the shell's again
    desk.host.ok("send", "a", "for later")
    desk.start(pane, "claude --name a")
    after = desk.wait_agent("a")
    assert (after.gid, after.pid == before.pid) == (before.gid, False)
    desk.wait_saw(after, "for later")


def test_a_name_that_a_live_session_holds_is_told_and_only_taken_by_choice(desk: Desk) -> None:
    panes = desk.terminal(), desk.terminal()
    desk.start(panes[0], "claude --name a")
    held = desk.wait_agent("a")
    desk.start(panes[1], 'claude --name a; echo "code $?"')
    desk.wait_screen(panes[1], "code 3")
    desk.wait_screen(panes[1], "a is held by a live session")
    desk.start(panes[1], "claude --name a --take")
    taken = desk.wait_agent("a", is_so=lambda agent: agent.pid != held.pid)
    assert taken.gid == held.gid


def test_outside_tmux_a_session_is_made_and_shown_and_left_running(desk: Desk) -> None:
    pane = desk.terminal()
    desk.type(pane, f"env -u TMUX -u TMUX_PANE {FLEETTRIO} opencode --name o; echo code $?")
    agent = desk.wait_agent("o")
    desk.wait_screen(pane, "opencode is here")
    desk.room.tmux("send-keys", "-t", pane, "C-b", "d")
    desk.wait_screen(pane, "it runs on; to look at it again: tmux -L ")
    desk.wait_screen(pane, "code 0")
    assert desk.wait_agent("o").pid == agent.pid
    desk.type(pane, agent.attach)
    wait_until("it is shown again", lambda: "opencode is here" in desk.room.screen(pane))
    desk.type(pane, "quit 0")
    desk.wait_agent("o", "away")
    desk.wait_screen(pane, "[exited]")
    desk.type(pane, f"clear; env -u TMUX -u TMUX_PANE {FLEETTRIO} opencode --name o; echo code $?")
    desk.wait_screen(pane, "opencode is here")
    desk.wait_agent("o")
    desk.type(pane, "quit 5")
    desk.wait_screen(pane, "code 5")


def test_codex_gets_its_hooks_its_tools_and_a_server_of_its_own(desk: Desk) -> None:
    started = desk.host.ok("codex", "--name", "c", "--detach", "--json", "--", "--model", "m", cwd=desk.work).json()
    agent = desk.wait_agent("c")
    desk.wait_up(agent)  # before, its process is still the one that is about to become codex
    assert agent.pid == started["pid"]
    words = words_of(agent.pid)
    assert words[-2:] == ["--model", "m"]
    assert "--no-daemon" in words
    assert "--dangerously-bypass-hook-trust" not in words
    assert {"hooks.Stop", "hooks.state", "mcp_servers.fleet"} <= {word.partition("=")[0] for word in words}
    desk.host.ok("send", "c", "a word for codex")
    desk.wait_saw(agent, "a word for codex")


def test_what_is_no_session_is_run_as_it_is_and_no_agent_comes_of_it(desk: Desk) -> None:
    assert desk.host.ok("claude", "--", "--version").text == "claude 1.2.3\n"
    assert desk.agents() == {}


def test_what_is_no_name_is_refused_before_anything_is_started(desk: Desk) -> None:
    for name in ("No Name", "human"):
        done = desk.host.cli("claude", "--detach", "--name", name, cwd=desk.work)
        assert (done.code, f"{name!r} is not a name for an agent" in done.err) == (2, True), done.err
    assert not desk.host.paths.socket.exists(), "not even the daemon"


def test_a_harness_that_is_missing_is_named_with_how_to_get_it(desk: Desk) -> None:
    (desk.bin / "claude").unlink()
    done = desk.host.cli("claude", env={"PATH": "/usr/bin:/bin"})
    assert done.code == 3
    assert "claude is not installed" in done.err
    assert "npm install" in done.err


def test_without_a_terminal_it_is_said_how_to_start_it_all_the_same(desk: Desk) -> None:
    done = desk.host.cli("claude", "--name", "a")
    assert done.code == 3
    assert "--detach" in done.err


def test_a_script_without_a_terminal_and_a_token_starts_one_with_detach(desk: Desk) -> None:
    started = desk.host.ok("claude", "--name", "s", "--detach", "--json", token="", cwd=desk.work).json()
    assert desk.wait_agent("s").pid == started["pid"]
    refused = desk.host.cli("claude", "--name", "t", "--detach", token="none-of-ours", cwd=desk.work)
    assert (refused.code, "the token in FLEETTRIO_TOKEN is" in refused.err) == (3, True), refused.err
    assert set(desk.agents()) == {"s"}


def test_two_that_start_the_daemon_at_once_start_one_and_no_error_is_logged(desk: Desk) -> None:
    starting = [desk.host.popen("up") for _ in range(3)]
    said = [process.communicate(timeout=300)[0].decode() for process in starting]
    assert len({text.rpartition("process ")[2] for text in said}) == 1, said
    assert [process.returncode for process in starting] == [0, 0, 0]
    assert "error" not in desk.host.log.casefold()


def test_an_agent_starts_no_other_one_like_this(desk: Desk) -> None:
    started = desk.host.ok("claude", "--name", "a", "--detach", "--json", cwd=desk.work).json()
    agent = desk.wait_agent("a")
    desk.wait_up(agent)
    pane = started["attach"].rpartition(" ")[2]
    server = started["attach"].split()[2]
    for words in (["-l", f"run {FLEETTRIO} claude --name b --detach"], ["Enter"]):
        desk.room.tmux("-L", server, "send-keys", "-t", pane, *words)
    wait_until("its shell was refused", lambda: desk.events(agent, "command"))
    assert "fleettrio spawn" in desk.events(agent, "command")[0]["out"]
    assert list(desk.agents()) == ["a"]
