"""`send` and `reply`: a message leaves, and with `--wait` its answer comes back to the same command."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from fleettrio.api.schema import Broadcast, Coord, MessageView, Reply, Retry, Send, SendResult
from fleettrio.clients.cli.body import DURATION, MOMENT, is_duration, not_blank, read_body
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.table import note, print_error, print_json, say
from fleettrio.clients.cli.waiting import describe, wait_for, worst_exit
from fleettrio.clients.client import CallFailed, Client, ConnectionLost
from fleettrio.errors import UNKNOWN

__all__ = ("FILE", "WaitCommand", "hand_over", "reply", "report", "send")


FILE = click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)


class WaitCommand(click.Command):
    """Lets `--wait` stand alone, without taking the next word for its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        for word, after in itertools.pairwise(args[:end]):
            if word == "--wait" and is_duration(after):  # it would be taken for the body
                raise click.UsageError(f"--wait takes no time: write --wait --timeout {after}", ctx)
        bare = ["--wait=answer" if word == "--wait" else word for word in args[:end]]
        return super().parse_args(ctx, bare + args[end:])


@click.command(
    cls=WaitCommand,
    epilog="\b\nExamples:\n"
    "  fleettrio send worker@beta 'please review src/core' --wait\n"
    "  git diff | fleettrio send reviewer@beta -\n"
    "  fleettrio send lead worker@beta --file brief.md --intent handoff\n"
    "  fleettrio send worker@beta 'rename it' --path src/a.rs --on-stale drop\n"
    "  fleettrio send --coord lead-b 'we take src/ui, you have src/core?'\n"
    "  fleettrio send role:worker --claim issue-149 'who is free: fix issue 149'\n"
    "  fleettrio send worker@beta --after 14:30 --remind 30m 'the daily look'\n"
    "  fleettrio send --retry 9f31c2d4 --file brief.md\n"
    "  fleettrio send --lines < messages.ndjson > sent.ndjson",
)
@click.argument("words", nargs=-1, metavar="TO... [BODY|-]")
@click.option("--file", type=FILE, help="Take the body from this file, byte for byte.")
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
@click.option("--after", type=MOMENT, default="0", metavar="WHEN", help="Send it later: in 10m, or at 14:30.")
@click.option("--remind", type=DURATION, default="0", help="Tell me when nobody has answered by then: 30m.")
@click.option(
    "--intent",
    type=click.Choice(["directive", "handoff", "warning"]),
    default="directive",
    show_default=True,
    help="What it is meant as: shown with it.",
)
@click.option("--priority", type=click.IntRange(0, 9), help="Order among what waits for the same agent.")
@click.option("--no-reply", is_flag=True, help="No answer is wanted.")
@click.option("--live", is_flag=True, help="Fail at once when the recipient's host is not heard.")
@click.option("--supersedes", default="", metavar="ID", help="An earlier message that this one replaces.")
@click.option("--path", "paths", multiple=True, metavar="FILE", help="A file that it is about (may be repeated).")
@click.option("--no-causal", is_flag=True, help="Say nothing of the code you see here.")
@click.option(
    "--on-stale",
    type=click.Choice(["note", "drop"]),
    default="note",
    show_default=True,
    help="When HEAD or one of those files has moved at delivery: deliver it with a note, or not at all.",
)
@click.option("--claim", callback=not_blank, metavar="KEY", help="Only who gets this claim is given it: claim --help.")
@click.option("--coord", default="", metavar="COORDID", help="To the lead of another fleet, through the coordinator.")
@click.option("--key", default="", help="The same key again is the same message: safe to repeat.")
@click.option("--retry", default="", metavar="ID", help="Send a failed message again, with the same body.")
@click.option("--lines", is_flag=True, help="A message for each line of JSON on standard input; see above.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def send(
    words: tuple[str, ...],
    file: str | None,
    wait: str | None,
    timeout: float,
    retry: str,
    coord: str,
    lines: bool,
    as_json: bool,
    no_reply: bool,
    expires: float | None,
    no_causal: bool,
    after: float,
    remind: float,
    paths: tuple[str, ...],
    **options: Any,
) -> int:
    """Send a message to one or several agents: `a b` or `a,b`. Each gets one of its own, all in one trace.

    The last word is the body, or `-` for standard input; with one word alone the body comes from standard input too.
    Returns once the message is safe on its way, and prints its short id. The answer can be waited for (--wait), or
    taken later: fleettrio inbox --take. Ctrl-C stops the waiting, never the message.

    Inside a git work tree the message also says which commit, and which content of the files it is about (--path, or
    those that the body names), it was written for. When the recipient works on the same repository, it is told with the
    message what has moved since, and so are you (fleettrio show ID).

    With --lines each line of standard input is a message, as {"to": "worker@beta", "text": "..."}; what is there is
    sent together. For each a line is printed, {"line": 1, "messages": [{"msg_id", "gid", "state"}]} or {"line": 1,
    "error": {"reason", "message", "hint", "exit_code"}}, in the same order. The exit code is that of the worst. Other
    keys of a line are body (base64, in place of text), when, intent, priority, wants_reply, live, supersedes, cwd,
    paths, on_stale, claim, key, and in seconds expires_s, after_s, remind_s.

    With --coord the lead of this fleet speaks to the lead of another one: coordination alone, never a task.

    A DURATION is a number of seconds (50), or a number with its unit: 30s, 30m, 2h, 1d.
    """
    if lines:
        if _given() - _FOR_LINES:
            raise click.UsageError("--lines stands alone: recipients, bodies and options are in the lines")
        from fleettrio.clients.cli.lines import send_lines

        with connect() as client:
            return send_lines(client, sys.stdin.buffer)
    if after and (wait or options["key"] or retry):
        raise click.UsageError("--after goes with none of --wait, --key and --retry: it is only made when it is due")
    if no_causal and (paths or options["on_stale"] == "drop"):
        raise click.UsageError("--no-causal goes with neither --path nor --on-stale drop")
    if coord:
        _only_for_leads(words)
        words = (coord, *words)
    to, argument = _split(words, has_file=file is not None, is_retry=bool(retry))
    body = read_body(argument, file)
    with connect() as client:
        if retry:
            result = hand_over(client, "retry", Retry(retry, body))
        elif coord:
            said = Coord(coord_id=coord, body=body, expires_s=expires, key=options["key"])
            result = hand_over(client, "coord", said)
        else:
            request = Send(
                to=to,
                body=body,
                expires_s=expires,
                wants_reply=False if no_reply else None,
                cwd="" if no_causal else _here(),
                paths=list(paths),
                after_s=after,
                remind_s=remind,
                **options,
            )
            result = _hand_over_words(client, request, has_file=file is not None)
        if wait is None:
            return report(result, as_json=as_json)
        for message in result.messages:
            if not message.to or message.is_head:
                note(f"{message.short} to {message.recipient}")
        return wait_for(client, result.messages, wait, timeout, as_json=as_json)


