"""`uninstall`: every setup taken back, the daemon ended; what stays, and how it goes."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import click

from fleettrio.clients.cli.lifecycle import end_daemon
from fleettrio.clients.cli.person import require_person
from fleettrio.clients.cli.setup import ask, short, take_back
from fleettrio.clients.cli.table import note, say
from fleettrio.clients.setup.changes import Setup
from fleettrio.clients.setup.plans import HARNESSES
from fleettrio.clients.setup.record import Records
from fleettrio.errors import FAILED, ConfigError, StoreError
from fleettrio.home import Paths, resolve_paths
from fleettrio.store.holdings import holdings_of

__all__ = ("uninstall",)


@click.command(epilog="\b\nExamples:\n  fleettrio uninstall\n  fleettrio uninstall --purge")
@click.option(
    "--purge",
    is_flag=True,
    help="Throw away this home's keys, messages, settings and logs, too. Says what is lost, and asks.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def uninstall(purge: bool, yes: bool) -> int:
    """Take back every setup, end the daemon, and say what stays.

    Agents that run go on running. The package itself is removed with what installed it.
    """
    paths = resolve_paths(os.environ)
    require_person(paths)
    if purge:
        _say_what_is_lost(paths)
    ask("take back every setup and end the daemon?", yes=yes)
    problems = sum(not _undone(harness, paths) for harness in HARNESSES)
    say(end_daemon() or "no daemon runs here")
    if problems:
        note("the records of that setup are needed for another try, so nothing else was removed")
        return FAILED
    if purge:
        if left := _left(paths):
            say(f"to be thrown away: {', '.join(short(path) for path in left)}", indent="  ")
            ask("throw it away for good?", yes=yes)
        _throw_away(paths)
        if left:
            say("thrown away")
    _say_what_stays(paths)
    return 0


def _say_what_is_lost(paths: Paths) -> None:
    try:
        holds = holdings_of(paths.store)
    except StoreError as problem:
        note(f"nobody can say what is lost with the store: {problem}")
        return
    if holds.agents:
        say(f"agents that run on, and that nobody reaches then: {', '.join(holds.agents)}", indent="  ")
    for name, count in holds.waiting:
        waits = "1 message waits" if count == 1 else f"{count} messages wait"
        say(f"{waits} for {name or 'you'}, and would be lost", indent="  ")
    if holds.later:
        say(f"to be sent later, and would be lost: {holds.later}", indent="  ")
    if paths.owner_key_file.exists():
        say("the owner's key of the fleet is here: without it no host is added or revoked any more", indent="  ")


def _undone(harness: str, paths: Paths) -> bool:
    try:
        one = Setup(harness, os.environ, Records(paths))
        take_back(one, one.to_undo())
    except ConfigError as problem:
        for line in problem.problems:
            note(f"{harness}: {line}")
        if problem.hint:
            note(f"hint: {problem.hint}")
        return False
    return True


def _left(paths: Paths) -> list[Path]:
    """The files and folders of this home that exist; whatever else lies beside them is not ours."""
    store, state = paths.store, paths.state_dir
    ours = [
        paths.config_file,
        paths.keys_dir,
        *sorted(state.glob(f"{store.name}*")),
        paths.lock,
        *sorted(state.glob(f"{paths.log_file.name}*")),
        paths.fleet_file,
        paths.of_coordinator.fleet_file,
        state / "setup",
        state / "output",
        paths.run_dir,
    ]
    return list(dict.fromkeys(path for path in ours if os.path.lexists(path)))


def _throw_away(paths: Paths) -> None:
    for path in _left(paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for folder in dict.fromkeys((paths.state_dir, paths.config_dir)):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _say_what_stays(paths: Paths) -> None:
    folders = dict.fromkeys((paths.config_dir, paths.state_dir))
    left = [path for path in folders if path.is_dir() and any(path.iterdir())]
    for path in left:
        if path.parent not in left:
            say(f"stays: {short(path)}", indent="  ")
    if _left(paths):
        say("  keys, messages, settings and logs; `fleettrio uninstall --purge` throws them away", indent="  ")
    elif left:
        say("  what is in it is not fleettrio's, or may hold work of agents (worktrees): look, then", indent="  ")
        say(f"  rm -r {shlex.quote(str(left[0]))}", indent="  ")
    say("the program: uv tool uninstall fleettrio, or pip uninstall fleettrio, as it was installed")
