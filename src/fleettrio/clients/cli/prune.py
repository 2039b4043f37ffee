"""`prune`: what agents that are gone left behind, shown, and taken away when that is wanted."""

from __future__ import annotations

import click

from fleettrio.api.schema import Prune, Pruned
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.table import note, print_json, say
from fleettrio.local.sanitise import one_line

__all__ = ("prune",)


@click.command(epilog="\b\nExamples:\n  fleettrio prune\n  fleettrio prune --yes")
@click.option("--yes", is_flag=True, help="Take it away; without this it is only shown.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def prune(yes: bool, as_json: bool) -> int:
    """Show what agents that are gone left behind: panes, git worktrees, inboxes at the broker.

    With --yes it is taken away. A worktree in which something is not committed stays, whatever is asked. What lies in
    an inbox is refused, and its senders are told.
    """
    with connect() as client:
        pruned: Pruned = client.call("prune", Prune(yes), 300.0)
    if as_json:
        print_json(pruned)
    for orphan in pruned.orphans if not as_json else ():
        state = "gone" if orphan.gone else "left"
        say(one_line(f"{state}  {orphan.kind} {orphan.what}: {orphan.detail}", 500), indent="      ")
    if not pruned.orphans:
        note("nothing is left of agents that are gone")
    elif not yes:
        note("nothing was taken away: fleettrio prune --yes does that")
    return 3 if yes and not all(orphan.gone for orphan in pruned.orphans) else 0