_WORDS = "all words but the last are recipients: put a text of several words into quotes"
_WORDS_AND_FILE = "with --file every word is a recipient: the text is in the file"


def _hand_over_words(client: Client, request: Send, *, has_file: bool) -> SendResult:
    """Send it; where a word of the text was taken for a recipient, say so."""
    try:
        return hand_over(client, "send", request)
    except CallFailed as problem:
        if problem.reason == "no-such-recipient" and len(request.to) > 1 and "did you mean" not in problem.hint:
            problem.hint = _WORDS_AND_FILE if has_file else _WORDS
        raise


_FOR_LEADS = frozenset({"words", "file", "wait", "timeout", "expires", "coord", "key", "as_json"})
_FOR_LINES = frozenset({"lines", "as_json"})


def _only_for_leads(words: tuple[str, ...]) -> None:
    """Raise for what a lead cannot say to another one."""
    if len(words) > 1:
        raise click.UsageError("--coord names the one recipient: give the body alone")
    goes = "--coord goes with --file, --expires, --key, --wait=delivered, --timeout and --json alone"
    if _given() - _FOR_LEADS or click.get_current_context().params["wait"] == "answer":
        raise click.UsageError(goes)


def _given() -> set[str]:
    """What stands on the command line, by the names of the parameters."""
    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def _here() -> str:
    """The folder this command runs in; empty when it was taken away meanwhile."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _split(words: tuple[str, ...], *, has_file: bool, is_retry: bool) -> tuple[list[str], str | None]:
    """Recipients and body among the words of the command."""
    if is_retry:
        if len(words) > 1:
            raise click.UsageError("--retry goes to the first recipient again: give the body alone")
        return [], words[0] if words else None
    if not words:
        raise click.UsageError("to whom? Name at least one agent, as in worker@beta")
    if has_file or len(words) == 1:
        return _names(words), None
    return _names(words[:-1]), words[-1]


def _names(words: Sequence[str]) -> list[str]:
    """`a b` and `a,b` are the same two."""
    return [name for word in words for part in word.split(",") if (name := part.strip())]


@click.command(
    epilog="\b\nExamples:\n"
    "  fleettrio reply @last 'done: 3 findings, see below'\n"
    "  ./review.sh | fleettrio reply 9f31c2d4 -",
)
@click.argument("message_id", metavar="ID")
@click.argument("body", required=False, metavar="[BODY|-]")
@click.option("--file", type=FILE, help="Take the body from this file, byte for byte.")
@click.option("--key", default="", help="The same key again is the same message: safe to repeat.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def reply(message_id: str, body: str | None, file: str | None, key: str, as_json: bool) -> int:
    """Answer a message that came to you.

    ID is the id in the message's frame, an ending of it, or @last.
    """
    data = read_body(body, file)
    with connect() as client:
        return report(hand_over(client, "reply", Reply(re=message_id, body=data, key=key)), as_json=as_json)


def hand_over(client: Client, method: str, request: Send | Broadcast | Coord | Reply | Retry) -> SendResult:
    """The request's result. An end in the middle of it is reported as what it is: nobody knows."""
    try:
        result: SendResult = client.call(method, request)
    except (ConnectionLost, KeyboardInterrupt) as problem:
        unknown = ConnectionLost(
            f"the message may or may not have been sent: {str(problem) or 'stopped before the daemon had answered'}",
            hint="fleettrio inbox --sent shows what the daemon has",
        )
        unknown.exit_code = UNKNOWN
        raise unknown from None
    return result


def report(result: SendResult, *, as_json: bool) -> int:
    """Say what became of a send so far; a message that waits for its agent is a send well done."""
    if as_json:
        print_json(result)
    else:
        for message in result.messages:
            if message.to and not message.is_head:
                say(f"  {describe(message)}", indent=" " * 10)
            elif not worst_exit([message]):  # what failed is told as an error, once
                say(f"{message.short}  {describe(message)}", indent=" " * 10)
    return _say_failures(result.messages)


def _say_failures(messages: Sequence[MessageView]) -> int:
    """An error for each message that failed; the members of a broadcast are told in their lines."""
    for message in messages:
        if worst_exit([message]) and (message.is_head or not message.to):
            print_error(
                f"{message.short} to {message.recipient}: {message.sentence}", f"fleettrio show {message.short}"
            )
    return worst_exit(messages)
