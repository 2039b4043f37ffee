"""`attach`, `detach`, `list`, `ping`: who there is, and how one comes to be."""

from __future__ import annotations

import os
import re
import shlex

import click

from fleettrio.api.schema import (
    AgentView,
    Attach,
    Attached,
    Detach,
    Done,
    Empty,
    Fleet,
    HostView,
    Ping,
    Pong,
    Token,
)
from fleettrio.clients.cli.connect import TOKEN_VARIABLE, connect
from fleettrio.clients.cli.fleetview import trust_of
from fleettrio.clients.cli.table import at_time, note, print_json, print_table, say
from fleettrio.local.sanitise import one_line

__all__ = ("attach", "detach", "list_agents", "ping", "print_agents", "print_hosts", "token")

_PANE = re.compile(r"([A-Za-z0-9_.-]+:)?%\d+")


@click.command(
    epilog="\b\nExamples:\n"
    '  eval "$(fleettrio attach --name lead)"\n'
    "  fleettrio attach --name worker --here\n"
    "  fleettrio attach --name worker --pane %3 --harness script\n"
    "  fleettrio attach --name batch --command './work.sh --quiet'",
)
@click.option("--name", help="Its name; without one it is made from harness and folder.")
@click.option("--role", default="", help="A label, as lead or worker.")
@click.option("--takes", type=click.Choice(["push", "pull"]), help="Messages are put into it, or it fetches them.")
@click.option("--pane", default="", metavar="PANE", help="The tmux pane it lives in: %3, or socket:%3.")
@click.option("--here", is_flag=True, help="The tmux pane of this terminal.")
@click.option("--command", help="A command that takes each message on its standard input.")
@click.option("--harness", default="", help="What runs there: claude codex opencode script line.")
@click.option("--group", "groups", multiple=True, help="A group it belongs to; may be given several times.")
@click.option("--pid", type=click.IntRange(1), help="Its process: what that starts, speaks for it.")
@click.option("--take", is_flag=True, help="Take the name although a live session holds it.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def attach(
    name: str | None,
    role: str,
    takes: str | None,
    pane: str,
    here: bool,
    command: str | None,
    harness: str,
    groups: tuple[str, ...],
    pid: int | None,
    take: bool,
    as_json: bool,
) -> int:
    """Make an agent known on this host, or take back one by its name.

    Standard output is a line for the agent's shell, with its token.
    """
    if name is not None and not name.strip():
        raise click.UsageError("--name is empty: give a name, or leave --name out")
    request = Attach(
        name=name or "",
        role=role,
        takes=takes or "",
        groups=list(groups),
        pane=_pane_of(pane, here=here),
        command=_argv_of(command),
        harness=harness,
        cwd=os.getcwd(),
        pid=pid or 0,
        take=take,
    )
    if request.pane and request.command:
        raise click.UsageError("an agent lives in a pane or is a command, not both")
    with connect() as client:
        attached: Attached = client.call("attach", request)
    return _give_token(attached, as_json=as_json)


def _pane_of(pane: str, *, here: bool) -> str:
    """The pane as the daemon takes it: `%3` on tmux's default server, `socket:%3` on another one.

    Without a socket it is a pane of the server that this command runs in, if it runs in one: what `%3` means there.
    """
    if pane and here:
        raise click.UsageError("--pane and --here were both given: one is enough")
    tmux = os.environ.get("TMUX", "")
    if here:
        pane = os.environ.get("TMUX_PANE", "") if tmux else ""
        if not pane:
            raise click.UsageError("--here: this terminal is no tmux pane (start tmux, or give --pane)")
    server = os.path.basename(tmux.rsplit(",", 2)[0])
    if pane.startswith("%") and server not in ("", "default"):
        pane = f"{server}:{pane}"
    if pane and _PANE.fullmatch(pane) is None:
        raise click.UsageError(f"{pane!r} is no pane: write %3, or socket:%3 (tmux list-panes -a -F '#{{pane_id}}')")
    return pane


