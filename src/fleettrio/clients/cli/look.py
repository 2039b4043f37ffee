"""`inbox`, `show`, `cancel`, `trace`: what came, what went, where it is and why."""

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
    Inbox,
    InboxMessage,
    InboxRows,
    JournalLine,
    MessageView,
    Pull,
    Pulled,
    Show,
    Shown,
    Trace,
    Traced,
)
from fleettrio.clients.cli.body import DURATION, emit, flush
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.progress import StateLine
from fleettrio.clients.cli.table import at_time, note, print_json, print_table, say
from fleettrio.clients.cli.waiting import STILL_WAITING
from fleettrio.clients.client import Client
from fleettrio.local.sanitise import clean, one_line

__all__ = ("cancel", "inbox", "show", "trace")

_CALL_S = 50.0
_TAKEN_BACK = frozenset({"recalled", "superseded", "expired"})
_TOO_LATE = frozenset({"injecting", "injected", "drained", "unconfirmed", "failed"})
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
@click.option("--limit", type=click.IntRange(1, 200), help="At most so many messages.")
@click.option("--sent", is_flag=True, help="What you sent instead of what came.")
@click.option("--all", "with_final", is_flag=True, help="With those that are over.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON; bodies are base64.")
def inbox(take: bool, wait: float, sender: str, limit: int | None, sent: bool, with_final: bool, as_json: bool) -> int:
    """What waits for you; with --take it is yours, with --sent what you sent.

    A message that was printed and not confirmed (the command was stopped) comes again, marked "may be a repeat".
    """
    if take and (sent or with_final):
        raise click.UsageError("--take goes with neither --sent nor --all")
    if not take and (sender or wait):
        raise click.UsageError("--from and --wait go with --take")
    with connect() as client:
        if take:
            return _take(client, sender, limit or 20, wait, as_json=as_json)
        rows: InboxRows = client.call("inbox", Inbox(sent, with_final, limit or 50))
    if as_json:
        print_json(rows)
    elif rows.messages:
        print_messages(rows.messages)
    else:
        what = "nothing sent by" if sent else "nothing waits for"
        note(f"{what} {rows.owner}" + ("" if with_final else " (with --all also what is over)"))
    return 0


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
            if pulled.messages or left <= _CALL_S:
                break
    if as_json:
        print_json(pulled)
    for message in pulled.messages if not as_json else ():
        _print_message(message)
    flush()
    if pulled.messages:
        client.call("confirm", Confirm(pulled.cursor))
        return 0
    if not as_json:
        note("nothing came" if wait_s else "nothing waits")
    return STILL_WAITING if wait_s else 0


def _print_message(message: InboxMessage) -> None:
    """A message with every line of its body marked, so that nothing in it can look like the line above it."""
    about = [message.kind.lower() if message.kind != "SEND" else message.intent, message.short]
    if message.re is not None:
        about.append(f"answers {message.re[-8:]}")
    if message.auto:
        about.append("last words of a turn")
    if message.repeat:
        about.append("may be a repeat")
    print(one_line(f"{message.sender} · {at_time(message.ts)} · {' · '.join(about)}", 200))
    for line in clean(message.body).split("\n"):
        print(f"│ {line}")
    if message.wants_reply:
        print(f"answer: fleettrio reply {message.short} 'TEXT'")
    print()


