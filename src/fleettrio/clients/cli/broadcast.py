"""`broadcast`: one message to everybody, or to a group; its members are counted together and told apart."""

from __future__ import annotations

import click

from fleettrio.api.schema import Broadcast
from fleettrio.clients.cli.body import DURATION, read_body
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.table import note
from fleettrio.clients.cli.talk import FILE, WaitCommand, hand_over, report
from fleettrio.clients.cli.waiting import describe, wait_for

__all__ = ("broadcast",)


@click.command(
    cls=WaitCommand,
    epilog="\b\nExamples:\n"
    "  fleettrio broadcast 'main is frozen until 15:00' --intent warning\n"
    "  fleettrio broadcast --group ui 'who has src/core?' --wait --timeout 5m\n"
    "  fleettrio broadcast --group ui --file brief.md --wait=delivered",
)
@click.argument("body", required=False, metavar="[BODY|-]")
@click.option("--group", default="all", show_default=True, help="The group it is for; all is everybody.")
@click.option("--file", type=FILE, help="Take the body from this file, byte for byte.")
@click.option(
    "--wait",
    type=click.Choice(["answer", "delivered"]),
    help="Stay until all have answered, or with --wait=delivered until the receipts are there.",
)
@click.option("--timeout", type=DURATION, default="30m", show_default=True, help="How long --wait waits: 50, 30s, 2h.")
@click.option(
    "--when",
    type=click.Choice(["idle", "turn", "now"]),
    default="idle",
    show_default=True,
    help="now: also while an agent works; idle, turn: once it waits for input.",
)
@click.option("--expires", type=DURATION, help="Not worth delivering after (1h; at most 1d): 30m, 2h.")
@click.option(
    "--intent",
    type=click.Choice(["directive", "handoff", "warning"]),
    default="directive",
    show_default=True,
    help="What it is meant as: shown with it.",
)
@click.option("--priority", type=click.IntRange(0, 9), help="Order among what waits for the same agent.")
@click.option("--reply", is_flag=True, help="Ask for answers; --wait does so, too.")
@click.option("--key", default="", help="The same key again is the same broadcast: safe to repeat.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def broadcast(
    body: str | None,
    group: str,
    file: str | None,
    wait: str | None,
    timeout: float,
    when: str,
    expires: float | None,
    intent: str,
    priority: int | None,
    reply: bool,
    key: str,
    as_json: bool,
) -> int:
    """Send one message to all agents, or to all in a group.

    Agents that messages are put into hear every broadcast; who fetches, hears those to its groups (fleettrio attach
    --group). You get no copy. What became of it is counted (7 of 8 injected, 1 expired); fleettrio show ID tells it
    member by member. Nobody in a group is no error. A worker may not broadcast.

    When an inbox at the broker was full, the others have it all the same, and fleettrio send --retry ID sends the same
    bytes to those who have not.
    """
    request = Broadcast(
        group=group,
        body=read_body(body, file),
        when=when,
        intent=intent,
        priority=priority,
        expires_s=expires,
        wants_reply=reply or wait == "answer",
        key=key,
    )
    with connect() as client:
        result = hand_over(client, "broadcast", request)
        if wait is None:
            return report(result, as_json=as_json)
        for message in result.messages:
            if message.is_head:
                note(f"{message.short}  {describe(message)}")
        return wait_for(client, result.messages, wait, timeout, as_json=as_json)
