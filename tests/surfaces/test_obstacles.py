"""What stands in the way of a daemon or a delivery is said in plain words, and everything else goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fleettrio.local.frame import unframe
from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.fleet import Fleet
from fleettrio.testing.hosts import Host, Outcome
from fleettrio.testing.waiting import wait_until
from tests.surfaces.workers import stand_in

HOLD = Path(__file__).with_name("hold_inbox.py")


def _sentence(host: Host, short: str) -> str:
    return str(host.ok("show", short, "--json").json()["messages"][0]["sentence"])


def _state(host: Host, short: str) -> str:
    return str(host.ok("show", short, "--json").json()["messages"][0]["state"])


def _short(host: Host, to: str, body: str) -> str:
    return str(host.ok("send", to, body, "--json").json()["messages"][0]["short"])


# --- a daemon that cannot be


def test_a_second_daemon_on_the_same_home_ends_at_once_and_says_who_holds_it(fleet: Fleet) -> None:
    alpha = fleet["alpha"]
    done = alpha.cli("up", "--foreground")
    assert done.code == 3
    assert f"another fleettrio daemon (pid {alpha.pid})" in done.err
    assert "fleettrio down" in done.err
    assert alpha.ok("up").text.startswith("fleettrio runs already on alpha")
    assert alpha.status().broker == "connected"


def test_a_daemon_that_runs_with_what_was_before_says_so_wherever_a_person_looks() -> None:
    again, why = "`fleettrio down`, then `fleettrio up`", "this daemon was started before its host was in fleet home"
    with tempfile.TemporaryDirectory(prefix="ft-") as folder:
        solo = Host("solo", Path(folder))
        solo.configure()
        solo.up()
        try:
            assert f"{why}: {again}" in solo.ok("init", "--new-fleet", "home").text
            assert f"{why}: {again}" in " ".join(solo.ok("up").err.split())
            doctor = solo.cli("doctor")
            assert (doctor.code, why in " ".join(doctor.text.split())) == (3, True)
            solo.stop()
            solo.up()
            assert solo.status().out_of_date == ""
            solo.configure(more="# nothing but a remark")
            assert solo.status().out_of_date == ""
            solo.configure(more="[limits]\nbody_bytes = 2000")
            assert solo.status().out_of_date == "fleettrio.toml was changed since this daemon was started"
            assert "fleettrio config check, then fleettrio down and" in solo.status().problems[0]
            solo.stop()
            solo.up()
            assert solo.status().problems == []
        finally:
            solo.stop()


def test_every_problem_of_the_configuration_is_told_at_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "fleettrio.toml").write_text(
        '[host]\nid = "Not A Host"\n[broker]\nuris = ["http://x"]\npassword_file = "p"\n'
        '[timers]\nbeat_s = "soon"\nbaet_s = 1\n[limts]\n'
    )
    host = Host("wrong", home)
    for command in (("up", "--foreground"), ("up",), ("config", "check"), ("doctor",)):
        done = host.cli(*command)
        assert done.code in (2, 3), done
        said = done.text + done.err
        for key in ("host.id", "broker.uris[0]", "broker.user", "timers.beat_s", "timers.baet_s", "limts"):
            assert key in said, (command, key, said)
        assert 'did you mean "beat_s"' in said


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_full_disk_fails_sends_loudly_and_gets_over(tmp_path: Path) -> None:
    with Fleet(None, "solo") as alone:
        solo = alone["solo"]
        solo.ok("attach", "--name", "reader")
        solo.stop()
        state, kept = solo.paths.state_dir, tmp_path / "kept"
        shutil.copytree(state, kept)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=0700", "tmpfs", state], check=True)
        try:
            shutil.copytree(kept, state, dirs_exist_ok=True)
            solo.up()
            filler = state / "filler"
            with pytest.raises(OSError, match="No space left"):
                _fill(filler)
            body = b"x" * 100_000
            failed = wait_until(
                "a send fails for want of room", lambda: _failed(solo.cli("send", "reader", "-", given=body))
            )
            assert "full" in failed or "space" in failed
            wait_until("it is a problem", lambda: _lacks_room(solo))
            filler.unlink()
            wait_until("it gets over it", lambda: solo.cli("send", "reader", "after").code == 0)
        finally:
            solo.kill()
            subprocess.run(["umount", "-l", state], check=True)


def _lacks_room(host: Host) -> bool:
    return any("disk" in problem or "space" in problem for problem in host.status().problems)


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as opened:
        while True:
            opened.write(bytes(4096))


def _failed(done: Outcome) -> str:
    return done.err if done.code == 3 else ""


# --- an inbox that another has


def test_an_inbox_that_another_gateway_has_waits_for_the_lock_while_all_others_run(fleet: Fleet) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    beta.ok("attach", "--name", "contested")
    tokens = {"free": beta.ok("attach", "--name", "free", "--json").json()["token"]}
    tokens["contested"] = beta.ok("token", "create", "--name", "contested", "--json").json()["token"]
    agent = wait_until("alpha hears of it", lambda: alpha.agent("contested@beta"))
    wait_until("and of the other", lambda: alpha.agent("free@beta"))
    beta.stop()
    uri = fleet.uri().replace("amqp://", "amqp://guest:guest@")
    command = [sys.executable, str(HOLD), uri, "beta", agent.gid]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=beta.env)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        beta.up()
        waits = "one waits for the lock, one is open"
        wait_until(waits, lambda: [_inbox(beta, f"{name}@beta") for name in tokens] == ["open", "waiting-for-lock"])
        alpha.ok("send", "free@beta", "to the free one")
        assert "to the free one" in beta.ok("inbox", "--take", "--wait", "50", token=tokens["free"]).text
        wait_until("doctor says so", lambda: "waiting-for-lock" in beta.cli("doctor").text)
    finally:
        other.communicate(timeout=90)
    wait_until("it has its inbox again", lambda: _inbox(beta, "contested@beta") == "open")
    alpha.ok("send", "contested@beta", "to the contested one")
    assert "to the contested one" in beta.ok("inbox", "--take", "--wait", "50", token=tokens["contested"]).text


def _inbox(host: Host, address: str) -> str:
    agent = host.agent(address)
    return agent.inbox if agent else ""


# --- an agent that cannot take it now


def test_a_pane_in_copy_mode_is_waited_for(fleet: Fleet, room: TmuxRoom) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    agent = stand_in(room, beta, "reading")
    wait_until("alpha hears of it", lambda: alpha.agent("reading@beta"))
    room.tmux("copy-mode", "-t", agent.pane)
    short = _short(alpha, "reading@beta", "when you are done reading")
    wait_until("beta says why", lambda: "copy mode" in _sentence(beta, short))
    assert agent.turns() == []
    room.tmux("send-keys", "-t", agent.pane, "-X", "cancel")
    wait_until("it is delivered then", lambda: _state(alpha, short) == "injected")
    assert [unframe(turn) for turn in agent.turns()] == ["when you are done reading"]


def test_a_dead_pane_gets_nothing_and_harms_nobody(fleet: Fleet, room: TmuxRoom) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    agent = stand_in(room, beta, "mortal")
    stand_in(room, beta, "neighbour")
    wait_until("alpha hears of both", lambda: alpha.agent("mortal@beta") and alpha.agent("neighbour@beta"))
    os.kill(agent.pid, 9)
    wait_until("the pane is dead", lambda: room.fact(agent.pane, "pane_dead") == "1")
    short = _short(alpha, "mortal@beta", "are you there?")
    wait_until("beta sees that it is away", lambda: (found := beta.agent("mortal@beta")) and found.status == "away")
    assert _state(alpha, short) in ("waiting", "held")
    other = _short(alpha, "neighbour@beta", "and you?")
    wait_until("its neighbour lives", lambda: _state(alpha, other) == "injected")
    back = stand_in(room, beta, "mortal")
    wait_until("who comes back under the name gets it", lambda: _state(alpha, short) == "injected")
    assert [unframe(turn) for turn in back.turns()] == ["are you there?"]
