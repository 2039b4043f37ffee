"""`doctor`, `up` and `down`: planted faults are found with their remedy, and a daemon begins and ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fleettrio.api import schema
from fleettrio.clients.cli.lifecycle import daemon_environment
from fleettrio.config import resolve_paths
from fleettrio.store.lock import lock_path
from fleettrio.testing.ports import held_port
from tests.cli.canned import status
from tests.cli.fake_daemon import Cli, FakeDaemon


@pytest.fixture
def key_file(home: pathlib.Path) -> pathlib.Path:
    keys = home / "state" / "keys"
    keys.mkdir(mode=0o700, parents=True)
    file = keys / "host.json"
    file.write_text("{}")
    file.chmod(0o600)
    return file


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port at which somebody takes the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def checks(cli: Cli) -> dict[str, schema.Check]:
    report = cli("doctor", "--json").decoded(schema.DoctorReport)
    return {check.name: check for check in report.checks}


def use_broker(home: pathlib.Path, port: int) -> None:
    (home / "fleettrio.toml").write_text(f'[broker]\nuris = ["amqp://u:secret@127.0.0.1:{port}/"]\n')


def test_without_a_daemon_doctor_still_sees_what_it_can(cli: Cli, key_file: pathlib.Path) -> None:
    found = checks(cli)
    assert found["host key"].ok
    assert found["tmux"].ok
    assert found["python"].ok
    assert not found["daemon"].ok
    assert found["daemon"].fix == "fleettrio up"
    ran = cli("doctor")
    assert ran.code == 3
    assert "→ fleettrio up" in ran.text
    assert all(len(line) <= 80 for line in ran.text.splitlines())


def test_what_the_daemon_knows_is_shown_too(cli: Cli, daemon: FakeDaemon, key_file: pathlib.Path) -> None:
    daemon.answers["doctor"] = schema.DoctorReport([schema.Check("clock", False, "beta is 120 s off", "set the clock")])
    ran = cli("doctor")
    assert ran.code == 3
    assert "beta is 120 s off" in ran.text
    assert "→ set the clock" in ran.text
    assert checks(cli)["daemon"].ok


@pytest.mark.parametrize(("what", "mode"), [("file", 0o644), ("folder", 0o755)])
def test_a_key_that_others_can_read_is_found_with_the_line_that_mends_it(
    cli: Cli, key_file: pathlib.Path, what: str, mode: int
) -> None:
    target = key_file if what == "file" else key_file.parent
    good = target.stat().st_mode & 0o777
    target.chmod(mode)
    found = checks(cli)["host key"]
    assert not found.ok
    assert f"{mode:04o}" in found.detail
    assert found.fix == f"chmod {good:o} {target}"


def test_a_new_machine_needs_no_key_and_one_that_lost_its_key_or_has_a_broker_does(
    cli: Cli, home: pathlib.Path
) -> None:
    assert checks(cli)["host key"].ok
    use_broker(home, 1)
    assert checks(cli)["host key"].fix == "fleettrio init"
    (home / "fleettrio.toml").unlink()
    store = resolve_paths({"FLEETTRIO_HOME": str(home)}).store
    store.parent.mkdir(parents=True, exist_ok=True)
    store.touch()
    assert not checks(cli)["host key"].ok


def test_a_key_that_is_a_link_is_found(cli: Cli, key_file: pathlib.Path) -> None:
    key_file.rename(key_file.with_name("real"))
    key_file.symlink_to("real")
    assert "symlink" in checks(cli)["host key"].detail


def test_a_store_that_no_daemon_could_open_is_found(cli: Cli, home: pathlib.Path) -> None:
    store = resolve_paths({"FLEETTRIO_HOME": str(home)}).store
    store.parent.mkdir(parents=True, exist_ok=True)
    assert "store file" not in checks(cli)
    with contextlib.closing(sqlite3.connect(store)) as database:
        database.execute("PRAGMA user_version = 999")
    found = checks(cli)["store file"]
    assert (found.ok, "newer fleettrio (schema 999" in found.detail, "newer" in found.fix) == (False, True, True)
    store.write_bytes(b"this is no database" * 100)
    assert "not a database" in checks(cli)["store file"].detail


def test_a_folder_that_everybody_can_write_into_is_refused_with_what_mends_it(cli: Cli, home: pathlib.Path) -> None:
    state = resolve_paths({"FLEETTRIO_HOME": str(home)}).state_dir
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o777)
    ran = cli("up")
    told = " ".join(ran.err.split())
    assert (ran.code, "everybody can write into the folder" in told) == (3, True), ran
    assert f"chmod 700 {state}" in told


def test_every_fault_of_the_configuration_is_a_line(cli: Cli, home: pathlib.Path) -> None:
    (home / "fleettrio.toml").write_text('[broker]\nurls = ["x"]\n[limits]\nbody_bytes = 5\n')
    ran = cli("doctor")
    assert ran.code == 3
    assert "broker.urls" in ran.text
    assert "limits.body_bytes" in ran.text


def test_a_broker_that_is_down_is_found_and_its_password_not_shown(cli: Cli, home: pathlib.Path) -> None:
    with held_port() as nobody_listens:
        port = nobody_listens.getsockname()[1]
        use_broker(home, port)
        ran = cli("doctor")
    assert f"127.0.0.1:{port}" in ran.text
    assert "refused" in ran.text
    assert "secret" not in ran.text + ran.err


def test_a_broker_that_is_frozen_is_found(cli: Cli, home: pathlib.Path, listener: socket.socket) -> None:
    use_broker(home, listener.getsockname()[1])
    found = checks(cli)["broker port"]
    assert not found.ok
    assert "does not answer" in found.detail


def test_tmux_missing_is_found(cli: Cli, key_file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = checks(cli)["tmux"]
    assert not found.ok
    assert "install tmux" in found.fix


def test_the_extension_missing_is_found(cli: Cli, key_file: pathlib.Path) -> None:
    env = {**os.environ, "FLEETTRIO_NO_EXTENSIONS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "fleettrio", "doctor"], capture_output=True, timeout=180, check=False, env=env
    )
    assert done.returncode == 3
    assert b"pure Python in use" in done.stdout


def test_a_second_daemon_that_holds_the_home_is_found(cli: Cli, home: pathlib.Path, key_file: pathlib.Path) -> None:
    lock = lock_path(resolve_paths({"FLEETTRIO_HOME": str(home)}).store)
    with lock.open("w") as held:
        held.write("4711\n")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        found = checks(cli)["home"]
    assert not found.ok
    assert "process 4711" in found.detail
    assert found.fix == "end it: kill 4711"
    assert checks(cli)["home"].ok


def test_up_on_a_running_daemon_says_so(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["status"] = status()
    ran = cli("up")
    assert ran.code == 0
    assert "runs already on alpha" in ran.text
    assert ran.err == ""


def test_up_says_that_the_host_keeps_off_its_broker(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["status"] = status(broker="kept-off", broker_detail="this host runs in safe mode: it ended 3 times")
    ran = cli("up")
    assert ran.code == 0
    assert "kept-off since" in ran.err
    assert "safe mode" in ran.err
    assert cli("up", "--wait-ready").code == 8


def test_up_can_wait_for_the_broker(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["status"] = [status(broker="connecting"), status(broker="connected")]
    assert cli("up", "--wait-ready").code == 0
    daemon.answers["status"] = status(broker="refused-login")
    ran = cli("up", "--wait-ready")
    assert ran.code == 8
    assert "hint: fleettrio doctor" in ran.err


def test_up_with_a_bad_configuration_names_the_key_and_starts_nothing(cli: Cli, home: pathlib.Path) -> None:
    (home / "fleettrio.toml").write_text("[hots]\n")
    ran = cli("up")
    assert ran.code == 3
    assert "error: hots: no such section" in ran.err
    assert not (home / "state").exists()


def test_a_daemon_that_cannot_start_is_told_with_its_own_words(cli: Cli, key_file: pathlib.Path) -> None:
    key_file.parent.chmod(0o755)
    ran = cli("up")
    assert ran.code == 3
    assert "can be used by others" in ran.err
    assert "error: the daemon ended at once" in ran.err
    assert "hint: fleettrio doctor" in ran.err


def test_a_folder_of_the_socket_that_is_a_link_is_refused_in_a_sentence(
    cli: Cli, home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (home / "run").symlink_to(tmp_path)
    for words in (["up"], ["up", "--foreground"]):
        with cli.start(*words) as up:
            _, err = up.communicate(timeout=180)
        assert up.returncode == 3
        assert b"run, is a symlink" in b" ".join(err.split())
        assert b"hint:" in err
        assert b"Traceback" not in err


def test_a_real_daemon_begins_with_up_serves_and_ends_with_down(
    cli: Cli, home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cli.start("up", "--wait-ready") as up:
        out, err = up.communicate(timeout=180)
    try:
        assert up.returncode == 0, err
        assert b"is up" in out
        monkeypatch.setenv("FLEETTRIO_TOKEN", (home / "state" / "keys" / "operator.token").read_text().strip())
        assert cli("status", "--json").decoded(schema.Status).host
        assert cli("status", "--check").code == 0
    finally:
        down = cli("down")
    assert down.code == 0, down.err
    assert cli("status").code == 7


def test_the_daemon_does_not_inherit_who_started_it() -> None:
    env = {"PATH": "/bin", "FLEETTRIO_TOKEN": "t", "CLAUDECODE": "1", "FLEETTRIO_HOME": "/h"}
    assert daemon_environment(env) == {"PATH": "/bin", "FLEETTRIO_HOME": "/h"}


def test_down_without_a_daemon_is_done(cli: Cli) -> None:
    assert cli("down").code == 0


def test_down_returns_when_the_process_has_ended(cli: Cli, daemon: FakeDaemon) -> None:
    program = "import signal; print('ready', flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        def end(_params: schema.Empty) -> schema.Done:
            process.terminate()
            return schema.Done("ended in 0.2 s")

        daemon.answers |= {"hello": schema.Welcome("alpha", "0.1.0", "", "", False, "", process.pid), "down": end}
        ran = cli("down")
    assert (ran.code, ran.text) == (0, "ended in 0.2 s\n")


def test_a_person_can_say_that_the_clock_is_right(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["accept_clock"] = schema.Done("the clock is taken as it is; deliveries go on")
    ran = cli("doctor", "--fix", "clock")
    assert (ran.code, ran.text) == (0, "the clock is taken as it is; deliveries go on\n")
