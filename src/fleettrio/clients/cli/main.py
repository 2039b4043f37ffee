"""The command `fleettrio`: which commands there are, and how every one of them fails.

A command's module is imported when the command is used, so that `fleettrio send` loads nothing it does not need.
Exit codes: 0 done, 2 usage, 3 failed, 4 expired, 5 unknown, 6 still waiting, 7 no daemon, 8 no broker,
130 stopped by Ctrl-C. When the reader of its output leaves, a command ends quietly with 3.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence

import click

from fleettrio import __version__
from fleettrio.clients.cli.group import Group
from fleettrio.errors import FAILED, STOPPED, USAGE, FleetTrioError

__all__ = ("COMMANDS", "cli", "main")

_PACKAGE = "fleettrio.clients.cli"
COMMANDS = {
    "agents": ("attach", "detach", "token"),
    "roster": ("list", "ping"),
    "broker": ("broker",),
    "ask": ("ask", "answer"),
    "claims": ("claim", "release"),
    "config": ("config",),
    "deadletters": ("dlq",),
    "init": ("init",),
    "fleet": ("host",),
    "health": ("status", "doctor"),
    "lifecycle": ("up", "down", "demo"),
    "bench": ("bench",),
    "mcp": ("mcp",),
    "prune": ("prune",),
    "setup": ("setup",),
    "uninstall": ("uninstall",),
    "spawns": ("spawn", "stop"),
    "start": ("claude", "codex", "opencode"),
    "look": ("inbox", "show", "cancel"),
    "trace": ("trace",),
    "pause": ("pause", "resume"),
    "notify": ("notify",),
    "talk": ("send", "reply"),
    "broadcast": ("broadcast",),
}
"""Module → its commands. The help sorts them."""
_ATTRIBUTES = {"list": "list_agents"}
"""Commands whose function cannot bear their name."""
_NOT_WRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What a write to standard output fails with when the disk behind it takes no more."""


class _LazyGroup(Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name for names in COMMANDS.values() for name in names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for module, names in COMMANDS.items():
            if cmd_name in names:
                found = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), _ATTRIBUTES.get(cmd_name, cmd_name))
                assert isinstance(found, click.Command)
                return found
        return None


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="\b\nExamples:\n  fleettrio claude --name lead\n  fleettrio send worker@beta 'please review' --wait",
)
@click.version_option(__version__, prog_name="fleettrio", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> int | None:
    """Messages between AI coding agents, on one host and between hosts.

    Without a command: who is where, what waits, what is wrong, what to do next.
    """
    if ctx.invoked_subcommand is not None:
        return None
    from fleettrio.clients.cli.fleetview import show_fleet

    return show_fleet()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str]) -> int:
    """Run one command; every error becomes `error:` and `hint:` on standard error and an exit code."""
    try:
        code = cli.main(args=arguments, prog_name="fleettrio", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        print("stopped", file=sys.stderr)
        return STOPPED
    except click.exceptions.NoArgsIsHelpError as problem:
        # `fleettrio host` alone: its message is the help, and no line of it is an error.
        print(problem.format_message(), file=sys.stderr)
        return USAGE
    except click.UsageError as problem:
        message = " ".join(problem.format_message().split())  # click lists choices by lines
        return _fail(message, _usage_hint(problem), USAGE)
    except click.ClickException as problem:
        return _fail(problem.format_message(), "", USAGE)
    except FleetTrioError as problem:
        return _fail(str(problem), problem.hint, problem.exit_code)
    except (BrokenPipeError, SystemExit):  # the reader left; click makes an exit with 1 of it
        _drop_output()
        return FAILED
    except OSError as problem:
        if problem.errno not in _NOT_WRITTEN or problem.filename is not None:
            raise
        _drop_output()
        return _fail(
            f"the output could not be written: {problem.strerror}",
            "make room or write elsewhere, then run it again: a message that was not confirmed comes again",
            FAILED,
        )
    return code if isinstance(code, int) else 0


def _drop_output() -> None:
    """Forget what could not be written: Python would complain about it once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, hint: str, code: int) -> int:
    from fleettrio.clients.cli.table import print_error

    print_error(message, hint)
    return code


def _usage_hint(problem: click.UsageError) -> str:
    return f"{problem.ctx.command_path if problem.ctx else 'fleettrio'} --help"
