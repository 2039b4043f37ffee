"""`pause` and `resume`: the red button for agents, hosts and flows, and letting them go on."""

from __future__ import annotations

import click

from fleettrio.api.schema.pauses import Pause, Paused
from fleettrio.clients.cli.connect import connect
from fleettrio.clients.cli.table import print_json, say
from fleettrio.errors import FAILED, WAITING
from fleettrio.local.sanitise import one_line

__all__ = ("pause", "resume")


@click.command(
    epilog="\b\nExamples:\n"
    "  fleettrio pause worker@beta\n"
    "  fleettrio pause beta              # everything on a host\n"
    "  fleettrio pause 4e736             # a flow, by its trace or a message\n"
    "  fleettrio pause --all",
)
@click.argument("target", required=False, default="", metavar="[AGENT|HOST|TRACE|ID]")
@click.option("--all", "whole", is_flag=True, help="Everything, on every host of the fleet.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def pause(target: str, whole: bool, as_json: bool) -> int:
    """Hold what would land: nothing more is put into agents or handed out.

    Messages are still taken in, and wait; they expire at their time. It holds until somebody resumes it, over restarts
    too. A paused agent may go on talking: what it says is held where it is paused, and lands elsewhere.

    Other hosts obey when this one has the grant `pause`: on the owner's host `fleettrio host add LINE --grants
    ask,broadcast,pause,reply,send`. With --all, and for a flow, hosts that refuse for want of it are named.
    """
    return _give("pause", target, whole, as_json=as_json)


@click.command(
    epilog="\b\nExamples:\n"
    "  fleettrio resume worker@beta\n"
    "  fleettrio resume 4e736            # a loop, by its trace or a message\n"
    "  fleettrio resume --all",
)
@click.argument("target", required=False, default="", metavar="[AGENT|HOST|TRACE|ID]")
@click.option("--all", "whole", is_flag=True, help="Everything that is held, on every host of the fleet.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def resume(target: str, whole: bool, as_json: bool) -> int:
    """Let what was paused, or held as a loop, go on. Only a person does that."""
    return _give("resume", target, whole, as_json=as_json)


def _give(method: str, target: str, whole: bool, *, as_json: bool) -> int:
    with connect() as client:
        done: Paused = client.call(method, Pause(target=target, all=whole), 600.0 if whole else 60.0)
    if as_json:
        print_json(done)
    else:
        say(f"{method}: {one_line(done.target, 200)}")
        for host in done.hosts:
            say(f"  {host.host}: {one_line(host.sentence, 300)}", indent="    ")
    states = {host.state for host in done.hosts}
    return FAILED if "failed" in states else WAITING if "waiting" in states else 0
