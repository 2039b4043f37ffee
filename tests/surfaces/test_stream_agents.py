"""Ways into agents that are no panes, on a real daemon: a program that stays, another package's transport."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fleettrio.api.schema import Detach
from fleettrio.local.frame import unframe
from fleettrio.testing.agents.room import SOURCE, StandIn, TmuxRoom, composer
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host
from fleettrio.testing.opencode_server import OpencodeServer
from fleettrio.testing.waiting import wait_until

TALKER = [sys.executable, "-P", "-m", "fleettrio.testing.agents.talker"]
DEAF = ("/bin/sh", "-c", "trap '' TERM HUP; exec \"$@\"", "sh")
"""In front of a program that no polite word ends."""
EXAMPLE = Path(__file__).parents[2] / "examples" / "transports" / "screen"
SCRIPT = Path(SOURCE) / "fleettrio" / "local" / "harness" / "script.toml"
STARTED: list[StandIn] = []
BROKEN = """
class Broken:
    name, wakes = "broken", True
    def __init__(self, target, harness, env): pass
    async def state(self): raise RuntimeError("no state")
    async def reserve(self, when): raise RuntimeError("the pigeon is ill")
    async def deliver(self, reserved, text): raise RuntimeError("no delivery")
    async def close(self): pass
"""


@pytest.fixture(scope="module")
def alpha(room: TmuxRoom, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host without a broker, with a package beside it whose transport is broken."""
    place = tmp_path_factory.mktemp("site")
    info = place / "pigeons-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeons\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[fleettrio.transports]\nbroken = pigeons:Broken\nscreen = fleettrio_screen:open_screen\n"
    )
    (place / "pigeons.py").write_text(BROKEN)
    with Fleet(None, "alpha", env=room.env) as fleet:
        host = fleet["alpha"]
        host.stop()
        path = os.pathsep.join((host.env["PYTHONPATH"], str(place), str(EXAMPLE)))
        screens = fleet.folder / "screens"
        screens.mkdir(mode=0o700)
        host.env = {**host.env, "PYTHONPATH": path, "SCREENDIR": str(screens), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        harnesses = host.paths.config_dir / "harness"
        harnesses.mkdir()
        shutil.copy(EXAMPLE / "ascii.toml", harnesses)
        host.up()
        yield host
        for agent in STARTED:  # they outlive their daemon
            end_all(agent)


def end_all(agent: StandIn) -> None:
    """Those that still run; the pid of one that has ended may be another program's by now."""
    for event in agent.events("begun"):
        with contextlib.suppress(OSError):
            if str(agent.log).encode() in Path(f"/proc/{event['pid']}/cmdline").read_bytes():
                os.kill(event["pid"], signal.SIGKILL)


def talker(host: Host, folder: Path, name: str, *options: str, first: Sequence[str] = ()) -> StandIn:
    log = folder / f"{name}.jsonl"
    command = shlex.join([*first, *TALKER, "--log", str(log), *options])
    STARTED.append(StandIn("", "", log))
    host.ok("attach", "--name", name, "--command", command, "--stream")
    return STARTED[-1]


def test_a_program_that_stays_answers_by_its_result_line(alpha: Host, tmp_path: Path) -> None:
    agent = talker(alpha, tmp_path, "aide", "--answer", "looks good to me")
    for number in range(2):
        done = alpha.cli("send", "aide", f"please review part {number}", "--wait", "--timeout", "90s")
        assert (done.code, done.err) == (0, done.err)
        assert "looks good to me" in done.text
    assert len(agent.turns()) == 2
    assert len(agent.events("begun")) == 1


def test_a_restart_of_the_daemon_leaves_it_running_in_its_turn(alpha: Host, tmp_path: Path) -> None:
    agent = talker(alpha, tmp_path, "patient", "--hold", "--answer", "after all")
    alpha.ok("send", "patient", "think about it", "--wait=delivered", "--timeout", "90s")
    alpha.kill()
    alpha.up()
    waiting = alpha.ok("send", "patient", "and then this", "--json").json()["messages"][0]["short"]
    wait_until("it is busy", lambda: "it is working on an" in alpha.ok("show", waiting).text)
    agent.finish()
    wait_until("the next turn", lambda: len(agent.turns()) == 2)
    agent.finish()
    wait_until("its last words", lambda: "after all" in alpha.ok("inbox").text)
    assert len(agent.events("begun")) == 1


def test_detaching_it_ends_its_program(alpha: Host, tmp_path: Path) -> None:
    agent = talker(alpha, tmp_path, "short", "--answer", "yes")
    alpha.ok("send", "short", "are you there?", "--wait", "--timeout", "90s")
    pid = agent.pid
    alpha.ok("detach", "short")
    wait_until("its program has ended", lambda: not Path(f"/proc/{pid}").exists())


def test_those_that_are_detached_in_the_daemons_last_moment_end_with_it(alpha: Host, tmp_path: Path) -> None:
    names = [f"late-{number}" for number in range(4)]
    agents = [talker(alpha, tmp_path, name, "--answer", "yes", first=DEAF) for name in names]
    stays = talker(alpha, tmp_path, "stays", "--answer", "yes")
    wait_until("all of them run", lambda: all(agent.events("begun") for agent in (*agents, stays)))
    with alpha.client() as client:
        for name in names:
            client.call("detach", Detach(name=name, forget=True))
        alpha.stop()
    wait_until("they end with it", lambda: not any(Path(f"/proc/{agent.pid}").exists() for agent in agents))
    assert Path(f"/proc/{stays.pid}").exists()
    alpha.up()
    assert "yes" in alpha.ok("send", "stays", "still there?", "--wait", "--timeout", "90s").text
    assert len(stays.events("begun")) == 1


def test_those_whose_daemon_died_before_it_had_ended_them_are_ended_by_the_next(alpha: Host, tmp_path: Path) -> None:
    agent = talker(alpha, tmp_path, "survivor", "--answer", "yes", first=DEAF)
    wait_until("it runs", lambda: agent.events("begun"))
    pid = agent.pid
    with alpha.client() as client:  # no program in between: it has five seconds to end politely
        client.call("detach", Detach(name="survivor", forget=True))
        alpha.kill()
    assert Path(f"/proc/{pid}").exists()
    alpha.up()
    wait_until("its program has ended", lambda: not Path(f"/proc/{pid}").exists())


def test_a_broken_transport_costs_its_own_agent_which_says_why(alpha: Host, tmp_path: Path) -> None:
    alpha.ok("attach", "--name", "pigeon", "--transport", "broken", "--target", "roof")
    short = alpha.ok("send", "pigeon", "fly", "--json").json()["messages"][0]["short"]
    wait_until("why it waits is said", lambda: "the pigeon is ill" in alpha.ok("show", short).text)
    talker(alpha, tmp_path, "other", "--answer", "unharmed")
    assert "unharmed" in alpha.ok("send", "other", "and you?", "--wait", "--timeout", "90s").text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--transport", "never-was", "--target", "x"), "no transport 'never-was' is installed"),
        (("--transport", "tmux", "--target", "%1"), "--pane"),
        (("--transport", "http", "--target", "http://192.0.2.1/session/s"), "not the server of a harness"),
        (("--transport", "http", "--target", "http://127.0.0.1:1/session/s"), "no server answers"),
        (("--transport", "broken"), "go together"),
        (("--stream",), "--command"),
    ],
)
def test_a_way_that_cannot_be_is_refused_with_what_to_do(
    alpha: Host, arguments: tuple[str, ...], complaint: str
) -> None:
    done = alpha.cli("attach", "--name", "nobody", *arguments)
    assert done.code in (2, 3)
    assert complaint in done.err
    assert alpha.agent("nobody@alpha") is None


