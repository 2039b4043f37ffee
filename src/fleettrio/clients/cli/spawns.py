"""`spawn`, `stop`: agents that are started and ended by request, here or on another host."""

from __future__ import annotations

import os

import click

from fleettrio.api.schema import Empty, Fleet, Ordered, Spawn, Stop
from fleettrio.clients.cli.body import DURATION, not_blank, read_body
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.table import note, print_error, print_json, say
from fleettrio.clients.cli.waiting import describe, wait_for, worst_exit
from fleettrio.clients.client import Client
from fleettrio.errors import WAITING

__all__ = ("spawn", "stop")

_LIMIT = "10m"


@click.command(
    epilog="\b\nExamples:\n"
    "  fleettrio spawn coder\n"
    "  fleettrio spawn coder@beta 'please fix issue 149' --cwd /srv/app --worktree\n"
    "  fleettrio spawn coder@beta --name w9 --group crew --no-wait",
)
@click.argument("profile", metavar="PROFILE[@HOST]")
@click.argument("brief", required=False, metavar="[BRIEF|-]")
@click.option("--name", callback=not_blank, help="Its name there; without one it is named after the profile.")
@click.option("--cwd", default="", metavar="DIR", help="Where it works, on that host, under a root of the profile.")
@click.option("--worktree", is_flag=True, help="Give it a git worktree of its own, on a branch of its own.")
@click.option("--group", "groups", multiple=True, help="A group it belongs to; may be given several times.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Stay until it is ready, or cannot be.")
@click.option("--timeout", type=DURATION, default=_LIMIT, show_default=True, help="How long --wait waits: 50, 30s, 2h.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def spawn(
    profile: str,
    brief: str | None,
    name: str,
    cwd: str,
    worktree: bool,
    groups: tuple[str, ...],
    wait: bool,
    timeout: float,
    as_json: bool,
) -> int:
    """Start an agent by a profile of this host or another one.

    The profiles of each host are shown by `fleettrio list`. With a brief, the agent gets it as its first message once
    it is ready; the answer comes as for any message. Ctrl-C stops the waiting, never the start.
    """
    kind, at, host = profile.partition("@")
    if at and not host:
        raise click.UsageError(f"{profile!r} names no host: write {kind}, or {kind}@HOST")
    if not kind.strip():
        raise click.UsageError("which profile? Name one, as in coder@beta (`fleettrio list` shows them)")
    request = Spawn(
        profile=kind,
        host=host,
        name=name,
        cwd=_folder(cwd, is_here=not host),
        worktree=worktree,
        groups=list(groups),
        brief=None if brief is None else read_body(brief, None),
    )
    with connect() as client:
        ordered: Ordered = client.call("spawn", request)
        code = _follow(client, ordered, timeout, wait=wait, as_json=as_json)
        if code in (0, WAITING) and not as_json:
            _say_more(client, ordered, is_ready=wait and code == 0)
    return code


@click.command(
    epilog="\b\nExamples:\n  fleettrio stop coder\n  fleettrio stop w9@beta --reason 'its branch is merged'",
)
@click.argument("target", metavar="NAME[@HOST]")
@click.option("--reason", default="", help="Why; kept with it.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Stay until it is gone.")
@click.option("--timeout", type=DURATION, default=_LIMIT, show_default=True, help="How long --wait waits: 50, 30s, 2h.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def stop(target: str, reason: str, wait: bool, timeout: float, as_json: bool) -> int:
    """End an agent for good: what waits for it fails, its program ends, its inbox goes.

    A git worktree that was made for it goes too, unless something in it was not committed.
    Instead of a name, the id of the `spawn` that started it will do.
    """
    with connect() as client:
        ordered: Ordered = client.call("stop", Stop(target, reason))
        return _follow(client, ordered, timeout, wait=wait, as_json=as_json)


def _folder(cwd: str, *, is_here: bool) -> str:
    """As a path on that host; only on this one a relative path means anything."""
    if cwd and is_here:
        return os.path.abspath(os.path.expanduser(cwd))
    if cwd and not cwd.startswith("/"):
        raise click.UsageError(f"--cwd {cwd!r} is a relative path: give the whole path, as on that host")
    return cwd


def _follow(client: Client, ordered: Ordered, timeout: float, *, wait: bool, as_json: bool) -> int:
    message = ordered.message
    code = worst_exit([message])
    # Whoever ends itself is nobody afterwards: there is no one to wait.
    if wait and not code and ordered.gid != message.sender_gid:
        note(f"{message.short} to {message.recipient}")
        return wait_for(client, [message], "delivered", timeout, as_json=as_json)
    if as_json:
        print_json(ordered)
    elif not code:
        say(f"{message.short}  {describe(message)}", indent=" " * 10)
    if code:
        print_error(f"{message.short} to {message.recipient}: {message.sentence}", f"fleettrio show {message.short}")
    return code


def _say_more(client: Client, ordered: Ordered, *, is_ready: bool) -> None:
    """Where its brief is, and how a person looks at it."""
    if ordered.brief:
        short = ordered.brief[-8:]
        when = "is on its way" if is_ready else "goes out when it is ready, if this daemon still runs then"
        note(f"its brief {when}: fleettrio show {short}")
    if is_ready:
        fleet: Fleet = client.call("list", Empty())
        for agent in fleet.agents:
            if agent.gid == ordered.gid and agent.attach:
                note(f"to look at it: {agent.attach}")
