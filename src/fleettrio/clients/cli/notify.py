"""`notify`: how the person is told what happens, and whether that works."""

from __future__ import annotations

import click

from fleettrio.api.schema.people import Notified, Notify
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.table import note, print_json, say
from fleettrio.errors import FAILED
from fleettrio.local.sanitise import one_line

__all__ = ("notify",)


@click.command(epilog="\b\nExamples:\n  fleettrio notify\n  fleettrio notify --test")
@click.option("--test", is_flag=True, help="Notify now, by every way.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def notify(test: bool, as_json: bool) -> int:
    """How you are told of what happens here, and whether it works.

    The section [notify] of fleettrio.toml says of what (blocked, loop, failed, reply, host) and by which way: a
    command, the bell of your terminal, or a URL that it is posted to. Each agent, flow or host is told of once in
    10 minutes.

    Exit code 3: a way did not work the last time.
    """
    with connect() as client:
        found: Notified = client.call("notify", Notify(test))
    if as_json:
        print_json(found)
    elif not found.ways:
        note("nobody is notified: [notify] in fleettrio.toml names no way")
    else:
        say(f"told of: {', '.join(found.on)}")
        for way in found.ways:
            good = "sent" if test else "no trouble known"
            say(f"  {way.name:<7}  {one_line(way.problem, 300) if way.problem else good}", indent=" " * 11)
    return FAILED if any(way.problem for way in found.ways) else 0
