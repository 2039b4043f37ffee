"""Agents in panes of a real tmux: started, ready or not, found again by the next daemon, ended whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from fleettrio.launch.errors import LaunchError
from fleettrio.launch.launcher import Launched, Launcher, Order
from fleettrio.panes.scope import process_of, scope_prefix
from fleettrio.profiles import Profile
from fleettrio.testing.agents.room import until
from fleettrio.testing.ports import held_port
from tests.launch.conftest import Room, git


async def never() -> bool:
    return False


async def always() -> bool:
    return True


async def start(room: Room, profile: Profile, **wanted: object) -> tuple[Order, Launched]:
    order = room.order(profile, **wanted)  # type: ignore[arg-type]
    return order, await room.launcher.launch(order)


async def test_an_agent_starts_in_its_folder_with_its_environment_and_its_arguments_as_they_are(room: Room) -> None:
    (room.work / "a#b;").mkdir()
    out, done = room.work / "out", room.work / "out.done"
    script = room.script(f'pwd > {out}; printf "%s|" "$@" >> {out}; env >> {out}; mv {out} {done}; exec sleep 600')
    profile = room.profile(script, "one two", "end;", "", "$HOME", "#{pane_id}", env={"COLOUR": "blue; green"})
    order, launched = await start(room, profile, cwd=str(room.work / "a#b;"), token="secret")
    await until("it has started", done.exists)
    folder, arguments, *environment = done.read_text().splitlines()
    assert folder == str(room.work / "a#b;")
    assert arguments.startswith("one two|end;||$HOME|#{pane_id}|")
    assert {"COLOUR=blue; green", "FLEETTRIO_TOKEN=secret", "FLEETTRIO_NAME=worker"} <= {
        arguments.rpartition("|")[2],
        *environment,
    }
    assert f"FLEETTRIO_HOME={room.env['FLEETTRIO_HOME']}" in environment
    assert await room.launcher.adopt(launched)
    await room.launcher.end(order.spawn_id)


async def test_what_one_agent_was_told_the_next_one_does_not_see(room: Room) -> None:
    script = room.script("env > $$.env; mv $$.env env.$1; exec sleep 600")
    first, _ = await start(room, room.profile(script, "1", env={"SECRET": "x"}), token="first")
    await until("the first runs", (room.work / "env.1").exists)
    second, _ = await start(room, room.profile(script, "2"))
    await until("the second runs", (room.work / "env.2").exists)
    seen = (room.work / "env.2").read_text()
    assert "FLEETTRIO_TOKEN" not in seen
    assert "SECRET" not in seen
    for order in (first, second):
        await room.launcher.end(order.spawn_id)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"ready": "pattern", "pattern": "^ready$"}, "echo ready"),
        ({"ready": "quiet", "quiet_s": 0.3}, "for i in 1 2 3; do echo $i; sleep 0.1; done"),
        ({"ready": "hook"}, ""),
    ],
)
async def test_an_agent_that_shows_itself_is_ready(room: Room, values: dict[str, object], text: str) -> None:
    profile = room.profile(room.script(f"{text}\nexec sleep 600"), **values)
    order, launched = await start(room, profile)
    await room.launcher.until_ready(profile, launched, always)
    await room.launcher.end(order.spawn_id)


async def test_an_agent_that_listens_is_ready_and_a_port_in_use_is_refused(room: Room) -> None:
    server = "import socket,sys,time; s=socket.create_server(('127.0.0.1',int(sys.argv[1]))); time.sleep(600)"
    with held_port() as holder:
        port = holder.getsockname()[1]
        profile = room.profile(sys.executable, "-c", server, str(port), ready="port", port=port)
        order, launched = await start(room, profile)
        await room.launcher.until_ready(profile, launched, never)
        with pytest.raises(LaunchError, match="listens on port"):
            await start(room, profile)
        await room.launcher.end(order.spawn_id)


@pytest.mark.parametrize("gate", ["hook", "quiet", "pattern", "port"])
async def test_an_agent_that_is_not_ready_in_time_says_what_was_missing_and_shows_its_last_lines(
    room: Room, gate: str
) -> None:
    gates: dict[str, dict[str, object]] = {
        "pattern": {"pattern": "never"},
        "port": {"port": 1},
        "quiet": {"quiet_s": 5.0, "limit_s": 6.0},  # so long no busy machine keeps the noise from the screen
    }
    values = {"limit_s": 3.0, **gates.get(gate, {})}
    noise = "while :; do date +%N; sleep 0.05; done" if gate == "quiet" else "echo licence?; exec sleep 600"
    profile = room.profile(room.script(noise), ready=gate, **values)
    order, launched = await start(room, profile)
    with pytest.raises(LaunchError, match=rf"not ready within {values['limit_s']:g} s: ") as caught:
        await room.launcher.until_ready(profile, launched, never)
    assert caught.value.reason == "limit"
    assert caught.value.screen
    await room.launcher.end(order.spawn_id)


async def test_a_blank_screen_is_never_at_rest(room: Room) -> None:
    profile = room.profile("sleep", "600", ready="quiet", quiet_s=0.2, limit_s=0.8)
    order, launched = await start(room, profile)
    with pytest.raises(LaunchError, match="did not rest"):
        await room.launcher.until_ready(profile, launched, never)
    await room.launcher.end(order.spawn_id)


@pytest.mark.parametrize("gate", ["hook", "pattern"])
async def test_an_agent_that_dies_is_not_ready_whatever_it_said_and_its_last_words_are_kept(
    room: Room, gate: str
) -> None:
    # tmux may lose what a program writes in its very last moment.
    values = {"pattern": "never"} if gate == "pattern" else {}
    profile = room.profile(room.script("echo no licence; sleep 1; exit 3"), ready=gate, **values)
    order, launched = await start(room, profile)
    with pytest.raises(LaunchError) as caught:
        await room.launcher.until_ready(profile, launched, never)
    assert caught.value.reason == "died"
    assert "no licence" in caught.value.screen
    await room.launcher.end(order.spawn_id)
    assert await room.launcher.running() == {}


@pytest.mark.parametrize("program", ["no-such-program", "./nothing.sh", "/nowhere/claude"])
async def test_a_program_that_is_not_there_is_told_before_anything_is_made(room: Room, program: str) -> None:
    room.repository()
    with pytest.raises(LaunchError, match="cannot be found") as caught:
        await start(room, room.profile(program), cwd=str(room.work / "repo"), worktree=True)
    assert caught.value.reason == "command"
    assert not (room.paths.state_dir / "worktrees").exists()


async def test_ending_takes_the_whole_session_also_what_ignores_the_hang_up(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleettrio.panes.scope.POLITE_S", 0.3)
    script = room.script(
        'trap "" HUP TERM; sh -c "trap \\"\\" HUP TERM; echo \\$\\$ > child; while :; do sleep 1; done" &\n'
        "while :; do sleep 1; done"
    )
    order, launched = await start(room, room.profile(script))
    file = room.work / "child"
    await until("its child runs", lambda: file.exists() and file.read_text().strip())
    child = int(file.read_text())
    await room.launcher.end(order.spawn_id)
    await until("all of it has ended", lambda: process_of(launched.pid) is None and process_of(child) is None)
    assert await room.launcher.end(order.spawn_id) == ""


async def test_the_next_daemon_adopts_the_very_process_and_no_other(room: Room) -> None:
    order, launched = await start(room, room.profile("sleep", "600"))
    later = room.again()
    assert await later.adopt(launched)
    assert (await later.running())[order.spawn_id].pid == launched.pid
    another = Launched(transport="tmux", target=launched.target, cwd="", pid=launched.pid, started=launched.started + 1)
    assert not await later.adopt(another)
    os.kill(launched.pid, signal.SIGKILL)
    await until("it has ended", lambda: process_of(launched.pid) is None)
    assert not await later.adopt(launched)
    await later.end(order.spawn_id)


async def test_a_start_that_nobody_recorded_is_ended_by_its_spawn_id_alone(room: Room) -> None:
    repository = room.repository()
    order, launched = await start(room, room.profile("sleep", "600"), cwd=str(repository), worktree=True)
    assert "worktrees" in git(repository, "worktree", "list")
    assert await room.again().end(order.spawn_id) == ""
    await until("it has ended", lambda: process_of(launched.pid) is None)
    assert "worktrees" not in git(repository, "worktree", "list")


def launch_and_die(room: Room, order: Order) -> list[str]:
    """A daemon in a process group of its own starts the agent, and the whole group is killed."""
    program = (
        "import os, sys, trio\n"
        "from fleettrio.home import resolve_paths\n"
        "from fleettrio.launch.launcher import Launcher, Order\n"
        "from fleettrio.profiles import Profile\n"
        "launcher = Launcher(resolve_paths(os.environ), os.environ)\n"
        "profile = Profile(name='worker', command=('sleep', '600'), cwd=sys.argv[2], roots=(sys.argv[2],))\n"
        "launched = trio.run(launcher.launch, Order(spawn_id=sys.argv[1], name='worker', profile=profile))\n"
        "print(launched.pid, launched.started, launched.target, flush=True); trio.run(trio.sleep_forever)\n"
    )
    daemon = subprocess.Popen(
        [sys.executable, "-c", program, order.spawn_id, str(room.work)],
        env={**room.env, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert daemon.stdout is not None
    with daemon.stdout as said:
        facts = said.readline().split()
    os.killpg(daemon.pid, signal.SIGKILL)
    daemon.wait(60)
    return facts


async def test_the_end_of_the_daemons_process_group_does_not_touch_its_agents(room: Room) -> None:
    order = room.order(room.profile("sleep", "600"))
    pid, started, target = launch_and_die(room, order)
    launched = Launched(transport="tmux", target=target, cwd="", pid=int(pid), started=int(started))
    later = room.again()
    assert await later.adopt(launched)
    assert order.spawn_id in await later.running()
    await later.end(order.spawn_id)


async def test_a_process_profile_becomes_the_command_for_each_message(room: Room) -> None:
    profile = room.profile("cat", "-u", runtime="process", env={"COLOUR": "deep blue"}, sandbox=("nice",))
    _, launched = await start(room, profile)
    assert (launched.transport, launched.target) == ("process", "env 'COLOUR=deep blue' nice cat -u")
    assert (launched.pid, launched.cwd) == (0, str(room.work))
    await room.launcher.until_ready(profile, launched, never)
    assert await room.launcher.adopt(launched)


async def test_a_scope_of_systemd_is_used_where_one_runs_and_the_agent_starts_also_where_it_refuses(
    room: Room,
) -> None:
    runtime, programs = room.work / "runtime", room.work / "bin"
    (runtime / "systemd").mkdir(parents=True)
    programs.mkdir()
    assert scope_prefix({"XDG_RUNTIME_DIR": str(runtime), "PATH": str(programs)}) == ()
    (runtime / "systemd" / "private").touch()
    assert scope_prefix({"XDG_RUNTIME_DIR": str(runtime), "PATH": str(programs)}) == ()
    fake = programs / "systemd-run"
    fake.write_text('#!/bin/sh\necho "$@" > "$FAKE_LOG"\nexit 1\n')
    fake.chmod(0o755)
    log = room.work / "log"
    room.env |= {
        "XDG_RUNTIME_DIR": str(runtime),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "FAKE_LOG": str(log),
    }
    launcher = Launcher(room.paths, room.env)
    order = room.order(room.profile("sleep", "600"))
    launched = await launcher.launch(order)
    assert log.read_text().startswith("--user --scope --quiet --collect -- tmux ")
    assert await launcher.adopt(launched)
    await launcher.end(order.spawn_id)
