"""`setup`: our parts of a harness's own settings, for good, and away again."""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path

import click

from fleettrio.clients.cli.person import require_person
from fleettrio.clients.cli.table import note, say
from fleettrio.clients.setup.changes import Change, Setup
from fleettrio.clients.setup.obstacles import obstacles
from fleettrio.clients.setup.plans import HARNESSES
from fleettrio.clients.setup.record import Records
from fleettrio.home import resolve_paths
from fleettrio.local.sanitise import clean

__all__ = ("ask", "setup", "short", "take_back")


@click.command(
    epilog="\b\nExamples:\n  fleettrio setup claude\n  fleettrio setup codex --dry-run\n"
    "  fleettrio setup claude --undo",
)
@click.argument("harness", type=click.Choice(list(HARNESSES)))
@click.option("--undo", is_flag=True, help="Take it back: the same bytes as before.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
def setup(harness: str, undo: bool, yes: bool, dry_run: bool) -> int:
    """Write our hooks, MCP server and permission into a harness's settings.

    Shows every change and asks. A session that is no agent of this host (`fleettrio attach`) is left in peace. Without
    this command, `fleettrio claude` and its like tell the same to one session, and write nothing.
    """
    paths = resolve_paths(os.environ)
    if not dry_run:
        require_person(paths)
    one = Setup(harness, os.environ, Records(paths))
    return _undo(one, yes=yes, dry_run=dry_run) if undo else _set_up(one, yes=yes, dry_run=dry_run)


def _set_up(one: Setup, *, yes: bool, dry_run: bool) -> int:
    changes, hindering = one.to_do(), obstacles(one.plan)
    _show(changes)
    for obstacle in hindering:
        note(f"warning: {short(obstacle.file)} {obstacle.detail}")
    if not changes:
        say(f"{one.plan.title} is set up: nothing to change")
    if dry_run or not changes:
        return 0
    ask("write this all the same?" if hindering else "write this?", yes=yes)
    copies = one.do(changes)
    for change in changes:
        say(f"{short(change.file.path)}  written", indent="  ")
    if copies:
        say(f"what was there before: {short(copies[0].parent)}", indent="  ")
    say(one.plan.afterwards, indent="  ")
    say(f"take it back: fleettrio setup {one.plan.harness} --undo", indent="  ")
    return 0


def _undo(one: Setup, *, yes: bool, dry_run: bool) -> int:
    changes = one.to_undo()
    if not changes:
        if one.is_recorded and not dry_run:
            one.undo([])
        say(f"{one.plan.title} has nothing of ours: nothing to take back")
        return 0
    _show(changes)
    if dry_run:
        return 0
    ask("take this back?", yes=yes)
    take_back(one, changes)
    return 0


def take_back(one: Setup, changes: list[Change]) -> None:
    """Do it, and say what became of each file."""
    aside = one.undo(changes)
    for change in changes:
        how = "removed" if change.after is None else "taken back"
        say(f"{short(change.file.path)}  {how} ({change.note})", indent="  ")
    for file in aside:
        say(f"somebody had edited a file of ours; it is kept: {short(file)}", indent="  ")


def ask(question: str, *, yes: bool) -> None:
    """Return when a person agrees. Raises `UsageError` where nobody can be asked, `Abort` for a no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("nobody is here to ask: --yes agrees beforehand")
    click.confirm(question, abort=True)


def _show(changes: list[Change]) -> None:
    for change in changes:
        name = short(change.file.path)
        old, new = _lines(change.file.data), _lines(change.after)
        first, second = name if old or change.file.data is not None else "/dev/null", name if new else "/dev/null"
        for line in difflib.unified_diff(old, new, first, second, n=2, lineterm=""):
            print(clean(line))
        print()


def _lines(data: bytes | None) -> list[str]:
    text = (data or b"").decode("utf-8", "replace").replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n") if text else []


def short(path: Path) -> str:
    """The path as a person writes it."""
    home = os.environ.get("HOME", "")
    return f"~/{path.relative_to(home)}" if home and path.is_relative_to(home) else str(path)