@click.command(epilog="\b\nExamples:\n  fleettrio show 9f31c2d4\n  fleettrio show @last --body > answer.md")
@click.argument("message_id", metavar="ID")
@click.option("--body", is_flag=True, help="The body: exact bytes to a pipe, cleaned text to a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def show(message_id: str, body: bool, as_json: bool) -> int:
    """Where a message is, why, and what to do.

    ID is a full id, a unique ending of at least 4 characters, or @last.
    """
    with connect() as client:
        if body:
            found: Body = client.call("body", BodyOf(message_id))
            if as_json:
                print_json(found)
            else:
                emit(found.body)
            return 0
        shown: Shown = client.call("show", Show(message_id))
    return _print_shown(shown, as_json=as_json)


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
    _print_shown(shown, as_json=as_json)
    return _cancel_exit(shown.messages)


def _cancel_exit(views: Sequence[MessageView]) -> int:
    """Each recipient once, though a message on this host has a row at either end: the end that knows more counts."""
    states: dict[str, set[str]] = {}
    for view in views:
        states.setdefault(view.gid, set()).add(view.state)
    codes = {0 if known & _TAKEN_BACK else 3 if known & _TOO_LATE else STILL_WAITING for known in states.values()}
    return next((code for code in (3, STILL_WAITING) if code in codes), 0)


def _print_shown(shown: Shown, *, as_json: bool) -> int:
    if as_json:
        print_json(shown)
        return 0
    for message in shown.messages:
        has_other_side = any(_key(other) == _key(message) and other is not message for other in shown.messages)
        _print_view(message, _side(message) if has_other_side else "")
    if shown.journal:
        print()
        _print_journal(shown.journal)
    return 0


def _key(message: MessageView) -> tuple[str, str]:
    """A message to one recipient; both of its sides have it when they are on one host."""
    return message.msg_id, message.gid


def _side(message: MessageView) -> str:
    return "at the sender" if message.direction == "out" else "at the recipient"


def _print_view(message: MessageView, side: str = "") -> None:
    where = f"{side}: " if side else ""
    say(f"{message.short}  {where}{one_line(message.sentence, 500)}", indent="          ")
    way = f"{message.sender} → {message.recipient}"
    facts = [
        (message.kind.lower(), one_line(way, 68)),
        ("state", one_line(message.state + (f" ({message.reason})" if message.reason else ""), 68)),
        ("detail", one_line(message.detail, 300)),
        ("sent", f"{at_time(message.ts)}, expires {at_time(message.expires_at)}"),
        ("since", at_time(message.at) + (f", by {one_line(message.via, 40)}" if message.via else "")),
        ("answers", message.re or ""),
        ("answer", message.answered_by or ""),
        ("id", message.msg_id),
        ("trace", message.trace_id),
        ("body", _body_of(message)),
    ]
    for name, value in facts:
        if value:
            say(f"  {name:<9} {value}", indent=" " * 12)


def _body_of(message: MessageView) -> str:
    """How long it is and how it begins; empty at the sender, who keeps no body."""
    if message.direction == "out" and not message.size:
        return ""
    return f"{message.size} bytes" + (f": {one_line(message.preview, 50)}" if message.preview else "")


def _print_journal(journal: Sequence[JournalLine]) -> None:
    print_table(
        ("AT", "HOST", "WHAT", "MESSAGE", "PEER", "WHY"),
        (
            (
                _moment(line.at),
                line.host,
                line.what,
                line.msg_id[-8:],
                line.peer,
                f"{line.reason} {line.detail}".strip(),
            )
            for line in journal
        ),
    )


def _moment(wall_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(wall_ms / 1000)) + f".{wall_ms % 1000:03d}"


@click.command(epilog="\b\nExamples:\n  fleettrio trace 9f31c2d4\n  fleettrio trace 9f31c2d4 --local --json")
@click.argument("trace_id", metavar="ID")
@click.option("--local", is_flag=True, help="Only what this host knows.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def trace(trace_id: str, local: bool, as_json: bool) -> int:
    """Everything that belongs together: a brief, its answer, and every step of both.

    ID is a trace id, the id of one of its messages, or an ending of either.
    """
    with connect() as client:
        traced: Traced = client.call("trace", Trace(trace_id, local))
    if as_json:
        print_json(traced)
        return 0
    say(f"trace {traced.trace_id}")
    print_messages(_one_row_each(traced.messages))
    if traced.journal:
        print()
        _print_journal(traced.journal)
    if traced.others:
        say(f"  {traced.others} more between others")
    if traced.silent:
        sys.stdout.flush()
        note(f"no word from {', '.join(one_line(host, 40) for host in traced.silent)}")
    return 0


def _one_row_each(messages: Sequence[MessageView]) -> list[MessageView]:
    """Without the sender's row of a message whose recipient is here too: the recipient's owns the truth."""
    received = {_key(message) for message in messages if message.direction == "in"}
    return [message for message in messages if message.direction == "in" or _key(message) not in received]


def print_messages(messages: Sequence[MessageView]) -> None:
    """One line for each message."""
    print_table(
        ("ID", "AT", "FROM", "TO", "STATE", "ABOUT"),
        (
            (
                message.short,
                at_time(message.ts),
                message.sender,
                message.recipient,
                message.state + (f"({message.reason})" if message.reason else ""),
                message.preview or message.kind.lower(),
            )
            for message in messages
        ),
    )
