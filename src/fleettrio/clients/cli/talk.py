"""`send` and `reply`: a message leaves, and with `--wait` its answer comes back to the same command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from fleettrio.api.schema import MessageView, Reply, Retry, Send, SendResult
from fleettrio.clients.cli.body import DURATION, read_body
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.table import note, print_error, print_json
from fleettrio.clients.cli.waiting import describe, wait_for, worst_exit
from fleettrio.clients.client import Client, ConnectionLost

__all__ = ("reply", "send")


_FILE = click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)


class _SendCommand(click.Command):
    """Lets `--wait` stand alone, without taking the next word for its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        bare = ["--wait=answer" if word == "--wait" else word for word in args[:end]]
        return super().parse_args(ctx, bare + args[end:])


@click.command(
    cls=_SendCommand,
    epilog="\b\nExamples:\n"
    "  fleettrio send worker@beta 'please review src/core' --wait\n"
    "  git diff | fleettrio send reviewer@beta -\n"
    "  fleettrio send lead worker@beta --file brief.md --intent handoff\n"
    "  fleettrio send --retry 9f31c2d4 --file brief.md",
)
@click.argument("words", nargs=-1, metavar="TO... [BODY|-]")
@click.option("--file", type=_FILE, help="Take the body from this file, byte for byte.")
@click.option(
    "--wait",
    type=click.Choice(["answer", "delivered"]),
    help="Stay until the answer is there, or with --wait=delivered until the receipt is.",
)
@click.option("--timeout", type=DURATION, default="30m", show_default=True, help="How long --wait waits: 50, 30s, 2h.")
@click.option(
    "--when",
    type=click.Choice(["idle", "turn", "now"]),
    default="idle",
    show_default=True,
    help="now: also while the agent works; idle, turn: once it waits for input.",
)
@click.option("--expires", type=DURATION, help="Not worth delivering after: 30m, 2h, 1d.")
@click.option("--intent", type=click.Choice(["directive", "handoff", "warning"]), default="directive")
@click.option("--priority", type=click.IntRange(0, 9), help="Order among what waits for the same agent.")
@click.option("--no-reply", is_flag=True, help="No answer is wanted.")
@click.option("--live", is_flag=True, help="Fail at once when the recipient's host is not heard.")
@click.option("--supersedes", default="", metavar="ID", help="An earlier message that this one replaces.")
@click.option("--key", default="", help="The same key again is the same message: safe to repeat.")
@click.option("--retry", default="", metavar="ID", help="Send a failed message again, with the same body.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def send(
    words: tuple[str, ...],
    file: str | None,
    wait: str | None,
    timeout: float,
    retry: str,
    as_json: bool,
    no_reply: bool,
    expires: float | None,
    **options: Any,
) -> int:
    """Send a message to one or several agents.

    The last word is the body, or `-` for standard input; with one word alone the body comes from standard input too.
    Returns once the message is safe on its way, and prints its short id. The answer can be waited for (--wait), or
    taken later: fleettrio inbox --take. Ctrl-C stops the waiting, never the message.

    A DURATION is a number of seconds (50), or a number with its unit: 30s, 30m, 2h, 1d.
    """
    to, argument = _split(words, has_file=file is not None, is_retry=bool(retry))
    body = read_body(argument, file)
    with connect() as client:
        if retry:
            result = _hand_over(client, "retry", Retry(retry, body))
        else:
            request = Send(
                to=to, body=body, expires_s=expires, wants_reply=False if no_reply else None, **options
            )  # fmt: skip
            result = _hand_over(client, "send", request)
        if wait is None:
            return _report(result, as_json=as_json)
        for message in result.messages:
            note(f"{message.short} to {message.recipient}")
        return wait_for(client, result.messages, wait, timeout, as_json=as_json)


def _split(words: tuple[str, ...], *, has_file: bool, is_retry: bool) -> tuple[list[str], str | None]:
    """Recipients and body among the words of the command."""
    if is_retry:
        if len(words) > 1:
            raise click.UsageError("--retry goes to the first recipient again: give the body alone")
        return [], words[0] if words else None
    if not words:
        raise click.UsageError("to whom? Name at least one agent, as in worker@beta")
    if has_file or len(words) == 1:
        return list(words), None
    return list(words[:-1]), words[-1]


@click.command(
    epilog="\b\nExamples:\n"
    "  fleettrio reply @last 'done: 3 findings, see below'\n"
    "  ./review.sh | fleettrio reply 9f31c2d4 -",
)
@click.argument("message_id", metavar="ID")
@click.argument("body", required=False, metavar="[BODY|-]")
@click.option("--file", type=_FILE, help="Take the body from this file, byte for byte.")
@click.option("--key", default="", help="The same key again is the same message: safe to repeat.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def reply(message_id: str, body: str | None, file: str | None, key: str, as_json: bool) -> int:
    """Answer a message that came to you.

    ID is the id in the message's frame, an ending of it, or @last.
    """
    data = read_body(body, file)
    with connect() as client:
        return _report(_hand_over(client, "reply", Reply(re=message_id, body=data, key=key)), as_json=as_json)


def _hand_over(client: Client, method: str, request: Send | Reply | Retry) -> SendResult:
    """The request's result. An end in the middle of it is reported as what it is: nobody knows."""
    try:
        result: SendResult = client.call(method, request)
    except (ConnectionLost, KeyboardInterrupt) as problem:
        unknown = ConnectionLost(
            f"the message may or may not have been sent: {str(problem) or 'stopped before the daemon had answered'}",
            hint="fleettrio inbox --sent shows what the daemon has",
        )
        unknown.exit_code = 5
        raise unknown from None
    return result


def _report(result: SendResult, *, as_json: bool) -> int:
    """Say what became of a send so far; a message that waits for its agent is a send well done."""
    if as_json:
        print_json(result)
    else:
        for message in result.messages:
            print(f"{message.short}  {describe(message)}")
    return _say_failures(result.messages)


def _say_failures(messages: Sequence[MessageView]) -> int:
    for message in messages:
        if worst_exit([message]):
            print_error(
                f"{message.short} to {message.recipient}: {message.sentence}", f"fleettrio show {message.short}"
            )
    return worst_exit(messages)
