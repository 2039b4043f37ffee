"""The command `fleettrio`: which commands there are, and how every one of them fails.

A command's module is imported when the command is used, so that `fleettrio send` loads nothing it does not need.
Exit codes: 0 done, 2 usage, 3 failed, 4 expired, 5 unknown, 6 still waiting, 7 no daemon, 8 no broker.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence

import click

from fleettrio import __version__
from fleettrio.errors import FleetTrioError

__all__ = ("COMMANDS", "cli", "main")

_PACKAGE = "fleettrio.clients.cli"
COMMANDS = {
    "agents": ("attach", "detach", "list", "ping", "token"),
    "config": ("config",),
    "fleet": ("init", "host"),
    "health": ("status", "doctor"),
    "lifecycle": ("up", "down", "demo"),
    "look": ("inbox", "show", "cancel", "trace"),
    "talk": ("send", "reply"),
}
"""Module → its commands, in the order of the help."""
_ATTRIBUTES = {"list": "list_agents"}
"""Commands whose function cannot bear their name."""
_NOT_WRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What a write to standard output fails with when the disk behind it takes no more."""


class _LazyGroup(click.Group):
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            import difflib

            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            ctx.fail(f"no command {args[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="\b\nExamples:\n  fleettrio up\n  fleettrio attach --name lead\n"
    "  fleettrio send worker@beta 'please review' --wait",
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
        return 130
    except click.exceptions.NoArgsIsHelpError as problem:
        # `fleettrio host` alone: its message is the help, and no line of it is an error.
        print(problem.format_message(), file=sys.stderr)
        return 2
    except click.UsageError as problem:
        return _fail(problem.format_message(), _usage_hint(problem), 2)
    except click.ClickException as problem:
        return _fail(problem.format_message(), "", 2)
    except FleetTrioError as problem:
        return _fail(str(problem), problem.hint, getattr(problem, "exit_code", 3))
    except BrokenPipeError:
        _drop_output()  # the reader left
        return 3
    except OSError as problem:
        if problem.errno not in _NOT_WRITTEN or problem.filename is not None:
            raise
        _drop_output()
        return _fail(
            f"the output could not be written: {problem.strerror}",
            "make room or write elsewhere, then run it again: a message that was not confirmed comes again",
            3,
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