def test_stopping_one_that_was_attached_ends_it_and_says_so(alpha: Host, tmp_path: Path) -> None:
    agent = talker(alpha, tmp_path, "brief", "--answer", "yes")
    alpha.ok("send", "brief", "are you there?", "--wait", "--timeout", "90s")
    assert "its program is ended" in alpha.ok("stop", "brief").text
    wait_until("its program has ended", lambda: not Path(f"/proc/{agent.pid}").exists())


def test_an_opencode_session_without_a_pane_takes_messages_by_its_server(alpha: Host) -> None:
    with OpencodeServer("ses_1") as server:
        alpha.ok("attach", "--name", "code", "--transport", "http", "--target", f"{server.url}/session/ses_1")
        sent = alpha.ok("send", "code", "please review", "--wait=delivered", "--timeout", "90s", "--json")
        assert [unframe(text) for text in server.turns] == ["please review"]
        assert "by http" in alpha.ok("show", sent.json()["messages"][0]["short"]).text
        server.asking = ["per_1"]
        waiting = alpha.ok("send", "code", "and this", "--json").json()["messages"][0]["short"]
        wait_until("why it waits", lambda: "permission" in alpha.ok("show", waiting).text)
        assert len(server.turns) == 1
        server.asking = []
        wait_until("it goes in", lambda: len(server.turns) == 2)


