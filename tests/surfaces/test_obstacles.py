"""What stands in the way of a daemon or a delivery is said in plain words, and everything else goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fleettrio.local.frame import unframe
from fleettrio.testing.agents.room import TmuxRoom
from fleettrio.testing.broker_node import BrokerNode
from fleettrio.testing.hosts import Fleet, Host, Outcome, wait_until
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
            assert any("disk" in problem or "space" in problem for problem in solo.status().problems)
            filler.unlink()
            wait_until("it gets over it", lambda: solo.cli("send", "reader", "after").code == 0)
        finally:
            solo.kill()
            subprocess.run(["umount", "-l", state], check=True)


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
        wait_until("it waits for the lock", lambda: _inbox(beta, "contested@beta") == "waiting-for-lock")
        assert _inbox(beta, "free@beta") == "open"
        alpha.ok("send", "free@beta", "to the free one")
        assert "to the free one" in beta.ok("inbox", "--take", "--wait", "10", token=tokens["free"]).text
        assert "waiting-for-lock" in beta.cli("doctor").text
    finally:
        other.communicate(timeout=20)
    wait_until("it has its inbox again", lambda: _inbox(beta, "contested@beta") == "open")
    alpha.ok("send", "contested@beta", "to the contested one")
    assert "to the contested one" in beta.ok("inbox", "--take", "--wait", "10", token=tokens["contested"]).text


def _inbox(host: Host, address: str) -> str:
    agent = host.agent(address)
    return agent.inbox if agent else ""


def test_a_copied_home_gets_nothing_and_says_so(broker: BrokerNode) -> None:
    with Fleet(broker, "alpha", "beta") as fleet:
        alpha, beta = fleet["alpha"], fleet["beta"]
        token = beta.ok("attach", "--name", "reader", "--json").json()["token"]
        wait_until("alpha hears of the reader", lambda: alpha.agent("reader@beta"))
        beta.stop()
        home = fleet.folder / "copy"
        shutil.copytree(beta.paths.config_dir, home)
        beta.up()
        copy = Host("beta", home, beta.env)
        copy.begin()
        try:
            wait_until("the copy is kept out", lambda: copy.is_up and "control.beta" in copy.log)
            assert copy.cli("doctor").code == 3
            alpha.ok("send", "reader@beta", "to the first one")
            assert "to the first one" in beta.ok("inbox", "--take", "--wait", "10", token=token).text
            assert copy.cli("status").text.count("connected since") == 0
        finally:
            copy.kill()


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
