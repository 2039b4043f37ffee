"""`dlq`: the dead letters of the fleet, and what to do about them."""

from __future__ import annotations

import click

from fleettrio.api.schema.deadletters import DeadLetters, DropLetters, ListLetters, RetryLetter, ShowLetter, ShownLetter
from fleettrio.clients.cli.body import emit, marked
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.group import Group
from fleettrio.clients.cli.table import at_time, note, print_json, print_table, say
from fleettrio.errors import FAILED

__all__ = ("dlq",)


_COORDINATOR = click.option(
    "--coordinator", is_flag=True, help="Those of the leads, in the coordinator's virtual host."
)


@click.group(cls=Group, epilog="\b\nExamples:\n  fleettrio dlq list\n  fleettrio dlq retry 9f31c2d4")
def dlq() -> None:
    """Dead letters: messages that the broker set aside instead of delivering them.

    Their senders were told. Needs a login that may read them: fleettrio broker permissions HOST --reporter.
    """


@dlq.command("list", epilog="\b\nExamples:\n  fleettrio dlq list --limit 200\n  fleettrio dlq list --coordinator")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many.")
@_COORDINATOR
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def list_letters(limit: int, coordinator: bool, as_json: bool) -> int:
    """What was set aside, oldest first."""
    with connect() as client:
        found: DeadLetters = client.call("dlq_list", ListLetters(limit, coordinator), limit_s=60)
    if as_json:
        print_json(found)
        return 0
    rows = [(x.short, x.kind, x.sender, x.reason, at_time(x.at), f"{x.size} B") for x in found.letters]
    if rows:
        print_table(("id", "kind", "from", "reason", "at", "size"), rows, whole=("id", "at"))
    else:
        say("no dead letters")
    if found.reported > len(rows):
        note(f"{found.reported} in all; --limit shows more")
    if found.waiting:
        note(f"{found.waiting} more wait for a reporter: a running gateway that is granted `report`")
    return 0


@dlq.command(epilog="\b\nExamples:\n  fleettrio dlq show 9f31c2d4\n  fleettrio dlq show 9f31c2d4 --body > message")
@click.argument("message_id", metavar="ID")
@click.option("--body", "body_only", is_flag=True, help="Its exact bytes, into a pipe or a file.")
@_COORDINATOR
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def show(message_id: str, body_only: bool, coordinator: bool, as_json: bool) -> int:
    """One of them: why it died, what it says, what to do."""
    with connect() as client:
        shown: ShownLetter = client.call("dlq_show", ShowLetter(message_id, coordinator), limit_s=60)
    if as_json:
        print_json(shown)
    elif body_only:
        emit(shown.body)
    else:
        letter = shown.letter
        say(f"{letter.short} {letter.kind} from {letter.sender}: {shown.sentence}", indent="  ")
        say(f"message {letter.msg_id}, trace {letter.trace_id}", indent="  ")
        print(marked(shown.text))
    return 0


@dlq.command(epilog="\b\nExample:\n  fleettrio dlq retry 9f31c2d4")
@click.argument("message_id", metavar="ID")
@_COORDINATOR
def retry(message_id: str, coordinator: bool) -> int:
    """Send the same bytes again, to whom they were addressed, while they have not expired."""
    with connect() as client:
        say(client.call("dlq_retry", RetryLetter(message_id, coordinator), limit_s=60).detail)
    return 0


@dlq.command(epilog="\b\nExamples:\n  fleettrio dlq drop 9f31c2d4\n  fleettrio dlq drop --all --yes")
@click.argument("message_id", metavar="ID", required=False)
@click.option("--all", "drop_all", is_flag=True, help="Every one of them.")
@_COORDINATOR
@click.option("--yes", is_flag=True, help="Do not ask.")
def drop(message_id: str | None, drop_all: bool, coordinator: bool, yes: bool) -> int:
    """Throw dead letters away for good. Their senders were told already."""
    if bool(message_id) == drop_all:
        raise click.UsageError("give an ID, or --all")
    whose = "leads" if coordinator else "fleet"
    if drop_all and not yes and not click.confirm(f"throw away every dead letter of the {whose}?"):
        say("nothing was thrown away")
        return FAILED
    with connect() as client:
        say(client.call("dlq_drop", DropLetters(message_id or "", coordinator), limit_s=120).detail)
    return 0