def test_claude_that_stays_is_fed_as_it_wants_it(alpha: Host, tmp_path: Path) -> None:
    log = tmp_path / "claude.jsonl"
    STARTED.append(StandIn("", "", log))
    command = shlex.join([*TALKER, "--log", str(log), "--stream-json", "--answer", "done, in one line"])
    alpha.ok("attach", "--name", "headless", "--command", command, "--stream", "--harness", "claude")
    assert "done, in one line" in alpha.ok("send", "headless", "go", "--wait", "--timeout", "90s").text
    assert [unframe(turn) for turn in StandIn("", "", log).turns()] == ["go"]


def test_the_example_for_gnu_screen_as_its_page_says(alpha: Host, tmp_path: Path) -> None:
    log = tmp_path / "screen.jsonl"
    screen = ["screen", "-S", "work"]
    subprocess.run([*screen, "-U", "-c", "/dev/null", "-dm", *composer(log, "--glyph", ">")], env=alpha.env, check=True)
    try:
        wait_until("the composer has begun", lambda: StandIn("", "", log).events("begun"))
        attach = ("attach", "--name", "old", "--transport", "screen", "--target", "work", "--harness", "ascii")
        wait_until("it is attached", lambda: alpha.cli(*attach).code == 0)
        alpha.ok("send", "old", "please review", "--wait=delivered", "--timeout", "90s")
        (turn,) = StandIn("", "", log).turns()
        assert unframe(turn) == "please review"
        listed = alpha.agent("old@alpha")
        assert listed is not None
        assert (listed.path, listed.wakes) == ("screen", True)
    finally:
        subprocess.run([*screen, "-X", "quit"], env=alpha.env, check=False)
    wait_until("it is away", lambda: (agent := alpha.agent("old@alpha")) and agent.status == "away", 90)


def test_a_harness_file_with_a_mistake_is_told_by_attach(alpha: Host) -> None:
    file = alpha.paths.config_dir / "harness" / "bad.toml"
    file.write_text("about = 'x'\ncomposer = '('\n")
    done = alpha.cli("attach", "--name", "nobody", "--command", "cat", "--harness", "bad")
    assert done.code == 3
    assert "composer" in done.err
    assert "bad.toml" in done.err.replace("\n", "")


def test_an_opencode_in_a_pane_is_reached_by_its_server_and_by_the_pane_when_that_is_gone(
    alpha: Host, room: TmuxRoom
) -> None:
    """The stand-in looks like a script; a file of the person's own says so of opencode."""
    harnesses = alpha.paths.config_dir / "harness"
    shutil.copy(SCRIPT, harnesses / "opencode.toml")
    with OpencodeServer("ses_1") as server:
        pane = room.place()
        wait_until("it is on the screen", lambda: "stand-in agent" in room.screen(pane.pane))
        attach = ("attach", "--name", "oc", "--pane", pane.target, "--harness", "opencode", "--json")
        token = alpha.ok(*attach).json()["token"]
        told = {"event": "session.created", "session": "ses_1", "api": server.url}
        hook = [sys.executable, "-m", "fleettrio.clients.hook", "opencode"]

        def is_told() -> bool:
            """A hook gives up on a daemon that a busy machine keeps from answering: the next one says it again."""
            env = {**alpha.env, "FLEETTRIO_TOKEN": token}
            subprocess.run(hook, env=env, input=json.dumps(told).encode(), check=True)
            agent = alpha.agent("oc@alpha")
            return agent is not None and "http" in agent.path

        wait_until("its server is a way", is_told)

        first = alpha.ok("send", "oc", "by the server", "--wait=delivered", "--timeout", "90s", "--json").json()
        assert [unframe(text) for text in server.turns] == ["by the server"]
        assert "by http" in alpha.ok("show", first["messages"][0]["short"]).text

        room.tmux("send-keys", "-l", "-t", pane.pane, "half typed")
        wait_until("the draft shows", lambda: "❯ half typed" in room.screen(pane.pane))
        second = alpha.ok("send", "oc", "around the draft?", "--json").json()["messages"][0]["short"]
        wait_until("the draft is seen", lambda: "a draft is in its composer" in alpha.ok("show", second).text)
        assert len(server.turns) == 1, "nobody is reached around a draft"

        server.close()
        room.tmux("send-keys", "-t", pane.pane, "Enter")
        wait_until("it goes in by the pane", lambda: len(pane.turns()) == 2)
        assert pane.turns()[0] == "half typed"
        assert unframe(pane.turns()[1]) == "around the draft?"
        wait_until("the way is told", lambda: "by tmux" in alpha.ok("show", second).text)
