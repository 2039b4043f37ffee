"""`attach`, `detach`, `token`: how an agent comes to be known on this host, and leaves."""

from __future__ import annotations

import os
import re
import shlex

import click

from fleettrio.api.schema import Attach, Attached, Detach, Done, Token
from fleettrio.clients.cli.body import not_blank
from fleettrio.clients.cli.connect import TOKEN_VARIABLE, connect
from fleettrio.clients.cli.group import Group
from fleettrio.clients.cli.ownpane import pane_around
from fleettrio.clients.cli.table import note, print_json, say
from fleettrio.local.sanitise import one_line

__all__ = ("attach", "detach", "token")

HERE = "(here)"
_PANE = re.compile(r"([^:\s]+:)?%\d+")


@click.command(
    epilog="\b\nExamples:\n"
    '  eval "$(fleettrio attach --name lead)"\n'
    "  fleettrio attach --name worker --here\n"
    "  fleettrio attach --name worker --pane %3\n"
    "  fleettrio attach --name reviewer --herdr w2:p1\n"
    "  fleettrio attach --name batch --command './work.sh --quiet'\n"
    "  fleettrio attach --name aide --command 'python aide.py' --stream\n"
    "  fleettrio attach --name old --transport screen --target work",
)
@click.option("--name", callback=not_blank, help="Its name; without one it is made from harness and folder.")
@click.option("--role", default="", help="A label, as lead or worker.")
@click.option("--takes", type=click.Choice(["push", "pull"]), help="Messages are put into it, or it fetches them.")
@click.option("--pane", default="", metavar="PANE", help="The tmux pane it lives in: %3, or socket:%3.")
@click.option("--here", is_flag=True, help="The tmux pane of this terminal.")
@click.option(
    "--herdr", is_flag=False, flag_value=HERE, metavar="[TARGET]", help="Its terminal, pane or name in herdr; this one."
)
@click.option("--command", help="A command that takes each message on its standard input.")
@click.option("--stream", is_flag=True, help="The command stays, and is fed a line of JSON for each message.")
@click.option("--transport", default="", metavar="NAME", help="A way by its name: http, codex-queue, or a package's.")
@click.option("--target", default="", help="Where that transport finds it.")
@click.option("--harness", default="", help="What runs there, where it is not seen: claude codex opencode…")
@click.option("--group", "groups", multiple=True, help="A group it belongs to; may be given several times.")
@click.option("--no-group", is_flag=True, help="In no group any more.")
@click.option("--pid", type=click.IntRange(1), help="Its process: what that starts, speaks for it.")
@click.option(
    "--reply",
    type=click.Choice(["auto", "nag", "manual"]),
    help="When it does not answer: its last words are sent, it is reminded once, or neither.",
)
@click.option("--take", is_flag=True, help="Take the name although a live session holds it.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def attach(
    name: str,
    role: str,
    takes: str | None,
    pane: str,
    here: bool,
    herdr: str | None,
    command: str | None,
    stream: bool,
    transport: str,
    target: str,
    harness: str,
    groups: tuple[str, ...],
    no_group: bool,
    pid: int | None,
    reply: str | None,
    take: bool,
    as_json: bool,
) -> int:
    """Make an agent known on this host, or take back one by its name.

    Agents that messages are put into hear every broadcast; one that fetches hears those to its groups, and with
    --group all those to everybody. Without --group it stays in the groups that it was in.

    Standard output is a line for the agent's shell, with its token.
    """
    if groups and no_group:
        raise click.UsageError("--group and --no-group were both given: one is enough")
    if herdr is not None:
        if transport or target:
            raise click.UsageError("--herdr and --transport were both given: one is enough")
        transport, target = "herdr", _in_herdr(herdr)
    request = Attach(
        name=name,
        role=role,
        takes=takes or "",
        groups=list(groups) if groups or no_group else None,
        pane=_pane_of(pane, here=here),
        command=_argv_of(command),
        stream=stream,
        transport=transport,
        target=target,
        harness=harness,
        cwd=os.getcwd(),
        pid=pid or 0,
        reply=reply or "",
        take=take,
    )
    if sum(map(bool, (request.pane, request.command, transport))) > 1:
        raise click.UsageError("an agent lives in a pane, is a command, or is reached by a transport: one of them")
    if stream and not request.command:
        raise click.UsageError("--stream goes with --command: it says that the command stays")
    if bool(transport) != bool(target):
        raise click.UsageError("--transport and --target go together, as in --transport screen --target work")
    with connect() as client:
        attached: Attached = client.call("attach", request)
    again = "" if attached.is_new else " again, with the id and inbox it had"
    if attached.found and not as_json:
        note(one_line(f"found: {attached.found}", 300))
    return _give_token(attached, f"is attached{again}; the line above is for its shell", as_json=as_json)


def _pane_of(pane: str, *, here: bool) -> str:
    """The pane as the daemon takes it: `%3` on tmux's default server; on another one `name:%3` or `/path/of/socket:%3`.

    Without a socket it is a pane of the server that this command runs in, if it runs in one: what `%3` means there.
    """
    if pane and here:
        raise click.UsageError("--pane and --here were both given: one is enough")
    if here:
        pane = os.environ.get("TMUX_PANE", "") if os.environ.get("TMUX") else ""
        if not pane:
            raise click.UsageError("--here: this terminal is not a tmux pane (start tmux, or give --pane)")
    if pane.startswith("%"):
        pane = pane_around(pane, os.environ)
    if pane and _PANE.fullmatch(pane) is None:
        raise click.UsageError(f"{pane!r} is not a pane: write %3, or socket:%3 (tmux list-panes -a -F '#{{pane_id}}')")
    return pane


def _in_herdr(name: str) -> str:
    """As the daemon takes it: the socket of the herdr that this command runs in, or the usual one, and who is meant."""
    if name == HERE:
        name = os.environ.get("HERDR_PANE_ID", "")
        if not name:
            raise click.UsageError("--herdr: this terminal is not a pane of herdr (give a terminal, pane or name)")
    # Here, because no other command needs it.
    from fleettrio.panes.herdrsocket import socket_of

    return name if "#" in name else f"{socket_of(os.environ)}#{name}"


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


def _give_token(attached: Attached, what: str, *, as_json: bool) -> int:
    if as_json:
        print_json(attached)
        return 0
    print(f"export {TOKEN_VARIABLE}={shlex.quote(attached.token)}")
    note(f"{attached.name}@{attached.host} {what}")
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


@click.group(cls=Group, epilog="\b\nExample:\n  fleettrio token create --name ci")
def token() -> None:
    """Tokens for programs without a terminal."""


@token.command(epilog="\b\nExample:\n  fleettrio token create --name ci")
@click.option("--name", required=True, help="The agent it is for.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def create(name: str, as_json: bool) -> int:
    """A new token for an agent; the one before it ends."""
    with connect() as client:
        attached: Attached = client.call("token", Token(name))
    what = "has a new token; the line above is for its environment, and a token that it had before has ended"
    return _give_token(attached, what, as_json=as_json)
