"""`inbox`, `show`, `cancel`: what came, what went, where it is and why."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click

from fleettrio.api.schema import (
    Body,
    BodyOf,
    Cancel,
    Confirm,
    Framed,
    Inbox,
    InboxRows,
    MessageView,
    Pull,
    Pulled,
    Show,
    Shown,
)
from fleettrio.clients.cli.body import DURATION, emit, flush, readable
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.messageview import print_message, print_messages, print_shown
from fleettrio.clients.cli.progress import StateLine
from fleettrio.clients.cli.table import note, print_json, say
from fleettrio.clients.client import Client
from fleettrio.errors import FAILED, WAITING
from fleettrio.local.sanitise import one_line

__all__ = ("cancel", "inbox", "show")

_CALL_S = 50.0
_MOST_TAKEN = 200
_OPEN_QUESTION = frozenset({"waiting", "offered"})
_TAKEN_BACK = frozenset({"recalled", "superseded", "expired"})
_TOO_LATE = frozenset({"injecting", "injected", "drained", "unconfirmed", "failed", "answered", "ended"})
"""Delivered, or nothing that a recall could end."""


@click.command(
    epilog="\b\nExamples:\n"
    "  fleettrio inbox\n"
    "  fleettrio inbox --take --wait 50\n"
    "  fleettrio inbox --take --from worker@beta\n"
    "  fleettrio inbox --sent --all",
)
@click.option("--take", is_flag=True, help="Fetch what waits: printed, then confirmed as read.")
@click.option("--wait", type=DURATION, default="0", help="With --take: stay this long (50, 30s, 5m).")
@click.option("--from", "sender", default="", metavar="AGENT", help="With --take: only what this one sent.")
@click.option("--limit", type=click.IntRange(1, 1000), help="At most so many messages: 50, with --take 20.")
@click.option("--sent", is_flag=True, help="What you sent instead of what came.")
@click.option("--all", "with_final", is_flag=True, help="With those that are over.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON; bodies are base64.")
def inbox(take: bool, wait: float, sender: str, limit: int | None, sent: bool, with_final: bool, as_json: bool) -> int:
    """What waits for you; with --take it is yours, with --sent what you sent.

    A message that was printed and not confirmed (the command was stopped) comes again, marked "may be a repeat".
    """
    if take and (sent or with_final):
        raise click.UsageError("--take goes with neither --sent nor --all")
    if take and limit is not None and limit > _MOST_TAKEN:
        raise click.UsageError(f"--take fetches at most {_MOST_TAKEN} messages at once")
    if not take and (sender or wait):
        raise click.UsageError("--from and --wait go with --take")
    with connect() as client:
        if take:
            return _take(client, sender, limit or 20, wait, as_json=as_json)
        rows: InboxRows = client.call("inbox", Inbox(sent, with_final, limit or 50))
    if as_json:
        print_json(rows)
    elif rows.messages:
        _print_questions(rows.messages)
        print_messages(rows.messages, owner=rows.owner)
        if rows.total > len(rows.messages):
            sys.stdout.flush()
            note(f"the newest {len(rows.messages)} of {rows.total}; --limit shows more")
    else:
        what = "nothing sent by" if sent else "nothing waits for"
        note(f"{what} {rows.owner}" + ("" if with_final else " (with --all also what is over)"))
    return 0


def _print_questions(messages: Sequence[MessageView]) -> None:
    """Open questions, with the command that answers them: somebody waits right now."""
    for message in messages:
        if message.direction == "in" and message.kind == "ASK" and message.state in _OPEN_QUESTION:
            say(f"{message.sender} asks: {one_line(message.preview, 200)}")
            print(f"  fleettrio answer {message.short} 'TEXT'")


def _take(client: Client, sender: str, limit: int, wait_s: float, *, as_json: bool) -> int:
    """Pull, print, flush, and only then confirm."""
    deadline = time.monotonic() + wait_s
    with StateLine() as line:
        while True:
            left = max(0.0, deadline - time.monotonic())
            call_s = min(_CALL_S, left)
            if left:
                line.show("waiting for a message (Ctrl-C stops)")
            pulled: Pulled = client.call("pull", Pull(sender=sender, limit=limit, wait_s=call_s), call_s + 25.0)
            if pulled.messages or pulled.failed or left <= _CALL_S:
                break
    if as_json:
        print_json(Pulled(readable(pulled.messages), pulled.cursor, pulled.failed))
    for failed in pulled.failed if not as_json else ():
        say(f"not delivered: {one_line(failed, 300)}", indent="  ")
    for message in pulled.messages if not as_json else ():
        print_message(message)
    flush()
    if pulled.messages:
        client.call("confirm", Confirm(pulled.cursor))
        return 0
    if not as_json:
        note("nothing else came" if pulled.failed else "nothing came" if wait_s else "nothing waits")
    return WAITING if wait_s else 0


@click.command(
    epilog="\b\nExamples:\n"
    "  fleettrio show 9f31c2d4\n"
    "  fleettrio show 9f31c2d4 --framed\n"
    "  fleettrio show @last --body > answer.md"
)
@click.argument("message_id", metavar="ID")
@click.option("--framed", is_flag=True, help="All of it, cleaned and in its frame: for an agent to read.")
@click.option("--body", is_flag=True, help="For scripts: its exact bytes to a pipe; cleaned text to a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def show(message_id: str, framed: bool, body: bool, as_json: bool) -> int:
    """Where a message is, why, and what to do.

    ID is a full id, an ending or a beginning of it that no other has (4 characters at least), or @last.
    """
    if framed and body:
        raise click.UsageError("--framed and --body were both given: one is enough")
    with connect() as client:
        if framed:
            return _print_framed(client.call("framed", BodyOf(message_id)), as_json=as_json)
        if body:
            found: Body = client.call("body", BodyOf(message_id))
            if as_json:
                print_json(found)
            else:
                emit(found.body)
            return 0
        shown: Shown = client.call("show", Show(message_id))
    return print_shown(shown, as_json=as_json)


def _print_framed(message: Framed, *, as_json: bool) -> int:
    if as_json:
        print_json(message)
    else:
        print(message.text)
        flush()
    return 0


@click.command(epilog="\b\nExample:\n  fleettrio cancel 9f31c2d4")
@click.argument("message_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def cancel(message_id: str, as_json: bool) -> int:
    """Take a message back, where that is still possible.

    The recipient's host has the last word: what was delivered already stays delivered, and is shown so.

    Exit 0: it will not be delivered. 3: it was delivered already, or had failed. 6: the recipient's host has not
    answered yet; `fleettrio show ID` tells later.
    """
    with connect() as client:
        shown: Shown = client.call("cancel", Cancel(message_id))
    print_shown(shown, as_json=as_json)
    return _cancel_exit(shown.messages)


def _cancel_exit(views: Sequence[MessageView]) -> int:
    """Each recipient once, though a message on this host has a row at either end: the end that knows more counts."""
    states: dict[str, set[str]] = {}
    for view in views:
        states.setdefault(view.gid, set()).add(view.state)
    codes = {0 if known & _TAKEN_BACK else FAILED if known & _TOO_LATE else WAITING for known in states.values()}
    return next((code for code in (FAILED, WAITING) if code in codes), 0)