def _argv_of(command: str | None) -> list[str]:
    if command is None:
        return []
    try:
        argv = shlex.split(command)
    except ValueError as problem:
        raise click.UsageError(f"--command: {problem}") from None
    if not argv or not argv[0]:
        raise click.UsageError("--command is empty: name a program, as in --command './work.sh --quiet'")
    return argv


def _give_token(attached: Attached, *, as_json: bool) -> int:
    if as_json:
        print_json(attached)
        return 0
    print(f"export {TOKEN_VARIABLE}={shlex.quote(attached.token)}")
    again = "" if attached.is_new else " again, with the id and inbox it had"
    note(f"{attached.name}@{attached.host} is attached{again}; the line above is for its shell")
    return 0


@click.command(epilog="\b\nExamples:\n  fleettrio detach worker\n  fleettrio detach worker --forget")
@click.argument("name")
@click.option("--forget", is_flag=True, help="For good: its inbox ends, what waits in it fails.")
def detach(name: str, forget: bool) -> int:
    """End an agent's session. Its name and inbox stay until it comes back."""
    with connect() as client:
        done: Done = client.call("detach", Detach(name, forget))
    say(done.detail or f"{name} is away")
    return 0


@click.group(epilog="\b\nExample:\n  fleettrio token create --name ci")
def token() -> None:
    """Tokens for programs without a terminal."""


@token.command(epilog="\b\nExample:\n  fleettrio token create --name ci")
@click.option("--name", required=True, help="The agent it is for.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def create(name: str, as_json: bool) -> int:
    """A new token for an agent; the one before it ends."""
    with connect() as client:
        attached: Attached = client.call("token", Token(name))
    return _give_token(attached, as_json=as_json)


@click.command("list", epilog="\b\nExamples:\n  fleettrio list\n  fleettrio list --json")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def list_agents(as_json: bool) -> int:
    """Every agent and host of the fleet."""
    with connect() as client:
        fleet: Fleet = client.call("list", Empty())
    if as_json:
        print_json(fleet)
        return 0
    print_agents(fleet.agents)
    print()
    print_hosts(fleet.hosts)
    return 0


def print_agents(agents: list[AgentView]) -> None:
    """One line an agent."""
    if not agents:
        say("no agents yet: fleettrio attach --name NAME", indent="  ")
        return
    print_table(
        ("AGENT", "STATE", "SINCE", "TAKES", "WAKES", "WAITING", "ROLE"),
        (
            (
                agent.address,
                agent.status,
                at_time(agent.since),
                f"{agent.takes} ({agent.path})" if agent.path and agent.path != agent.takes else agent.takes,
                "yes" if agent.wakes else "no",
                ("full" if agent.full else str(agent.waiting or "-")),
                " ".join([agent.role, *agent.groups]).strip() or "-",
            )
            for agent in agents
        ),
        has_address=True,
    )


def print_hosts(hosts: list[HostView]) -> None:
    """One line a host, with what stands between it and us."""
    print_table(
        ("HOST", "STATE", "HEARD", "AGENTS", "VERSION", "TRUST"),
        (
            (
                host.host + (" (here)" if host.is_self else ""),
                host.status,
                "-" if host.is_self else at_time(host.heard_at),
                str(host.agents),
                host.version or "-",
                trust_of(host),
            )
            for host in hosts
        ),
        has_address=True,
    )


@click.command(epilog="\b\nExamples:\n  fleettrio ping beta\n  fleettrio ping worker@beta --json")
@click.argument("target")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def ping(target: str, as_json: bool) -> int:
    """There and back: round trip, version, clock, and whether they trust us."""
    with connect() as client:
        pong: Pong = client.call("ping", Ping(target))
    if as_json:
        print_json(pong)
        return 0
    trust = "trusts us" if pong.trusts_us else "does not trust us: import the fleet file there (fleettrio host import)"
    parts = [f"{pong.rtt_ms:.1f} ms", f"version {pong.version}", f"clock {pong.offset_ms / 1000:+.1f} s", trust]
    say(one_line(f"{pong.host}: {', '.join(parts)}", 200), indent="  ")
    if pong.agent:
        say(one_line(f"{pong.agent} is {pong.agent_status}", 200), indent="  ")
    return 0
