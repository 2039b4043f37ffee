"""`up`, `down`, `demo`: the daemon begins and ends."""

from __future__ import annotations

import fcntl
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Mapping

import click

from fleettrio.api.processes import HARNESS_MARKS
from fleettrio.api.schema import KEPT_OFF, Done, Empty, Status
from fleettrio.clients.cli.connect import TOKEN_VARIABLE, try_connect
from fleettrio.clients.cli.fleetview import broker_words
from fleettrio.clients.cli.progress import StateLine
from fleettrio.clients.cli.table import note, print_error, say
from fleettrio.clients.client import Client, ConnectionLost
from fleettrio.config import Paths, load_config
from fleettrio.errors import FAILED, NO_BROKER, FleetTrioError
from fleettrio.home import make_run_dir
from fleettrio.private_files import make_private_folder

__all__ = ("daemon_environment", "demo", "down", "end_daemon", "up")

_START_S = 30.0
_END_S = 30.0
_LOOK_S = 0.05
_LOG_LINES = 12


@click.command(
    epilog="\b\nExamples:\n  fleettrio up\n  fleettrio up --wait-ready && fleettrio send worker@beta hello\n"
    "  fleettrio up --foreground",
)
@click.option("--foreground", "-f", is_flag=True, help="Stay, and log to this terminal (for service managers).")
@click.option("--wait-ready", is_flag=True, help="Return only once the broker is reached too; exit 8 if it is not.")
def up(foreground: bool, wait_ready: bool) -> int:
    """Start the daemon of this host.

    Returns once agents of this host can use it. When it runs already, says so.
    """
    paths = load_config(os.environ).paths
    make_run_dir(paths)
    if foreground:
        # Imported here: only this command needs Trio and all that hangs on it.
        from fleettrio.daemon import main as run_daemon

        return run_daemon()
    with StateLine() as line:
        client = try_connect()
        was_running = client is not None
        if client is None:
            client = _start(paths, line)
        if client is None:
            return FAILED
        with client:
            line.clear()
            how = "runs already" if was_running else "is up"
            say(f"fleettrio {how} on {client.welcome.host} (process {client.welcome.pid})")
            status: Status = client.call("status", Empty())
            if status.out_of_date:
                note(f"{status.out_of_date}: `fleettrio down`, then `fleettrio up`")
            if wait_ready:
                return _wait_ready(client, line)
            if status.broker == KEPT_OFF:
                note(f"broker: {broker_words(status)}; fleettrio doctor says what to do")
            return 0


def daemon_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What the daemon inherits: not the identity of whoever happened to start it."""
    dropped = {TOKEN_VARIABLE, *HARNESS_MARKS}
    return {name: value for name, value in env.items() if name not in dropped}


def _start(paths: Paths, line: StateLine) -> Client | None:
    """Start the daemon apart from this terminal and wait until it answers; None when it did not, which is said."""
    make_private_folder(paths.state_dir)
    # Who comes while another one starts it waits for that one, or two daemons would find each other.
    turn = os.open(paths.state_dir, os.O_RDONLY | os.O_CLOEXEC)
    try:
        until = time.monotonic() + _START_S
        while not _is_ours(turn) and time.monotonic() < until:
            line.show("another command is starting it")
            time.sleep(_LOOK_S)
        return try_connect() or _begin(paths, line)
    finally:
        os.close(turn)


def _is_ours(turn: int) -> bool:
    """Take the lock of the folder, which ends when that is closed."""
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _begin(paths: Paths, line: StateLine) -> Client | None:
    log = paths.log_file
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab") as output:
        begins_at = output.tell()
        # -P: the folder the person stands in is no place to import modules from.
        daemon = subprocess.Popen(
            [sys.executable, "-P", "-m", "fleettrio", "up", "--foreground"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=daemon_environment(os.environ),
            start_new_session=True,
        )
    began = time.monotonic()
    while (waited := time.monotonic() - began) < _START_S:
        client = try_connect()
        if client is not None:
            return client
        if daemon.poll() is not None:
            line.clear()
            _print_log(log, begins_at)
            print_error(
                f"the daemon ended at once, with exit code {daemon.returncode}", f"fleettrio doctor; log: {log}"
            )
            return None
        line.show(f"starting ({waited:.0f} s)")
        time.sleep(_LOOK_S)
    line.clear()
    print_error(f"the daemon (process {daemon.pid}) does not answer after {_START_S:.0f} s", f"look into {log}")
    return None


def _print_log(log: pathlib.Path, begins_at: int) -> None:
    """The end of what the daemon wrote since it was started."""
    with log.open("rb") as file:
        file.seek(max(begins_at, file.seek(0, os.SEEK_END) - 16_384))
        lines = file.read().decode("utf-8", "replace").splitlines()
    for text in lines[-_LOG_LINES:]:
        note(text)


def _wait_ready(client: Client, line: StateLine) -> int:
    began = time.monotonic()
    while True:
        status: Status = client.call("status", Empty())
        if status.broker in ("standalone", "connected"):
            line.clear()
            say(f"broker: {broker_words(status)}")
            return 0
        if time.monotonic() - began > _START_S or status.broker in ("refused-login", KEPT_OFF):
            line.clear()
            print_error(f"the broker is not reached: {broker_words(status)}", "fleettrio doctor")
            return NO_BROKER
        line.show(f"broker: {broker_words(status)}")
        time.sleep(_LOOK_S)


@click.command(epilog="\b\nExample:\n  fleettrio down")
def down() -> int:
    """End the daemon of this host. Agents live on, messages wait."""
    say(end_daemon() or "no daemon runs here")
    return 0


def end_daemon() -> str:
    """End it and wait until it is gone; its last word, empty when none runs. Raises `FleetTrioError` when it stays."""
    # Imported here: only ending needs what hangs on it.
    from fleettrio.panes.scope import process_of

    client = try_connect()
    if client is None:
        return ""
    with client, StateLine() as line:
        pid = client.welcome.pid
        try:
            done: Done = client.call("down", Empty())
            detail = done.detail
        except ConnectionLost:  # it was quicker than its answer
            detail = ""
        client.close()
        began = time.monotonic()
        while process_of(pid) is not None:
            if time.monotonic() - began > _END_S:
                raise FleetTrioError(
                    f"the daemon (process {pid}) still ends after {_END_S:.0f} s", hint=f"wait, or: kill -9 {pid}"
                )
            line.show("ending")
            time.sleep(_LOOK_S)
    return detail or "the daemon has ended"


@click.command(
    epilog="\b\nExamples:\n  fleettrio demo\n  fleettrio demo --keep    # leaves homes, logs and the broker's data",
)
@click.option("--keep", is_flag=True, help="Leave the demo's folder, with homes, logs and the broker's data.")
@click.option(
    "--without-beta", is_flag=True, help="Stop the second host first: fewer stories pass, and exit 1 says so."
)
def demo(keep: bool, without_beta: bool) -> int:
    """Two hosts, a broker and a worker on this machine, with a story about each promise."""
    from fleettrio.demo.main import run_demo

    chosen = {"--keep": keep, "--without-beta": without_beta}
    return run_demo([option for option, is_on in chosen.items() if is_on])
