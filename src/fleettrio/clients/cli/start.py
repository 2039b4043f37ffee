"""`claude`, `codex`, `opencode`: a harness as an agent, from its first moment on.

In a tmux pane the harness takes the place of this command: same process, same terminal, its own exit code. Elsewhere a
session of this home's tmux server is made for it, in which this command runs again, and which is shown.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence

import click

from fleettrio.api.schema import Attach, Attached, Detach
from fleettrio.clients.cli.body import not_blank
from fleettrio.clients.cli.connect import TOKEN_VARIABLE, connect, try_connect
from fleettrio.clients.cli.ownpane import own_pane
from fleettrio.clients.cli.table import note, print_json
from fleettrio.clients.client import Client
from fleettrio.clients.harnesses.launch import INSTALL, Launch, plan
from fleettrio.errors import FleetTrioError
from fleettrio.wire.gids import NAME_RULE, is_name

__all__ = ("claude", "codex", "ensure_daemon", "opencode")

_START_S = 60.0


def _command(harness: str, title: str, example: str) -> click.Command:
    """One command of the three: they differ in names."""

    @click.command(
        harness,
        epilog=f"\b\nExamples:\n  fleettrio {harness} --name a\n  fleettrio {harness} --name b -- {example}\n"
        f"  fleettrio {harness} --detach    # for scripts: returns at once",
        help=f"Start {title} as an agent: messages reach it, and it has the tools to write them.\n\n"
        "In tmux it takes this pane; elsewhere a new tmux session is made and shown (Ctrl-b d leaves it, and it runs "
        "on). Nothing is written to your configuration. The daemon is started when none runs.\n\n"
        "Without --name it is called after program and folder; what was started in the same folder before, and has "
        f"ended, gives it its name, id and inbox. What stands behind -- goes to {harness}.",
    )
    @click.option("--name", callback=not_blank, help="Its name; without one it is made from program and folder.")
    @click.option("--role", default="", help="A label, as lead or worker.")
    @click.option("--group", "groups", multiple=True, help="A group it belongs to; may be given several times.")
    @click.option("--take", is_flag=True, help="Take the name although a live session holds it.")
    @click.option("--detach", "-d", is_flag=True, help="Start it in a session of its own, and return at once.")
    @click.option("--here", is_flag=True, help="In this very pane, or not at all.")
    @click.option("--json", "as_json", is_flag=True, help="With --detach: print the facts as JSON.")
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def start(
        name: str,
        role: str,
        groups: tuple[str, ...],
        take: bool,
        detach: bool,
        here: bool,
        as_json: bool,
        arguments: tuple[str, ...],
    ) -> int:
        program = shutil.which(harness)
        if program is None:
            raise FleetTrioError(f"{harness} is not installed, or not on PATH", hint=f"install it: {INSTALL[harness]}")
        launch = plan(harness, program, arguments, os.environ)
        if not launch.is_agent:
            _become(program, launch, {})
        if detach and here:
            raise click.UsageError("--detach and --here were both given: one is enough")
        if as_json and not detach:
            raise click.UsageError("--json goes with --detach: else the terminal is the agent's")
        if name and not is_name(name):
            raise click.UsageError(f"{name!r} is not a name for an agent ({NAME_RULE})")
        request = Attach(
            name=name,
            role=role,
            groups=list(groups) or None,
            harness=harness,
            cwd=os.getcwd(),
            take=take,
            program=os.getpid(),
            session=launch.session,
        )
        request.pane = "" if detach else own_pane(os.environ)
        if request.pane:
            with ensure_daemon() as client:
                attached = _attach(client, request, program)
            note(f"{attached.name}@{attached.host}: what is sent to it comes into this pane")
            return _become(program, launch, {TOKEN_VARIABLE: attached.token, "FLEETTRIO_NAME": attached.name})
        if here:
            raise FleetTrioError("--here: this terminal is not a tmux pane", hint=f"leave it out: fleettrio {harness}")
        return _elsewhere(harness, request, arguments, detach=detach, as_json=as_json)

    return start


def ensure_daemon() -> Client:
    """A client of this home's daemon, which is started when none runs. Raises when it does not come up."""
    client = try_connect()
    if client is not None:
        return client
    # Through a process in between: what this one becomes must not be the daemon's parent.
    done = subprocess.run([sys.executable, "-P", "-m", "fleettrio", "up"], stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise FleetTrioError("the daemon could not be started", hint="fleettrio up; fleettrio doctor")
    return connect()


def _attach(client: Client, request: Attach, program: str) -> Attached:
    attached: Attached = client.call("attach", request)
    if not os.access(program, os.X_OK):  # taken away in this very moment
        client.call("detach", Detach(attached.name))
        raise FleetTrioError(f"{program} cannot be run", hint="install it again")
    return attached


def _become(program: str, launch: Launch, identity: dict[str, str]) -> int:
    """Go on as `program`. Does not come back."""
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these, and what is started would, too.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    env = {**os.environ, **launch.env, **identity}
    os.execve(program, [os.path.basename(program), *launch.arguments], env)  # noqa: S606  no shell is wanted


def _elsewhere(harness: str, request: Attach, arguments: Sequence[str], *, detach: bool, as_json: bool) -> int:
    """In a tmux session of its own."""
    # Imported here: where the harness takes this pane, nothing of it is needed.
    from fleettrio.clients.cli.newpane import NewPane

    if not detach and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise FleetTrioError(
            f"there is no terminal to show {harness} in", hint=f"fleettrio {harness} --detach, or run it in a terminal"
        )
    with ensure_daemon() as client:
        _check_person(client, request.name, detach=detach)
        words = ["--name", request.name] if request.name else []
        words += ["--role", request.role] if request.role else []
        words += [word for group in request.groups or () for word in ("--group", group)]
        words += ["--take"] if request.take else []
        new = NewPane(harness, [sys.executable, "-P", "-m", "fleettrio", harness, "--here", *words, "--", *arguments])
        if not detach:
            return new.show()
        agent = new.wait_attached(client, _START_S)
    if as_json:
        print_json(agent)
    else:
        note(f"{agent.address} is started; to look at it: {agent.attach}")
    return 0


def _check_person(client: Client, name: str, *, detach: bool) -> None:
    """An agent would be asked inside the new pane only, where nobody reads what is said. A script is no agent."""
    told = client.welcome
    if told.is_person or (told.caller and told.caller == name) or (detach and told.is_nobody):
        return
    who = told.caller_problem or f"you are {told.caller}"
    raise FleetTrioError(f"only a person starts an agent like this: {who}", hint="agents start others: fleettrio spawn")


claude = _command("claude", "Claude Code", "--model opus")
codex = _command("codex", "Codex", "--search")
opencode = _command("opencode", "opencode", "--continue")
