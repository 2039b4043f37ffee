"""`trace`: everything that belongs together, over all hosts, in the order in which it happened."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click

from fleettrio.api.schema import JournalLine, MessageView, Trace, Traced
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.messageview import print_journal, print_messages
from fleettrio.clients.cli.table import note, print_json, say
from fleettrio.clients.client import Client
from fleettrio.local.sanitise import one_line

__all__ = ("trace",)

_EVERY_S = 2.0


@click.command(
    epilog="\b\nExamples:\n"
    "  fleettrio trace 9f31c2d4\n"
    "  fleettrio trace @last --follow\n"
    "  fleettrio trace 9f31c2d4 --local --json"
)
@click.argument("trace_id", metavar="ID")
@click.option("--local", is_flag=True, help="Only what this host knows.")
@click.option("--follow", is_flag=True, help="Go on with what happens next; Ctrl-C stops.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON; with --follow a line for each change.")
def trace(trace_id: str, local: bool, follow: bool, as_json: bool) -> int:
    """Everything that belongs together: a brief, its answer, and every step of both, on all hosts.

    The other hosts are asked, for up to 2 seconds; who does not answer is named. Causes come before effects, and times
    are by this host's clock. ID is a trace id, the id of one of its messages, an ending or
    a beginning of either (4 characters at least), or @last.
    """
    with connect() as client:
        traced: Traced = client.call("trace", Trace(trace_id, local))
        _print(traced, as_json=as_json)
        if follow:
            _follow(client, traced, local=local, as_json=as_json)
    return 0


def _print(traced: Traced, *, as_json: bool) -> None:
    if as_json:
        print_json(traced)
        return
    say(f"trace {traced.trace_id}")
    print_messages(_one_row_each(traced.messages))
    if traced.journal:
        print()
        print_journal(traced.journal)
    if traced.others:
        say(f"  {traced.others} more between others")
    _say_gaps(traced)


def _say_gaps(traced: Traced) -> None:
    sys.stdout.flush()
    for host in traced.cut:
        note(f"{one_line(host, 40)} knows more of it than fits: fleettrio trace {traced.trace_id} --local there")
    if traced.silent:
        note(f"no word from {', '.join(one_line(host, 40) for host in traced.silent)}")


def _follow(client: Client, traced: Traced, *, local: bool, as_json: bool) -> None:
    """Look again and again; print what is new."""
    seen, silent = {_mark(line) for line in traced.journal}, traced.silent
    try:
        while True:
            time.sleep(_EVERY_S)
            now: Traced = client.call("trace", Trace(traced.trace_id, local))
            new = [line for line in now.journal if _mark(line) not in seen]
            seen.update(map(_mark, new))
            if new and as_json:
                print_json(Traced(now.trace_id, now.messages, new, now.silent, now.others, now.cut))
            elif new:
                print_journal(new, has_heading=False)
            if now.silent != silent and not as_json:
                _say_gaps(now)
            silent = now.silent
            sys.stdout.flush()
    except KeyboardInterrupt:
        return


def _mark(line: JournalLine) -> tuple[str, ...]:
    """By which a line is known again; its time moves with what is known of that host's clock."""
    return line.host, line.what, line.msg_id, line.gid, line.reason, line.detail, str(line.ms)


def _one_row_each(messages: Sequence[MessageView]) -> list[MessageView]:
    """Each message once: the recipient's host owns the truth, the sender's row stands in where it did not answer.

    A broadcast is its head here; what became of each member is in the journal.
    """
    received = {(message.msg_id, message.gid) for message in messages if message.direction == "in"}
    counted = {message.msg_id for message in messages if message.is_head}
    shown = []
    for message in messages:
        if message.msg_id in counted and not message.is_head:
            continue
        if message.direction == "in" or (message.msg_id, message.gid) not in received:
            shown.append(message)
    return shown
